"""The first look where draws of the approximation see too little: from draws that went after the posterior. Estimates, never bounds.

The draws are those of a surrogate of the log density that has been learnt from gradients, and how far it may be off is known from
the draws of the surrogate before: there the target's own log density was evaluated. Weights make of those draws of the posterior, and if
the last is off by as much, each estimate is off by its covariance with these weights, at most by the product of both spreads.
"""

from dataclasses import dataclass

import numpy as np

from ..formulas.distributions import middle_spread
from ..problem.functional import Quantile, Variance
from .questions import RowGroup

MOST_OFF = 1.0  # nats: from there on so few weighted draws say too little
MOST_LOG_WEIGHT = 2.0
CHANCE = 1.0  # standard errors, by which the correlation of so few draws may be too small
NEAR = 0.25  # standard deviations, within which draws show the density at a quantile
LEAST_DENSITY = 0.02  # in standard deviations


@dataclass(frozen=True)
class FollowedLook:
    """Quantities at draws of the surrogate (n, k) and at those of the one before (m, k), and what that was off there in nats (m,)."""

    values: np.ndarray
    probed: np.ndarray
    off: np.ndarray
    worth: float  # so many independent draws

    @property
    def bent(self) -> float:
        """Without the few draws that are nowhere: their weights are nothing, and that counts as what it is."""
        return middle_spread(self.off)

    @property
    def astray(self) -> bool:
        return not self.bent <= MOST_OFF

    def __call__(self, group: RowGroup, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of a group's rows: the estimate on the movement's scale, what errors are measured in, and the doubt in that unit."""
        functional, values, probed = group.functional, self.values[:, group.columns], self.probed[:, group.columns]
        with np.errstate(all="ignore"):  # what is not finite is doubtful
            estimate, sd = functional.estimate(values), values.std(axis=0)
            unit = functional.unit(sd)
            slope = 1 / (sd**2 if isinstance(functional, Variance) else np.where(unit > 0, unit, np.nan))
            if isinstance(functional, Quantile):
                density = np.mean(np.abs(values - estimate) < NEAR * sd, axis=0) / (2 * NEAR)
                slope = 1 / np.maximum(density, LEAST_DENSITY)
            score = functional.score(probed[:, None], values)[:, 0]
            weights = np.exp(np.minimum(self.off - np.median(self.off), MOST_LOG_WEIGHT))
            away, off = score - score.mean(axis=0), weights / weights.mean() - 1
            spread = np.maximum(away.std(axis=0), functional.score(values[:, None], values)[:, 0].std(axis=0))
            correlation = np.abs(away.T @ off) / (len(off) * spread * off.std() + 1e-300)
            may_be = np.minimum(correlation + CHANCE / np.sqrt(len(off)), 1.0) * off.std()
            doubt = slope * spread * (may_be + 1 / np.sqrt(self.worth))
        return estimate, unit, doubt
