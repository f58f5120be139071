"""What commands share: a diagnosis with progress, reports on their way to terminals and files, exit codes."""

import argparse
import contextlib
import os
import sys
from pathlib import Path

FINE, FOUND, WRONG_USE, DOUBTFUL, INTERRUPTED = 0, 1, 2, 3, 130
INTERRUPTION = "\ntaddaa: interrupted; nothing was written"


def diagnosed(chosen: argparse.Namespace, arguments: dict, seed: int):
    """Diagnose with progress on a terminal, then write and print what was asked for; refuse paths before the work."""
    for path in (chosen.json, chosen.html):
        check_writable(path)
    from .. import diagnose
    from .terminal import ProgressLine

    on_terminal = sys.stderr.isatty() and not chosen.quiet
    watched = ProgressLine(sys.stderr, _planned(arguments)) if on_terminal else contextlib.nullcontext()
    kept = arguments.get("checkpoint")
    message = INTERRUPTION if kept is None else f"\ntaddaa: interrupted; what was saved is in {kept}, run the same command to go on"
    with interrupts_at_once(message), watched as progress:
        report = diagnose(**arguments, seed=seed, progress=progress)
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


def _planned(arguments: dict) -> str:
    """How much work is ahead, as far as it is known before the target is looked at."""
    from ..settings import Settings

    dim = getattr(arguments["approximation"], "dim", None)
    if dim is None:
        return ""
    plan = (arguments.get("settings") or Settings()).plan(dim)
    return f"{plan.chains} chains × {plan.iterations} iterations planned, at most {plan.most_iterations}"


@contextlib.contextmanager
def interrupts_at_once(message: str = INTERRUPTION):
    """While nothing is being written, Ctrl-C ends the process itself.

    As an exception it can be lost in a callback of JAX's, and unwinding under its running threads can crash.
    """
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def end(*_):
        os.write(2, f"{message}\n".encode())
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def code_of(report, threshold: float) -> int:
    """An error above the threshold outweighs a doubt."""
    from ..verdict.outcome import ERROR, UNTRUSTED

    if report.far or any(row.verdict == ERROR and row.relative_bound > threshold for row in report.rows):
        return FOUND
    return DOUBTFUL if any(row.verdict == UNTRUSTED for row in report.rows) else FINE


def print_report(report) -> None:
    text = str(report)
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        headline, _, rest = text.partition("\n")
        text = f"\033[1m{headline}\033[0m\n{rest}"
    print(text)


def page_of(report) -> str:
    from ..show.page import report_to_html

    return report_to_html(report)


def to_stdout(path: Path | None) -> bool:
    return path is not None and str(path) == "-"


def write(path: Path, text: str) -> None:
    if to_stdout(path):
        print(text)
    else:
        from ..files import write_whole

        write_whole(path, text)


def check_writable(path: Path | None) -> None:
    from ..files import refuse_unwritable

    if path is not None and not to_stdout(path):
        refuse_unwritable(path)
