"""The command line: `taddaa`, or `python -m taddaa.cli`.

`parser` has the options, `commands` what each does, `output` what they share; `problem_file`, `terminal`, `interrupts` and `demo` are
their helpers. A side room: it imports the main path and `experiments`, most of it when a command runs, so that help is quick.
Begin with `entry`.
"""

import gc
import sys
from collections.abc import Sequence

from .interrupts import interrupts_end_it

__all__ = ["main", "script"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code. From here on an interrupt is an interrupt, also while modules are loaded."""
    with interrupts_end_it():
        from .entry import run_command

        return run_command(arguments)


def script() -> None:
    """A process that is only this command: it ends here, and Python need not look for garbage among all of JAX once more (0.2 s)."""
    code = main()
    gc.freeze()
    sys.exit(code)
