"""From arguments to an exit code."""

import os
import sys
from collections.abc import Sequence

from . import commands
from .output import FINE, INTERRUPTED, INTERRUPTION, WRONG_USE
from .parser import parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ≥ or ρ gets a question mark, not a traceback
    chosen = parser().parse_args(arguments)
    from ..errors import InputError, LostProcess, MissingExtra

    try:
        code = getattr(commands, chosen.command)(chosen)
        sys.stdout.flush()
        return code
    except (InputError, LostProcess, MissingExtra) as error:
        _explain(error)
        return WRONG_USE
    except KeyboardInterrupt:
        print(INTERRUPTION, file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except OSError as error:  # printing to a full disk
        print(f"taddaa: {error.strerror or error}", file=sys.stderr)
        return WRONG_USE


def _explain(error: Exception) -> None:
    """One sentence; below it the lines of the user's own file that led there, if any."""
    from .problem_file import user_lines

    print(f"taddaa: {error}", file=sys.stderr)
    lines = user_lines(error.__cause__ or error)
    if lines:
        print(lines, file=sys.stderr)
