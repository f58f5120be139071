"""Confidence intervals for functionals, from many independent chains, and the bound that follows from one.

Arrays have shape (N, W, k): N independent chains, W late states of each, k quantities at once. With W = 1 these are the
textbook intervals. With W > 1 the W states of a chain are averaged first, so that the N averages are independent and the
correlation within a chain costs width, not coverage. (Chains are independent given the metric and step sizes that they
share, and nearly so without: the paper's Theorem 1.) Plain SciPy in float64; nothing here knows names or samplers.
"""

from typing import NamedTuple

import numpy as np

from .distributions import binomial_quantile, chi2_quantile, normal_quantile, ordered, t_quantile, trimmed_mean
from .tail import beyond_the_farthest, square_tail

WORTHWHILE = 0.9  # of the plain width, or the plain interval stays
MOST_EXCESS = 2.0  # times as wide as the draws' own kurtosis says


class Interval(NamedTuple):
    """An estimate and its two-sided confidence limits, each an array (k,)."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def exactly(value) -> Interval:
    """A functional known in closed form."""
    value = np.asarray(value, float)
    return Interval(value, value, value)


def joined(parts: list[Interval]) -> Interval:
    """One interval for the quantities of all parts."""
    return parts[0] if len(parts) == 1 else Interval(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def mean_interval(window: np.ndarray, level: float) -> Interval:
    """x̄ ± t_{N−1}(1−α/2) s/√N; exact for normal draws, and by the central limit theorem otherwise (section 3)."""
    averages = window.mean(axis=1)
    count = len(averages)
    half = t_quantile((1 + level) / 2, count - 1) * averages.std(axis=0, ddof=1) / np.sqrt(count)
    centre = averages.mean(axis=0)
    return Interval(centre, centre - half, centre + half)


def log_variance_chi2(window: np.ndarray, level: float) -> Interval:
    """log((N−1)s²/χ²_{N−1}(1−α/2)) to the same with χ²_{N−1}(α/2), from the last states; assumes normal draws (section 3)."""
    last = window[:, -1]
    count = len(last)
    with np.errstate(divide="ignore"):
        estimate = np.log(last.var(axis=0, ddof=1))
    upper, lower = (float(chi2_quantile(tail, count - 1)) for tail in ((1 - level) / 2, (1 + level) / 2))
    return Interval(estimate, estimate + np.log((count - 1) / lower), estimate + np.log((count - 1) / upper))


def log_variance_bonett(window: np.ndarray, level: float) -> Interval:
    """Bonett's (2006) interval: log(c s²) ± z c √((γ − (N−3)/N)/(N−1)), with the kurtosis γ about a trimmed mean, c = N/(N−z).

    Holds for draws with a finite fourth moment, normal or not. For W > 1 the squares of a chain are averaged first.
    """
    count, states = window.shape[:2]
    total = count * states
    flat = window.reshape(total, -1)
    trimmed = trimmed_mean(flat, min(0.25, 1 / (2 * np.sqrt(max(total - 4, 1)))))
    squares = ((window - flat.mean(axis=0)) ** 2).mean(axis=1)
    about_trimmed = ((window - trimmed) ** 2).mean(axis=1)
    mean_square = squares.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = (about_trimmed**2).mean(axis=0) / mean_square**2
        estimate = np.log(mean_square * total / (total - 1))
    z = normal_quantile((1 + level) / 2)
    small_sample = count / (count - z) if count > z else np.inf
    error = small_sample * np.sqrt(np.maximum(kurtosis - (count - 3) / count, 0) / (count - 1))
    centre = estimate + np.log(small_sample)
    return Interval(estimate, centre - z * error, centre + z * error)


def excess_width(window: np.ndarray, kurtosis: np.ndarray) -> np.ndarray:
    """How much wider Bonett's interval is with a known kurtosis than with the window's own, where that is smaller; from 1 to 2.

    Draws that happen to miss a heavy tail look light, and their interval is too narrow just when the estimate is too low.
    A tail that q has and the target has not must not widen it without limit.
    """
    flat = window.reshape(-1, window.shape[-1])
    squares = (flat - flat.mean(axis=0)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        own = (squares**2).mean(axis=0) / squares.mean(axis=0) ** 2
        return np.sqrt(np.clip(np.nan_to_num((kurtosis - 1) / (own - 1), nan=1.0, posinf=1.0), 1.0, MOST_EXCESS**2))


def with_unseen_tail(log_variance: Interval, window: np.ndarray, level: float) -> Interval:
    """The same, whose upper end reaches into the tail where no chain has been.

    Squares of heavy-tailed draws are rare and large: their mean is too low more often than not, and its interval too short above.
    """
    centre = window.mean(axis=(0, 1))
    squares = ((window - centre) ** 2).mean(axis=1)
    more = beyond_the_farthest(squares, square_tail(window, centre), level)
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_variance._replace(upper=np.logaddexp(log_variance.upper, np.log(more)))


def widened(interval: Interval, factor: np.ndarray) -> Interval:
    """The same estimate with limits `factor` times as far from it."""
    estimate, lower, upper = interval
    return Interval(estimate, estimate - factor * (estimate - lower), estimate + factor * (upper - estimate))


def narrower(plain: Interval, sharp: Interval) -> Interval:
    """The plain interval unless the other is worth while; never where that is NaN."""
    with np.errstate(invalid="ignore"):
        use = (sharp.upper - sharp.lower < WORTHWHILE * (plain.upper - plain.lower)) & np.isfinite(sharp.estimate)
    return Interval(*(np.where(use, new, old) for new, old in zip(sharp, plain, strict=True)))


def quantile_interval(window: np.ndarray, p: float, level: float) -> Interval:
    """Order statistics of ranks B(α/2, n, p) and B(1−α/2, n, p) + 1, B the binomial quantile: exact for any distribution.

    Where a rank falls outside 1..n the limit is infinite: so few draws say nothing there. For W > 1, n is the effective
    number of draws that the spread of the chains' own frequencies gives (as Korn and Graubard do for clustered samples).
    """
    count, states, columns = window.shape
    total = count * states
    flat, middle = window.reshape(total, columns), max(int(np.ceil(total * p)), 1)
    estimate = ordered(flat, middle, middle).values[0]
    # The larger of two spreads: with ties, all states may lie at or below the estimate.
    spread = np.maximum(*((relation(window, estimate)).mean(axis=1).var(axis=0, ddof=1) for relation in (np.less_equal, np.less)))
    with np.errstate(divide="ignore"):
        effective = p * (1 - p) / (spread / count)
    effective = np.clip(np.nan_to_num(effective, posinf=total), count, total).astype(int)
    low = binomial_quantile((1 - level) / 2, effective, p)
    high = binomial_quantile((1 + level) / 2, effective, p) + 1
    # The same fraction of all states, rounded outwards; for W = 1 the very ranks.
    low_rank = np.floor(low / effective * total + 1e-9).astype(int)
    high_rank = np.ceil(high / effective * total - 1e-9).astype(int)
    needed = ordered(flat, max(int(low_rank.min()), 1), min(max(int(high_rank.max()), 1), total))
    lower = np.where(low_rank >= 1, needed.at(low_rank), -np.inf)
    upper = np.where(high <= effective, needed.at(high_rank), np.inf)
    return Interval(estimate, lower, upper)


def covariance_interval(first: np.ndarray, second: np.ndarray, level: float) -> Interval:
    """The mean interval of the products (x − x̄)(y − ȳ), which the central limit theorem covers given fourth moments."""
    total = first.shape[0] * first.shape[1]
    products = (first - first.mean(axis=(0, 1))) * (second - second.mean(axis=(0, 1)))
    return mean_interval(products * (total / (total - 1)), level)


def movement(moved: Interval, reference: Interval) -> Interval:
    """The interval of F(moved) − F(q) from an interval for each (Zou and Donner 2008; they need not be symmetric).

    A reference known exactly has no width, and the moved functional's own interval is shifted.
    """
    change = moved.estimate - reference.estimate
    lower = change - np.hypot(moved.estimate - moved.lower, reference.upper - reference.estimate)
    upper = change + np.hypot(moved.upper - moved.estimate, reference.estimate - reference.lower)
    return Interval(change, lower, upper)


def bound(lower, upper) -> np.ndarray:
    """B = 0 if l ≤ 0 ≤ u, else min(|l|, |u|): the error is at least B with the interval's confidence (equation 3)."""
    lower, upper = np.asarray(lower), np.asarray(upper)
    return np.where((lower <= 0) & (upper >= 0), 0.0, np.minimum(np.abs(lower), np.abs(upper)))
