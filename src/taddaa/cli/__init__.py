"""The command line: `taddaa`, or `python -m taddaa.cli`.

`parser` has the options, `commands` what each does, `output` what they share; `problem_file`, `terminal`, `interrupts` and `demo` are
their helpers. A side room: it imports the main path and `experiments`, most of it when a command runs, so that help is quick.
Begin with `entry`.
"""

from collections.abc import Sequence

from .interrupts import interrupts_end_it

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code. From here on an interrupt is an interrupt, also while modules are loaded."""
    with interrupts_end_it():
        from .entry import run_command

        return run_command(arguments)
