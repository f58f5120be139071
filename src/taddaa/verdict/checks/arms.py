"""Do chains from other starts agree?"""

import math

import numpy as np

from ...formulas.interval import bound, movement
from .check import Check, Checker, Silences
from .run import Run


class ArmsAgree(Checker):
    """A second arm from other starts, as long as the first: rows whose intervals cannot both be right are flagged."""

    name = "arms agree"
    question = "Did chains from other starts come to the same values?"
    detail = "Only made with `other_starts`."
    measures = "quantities that disagree"
    should_be = "no quantity with intervals that cannot both be right"
    remedy = "There may be several modes: fit again from other starts, or run a sampler made for them."
    silences = Silences.NAMED

    def applies(self, run: Run) -> bool:
        return run.other_arm is not None

    def examine(self, run: Run) -> Check:
        assert run.other_arm is not None
        ours, theirs = (run.questions.moved(arm.seen.late_quantities, run.level) for arm in (run.walk, run.other_arm))
        apart = np.concatenate([bound(*movement(a, b)[1:]) for a, b in zip(ours, theirs, strict=True)])
        rows = np.flatnonzero(apart > 0)
        return self.found(
            not rows.size,
            float(rows.size),
            0.0,
            "chains from other starts came to another value, as when there are several modes or chains are too short",
            rows,
        )

    def could_not_start(self, error: Exception) -> Check:
        return self.found(False, math.nan, 0.0, f"the second arm could not start: {error}")
