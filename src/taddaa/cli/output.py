"""What commands share: a diagnosis with progress, reports on their way to terminals and files, exit codes."""

import argparse
import contextlib
import os
import sys
from pathlib import Path

from .interrupts import NOTHING_WRITTEN, interrupts_leave

FINE, FOUND, WRONG_USE, DOUBTFUL, FAILED = 0, 1, 2, 3, 4


def diagnosed(chosen: argparse.Namespace, arguments: dict, seed: int):
    """Diagnose with progress on a terminal, then write and print what was asked for; refuse paths before the work."""
    for path in (chosen.json, chosen.html):
        check_writable(path)
    from .. import diagnose

    kept = arguments.get("checkpoint")
    left = NOTHING_WRITTEN if kept is None else f"what was saved is in {kept}, run the same command to go on"
    with interrupts_leave(left), prints_to_stderr():
        report = diagnose(**arguments, seed=seed, progress=False if chosen.quiet else None)
    from ..files import first_process

    if not first_process():
        return report
    printed = not chosen.quiet and not to_stdout(chosen.json) and not to_stdout(chosen.html)
    try:
        if chosen.json is not None:
            write(chosen.json, report.to_json())
        if chosen.html is not None:
            write(chosen.html, page_of(report))
    except Exception:
        if printed:  # a full disk must not cost the work as well
            print_report(report)
        raise
    if printed:
        print_report(report)
    return report


def write_draws(report, path: Path) -> bool:
    """Posterior draws to a file for ArviZ; where there can be none, say why."""
    from ..errors import InputError, require
    from ..files import first_process, whole_file

    require("h5netcdf", "arviz")
    try:
        with interrupts_leave(NOTHING_WRITTEN), prints_to_stderr():
            tree = report.repair()
    except InputError as error:
        print(f"taddaa: {error}", file=sys.stderr)
        return False
    if first_process():
        with whole_file(path) as file:
            file.write(tree.to_netcdf(engine="h5netcdf"))
    return True


def code_of(report, threshold: float) -> int:
    """An error above the threshold outweighs a doubt."""
    from ..verdict.outcome import ERROR, UNTRUSTED

    if report.far or any(row.verdict == ERROR and row.relative_bound > threshold for row in report.rows):
        return FOUND
    return DOUBTFUL if any(row.verdict == UNTRUSTED for row in report.rows) else FINE


def print_report(report) -> None:
    from ..report.text import on_colours, report_text

    say(report_text(report, colour=on_colours()))


def say(text: str) -> None:
    """Print; a reader that has seen enough, such as head, changes no exit code."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _to_nowhere()


def flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _to_nowhere()


def _to_nowhere() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def silence_if_closed() -> None:
    """A command whose output was closed (>&-) still runs for its exit code and its files."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


@contextlib.contextmanager
def prints_to_stderr():
    """While open, what the user's code prints goes to standard error: on standard output there is only the report."""
    with contextlib.ExitStack() as undo:
        if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:  # then what libraries in C print, too
            flush()
            ours = sys.__stdout__.fileno()
            kept = os.dup(ours)
            os.dup2(sys.stderr.fileno(), ours)
            undo.callback(os.close, kept)
            undo.callback(os.dup2, kept, ours)
            undo.callback(_flush_libraries)
        undo.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield


def _flush_libraries() -> None:
    """What C code has printed and not yet passed on."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)


def page_of(report) -> str:
    from ..show.page import report_to_html

    return report_to_html(report)


def to_stdout(path: Path | None) -> bool:
    return path is not None and str(path) == "-"


def write(path: Path, text: str) -> None:
    if to_stdout(path):
        say(text)
    else:
        from ..files import write_whole

        write_whole(path, text)


def refuse_clashes(**named: Path | None) -> None:
    """No output may take the place of another, or of what is read. Devices and pipes may be named twice."""
    from ..errors import InputError

    taken: dict[object, str] = {}
    for name, path in named.items():
        place = None if path is None else _place_of(path)
        if place is not None and place in taken:
            raise InputError(f"{taken[place]} and {name} name the same file, {path}; give each its own")
        taken[place] = name


def _place_of(path: Path) -> object:
    """The same for all names of one file; None for devices, and for what cannot be a file."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # whoever writes there says what is wrong
        if to_stdout(path):
            return "-"
        if not path.exists():
            return str(path.resolve())
        if path.is_file():
            return path.stat().st_dev, path.stat().st_ino
    return None


def check_writable(path: Path | None) -> None:
    from ..files import refuse_unwritable

    if path is not None and not to_stdout(path):
        refuse_unwritable(path)
