"""The command line. Commands import what they need when they run, so that help is quick."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..experiments import STUDIES
from ..version import own_version

FINE, FOUND, WRONG_USE, DOUBTFUL, INTERRUPTED = 0, 1, 2, 3, 130
KERNELS = ("barker", "mala", "rwmh", "hmc")
SHELLS = ("bash", "zsh", "fish")
INTERRUPTION = "\ntaddaa: interrupted; nothing was written"
CODES = "exit codes: 0 fine, 1 an error above the threshold was found, 2 wrong use or bad input, 3 untrusted"
FILE_HELP = """\
FILE.py defines problem(), which returns what taddaa.diagnose takes:

    import taddaa

    def problem():
        target = taddaa.Target(logdensity, dim=2, names=["a", "b"])
        approximation = taddaa.Gaussian(mean, sd)
        return target, approximation        # or (target, approximation, functionals), or a dict of diagnose's arguments
"""
REPRODUCE_HELP = """\
A stopped run goes on where it was: what is measured stays in DIR/cells. DIR/NAME.json holds every number and claim.
The studies on real data look for it in TADDAA_DATA, then in their cache, then download it. Exits with 0 if all studies ran.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ≥ or ρ gets a question mark, not a traceback
    chosen = parser().parse_args(arguments)
    from ..errors import InputError, LostProcess, MissingExtra

    try:
        code = chosen.run(chosen)
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


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="taddaa", description="Is your approximate posterior any good, for the numbers you care about?", epilog=CODES
    )
    top.add_argument("--version", action="version", version=f"taddaa {own_version()}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run, short: str, **more) -> argparse.ArgumentParser:
        sentence = short[0].upper() + short[1:] + "." * (not short.endswith("?"))
        layout = argparse.RawDescriptionHelpFormatter
        added = commands.add_parser(name, help=short, description=sentence, formatter_class=layout, **more)
        added.set_defaults(run=run)
        return added

    demo = command("demo", _demo, "diagnose a mean-field fit of a small real problem and explain the report", epilog="exits with 0")
    demo.add_argument("--seed", type=_whole(0), default=0, metavar="N", help="random seed (default 0)")
    _add_outputs(demo)

    run = command("run", _run, "diagnose the problem that a Python file defines", epilog=f"{FILE_HELP}\n{CODES}")
    run.add_argument("file", metavar="FILE.py", type=Path, help="defines problem()")
    _add_outputs(run)
    _add_threshold(run, "an error counts if its relative bound exceeds X (default 0: any error)")
    run.add_argument("--kernel", choices=KERNELS, help="how the chains move (default barker)")
    run.add_argument("--chains", type=_whole(10), metavar="N", help="number of chains (default: planned from the tolerances)")
    run.add_argument(
        "--iterations", type=_whole(1), metavar="T", help="iterations before the first look (default: planned from the dimension)"
    )
    run.add_argument("--seed", type=_whole(0), metavar="N", help="random seed (default: the file's, or 0)")
    run.add_argument("--checkpoint", type=Path, metavar="FILE", help="save the run there as it goes; the same command goes on from it")
    run.add_argument("--paper", action="store_true", help="the paper's method to the letter, in place of the file's settings")

    show = command("show", _show, "show a report that was written with --json", epilog=CODES)
    show.add_argument("file", metavar="REPORT.json", type=Path)
    show.add_argument("--html", type=Path, metavar="OUT", help="write one self-contained page there instead of printing")
    _add_threshold(show, "exit with 1 if a relative bound exceeds X, with 3 if a row is untrusted (default: exit with 0)")

    compare = command("compare", _compare, "compare two reports of the same quantities: did the refit get worse?", epilog=CODES)
    compare.add_argument("before", metavar="BEFORE.json", type=Path)
    compare.add_argument("after", metavar="AFTER.json", type=Path)
    compare.add_argument("--quiet", action="store_true", help="print nothing; the exit code tells")
    _add_threshold(compare, "ignore errors whose relative bound is at most X (default 0)")

    reproduce = command("reproduce", _reproduce, "run the studies of the paper again: figures, numbers and claims", epilog=REPRODUCE_HELP)
    reproduce.add_argument("name", metavar="NAME", choices=[*STUDIES, "all"], help=", ".join([*STUDIES, "or all"]))
    reproduce.add_argument("--quick", action="store_true", help="a small version that takes less than a minute a study")
    reproduce.add_argument("--out", type=Path, metavar="DIR", default=Path("taddaa-paper"), help="where to (default ./taddaa-paper)")
    reproduce.add_argument("--page", type=Path, metavar="OUT.md", help="also write a page of all the claims, from what DIR holds")
    reproduce.add_argument("--quiet", action="store_true", help="no progress, and no claims on standard output")

    completion = command("completion", _completion, "print a shell's completion script", epilog='eval "$(taddaa completion bash)"')
    completion.add_argument("shell", choices=SHELLS)
    return top


def _add_outputs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", type=Path, metavar="OUT", help="write the report there as JSON (- for standard output, instead of text)")
    command.add_argument("--html", type=Path, metavar="OUT", help="write the report there as one self-contained page")
    command.add_argument("--quiet", action="store_true", help="print nothing; the exit code tells")


def _add_threshold(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--fail-above", type=_threshold, metavar="X", help=what)


# Commands -------------------------------------------------------------------------------------------------------------


def _demo(chosen: argparse.Namespace) -> int:
    from .demo import INTRODUCTION, closing, problem

    wordy = not chosen.quiet and not _to_stdout(chosen.json)
    if wordy:
        print(INTRODUCTION, flush=True)
    report = _diagnosed(chosen, problem(), chosen.seed)
    if wordy:
        print(f"\n{closing(report)}")
    return FINE


def _run(chosen: argparse.Namespace) -> int:
    from dataclasses import replace

    from .problem_file import load_problem

    arguments = load_problem(chosen.file)
    changes = {key: getattr(chosen, key) for key in ("kernel", "chains", "iterations") if getattr(chosen, key) is not None}
    from ..settings import Settings

    if chosen.paper:
        arguments["settings"] = Settings.paper(**changes)
    elif changes:
        arguments["settings"] = replace(arguments.get("settings") or Settings(), **changes)
    in_file = arguments.pop("seed", 0)
    arguments["checkpoint"] = chosen.checkpoint
    report = _diagnosed(chosen, arguments, in_file if chosen.seed is None else chosen.seed)
    return _code(report, chosen.fail_above or 0.0)


def _show(chosen: argparse.Namespace) -> int:
    from ..report.report import Report

    report = Report.from_json(chosen.file)
    if chosen.html is None:
        _print_report(report)
    else:
        _write(chosen.html, _page(report))
    return FINE if chosen.fail_above is None else _code(report, chosen.fail_above)


def _compare(chosen: argparse.Namespace) -> int:
    from ..report.refit import changes, changes_text, got_worse
    from ..report.report import Report
    from ..verdict.outcome import UNTRUSTED

    before, after = Report.from_json(chosen.before), Report.from_json(chosen.after)
    found = changes(before, after)
    threshold = chosen.fail_above or 0.0
    if not chosen.quiet:
        print(changes_text(before, after, found, threshold))
    if got_worse(found, threshold):
        return FOUND
    return DOUBTFUL if any(row.verdict == UNTRUSTED for row in after.rows) else FINE


def _reproduce(chosen: argparse.Namespace) -> int:
    from ..errors import InputError, MissingExtra
    from ..experiments import load
    from ..experiments.run import claims_text, reproduce

    _check_writable(chosen.page)
    tell = (lambda line: None) if chosen.quiet else (lambda line: print(line, file=sys.stderr, flush=True))
    code = FINE
    for name in STUDIES if chosen.name == "all" else [chosen.name]:
        try:
            with _interrupts_at_once(f"\ntaddaa: interrupted; what was measured is kept in {chosen.out}, run the same command to go on"):
                found = reproduce(load(name), chosen.out, chosen.quick, tell)
        except (InputError, MissingExtra) as error:  # such as data that cannot be had: the other studies can still be run
            print(f"taddaa: {name}: {error}", file=sys.stderr)
            code = WRONG_USE
            continue
        if not chosen.quiet:
            print(claims_text(found), flush=True)
    if chosen.page is not None:
        from ..experiments.page import write_page

        write_page(chosen.out, chosen.page, chosen.quick)
    return code


def _completion(chosen: argparse.Namespace) -> int:
    from .terminal import completion_script

    print(completion_script(parser(), chosen.shell))
    return FINE


# What they share ------------------------------------------------------------------------------------------------------


def _diagnosed(chosen: argparse.Namespace, arguments: dict, seed: int):
    """Diagnose with progress on a terminal, then write and print what was asked for; refuse paths before the work."""
    for path in (chosen.json, chosen.html):
        _check_writable(path)
    from .. import diagnose
    from .terminal import ProgressLine

    on_terminal = sys.stderr.isatty() and not chosen.quiet
    watched = ProgressLine(sys.stderr, _planned(arguments)) if on_terminal else contextlib.nullcontext()
    kept = arguments.get("checkpoint")
    message = INTERRUPTION if kept is None else f"\ntaddaa: interrupted; what was saved is in {kept}, run the same command to go on"
    with _interrupts_at_once(message), watched as progress:
        report = diagnose(**arguments, seed=seed, progress=progress)
    from ..files import first_process

    if not first_process():
        return report
    printed = not chosen.quiet and not _to_stdout(chosen.json) and not _to_stdout(chosen.html)
    try:
        if chosen.json is not None:
            _write(chosen.json, report.to_json())
        if chosen.html is not None:
            _write(chosen.html, _page(report))
    except Exception:
        if printed:  # a full disk must not cost the work as well
            _print_report(report)
        raise
    if printed:
        _print_report(report)
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
def _interrupts_at_once(message: str = INTERRUPTION):
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


def _code(report, threshold: float) -> int:
    """An error above the threshold outweighs a doubt."""
    from ..verdict.outcome import ERROR, UNTRUSTED

    if any(row.verdict == ERROR and row.relative_bound > threshold for row in report.rows):
        return FOUND
    return DOUBTFUL if any(row.verdict == UNTRUSTED for row in report.rows) else FINE


def _print_report(report) -> None:
    text = str(report)
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        headline, _, rest = text.partition("\n")
        text = f"\033[1m{headline}\033[0m\n{rest}"
    print(text)


def _page(report) -> str:
    from ..show.page import report_to_html

    return report_to_html(report)


def _to_stdout(path: Path | None) -> bool:
    return path is not None and str(path) == "-"


def _write(path: Path, text: str) -> None:
    if _to_stdout(path):
        print(text)
    elif path.exists() and not path.is_file():  # a pipe or a device, which must not be replaced by a file
        with path.open("w", encoding="utf-8") as stream:
            stream.write(text)
    else:
        from ..files import write_whole

        write_whole(path.resolve() if path.is_symlink() else path, text)


def _check_writable(path: Path | None) -> None:
    from ..errors import refuse_unwritable

    if path is not None and not _to_stdout(path):
        refuse_unwritable(path)


def _explain(error: Exception) -> None:
    """One sentence; below it the lines of the user's own file that led there, if any."""
    from .problem_file import user_lines

    print(f"taddaa: {error}", file=sys.stderr)
    lines = user_lines(error.__cause__ or error)
    if lines:
        print(lines, file=sys.stderr)


def _whole(least: int):
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
        return value

    return read


def _threshold(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, got {text!r}")
    return value
