"""Would an error have been seen?"""

import numpy as np

from ...formulas.distributions import normal_quantile
from .check import MORE_TIME, Check, Checker, Silences
from .run import Run

PRECISION_CUTOFF = 0.75  # the largest relative error that may stay hidden: 0.75 standard deviations, a factor of 2 in variance


class NarrowEnough(Checker):
    """A few chains far from all others (stragglers, heavy tails) make intervals so wide that errors can hide in them.

    The shorter side counts: a variance's interval may reach further up, where no chain has been, which `detectable` tells.
    """

    name = "narrow enough"
    question = "Are the intervals narrow enough for 'no error found' to mean something?"
    measures = "the smallest error that would surely show"
    should_be = "a relative `detectable` of at most 0.75, by the interval's shorter side"
    remedy = MORE_TIME
    silences = Silences.NAMED_WITHOUT_BOUND

    def examine(self, run: Run) -> Check:
        judgement, errors = run.judgement, 1 + normal_quantile(0.95) / normal_quantile((1 + run.level) / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            both = (judgement.upper - judgement.lower) * errors / judgement.unit
            shorter = np.minimum(both - judgement.relative_detectable, judgement.relative_detectable)  # which is the longer side's
        width = np.where(np.isfinite(shorter), shorter, judgement.relative_detectable)
        flagged = np.flatnonzero((width > PRECISION_CUTOFF) & ~run.momentless)
        return self.found(
            not flagged.size,
            float(np.where(run.momentless, 0.0, width).max()),
            PRECISION_CUTOFF,
            "the interval of this quantity is so wide that a large error could hide in it: "
            "a few chains are far from the others, or chains or draws are too few",
            flagged,
            each=width,
        )
