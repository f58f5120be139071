"""Quantiles by a distribution function that is known better than the draws alone tell it.

Such a function is estimated at one draw at a time. The first estimate tells about where it is p; two more, at a draw on either side of
there, make a line on the normal scale, on which distribution functions bend least, and the line tells the quantile.
"""

from collections.abc import Callable

import numpy as np

from .distributions import Ordered, normal_quantile, ordered
from .interval import Interval

FURTHEST = 6.0  # standard errors of the draws' own share, beyond which something else is wrong
APART = 1.5  # standard errors of the draws' own share, at least, from the quantile to either draw


def window_around(values: np.ndarray, p: float, error: float) -> Ordered:
    """The draws in order as far from p as `solved` may look."""
    count, reach = len(values), 2 * FURTHEST * error
    return ordered(values, max(int(count * (p - reach)), 1), min(int(np.ceil(count * (p + reach))) + 2, count))


def solved(
    window: Ordered, count: int, p: float, error: np.ndarray, share: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
) -> Interval:
    """Where the distribution function is p, and the ends of that; NaN where it cannot be told.

    `window` are those of `count` draws that lie around p. `share` takes the rank of a draw of each quantity and the draw itself, and
    returns what is estimated of the probability of at most that much, and the half-width of its interval. `error` is the standard
    error of the draws' own share (k,).
    """
    at_rank, last = window.at, window.first + len(window.values) - 1
    rank = np.full(window.values.shape[1], np.clip(int(np.ceil(count * p)), 1, count))
    estimate, half = share(rank, at_rank(rank))
    place = rank + count * (p - estimate)
    known = np.isfinite(place) & (np.abs(place / count - p) <= FURTHEST * error + 1 / count)
    place, away = np.where(known, place, rank), np.maximum(np.nan_to_num(count * np.maximum(half, APART * error), posinf=0.0), 1.0)
    low = np.clip(np.floor(place - away), window.first, last - 2).astype(int)
    high = np.clip(np.ceil(place + away), low + 1, last - 1).astype(int)
    below, above = at_rank(low), at_rank(high)
    (low_level, low_half), (high_level, high_half) = share(low, below), share(high, above)
    half = np.maximum(low_half, high_half)
    with np.errstate(invalid="ignore", divide="ignore"):
        start, end = (normal_quantile(np.clip(level, 0.0, 1.0)) for level in (low_level, high_level))
        slope = np.where(known & (end > start) & (above > below), (above - below) / (end - start), np.nan)
        wanted = (np.clip(p + part, 0.0, 1.0) for part in (0.0, -half, half))
        return Interval(*(below + slope * (normal_quantile(level) - start) for level in wanted))
