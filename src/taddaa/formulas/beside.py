"""Functionals of a normal distribution's draws, each quantity judged beside a linear one whose law is known.

Along the direction in which a quantity changes most, the draws are standard normal: t. So the means of Hermite polynomials of t, and
of 1{t ≤ c}, are known, and what the draws happen to have instead corrects the quantity by as much as it follows t. A quantity of one
coordinate alone, such as its exponential, is then known almost exactly. Arrays are (n, k); where `along` is NaN, so is the answer.
"""

from math import factorial

import numpy as np

from .crossfit import centre_and_half
from .distributions import normal_cdf, normal_quantile
from .interval import Interval
from .levels import solved, window_around

DEGREE = 4
FINEST = 0.5  # draws: a quantile is not known better than to the gap between so many


def mean_beside(values: np.ndarray, along: np.ndarray, level: float) -> Interval:
    centre, half = centre_and_half(_left(values, along), level)
    return Interval(centre, centre - half, centre + half)


def log_variance_beside(values: np.ndarray, along: np.ndarray, level: float) -> Interval:
    """The logarithm of the second moment about the corrected mean; delta method."""
    square, half = centre_and_half(_left((values - _left(values, along).mean(axis=0)) ** 2, along), level)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre, half = np.log(square), half / square
    return Interval(centre, centre - half, centre + half)


def quantile_beside(values: np.ndarray, p: float, along: np.ndarray, level: float) -> Interval:
    """Where the distribution function, corrected by the share of t at or below the draw of the same rank, is p."""
    count, z, error = len(values), normal_quantile((1 + level) / 2), np.sqrt(p * (1 - p) / len(values))
    window, along_window = (window_around(part, p, error) for part in (values, along))

    def share(rank: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        c = along_window.at(rank)
        below, beside = values <= at, along <= c
        a, b, both, known = below.mean(axis=0), beside.mean(axis=0), (below & beside).mean(axis=0), normal_cdf(c)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.nan_to_num((both - a * b) / (b * (1 - b)))
            spread = np.maximum(a * (1 - a) - slope * (both - a * b), 0.0)
        return a - slope * (b - known), np.hypot(z * np.sqrt(spread / count), FINEST / count)

    return solved(window, count, p, np.full(values.shape[1], error), share)


def _left(values: np.ndarray, along: np.ndarray) -> np.ndarray:
    """What is left of a quantity without Hermite polynomials of t; its mean is the quantity's own."""
    middle = values.mean(axis=0)
    left, before, now = values - middle, np.ones_like(along), along
    for degree in range(1, DEGREE + 1):
        left = left - np.mean(left * now, axis=0) / factorial(degree) * now
        before, now = now, along * now - degree * before
    return middle + left
