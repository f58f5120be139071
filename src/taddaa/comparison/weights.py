"""Importance weights w = p/q at draws of q, and what they say at once: the Pareto k-hat of Vehtari et al. (2024), and the ELBO."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..chains.machine.engine import Engine
from ..chains.machine.meter import Meter
from ..errors import InputError, require, whole_seed
from ..problem.approximation import Approximation, as_approximation
from ..problem.drawn import drawn
from ..problem.target import Target, as_target
from ..settings import Settings

WEIGHT_DRAWS = 10_000
MOST_NUMBERS = 40_000_000  # draws × dimension, at most
UNDERFLOW = -700.0  # a log weight, relative to the largest, that is 0 as a number


class Weights(NamedTuple):
    """Draws of q and their log weights log p − log q, p unnormalised."""

    draws: np.ndarray
    log_weights: np.ndarray


def k_hat(target: Target | Callable, approximation: Approximation | Any, seed: int = 0, *, draws: int = WEIGHT_DRAWS) -> float:
    """The Pareto k-hat of the importance weights p/q: above 0.7, q misses so much of p that weights cannot mend it.

    It judges the approximation as a whole, and needs its density (so not `taddaa.Draws`).

    Args:
        target: a `Target`, or a log density function of a flat vector.
        approximation: a `Gaussian`, `StudentT`, or a `Sampler` or distribution with a log density.
        seed: the same seed gives the same number.
        draws: how many draws of q.
    """
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 100:
        raise InputError(f"draws must be a whole number of at least 100, got {draws!r}")
    approximation, target = matched(target, approximation)
    found = weights_of(target, approximation, Settings(), seed, int(draws))
    if found is None:
        raise InputError(f"k-hat needs the approximation's log density, which {approximation.describe()} does not have")
    return smoothed(found.log_weights)[1]


def weights_of(target: Target, approximation: Approximation, settings: Settings, seed: int, count: int) -> Weights | None:
    """Weights at draws of q; a log density of NaN counts as −inf."""
    count = int(min(count, max(MOST_NUMBERS // target.dim, 100)))
    draws = drawn(approximation, np.random.default_rng([whole_seed(seed), 21]), count)
    own = approximation.logdensity(draws)
    if own is None:
        return None
    with jax.enable_x64(settings.precision == "float64"):
        target.check()
        engine = Engine(target, settings.kernel, settings.plan(target.dim).chains, seed, settings.precision, Meter(), settings.groups)
        value = np.asarray(engine.evaluate(draws)[0], float)
    value = np.where(np.isnan(value), -np.inf, value)
    if not np.any(np.isfinite(value)):
        raise InputError(
            f"logdensity is not finite at any of {count} draws of the approximation; do they use the same coordinates and support?"
        )
    return Weights(draws, value - own)


def elbo_of(log_weights: np.ndarray) -> float:
    return float(np.mean(log_weights))


def smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto-smoothed log weights, on the scale they had, and k-hat (arviz-stats expects the weights' negative).

    k-hat is −∞ where all weights are equal, and ∞ where a few draws hold so much of the weight that no tail can be fitted.
    """
    array_stats = require("arviz_stats.base", "compare").array_stats
    top = np.max(log_weights)
    if np.ptp(log_weights) < 1e-10 * max(1.0, abs(top)):
        return log_weights, -math.inf  # q is p: there is no tail
    tail = math.ceil(min(0.2 * len(log_weights), 3 * math.sqrt(len(log_weights))))  # the draws that k-hat is fitted to
    if np.sort(log_weights)[-(3 * tail) // 4] - top < UNDERFLOW:
        return log_weights, math.inf  # the fit would divide by weights that are 0, and give a harmless number
    normalised, k = array_stats.psislw(-(log_weights - top))
    # What is returned is normalised; the lower weights, which smoothing leaves alone, say by how much.
    normalised = np.asarray(normalised, float)
    finite = np.isfinite(log_weights)
    middle = finite & (log_weights <= np.median(log_weights[finite]))
    shift = np.median(log_weights[middle] - normalised[middle])
    return normalised + shift, float(k)


def matched(target: Target | Callable, approximation: Approximation | Any) -> tuple[Approximation, Target]:
    approximation = as_approximation(approximation)
    target = as_target(target, approximation.dim)
    if target.dim != approximation.dim:
        raise InputError(f"target has dim = {target.dim}, but the approximation has dimension {approximation.dim}")
    return approximation, target
