"""From arguments to an exit code."""

import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from . import commands
from .interrupts import INTERRUPTED, told_on_interrupt
from .output import FAILED, WRONG_USE, flush, silence_if_closed
from .parser import parser


def run_command(arguments: Sequence[str] | None = None) -> int:
    """The exit code. Those of verdicts come from verdicts only: whatever nobody foresaw has a code of its own."""
    silence_if_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ≥ or ρ gets a question mark, not a traceback
    try:
        chosen = parser().parse_args(arguments)
    finally:
        flush()
    from ..errors import InputError, LostProcess, MissingExtra

    try:
        code = getattr(commands, chosen.command)(chosen)
        flush()
        return code
    except (InputError, LostProcess, MissingExtra) as error:
        _explain(error)
        return WRONG_USE
    except KeyboardInterrupt:
        _tell(told_on_interrupt())
        return INTERRUPTED
    except OSError as error:  # printing to a full disk
        _tell(f"taddaa: {error.strerror or error}")
        return WRONG_USE
    except BaseException as error:
        what = traceback.format_exception_only(error)[-1].strip()
        _tell(f"taddaa: failed unexpectedly, which is no verdict: {what}; please report it with the lines below")
        _tell(traceback.format_exc().rstrip())
        return FAILED


def _explain(error: Exception) -> None:
    """One sentence; below it the lines of the user's own file that led there, if any."""
    from ..errors import visible
    from .problem_file import user_lines

    _tell(visible(f"taddaa: {error}"))
    lines = user_lines(error.__cause__ or error)
    if lines:
        _tell(lines)


def _tell(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody listens
        print(text, file=sys.stderr, flush=True)
