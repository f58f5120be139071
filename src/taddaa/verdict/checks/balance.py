"""Do the forces on the chains balance, as at the target?"""

import numpy as np

from ...formulas.distributions import normal_upper_quantile
from ...formulas.zscore import mean_z
from .check import MORE_TIME, TEST_LEVEL, Check, Checker, Silences
from .run import Run

STEIN_CUTOFF = 4.5  # standard errors; transit shows as 6 to 35


class GradientsBalance(Checker):
    """E ∇log π = 0 and E (x_i − m_i) ∂_i log π = −1 hold at the target; whitened, over the round's late states."""

    name = "gradients balance"
    question = "At the target the average force on the chains is zero. A large value means that they are still in transit."
    detail = "Not made where chains meet an edge of the support, where forces need not balance."
    measures = "standard errors of the average force"
    should_be = "below 4.5 standard errors"
    remedy = MORE_TIME
    silences = Silences.RUN
    more_iterations = True

    def applies(self, run: Run) -> bool:
        """Forces balance only where the density vanishes at the edge of its support."""
        return not run.walk.meets_an_edge

    def examine(self, run: Run) -> Check:
        snapshots = run.seen.snapshots
        late = snapshots[1:] if len(snapshots) > 1 else snapshots
        centre = np.mean([snapshot.positions.mean(axis=0) for snapshot in late], axis=0)
        force, virial = np.zeros_like(late[0].gradients), np.ones_like(late[0].gradients)
        for snapshot in late:
            force += snapshot.gradients / len(late)
            virial += (snapshot.positions - centre) * snapshot.gradients / len(late)
        statistics = np.concatenate([mean_z(force), mean_z(virial)])
        worst = float(np.nan_to_num(np.abs(statistics)).max())
        cutoff = max(STEIN_CUTOFF, float(normal_upper_quantile(TEST_LEVEL / 10 / len(statistics))))
        return self.found(
            worst < cutoff,
            worst,
            cutoff,
            "the chains are in transit: the average force on them is not zero, as it would be at the target",
        )
