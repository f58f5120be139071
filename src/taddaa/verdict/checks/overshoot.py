"""Did errors shrink steadily?"""

import numpy as np

from ...formulas.distributions import normal_upper_quantile
from .check import MORE_TIME, TEST_LEVEL, Check, Checker, Silences
from .run import Run


class NoOvershoot(Checker):
    """Did a row, in the last three quarters of the way, stand outside the span between its start and where it ended?

    That is Condition 1 seen to fail, and since quantities pull each other along, it silences the whole run.
    """

    name = "no overshoot"
    question = "Did a quantity go beyond where it ended, and come back? Bounds need errors that shrink steadily."
    detail = "The last three quarters of the way are looked at."
    should_be = "below the cutoff of a test at 5 % for all together"
    remedy = MORE_TIME
    silences = Silences.RUN
    more_iterations = True

    def examine(self, run: Run) -> Check:
        walk, reference = run.walk, run.judgement.reference
        recent = [point for point in walk.path if walk.iteration / 4 <= point.iteration]
        ended, earlier = recent[-1], recent[:-1]
        if not earlier:
            return self.found(True, 0.0, 0.0, "")
        estimate = np.array([point.estimate for point in earlier])
        error = np.hypot(np.array([point.error for point in earlier]), ended.error)
        low, high = np.minimum(reference, ended.estimate), np.maximum(reference, ended.estimate)
        beyond = np.maximum(low - estimate, estimate - high)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.nan_to_num(np.where(error > 0, beyond / error, 0.0), nan=0.0, posinf=0.0)
        cutoff = float(normal_upper_quantile(TEST_LEVEL / z.size))
        flagged = np.flatnonzero((z > cutoff).any(axis=0))
        return self.found(
            not flagged.size,
            float(z.max()),
            cutoff,
            f"{flagged.size} quantities went too far and came back, so errors did not shrink steadily in this run, as bounds need",
        )
