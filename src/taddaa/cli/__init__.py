"""The command line: `taddaa`, or `python -m taddaa.cli`.

`parser` has the options, `commands` what each does, `output` what they share; `problem_file`, `terminal` and `demo` are their helpers.
A side room: it imports the main path and `experiments`, most of it when a command runs, so that help is quick. Begin with `entry`.
"""

from .entry import main

__all__ = ["main"]
