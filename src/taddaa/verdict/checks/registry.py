"""All checks, in the order in which they are reported. Adding one is a class and its place in this list; nothing else changes."""

from collections.abc import Iterable, Mapping

import numpy as np

from .acceptance import Acceptance
from .arms import ArmsAgree
from .balance import GradientsBalance
from .check import Check, Checker, plain
from .finite import FiniteProposals
from .memory import ForgotTheStart, ForgotTheStartAlongWhatMoved, ForgotTheStartInThePaper
from .moments import MomentsExist
from .narrow import AllChainsMove
from .near import NearThePosterior
from .overshoot import NoOvershoot
from .precision import NarrowEnough
from .run import Run
from .settled import MOST, Settled

ALL: tuple[Checker, ...] = (
    NearThePosterior(),
    Settled(),
    NoOvershoot(),
    ForgotTheStart(),
    ForgotTheStartAlongWhatMoved(),
    GradientsBalance(),
    Acceptance(),
    AllChainsMove(),
    FiniteProposals(),
    MomentsExist(),
    NarrowEnough(),
    ArmsAgree(),
)
PAPER: tuple[Checker, ...] = (ForgotTheStartInThePaper(),)
SETS = {"all": ALL, "correlation": PAPER}  # by the setting `checks`
STALLED, CLEARLY = 0.9, 1.01  # of the value before, and of the rows named; of the cutoff
NAMES, FEW, HALVED = "rows named by ", 0.1, 0.5  # of the rows; of the value before
NAMED = {checker.name: checker for checker in ALL}


def examine(run: Run, checkers: Iterable[Checker] = ALL) -> list[Check]:
    """Every check that can be made of the run's latest round."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinite quantities are the judgement's business
        return [checker.examine(run) for checker in checkers if checker.applies(run)]


def worth_running_on(checks: Iterable[Check], looks: int, before: Mapping[str, float]) -> bool:
    """Something still moves or remembers, and more iterations may cure it.

    Where doubling the way has lessened nothing (`before` has what had failed at the look before), the next doubling will not
    either; nor where only memory has lessened, of rows that all go on moving: it comes and goes as they do. But chains on which forces do
    not balance are on their way, however large what they have left looks beside errors that shrink as they come together. And where part
    of the target is too narrow, memory is not cured by more of it, so that two looks are enough.
    """
    checks = list(checks)
    wanting = [check for check in checks if not check.passed and check.more_iterations]
    alone, moving = len(wanting) == 1, {row for check in wanting if check.name == Settled.name for row in check.rows or ()}
    waited_for = [check for check in wanting if not _of_rows_that_move(check, moving)]
    under_way = any(check.name == GradientsBalance.name for check in wanting)
    if looks >= 3 and not under_way and not any(_lessened(check, before, alone=alone) for check in waited_for):
        return False
    if looks >= 2 and any(check.slow_for_good for check in checks):
        wanting = [check for check in wanting if not check.only_zero]
    return bool(wanting)


def failures(checks: Iterable[Check]) -> dict[str, float]:
    """The values of checks that failed, and not only just: what fails by chance need not be worse than before to be worth another look.

    Of all that failed and name rows also how many.
    """
    failed = [check for check in checks if not check.passed]
    named = {NAMES + check.name: float(len(check.rows)) for check in failed if check.rows}
    return {check.name: float(check.value) for check in failed if check.value > CLEARLY * check.cutoff} | named


def _lessened(check: Check, before: Mapping[str, float], *, alone: bool) -> bool:
    """Whether a check fails less than before.

    Where all but some quantities are at rest, or all but drifts are as they should be, as where factors may be turned, how large the
    largest drift is between a round's ends is chance, unless it halves: as long as about as many rows move, nothing has been cured.
    """
    moving, rows = len(check.rows or ()) if check.name == Settled.name else 0, len(check.each or ())
    as_many = moving >= FEW * rows and moving > STALLED * before.get(NAMES + check.name, np.inf)
    stays = as_many and (alone or moving < MOST * rows) and check.value > HALVED * before.get(check.name, check.cutoff)
    return check.value <= STALLED * before.get(check.name, np.inf) and not stays


def _of_rows_that_move(check: Check, moving: set[int]) -> bool:
    """Whether it matters only to rows without a bound, all of which are still moving."""
    return check.only_zero and bool(check.rows) and moving.issuperset(check.rows or ())


def too_narrow(checks: Iterable[Check]) -> bool:
    """Part of the target is, for the chains' common step: no iterations cure it, but other coordinates may."""
    return any(check.name == AllChainsMove.name and not check.passed for check in checks)


# A report that another version stored may name a check that this one does not know; nothing is said of it then.


def question(check: Check) -> str:
    """What a check asks."""
    return NAMED[check.name].question if check.name in NAMED else ""


def measured(check: Check) -> str:
    """`0.40, should be 0.20 to 0.70 (share of proposals accepted)`."""
    what = f" ({NAMED[check.name].measures})" if check.name in NAMED else ""
    return f"{plain(check.value)}, should be {check.should_be}{what}"


def condemning(checks: Iterable[Check]) -> Check | None:
    """The check that says that the fit as a whole is wrong, if one does."""
    failed = (check for check in checks if not check.passed and check.name in NAMED and NAMED[check.name].condemns)
    return next(failed, None)


def remedies(checks: Iterable[Check]) -> list[tuple[str, str, str]]:
    """What helps against the checks that failed, each remedy once: in words, and as lines of Python and for the shell ('' where none)."""
    failed = {check.name for check in checks if not check.passed}
    return list(dict.fromkeys((checker.remedy, checker.python, checker.shell) for checker in ALL if checker.name in failed))


def caveats(checks: Iterable[Check]) -> list[str]:
    """What to know of checks that passed although chains are slow for good."""
    return [NAMED[check.name].caveat for check in checks if check.passed and check.slow_for_good]


def documented() -> str:
    """The table of checks, as docs/reading.md has it."""
    lines = ["| check | asks | should be | silences |", "|---|---|---|---|"]
    for checker in ALL:
        asks = f"{checker.question} {checker.detail}".strip()
        lines.append(f"| {checker.name} | {asks} | {checker.should_be} | {checker.silences.value} |")
    return "\n".join(lines)
