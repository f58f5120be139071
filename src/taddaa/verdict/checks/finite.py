"""Is the log density a number where chains go?"""

import numpy as np

from .check import Check, Checker, Silences
from .run import Run

NONFINITE_SHARE = 0.25


class FiniteProposals(Checker):
    """Proposals whose log density or gradient was NaN or infinite, over all iterations; and chains that never left such a start."""

    name = "finite proposals"
    question = "How many proposals met a NaN or infinite log density?"
    detail = "A NaN or infinite gradient counts too."
    measures = "share of proposals without a finite density"
    should_be = "below 25 %, and every chain has found the support"
    remedy = "Look at the log density where it is NaN or infinite; move bounded parameters to an unbounded scale."
    silences = Silences.RUN

    def examine(self, run: Run) -> Check:
        share = run.walk.nonfinite_share
        lost = int(np.sum(~np.isfinite(run.walk.engine.host(run.walk.chains.point.logdensity))))
        message = f"{share:.0%} of the proposals had a NaN or infinite log density or gradient"
        if lost:
            message = f"{lost} chains started where the log density is not finite and never found its support"
        passed = share < NONFINITE_SHARE and not lost
        return self.found(passed, share, NONFINITE_SHARE, message, more_iterations=lost > 0)
