"""Does the kernel explore?"""

import numpy as np

from .check import MORE_TIME, Check, Checker, Silences
from .run import Run

NEARLY = 0.9  # of the longest step that a kernel takes: then it is not short because it has yet to grow


class Acceptance(Checker):
    """The mean acceptance of the round's last quarter against where theory wants it."""

    name = "acceptance"
    question = "Were about as many proposals accepted as theory wants?"
    measures = "share of proposals accepted"
    should_be = "between half of what theory wants and half way from it to all (or more, with steps as long as they may be)"
    remedy = MORE_TIME
    silences = Silences.WITHOUT_BOUND
    more_iterations = True

    def examine(self, run: Run) -> Check:
        kernel = run.walk.engine.kernel
        target, mean = kernel.target_acceptance, float(run.walk.traces[-1].acceptance.mean())
        long = np.exp(np.mean(run.walk.engine.host(run.walk.chains.log_step))) >= NEARLY * kernel.longest_step
        low, high = target / 2, 1.0 if long else (1 + target) / 2
        word = "too many" if mean < low else "too few"
        return self.found(
            low <= mean <= high,
            mean,
            high,
            f"{word} proposals were rejected ({mean:.0%} accepted, {target:.0%} wanted), so the chains explore badly",
            least=low,
        )
