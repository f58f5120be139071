"""The first look: right values estimated at draws of the approximation itself, without a chain. Estimates, never bounds.

Where the log density is nearly quadratic, a quantity is nearly a constant plus Stein features (see `stein`), wherever its draws come
from, and the constant is its mean under the posterior. Only what the features leave unexplained depends on where the draws are, so
that is how far an estimate can be off, if the posterior is much like what the draws see of it. Three things say so, and each catches
what the others miss: how much is left unexplained, whether two halves of the draws agree, and how far the log density bends away
from a quadratic between the draws and the posterior's estimated centre (funnels, starts far away).
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..formulas.crossfit import regress
from ..formulas.distributions import middle_spread
from .stein import OWN, features_of

if TYPE_CHECKING:
    from .sharpening import Evidence

LOOKED_AT = 400  # draws; more explain little more
LEAST = 40  # of them with a finite log density and gradient
SHIFTED = 0.5  # of its spread, by which the mean of what is unexplained is expected to differ between the draws and the posterior
NEARLY_STRAIGHT = 0.3  # nats, up to which draws of the approximation are enough
MOST_BENT = 2.4  # nats. Measured: up to 2.3 where estimates are right, from 2.5 where many are not
MOST_OUTSIDE = 0.01  # of the draws, without a log density
SAME = 1e-9  # of the largest, up to which gradients do not vary


class Look(NamedTuple):
    """Of each quantity (k,): its estimated mean and log variance, and by how much these may be off.

    `mean_doubt` is in estimated standard deviations, `variance_doubt` in log variance; `bent` is in nats.
    """

    mean: np.ndarray
    log_variance: np.ndarray
    mean_doubt: np.ndarray
    variance_doubt: np.ndarray
    bent: float

    @property
    def astray(self) -> bool:
        """Whether the posterior is too unlike what the draws see of it for any estimate to be believed."""
        return not self.bent <= MOST_BENT


def first_look(values: np.ndarray, logdensity: np.ndarray, evidence: "Evidence") -> Look:
    """From the quantities (n, k), the log density (n,) and the evidence at draws of the approximation."""
    bent = bending(evidence.positions[:, 0], evidence.gradients[:, 0], logdensity, evidence.metric)
    spread = values.std(axis=0)
    unit, middle = np.where(spread > 0, spread, 1.0), values.mean(axis=0)
    scaled = (values - middle) / unit
    features = features_of(evidence.projection(np.arange(values.shape[1])))[..., :OWN]
    usable = np.isfinite(features).all(axis=(0, 2)) & np.isfinite(scaled).all(axis=0)
    scaled, features = np.where(usable, scaled, 0.0), np.where(usable[:, None], features, 0.0)
    left = regress(scaled, features, evidence.kernel).remainders
    centre = left.mean(axis=0)
    left_of_squares = regress((scaled - centre) ** 2, features, evidence.kernel).remainders
    variance = left_of_squares.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(usable & (variance > 0), variance, np.nan)
        return Look(
            middle + unit * np.where(usable, centre, np.nan),
            np.log(variance) + 2 * np.log(unit),
            _doubt(left) / np.sqrt(variance),
            _doubt(left_of_squares) / variance,
            bent,
        )


def holds(logdensity: np.ndarray, gradients: np.ndarray) -> bool:
    """Whether Stein's identity may: not at an edge of the support, nor for a density that along a coordinate is flat, or exponential."""
    outside = np.mean(~np.isfinite(logdensity))
    return bool(outside <= MOST_OUTSIDE and np.all(gradients.std(axis=0) > SAME * np.abs(gradients).max(axis=0)))


def bending(positions: np.ndarray, gradients: np.ndarray, logdensity: np.ndarray, metric) -> float:
    """How far log π is from quadratic on the way from its estimated centre m to the draws: the spread of log π − (x − m)·∇log π/2.

    For a quadratic it is constant, whatever its curvature. m is the median of x + G∇log π, which for a Gaussian is its mean.
    """
    centre = np.median(positions + np.asarray(metric.push(metric.pull(gradients))), axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        rest = logdensity - np.sum((positions - centre) * gradients, axis=1) / 2
        return middle_spread(rest)


def _doubt(left: np.ndarray) -> np.ndarray:
    """Half the spread of what is unexplained, or the difference between halves of the draws (the regression's own folds)."""
    halves = np.abs(left[::2].mean(axis=0) - left[1::2].mean(axis=0))
    return np.maximum(SHIFTED * left.std(axis=0), halves)
