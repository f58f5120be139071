"""All that a check may look at."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...formulas.correlation import squared_correlations
from ...formulas.pieces import by_pieces
from ...formulas.tail import tail_index
from ..directions import directions_moved_most

if TYPE_CHECKING:  # a stored report knows its checks without loading what runs chains
    from ...chains.arrival import Seen
    from ...chains.walk import Walk
    from ..judgement import Judgement
    from ..questions import Questions

VARIANCE_TAIL, MEAN_TAIL = 0.5, 0.65  # tail indices above which it hardly has an interval (a variance exists under 1/2, a mean under 1)
NEEDS = {"mean": MEAN_TAIL, "variance": VARIANCE_TAIL, "covariance": VARIANCE_TAIL}
FAR, BOUNDED, SEEN_OF_RANGE = (30.0, 300.0), 1.01, 0.1  # times as far out; the range there, and what draws must have seen of it
SHARED = 0.1  # of the variance over chains, from which one quantity's trouble is another's
MOST_TIES = 200  # quantities in trouble whose ties are looked for


@dataclass(frozen=True, eq=False)
class Run:
    """The walk, what was asked, and what was found; pieces that several checks share are made when first needed."""

    walk: "Walk"
    questions: "Questions"
    judgement: "Judgement"
    level: float  # of each interval by itself
    other_arm: "Walk | None" = None

    def judged(self, judgement: "Judgement") -> "Run":
        """The same round with another judgement. What has been made of it is kept: nothing made here depends on the judgement."""
        other = replace(self, judgement=judgement)
        other.__dict__.update({name: value for name, value in self.__dict__.items() if name not in other.__dict__})
        return other

    @cached_property
    def seen(self) -> "Seen":
        """What the chains that have arrived say, in as many snapshots as a first round has: more would show drifts that nobody minds."""
        return self.walk.seen.thinned()

    @cached_property
    def directions(self) -> np.ndarray:
        """(d, ≤ 4), in units of moved standard deviations."""
        return directions_moved_most(self.seen)

    @cached_property
    def summaries(self) -> np.ndarray:
        """Each row's estimate and standard error (2, rows) at each snapshot of the round: (W, 2, rows)."""
        known = {} if self.seen.left_out else {point.iteration: (point.estimate, point.error) for point in self.walk.path}
        snapshots = self.seen.snapshots
        return np.array([known.get(snap.iteration) or self.questions.summarise(snap.quantities) for snap in snapshots])

    @cached_property
    def tail_index(self) -> np.ndarray:
        """Of each quantity: the moved draws', and q's where draws of it were needed."""
        index = by_pieces(lambda *late: tail_index(np.concatenate(late)), *self.seen.late_quantities)
        return index if self.questions.reference_tails is None else np.maximum(index, self.questions.reference_tails)

    @cached_property
    def momentless(self) -> np.ndarray:
        """Rows whose moment hardly exists: they are untrusted themselves, and tell nothing about the run."""
        heavy = self.questions.per_row(self.tail_index) > self.tail_limit
        return heavy & (self.questions.per_row(self.bounded) == 0) if heavy.any() else heavy

    @cached_property
    def bounded(self) -> np.ndarray:
        """Quantities such as probabilities, whose range far out is what it is nearer: all their moments exist.

        Not where draws have seen next to nothing of that range: what is rare there may still make up most of a moment.
        """
        x, observe = self.seen.snapshots[-1].positions, self.walk.engine.viewer.observe
        middle, wide = np.median(x, axis=0), np.ptp(np.concatenate(self.seen.late_quantities), axis=0)
        try:
            with np.errstate(all="ignore"):
                far, farther = (np.ptp(observe(middle + way * (x - middle), self.questions.functions), axis=0) for way in FAR)
                return (farther <= BOUNDED * far) & (farther <= wide / SEEN_OF_RANGE)
        except Exception:  # code of the user's on the host may refuse such places
            return np.zeros(len(wide), bool)

    @cached_property
    def tail_limit(self) -> np.ndarray:
        """Of each row, the tail index above which its moment hardly exists; a quantile has none."""
        groups = self.questions.groups
        return np.concatenate([np.full(len(group.labels), NEEDS.get(group.functional.label, np.inf)) for group in groups])

    def tied(self, rows: np.ndarray) -> np.ndarray:
        """These rows (a mask), all others of the same quantities, and rows of quantities that share variance with them over chains."""
        last = self.seen.snapshots[-1].quantities
        concerned = np.flatnonzero(self.questions.quantities_of(rows, last.shape[1]))
        return self._sharing(last[:, concerned[:MOST_TIES]]) | (self.questions.per_row(np.isin(np.arange(last.shape[1]), concerned)) > 0)

    def tied_to_direction(self, along: np.ndarray) -> np.ndarray:
        """Rows of quantities that share variance over chains with any of the columns of `along`."""
        return self._sharing(along)

    def _sharing(self, columns: np.ndarray) -> np.ndarray:
        """With their values, or one's value with how far out the other is.

        A scale drives the spread of others, not their place; what turns moves the place of what it turns away from.
        """
        last = self.seen.snapshots[-1].quantities
        if not columns.size:
            return np.zeros(self.questions.rows, bool)
        out = _far_out(columns)

        def shared(part: np.ndarray) -> np.ndarray:
            return np.max(
                [squared_correlations(*pair).max(axis=0) for pair in ((columns, part), (columns, _far_out(part)), (out, part))], axis=0
            )

        shared_most = by_pieces(shared, last)
        return self.questions.per_row(shared_most) >= SHARED


def _far_out(values: np.ndarray) -> np.ndarray:
    return np.abs(values - np.median(values, axis=0))
