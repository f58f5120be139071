"""A user's model and fit → (Target, approximation), ready for `taddaa.diagnose(*…)`. Frameworks are imported when called."""
