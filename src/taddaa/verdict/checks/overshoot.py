"""Did errors shrink steadily?"""

import numpy as np

from ...formulas.distributions import normal_upper_quantile
from .check import MORE_TIME, TEST_LEVEL, Check, Checker, Silences
from .run import Run
from .settled import DRIFT, WIDESPREAD

QUARTERS = 4


class NoOvershoot(Checker):
    """Did a row, in the last round, stand outside the span between its start and where it ended?

    That is Condition 1 seen to fail, for it and for quantities that share variance with it; if for many, for the whole run.
    """

    name = "no overshoot"
    question = "Did a quantity go beyond where it ended, and come back? Bounds need errors that shrink steadily."
    detail = "The last round is looked at. It names quantities as the check *settled* does; all, if half of them went too far."
    measures = "standard errors beyond where it ended"
    should_be = "below the cutoff of a test at 5 % for all together"
    remedy = MORE_TIME
    silences = Silences.NAMED
    more_iterations = True

    def examine(self, run: Run) -> Check:
        reference = run.judgement.reference
        found = run.summaries
        if len(found) == 1:
            return self.found(True, 0.0, 0.0, "")
        # Quarters, so that one odd snapshot is not an overshoot; their errors are taken as if a quarter knew no more than one snapshot.
        quarters = [found[:1], *np.array_split(found[1:], min(QUARTERS, len(found) - 1))]
        *earlier, ended = [quarter.mean(axis=0) for quarter in quarters]
        estimate, error = np.moveaxis(np.array(earlier), 1, 0)
        error = np.hypot(error, ended[1])
        low, high = np.minimum(reference, ended[0]), np.maximum(reference, ended[0])
        beyond = np.maximum(low - estimate, estimate - high)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.nan_to_num(np.where(error > 0, beyond / error, 0.0), nan=0.0, posinf=0.0)
            z = np.where((beyond > DRIFT * run.judgement.unit) & ~run.momentless, z, 0.0)
        cutoff = float(normal_upper_quantile(TEST_LEVEL / z.size))
        beyond_end = np.any(z > cutoff, axis=0)
        everywhere = beyond_end.mean() > WIDESPREAD
        return self.found(
            not beyond_end.any(),
            float(z.max()),
            cutoff,
            "this quantity, or one it depends on, went too far and came back, so its error did not shrink steadily, as a bound needs",
            None if everywhere else np.flatnonzero(run.tied(np.asarray(beyond_end))),
            each=z.max(axis=0),
        )
