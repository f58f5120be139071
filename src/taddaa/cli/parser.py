"""Commands and their options."""

import argparse
from collections.abc import Callable
from pathlib import Path

from ..experiments import STUDIES
from ..version import own_version

KERNELS = ("barker", "mala", "rwmh", "hmc")
PRECONDITIONERS = ("fisher", "approximation", "identity")
SETTINGS = (
    *("budget", "gradients", "kernel", "chains", "iterations", "level", "simultaneous", "mean_tolerance", "variance_tolerance"),
    *("preconditioner", "interval", "variance_interval", "states", "checks", "groups", "precision"),
)
SHELLS = ("bash", "zsh", "fish")
CODES = "exit codes: 0 fine, 1 an error above the threshold was found, 2 wrong use or bad input, 3 untrusted, 4 taddaa failed"
TOLERANCE_HELP = "errors that do not matter, in standard deviations (default 0.1); or X,Y with that of log variances (default 1.5 X)"
FILE_HELP = """\
FILE.py defines problem(), which returns what taddaa.diagnose takes:

    import taddaa

    def problem():
        target = taddaa.Target(logdensity, dim=2, names=["a", "b"])
        approximation = taddaa.Gaussian(mean, sd)
        return target, approximation        # or (target, approximation, functionals), or a dict of diagnose's arguments
                                            # (target may be a framework's model, approximation its fit; data, var_names, …)
"""
REPRODUCE_HELP = """\
A stopped run goes on where it was: what is measured stays in DIR/cells. DIR/NAME.json holds every number and claim.
The studies on real data look for it in TADDAA_DATA, then in their cache, then download it. Exits with 0 if all studies ran.
"""


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="taddaa", description="Is your approximate posterior any good, for the numbers you care about?", epilog=CODES
    )
    top.add_argument("--version", action="version", version=f"taddaa {own_version()}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, short: str, **more) -> argparse.ArgumentParser:
        sentence = short[0].upper() + short[1:] + "." * (not short.endswith("?"))
        layout = argparse.RawDescriptionHelpFormatter
        return commands.add_parser(name, help=short, description=sentence, formatter_class=layout, **more)

    demo = command("demo", "diagnose a mean-field fit of a small real problem and explain the report", epilog="exits with 0")
    demo.add_argument("--seed", type=_whole(0), default=0, metavar="N", help="random seed (default 0)")
    _add_outputs(demo)

    run = command("run", "diagnose the problem that a Python file defines", epilog=f"{FILE_HELP}\n{CODES}")
    run.add_argument("file", metavar="FILE.py", type=Path, help="defines problem()")
    _add_outputs(run)
    _add_threshold(run, "an error counts if its relative bound exceeds X (default 0: any error)")
    run.add_argument("--tolerance", type=_tolerance, metavar="X", help=TOLERANCE_HELP)
    _add_names(run, "the parameters to judge, as in ArviZ: b 'b[x1]' '~tau' (default: the file's, or all)")
    _add_settings(run)
    run.add_argument("--seed", type=_whole(0), metavar="N", help="random seed (default: the file's, or 0)")
    run.add_argument("--checkpoint", type=Path, metavar="FILE", help="save the run there as it goes; the same command goes on from it")
    run.add_argument("--certify", action="store_true", help="run coupled pairs of chains too, which certify how large errors are at most")
    run.add_argument(
        "--repair", type=Path, metavar="OUT.nc", help="write 4,000 draws of the posterior itself there, for ArviZ (with --certify)"
    )
    run.add_argument("--glance", action="store_true", help="only a first look, without a chain: estimates, not bounds (exits with 0)")
    run.add_argument("--paper", action="store_true", help="the paper's method to the letter, in place of the file's settings")

    show = command("show", "show a report that was written with --json", epilog=CODES)
    show.add_argument("file", metavar="REPORT.json", type=Path)
    show.add_argument("--html", type=Path, metavar="OUT", help="write one self-contained page there instead of printing")
    _add_names(show, "show, and count for the exit code, only these parameters: b 'b[x1]' '~tau'")
    _add_threshold(show, "exit with 1 if a relative bound exceeds X, with 3 if a row is untrusted (default: exit with 0)")

    compare = command("compare", "compare two reports of the same quantities: did the refit get worse?", epilog=CODES)
    compare.add_argument("before", metavar="BEFORE.json", type=Path)
    compare.add_argument("after", metavar="AFTER.json", type=Path)
    compare.add_argument("--quiet", action="store_true", help="print nothing; the exit code tells")
    _add_threshold(compare, "ignore errors whose relative bound is at most X (default 0)")

    reproduce = command("reproduce", "run the studies of the paper again: figures, numbers and claims", epilog=REPRODUCE_HELP)
    reproduce.add_argument("name", metavar="NAME", choices=[*STUDIES, "all"], help=", ".join([*STUDIES, "or all"]))
    reproduce.add_argument("--quick", action="store_true", help="a small version that takes less than a minute a study")
    reproduce.add_argument("--out", type=Path, metavar="DIR", default=Path("taddaa-paper"), help="where to (default ./taddaa-paper)")
    reproduce.add_argument("--page", type=Path, metavar="OUT.md", help="also write a page of all the claims, from what DIR holds")
    reproduce.add_argument("--quiet", action="store_true", help="no progress, and no claims on standard output")

    completion = command("completion", "print a shell's completion script", epilog='eval "$(taddaa completion bash)"')
    completion.add_argument("shell", choices=SHELLS)
    return top


def _add_outputs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", type=Path, metavar="OUT", help="write the report there as JSON (- for standard output, instead of text)")
    command.add_argument("--html", type=Path, metavar="OUT", help="write the report there as one self-contained page")
    command.add_argument("--quiet", action="store_true", help="print nothing; the exit code tells")


def _add_settings(command: argparse.ArgumentParser) -> None:
    """All of `Settings`, each in place of the file's."""
    group = command.add_argument_group("settings, in place of the file's or the default")
    add = group.add_argument
    add("--budget", type=_at_least(1), metavar="X", help="how long chains may run on while quantities move, in planned iterations (16)")
    add("--gradients", type=_whole(1), metavar="N", help="the most to evaluate in all; fewer chains are planned to keep it (no limit)")
    add("--kernel", choices=KERNELS, help="how the chains move (relay: barker, and trajectories once they have arrived)")
    add("--chains", type=_whole(10), metavar="N", help="number of chains (planned from the tolerances)")
    add("--iterations", type=_whole(1), metavar="T", help="iterations before the first look (planned from the dimension)")
    add("--level", type=_share, metavar="X", help="the confidence level (0.95)")
    add("--simultaneous", action=argparse.BooleanOptionalAction, help="whether all intervals hold together at the level (yes)")
    add("--mean-tolerance", type=_positive, metavar="X", help="as --tolerance, for all but variances (0.1)")
    add("--variance-tolerance", type=_positive, metavar="X", help="as --tolerance, for log variances (0.15)")
    add("--preconditioner", choices=PRECONDITIONERS, help="where their steps get their shape from (fisher)")
    add("--interval", choices=("stein", "plain"), help="sharpened by gradients, or the paper's (stein)")
    add("--variance-interval", choices=("bonett", "chi2"), help="for any distribution, or the paper's for normal ones (bonett)")
    add("--states", type=_whole(1), metavar="K", help="late states of each chain that an interval pools, at most 32 (32)")
    add("--checks", choices=("all", "correlation"), help="all, or only the paper's (all)")
    add("--groups", type=_whole(1), metavar="K", help="groups of chains with a step size of their own (2)")
    add("--precision", choices=("float64", "float32"), help="of the chains (float64)")


def _add_threshold(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--fail-above", type=_threshold, metavar="X", help=what)


def _add_names(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--var-names", nargs="+", metavar="NAME", help=what)


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
        return value

    return read


def _tolerance(text: str) -> float | tuple[float, float]:
    try:
        found = tuple(map(float, text.split(",")))
    except ValueError:
        found = ()
    if len(found) not in (1, 2) or not all(0 < value <= 1e300 for value in found):
        raise argparse.ArgumentTypeError(f"must be a positive number, or two with a comma, got {text!r}")
    return found[0] if len(found) == 1 else (found[0], found[1])


def _number(text: str, fits: Callable[[float], bool], what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not fits(value):
        raise argparse.ArgumentTypeError(f"must be {what}, got {text!r}")
    return value


def _threshold(text: str) -> float:
    return _number(text, lambda value: value >= 0, "a number of at least 0")


def _positive(text: str) -> float:
    return _number(text, lambda value: 0 < value <= 1e300, "a positive number")


def _share(text: str) -> float:
    return _number(text, lambda value: 0 < value < 1, "a number between 0 and 1")


def _at_least(least: float) -> Callable[[str], float]:
    return lambda text: _number(text, lambda value: least <= value <= 1e9, f"a number of at least {least:g}")
