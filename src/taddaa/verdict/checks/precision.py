"""Would an error have been seen?"""

import numpy as np

from .check import MORE_TIME, Check, Checker, Silences
from .run import Run

PRECISION_CUTOFF = 0.75  # the largest relative error that may stay hidden: 0.75 standard deviations, a factor of 2 in variance


class NarrowEnough(Checker):
    """A few chains far from all others (stragglers, heavy tails) make intervals so wide that errors can hide in them.

    Of a variance the side below counts: its interval may reach further up, where no chain has been, which `detectable` tells.
    """

    name = "narrow enough"
    question = "Are the intervals narrow enough for 'no error found' to mean something?"
    measures = "the smallest error that would surely show"
    should_be = "a relative `detectable` of at most 0.75 (of a variance, by its interval's side below)"
    remedy = MORE_TIME
    silences = Silences.NAMED_WITHOUT_BOUND

    def examine(self, run: Run) -> Check:
        width = run.judgement.relative_below
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
