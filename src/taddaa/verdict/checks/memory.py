"""Do the chains still remember where they started?"""

from typing import TYPE_CHECKING

import numpy as np

from ...formulas.correlation import squared_correlation
from ...formulas.distributions import chi2_upper_quantile, ranks
from ...formulas.pieces import by_pieces
from .check import MORE_TIME, TEST_LEVEL, Check, Checker, Silences
from .run import Run

if TYPE_CHECKING:
    from ...chains.arrival import Seen
    from ..questions import Questions

RHO2_CUTOFF = 0.1  # the paper's (section 3.4)


class ForgotTheStart(Checker):
    """Linear, rank and folded-rank correlation of each row's quantity with its start, and with the round's beginning.

    The latter sees regions that are slow to leave but that the approximation did not start in.
    """

    name = "forgot the start"
    question = "Does any quantity's end still correlate with its start? If so, what did not move may only be slow."
    detail = "Correlation is linear, in ranks, or in how far out it was; with the start or with the round's beginning."
    measures = "ρ² with the start"
    should_be = "ρ² below 0.1 (more with few chains)"
    remedy = MORE_TIME
    silences = Silences.NAMED_WITHOUT_BOUND
    more_iterations = True

    def examine(self, run: Run) -> Check:
        last = run.seen.snapshots[-1].quantities
        each = np.max([by_pieces(memory, then.quantities, last) for then in (run.seen.origin, run.seen.snapshots[0])], axis=0)
        worst = np.where(run.momentless, 0.0, run.questions.per_row(each))
        cutoff = _memory_cutoff(len(last), 6 * len(worst))
        flagged = np.flatnonzero(worst >= cutoff)
        return self.found(
            not flagged.size,
            float(worst.max()),
            cutoff,
            "the chains still remember where they started, so that this quantity has not moved may only mean that it is slow",
            flagged,
            each=worst,
        )


class ForgotTheStartInThePaper(Checker):
    """The paper's: ρ² between start and final state, over all rows."""

    name = ForgotTheStart.name
    question = ForgotTheStart.question
    measures = "ρ² with the start"
    should_be = "ρ² below 0.1"
    remedy = ForgotTheStart.remedy
    silences = Silences.WITHOUT_BOUND

    def examine(self, run: Run) -> Check:
        worst = float(row_rho2(run.seen, run.questions).max())
        return self.found(
            worst < RHO2_CUTOFF,
            worst,
            RHO2_CUTOFF,
            f"the chains still remember where they started (ρ² up to {worst:.2f}), so what has not moved may only be slow",
        )


class ForgotTheStartAlongWhatMoved(Checker):
    """The same along the directions across parameters that moved most, which single coordinates can hide.

    It concerns the rows that share a tenth or more of their variance with such a direction.
    """

    name = "forgot the start along what moved"
    question = "The same along directions across several parameters, which single ones can hide."
    detail = "It names the quantities that share a tenth of their variance with one."
    measures = "ρ² with the start"
    should_be = "ρ² below 0.1 (more with few chains)"
    remedy = MORE_TIME
    silences = Silences.NAMED_WITHOUT_BOUND
    more_iterations = True

    def examine(self, run: Run) -> Check:
        directions, last = run.directions, run.seen.snapshots[-1]
        along = last.positions @ directions
        each = memory(run.seen.origin.positions @ directions, along)
        cutoff = _memory_cutoff(len(last.positions), 3 * max(directions.shape[1], 1))
        return self.found(
            not np.any(each >= cutoff),
            float(each.max(initial=0.0)),
            cutoff,
            "along a direction across several parameters the chains still remember their start",
            np.flatnonzero(run.tied_to_direction(along[:, each >= cutoff])),
        )


def row_rho2(seen: "Seen", questions: "Questions") -> np.ndarray:
    """ρ² of each row's quantity (the larger of two for a covariance)."""
    return questions.per_row(squared_correlation(seen.origin.quantities, seen.snapshots[-1].quantities))


def _memory_cutoff(chains: int, tests: int) -> float:
    """The paper's 0.1, or what independent starts and ends would exceed by chance where chains are few."""
    return max(RHO2_CUTOFF, float(chi2_upper_quantile(TEST_LEVEL / tests, 1)) / chains)


def memory(start: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """The largest squared correlation of three kinds, for each column; values are cut at 1 and 99 %, lest an outlier is all of it."""
    ranked = [ranks(part) / len(part) - 0.5 for part in (start, moved)]
    pairs = [
        tuple(np.clip(part, *np.quantile(part, [0.01, 0.99], axis=0)) for part in (start, moved)),
        tuple(ranked),
        tuple(np.abs(rank) for rank in ranked),
    ]
    return np.max([squared_correlation(*pair) for pair in pairs], axis=0)
