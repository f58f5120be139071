"""The verdicts: what the judgement and the checks together allow to be said of each row."""

from typing import TYPE_CHECKING

import numpy as np

from .checks.check import Check

if TYPE_CHECKING:
    from .judgement import Judgement

ERROR, WITHIN, NO_ERROR, UNTRUSTED = "error", "within tolerance", "no error found", "untrusted"
VERDICTS = (ERROR, UNTRUSTED, NO_ERROR, WITHIN)  # the most urgent first


def verdicts(judgement: "Judgement", checks: list[Check]) -> list[tuple[str, str]]:
    """Four verdicts. A failed check silences the rows it names; one about blindness only those without a bound.

    A row whose error surely lies within the tolerance is fine to use, whether or not it is surely zero.
    """
    moved = judgement.bound > 0
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
    found = np.where(judgement.within, WITHIN, np.where(moved, ERROR, NO_ERROR))
    return [(UNTRUSTED, "; ".join(why)) if why else (str(verdict), "") for why, verdict in zip(reasons, found, strict=True)]
