"""A user's model and fit in another framework → (Target, approximation), ready for `taddaa.diagnose(*…)`.

One file a framework, which is imported when called; `layout` names and shapes flat vectors, `callback` is for everything that only
Python can call. A side room that imports `problem` and `errors`. Begin with `callback`.
"""
