"""`python -m taddaa.cli`."""

from . import script

script()
