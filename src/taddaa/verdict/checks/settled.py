"""Do quantities still change?"""

from collections.abc import Iterable

import numpy as np

from ...formulas.distributions import normal_upper_quantile
from ...formulas.zscore import mean_z
from .check import MORE_TIME, TEST_LEVEL, Check, Checker, Silences
from .run import Run


class Settled(Checker):
    """Paired test over chains: does any row, or any direction that moved much, differ between the round's two ends?"""

    name = "settled"
    question = "Do the quantities still change between the beginning and the end of the last round?"
    detail = "Directions that moved much are looked at as well."
    should_be = "below the cutoff of a paired test over chains, 5 % for all together"
    remedy = MORE_TIME
    silences = Silences.NAMED
    others = "other quantities were still moving when the chains stopped, so this one may move later"
    more_iterations = True

    def examine(self, run: Run) -> Check:
        snapshots = run.walk.snapshots
        early, late = _ends(len(snapshots))
        scores = []
        for piece in (piece for group in run.questions.groups for piece in group.pieces()):
            window = piece.window([snapshot.quantities for snapshot in snapshots])
            pooled = window[:, 1:].reshape(-1, window.shape[-1])
            scores.append(paired_z(piece.functional.score(window, pooled), early, late))
        along = np.stack([snapshot.positions @ run.directions for snapshot in snapshots], axis=1)
        hidden = [paired_z(along, early, late), paired_z((along - along.mean(axis=(0, 1))) ** 2, early, late)]
        z, z_hidden = np.abs(np.concatenate(scores)), np.abs(np.concatenate(hidden))
        cutoff = float(normal_upper_quantile(TEST_LEVEL / 2 / (len(z) + len(z_hidden))))
        moving = np.flatnonzero(z > cutoff)
        return self.found(
            not (moving.size or np.any(z_hidden > cutoff)),
            float(max(z.max(), z_hidden.max(initial=0.0))),
            cutoff,
            "still moving when the chains stopped, so its bound may be above or below the true error",
            moving,
        )


def still_moving(checks: Iterable[Check], row: int) -> bool:
    """Whether this check was made and says so of a row."""
    return any(check.name == Settled.name and not check.passed and (check.rows is None or row in check.rows) for check in checks)


def paired_z(score: np.ndarray, early: list[int], late: list[int]) -> np.ndarray:
    return mean_z(score[:, late].mean(axis=1) - score[:, early].mean(axis=1))


def _ends(count: int) -> tuple[list[int], list[int]]:
    """The snapshots to compare: the round's first two with its last two, or first with last if there are few."""
    return ([0, 1], [count - 2, count - 1]) if count >= 4 else ([0], [count - 1])
