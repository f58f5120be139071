"""The verdicts: what the judgement and the checks together allow to be said of each row."""

from typing import TYPE_CHECKING

import numpy as np

from .checks.check import Check

if TYPE_CHECKING:
    from .certificate import Brackets
    from .judgement import Judgement

ERROR, WITHIN, NO_ERROR, UNTRUSTED = "error", "within tolerance", "no error found", "untrusted"
REFUTED = "coupled pairs of chains, which need no check, put it elsewhere than the moved chains do"
VERDICTS = (ERROR, UNTRUSTED, NO_ERROR, WITHIN)  # the most urgent first


def verdicts(judgement: "Judgement", checks: list[Check], brackets: "Brackets | None" = None) -> list[tuple[str, str]]:
    """Four verdicts. A failed check silences the rows it names; one about blindness only those without a bound.

    A row whose error surely lies within the tolerance is fine to use, whether or not it is surely zero. That it lies there is
    believed, as zero is, only of chains that could have moved. What coupled pairs certify needs no check.
    """
    moved = (judgement.bound > 0) & ~judgement.within
    reasons: list[list[str]] = [[] for _ in moved]
    for check in checks:
        if check.passed:
            continue
        concerned = check.concerned(len(moved))
        silenced = concerned & ~moved if check.only_zero else concerned
        for row in np.flatnonzero(silenced):
            reasons[row].append(check.message)
    for row in np.flatnonzero(judgement.unknown):
        reasons[row] = ["the functional is not a finite number for the approximation or for the moved draws"]
    for row in np.flatnonzero(judgement.unseen):
        reasons[row] = ["all but a few chains have one and the same value of it, as of a rare event, so that no interval can be given"]
    if brackets is not None:
        for row in np.flatnonzero(brackets.known):
            reasons[row] = [REFUTED] if brackets.refuted[row] else []
    found = np.where(judgement.within, WITHIN, np.where(moved, ERROR, NO_ERROR))
    return [(UNTRUSTED, "; ".join(why)) if why else (str(verdict), "") for why, verdict in zip(reasons, found, strict=True)]


def arrived(checks: list[Check], rows: int) -> np.ndarray:
    """For each row, whether the checks believe that its chains came to rest: the posterior's own value needs it, a bound only movement.

    The paper's one check alone cannot tell.
    """
    doubted = [check.concerned(rows) for check in checks if not check.passed]
    return ~np.any([np.full(rows, len(checks) == 1), *doubted], axis=0)
