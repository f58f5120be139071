"""What to do next: it knows what was tried and which limit bound, and never gives again what has just failed.

Each advice has lines to paste, for Python and for the shell. Following the one for more time walks a ladder (a larger budget, then
longer steps, then a larger budget for these, then full MCMC), so that it ends.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import visible
from ..verdict.checks.check import MORE_TIME, Check
from ..verdict.checks.registry import condemning, remedies
from .parts import Provenance

if TYPE_CHECKING:
    from .report import Report

USE, KNOWN, TIME, STEPS, CHAINS = "use", "use what is known", "more time", "longer steps", "more chains"
ALL_CHECKS, CURE, FULL = "all checks", "cure", "full MCMC"
ENOUGH_TIME = 64  # times the plan: chains that still move then want another kernel
# The settings that a line to paste may name, as long as they are not these (a test holds them equal to `Settings()`).
USUAL = {
    "variance_interval": "bonett",
    "interval": "stein",
    "level": "0.95",
    "simultaneous": "True",
    "mean_tolerance": "0.1",
    "variance_tolerance": "0.15",
    "chains": "None",
    "iterations": "None",
    "budget": "16",
    "gradients": "None",
    "states": "32",
    "checks": "all",
    "groups": "2",
    "precision": "float64",
}
WORDS = {"variance_interval", "interval", "checks", "precision", "kernel", "preconditioner"}
PRECONDITIONERS = {"FromApproximation": "approximation", "Identity": "identity"}  # by their names in a report
FEWEST, MOST_CHAINS = 100, 20_000
FEW = 0.1  # of the quantities


@dataclass(frozen=True)
class Advice:
    """What to do and why, in words; as a line of Python and a line for the shell, where there is one."""

    kind: str
    words: str
    python: str = ""
    shell: str = ""

    def __str__(self) -> str:
        return self.words


def advice(report: "Report") -> tuple[Advice, ...]:
    """The most promising first; full MCMC, which needs none of our checks, last."""
    if report.usable:
        return (_use(report),)
    failed = [check for check in report.checks if not check.passed]
    found = [*_known(report), *_cures(failed, far=True), *_onward(report, failed), *_cures(failed, far=False)]
    return (*found, _full(report))


def _known(report: "Report") -> list[Advice]:
    """Where all but a few right values are known, that comes first: what follows is about these few."""
    unknown = sum(math.isnan(row.corrected) for row in report.rows)
    if report.far or unknown > FEW * len(report.rows):
        return []
    known = f"{len(report.rows) - unknown} of {len(report.rows)}" if unknown else f"all {len(report.rows)}"
    rest = "the others" if unknown > 1 else "the other one" if unknown else "the check that failed"
    words = f"The right values of {known} quantities are known: use them. What follows is about {rest}."
    return [Advice(KNOWN, words, "report.corrected  # with intervals", "taddaa run FILE.py --json report.json  # holds them")]


def _use(report: "Report") -> Advice:
    known = any(not math.isnan(row.corrected) for row in report.rows)
    return Advice(
        USE,
        f"All checks passed: report.moved holds {len(report.moved_draws)} draws that behave like nearly independent draws of the "
        "posterior around the approximation. Use them for means, variances and intervals; not for far tails or rare events. "
        "A mode that no chain reached is not in them (other_starts= looks for one).",
        "report.corrected  # the right values, with intervals" if known else "report.moved",
    )


def _cures(failed: list[Check], far: bool) -> list[Advice]:
    """What the failed checks themselves say, but for more time; with the one that condemns the whole fit, or without it."""
    some = [check for check in failed if (condemning([check]) is not None) == far]
    return [Advice(CURE, words, python, shell) for words, python, shell in remedies(some) if words != MORE_TIME]


def _onward(report: "Report", failed: list[Check]) -> list[Advice]:
    """The next step of the ladder, for checks that more iterations, longer steps or more chains may cure."""
    waiting = [check for check in failed if any(words == MORE_TIME for words, *_ in remedies([check]))]
    if len(report.checks) == 1:  # the paper's one check: what it cannot see, all of them may
        words = "Only the paper's one check was made. Let all checks be made, and let the chains run on while quantities move."
        return [Advice(ALL_CHECKS, words, _python(report, "taddaa.Settings()"), "taddaa run FILE.py")]
    if not waiting:
        return []
    if any(check.slow_for_good for check in failed):
        return []  # part of the target is too narrow, and neither more steps nor more chains help
    wide = [check for check in waiting if not check.more_iterations]
    if wide and len(wide) == len(waiting):
        return [_more_chains(report, wide)]
    if any(check.slow_for_good for check in report.checks):
        return []  # part of the target is too narrow for these steps, and more of them do not help
    return [_more_time(report)]


def _more_time(report: "Report") -> Advice:
    cost, tried = report.cost, tried_settings(report.provenance)
    longer, budget = report.provenance.kernel.lower() == "hmc", float(tried["budget"])
    gone = cost.iterations / cost.planned_iterations
    if 2 * cost.iterations > budget * cost.planned_iterations and gone < ENOUGH_TIME:
        more = min(4 * 2 ** math.ceil(math.log2(max(gone, 1))), ENOUGH_TIME)
        words = (
            f"The chains ran out of time: they had {_times(gone)} the planned iterations and still moved. Let them go on, to {more} times."
        )
        python = f"report = report.resume(budget={more})" if report.continuation else _python(report, budget=str(more))
        return Advice(TIME, words, python, _shell(report, budget=str(more)))
    why = "More time of this kernel would not help" if gone < ENOUGH_TIME else f"{_times(gone)} the planned iterations were not enough"
    if not longer:
        words = f"{why}: take longer steps, with HMC from the start."
        fresh = {"kernel": "hmc", "budget": USUAL["budget"], "iterations": USUAL["iterations"]}  # HMC plans its own
        return Advice(STEPS, words, _python(report, **fresh), _shell(report, **fresh))
    return Advice(FULL, f"{why}, and HMC was tried already: run full MCMC, which adapts longer, or reparametrise the model.")


def _more_chains(report: "Report", wide: Iterable[Check]) -> Advice:
    """An interval's width falls with the root of their number."""
    chains = report.provenance.chains
    ratio = max((check.value / check.cutoff for check in wide if math.isfinite(check.value)), default=2.0)
    more = int(min(max(chains * (1.1 * ratio) ** 2, 2 * chains, FEWEST), MOST_CHAINS))
    more = max(-(-more // 100) * 100, 2 * chains)
    words = f"The intervals are too wide for {chains} chains: take more of them (and, if the approximation is given by draws, more draws)."
    return Advice(CHAINS, words, _python(report, chains=str(more)), _shell(report, chains=str(more)))


def _full(report: "Report") -> Advice:
    words = (
        "Or run full MCMC: report.handover has starts that are closer to the target, a mass matrix that fits it, and a step size "
        "(docs/handover.md has recipes for NumPyro, BlackJAX, PyMC and Stan)."
    )
    return Advice(
        FULL, words, "starts, inverse_mass, step = report.handover", "taddaa run FILE.py --json report.json  # holds the handover too"
    )


def tried_settings(about: Provenance) -> dict[str, str]:
    """The settings of the run that can be written in a word."""
    found = {name: re.search(rf"(?:^|, ){name}=([^,()]*)(?:,|$)", about.settings) for name in USUAL}
    return {name: match[1] if match else USUAL[name] for name, match in found.items()}


def _changed(report: "Report", changes: dict[str, str]) -> dict[str, str]:
    """All that is not as usual, with these changes."""
    kernel = report.provenance.kernel.lower()
    kernel = kernel if kernel in ("barker", "mala", "rwmh", "hmc") else "relay"
    shape = PRECONDITIONERS.get(report.provenance.preconditioner, "fisher")
    tried = {"kernel": kernel, "preconditioner": shape, **tried_settings(report.provenance), **changes}
    usual = {"kernel": "relay", "preconditioner": "fisher", **USUAL}
    return {name: value for name, value in tried.items() if value != usual[name] and float_of(value) != float_of(usual[name])}


def float_of(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value


def _python(report: "Report", settings: str = "", /, **changes: str) -> str:
    inside = ", ".join(f"{name}={value!r}" if name in WORDS else f"{name}={value}" for name, value in _changed(report, changes).items())
    seed = f", seed={report.provenance.seed}" if report.provenance.seed else ""
    return visible(f"report = taddaa.diagnose(target, approximation, settings={settings or f'taddaa.Settings({inside})'}{seed})")


def _shell(report: "Report", **changes: str) -> str:
    named = _changed(report, changes)
    options = [f"--{name.replace('_', '-')} {value}" for name, value in named.items() if name != "simultaneous"]
    options += ["--no-simultaneous"] if "simultaneous" in named else []
    return visible(" ".join(["taddaa run FILE.py", *options]))


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times" if f"{ratio:.3g}" != "1" else "only"
