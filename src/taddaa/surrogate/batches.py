"""From draws of the approximation to draws of the posterior: a surrogate is learnt, drawn from, and its draws' gradients teach the next."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..formulas.distributions import middle_spread
from .learn import learnt
from .marginal import Drawn, Marginal
from .recentre import Recentring
from .terms import Surrogate

MOST_DIM = 300  # dense matrices are factorised thousands of times
SHARES = (0.4, 0.2, 0.2, 0.2)  # of the gradients, at the approximation's draws and in each batch
LEAST_WEIGHT = 1e-3  # of draws where the posterior is not, because the surrogate was wrong there
OLDER = 0.5  # the weight of a batch's gradients against those of the next
FOLLOWS = 0.3  # residuals at new draws, as a part of the slopes' spread, from which a surrogate is given up
INSIDE = 0.9  # of its draws, that must have a log density
LEAST_WORTH = 0.1  # of the drivers' points, that a surrogate's weights must be worth
REACH, LAST_REACH = 2.0, 0.5  # by how much the logarithm of a scale may go beyond what gradients have seen, and the last time,
RIGHT = 0.1  # unless the one before was right to so many nats
DRAWS = 8000

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Posterior(NamedTuple):
    """Draws of the last surrogate; and how much the log density at the last batch's draws differed from what the one before said of it."""

    draws: np.ndarray
    worth: float  # so many independent draws of the drivers
    probes: np.ndarray
    off: np.ndarray  # in nats, up to a constant; −∞ outside the support


def sizes(gradients: int) -> list[int]:
    """Of the batches that so many gradients pay for."""
    later = [round(share * gradients) for share in SHARES[1:]]
    return [gradients - sum(later), *later]


def followed(
    evaluate: Evaluate, x: np.ndarray, values: np.ndarray, gradients: np.ndarray, later: list[int], rng: np.random.Generator
) -> Posterior | None:
    """From draws of the approximation with their gradients, and batches of so many more; None where surrogates do not keep up."""
    usable = _usable(values, gradients)
    way = Recentring.found(x[usable], gradients[usable])
    seen, _, slopes = way.inward(x[usable], values[usable], gradients[usable])
    weights = np.ones(len(seen))
    surrogate: Surrogate | None = None
    probes = off = np.zeros(0)
    for number, size in enumerate([*later, DRAWS]):
        last = number == len(later)
        reach = LAST_REACH if last and middle_spread(off) > RIGHT else REACH
        drawn, surrogate = _drawn(_learnt(seen, slopes, weights, surrogate, way), surrogate, size, rng, reach, last)
        if drawn is None or surrogate is None:
            return None
        if last:
            return Posterior(way.outward(drawn.x), drawn.worth, way.outward(probes), off)
        inside = way.outward(drawn.x)
        _, values, gradients = way.inward(inside, *evaluate(inside))
        usable = _usable(values, gradients)
        if usable.mean() < INSIDE:
            return None
        probes, there, new = drawn.x, drawn.x[usable], gradients[usable]
        residual = np.sqrt(np.mean((surrogate.gradient(there) - new) ** 2, axis=0))
        off = np.where(usable, values - surrogate.value(probes), -np.inf)
        off -= np.median(off)
        if not np.median(residual / (new.std(axis=0) + 1e-300)) < FOLLOWS:
            return None
        seen, slopes = np.concatenate([seen, there]), np.concatenate([slopes, new])
        weights = np.concatenate([OLDER * weights, np.clip(np.exp(np.minimum(off[usable], 0.0)), LEAST_WEIGHT, 1.0)])
    raise AssertionError("the last number of draws is that of the end")


def _learnt(x: np.ndarray, gradients: np.ndarray, weights: np.ndarray, before: Surrogate | None, way: Recentring) -> Surrogate | None:
    """None where coefficients cannot be told apart, or scales have no drivers, so that draws of the approximation say as much."""
    try:
        found = learnt(x, gradients, weights, before, way.parts(x.shape[1]))
    except np.linalg.LinAlgError:
        return None
    return found if len(found.drivers) else None


def _drawn(
    new: Surrogate | None, before: Surrogate | None, size: int, rng: np.random.Generator, reach: float, last: bool
) -> tuple[Drawn | None, Surrogate | None]:
    """Draws of the new surrogate; of the one before where few points have all the weight, as where it peaks beside what it knows."""
    for surrogate in (new, before):
        if surrogate is not None:
            drawn = Marginal(surrogate).draw(size, rng, reach, last)
            if drawn.worth > LEAST_WORTH * drawn.points:
                return drawn, surrogate
    return None, None


def _usable(values: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    return np.isfinite(values) & np.isfinite(gradients).all(axis=1)
