"""The few distributions and rank statistics that every diagnosis needs, from scipy.special.

scipy.stats has them all, but takes longer to import than many a diagnosis runs; the tests compare with it. scipy.special is loaded
when first used, since a stored report is shown without it.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)


@cache
def _special():
    from scipy import special

    return special


def normal_cdf(x):
    return _special().ndtr(x)


def normal_quantile(p):
    return _special().ndtri(p)


def middle_spread(values) -> float:
    """The standard deviation of a normal distribution with the same 10 % and 90 % quantiles: a few values far away change nothing."""
    low, high = np.quantile(values, [0.1, 0.9])
    return float((high - low) / (2 * normal_quantile(0.9)))


def normal_upper_quantile(tail):
    """What is exceeded with probability `tail`."""
    return -_special().ndtri(tail)


def scaled_erfc(x):
    """e^{x²} erfc(x)."""
    return _special().erfcx(x)


def normal_logpdf(x):
    return -0.5 * np.square(x) - LOG_ROOT_TWO_PI


def t_quantile(p, df):
    return _special().stdtrit(df, p)


def t_logpdf(x, df):
    constant = np.log(_special().poch(df / 2, 0.5)) - 0.5 * np.log(np.pi * df)  # two gammaln would cancel at large df
    return constant - (df + 1) / 2 * np.log1p(np.square(x) / df)


def chi2_quantile(p, df):
    return 2 * _special().gammaincinv(df / 2, p)


def chi2_upper_quantile(tail, df):
    """What is exceeded with probability `tail`."""
    return 2 * _special().gammainccinv(df / 2, tail)


def binomial_quantile(q, n, p):
    """The smallest number of successes that at most so many have with probability q or more."""
    special = _special()
    found = np.ceil(special.bdtrik(q, n, p))  # of a continuous curve through the distribution function, so it may be one too many
    one_less = np.maximum(found - 1, 0)
    return np.where(special.bdtr(one_less, n, p) >= q, one_less, found)


def trimmed_mean(values: np.ndarray, share: float) -> np.ndarray:
    """The mean of each column without this share of its values at either end."""
    cut = int(share * len(values))
    kept = np.partition(values, (cut, len(values) - cut - 1), axis=0)[cut : len(values) - cut]
    return kept.mean(axis=0)


class Ordered(NamedTuple):
    """The order statistics of each column whose ranks (from 1) lie in a window: all that a quantile near them needs."""

    first: int  # rank
    values: np.ndarray  # (ranks, k)

    def at(self, rank: np.ndarray) -> np.ndarray:
        """One of each column; of ranks outside the window the nearest inside."""
        return np.take_along_axis(self.values, np.clip(rank - self.first, 0, len(self.values) - 1)[None], axis=0)[0]


def ordered(values: np.ndarray, low: int, high: int) -> Ordered:
    """Those of ranks `low` to `high`, several times quicker than sorting all."""
    rows = np.partition(np.ascontiguousarray(values.T), (low - 1, high - 1), axis=1)[:, low - 1 : high]
    return Ordered(low, np.sort(rows, axis=1).T)


def ranks(values: np.ndarray) -> np.ndarray:
    """From 1 in each column; ties have the mean of their ranks, and a column with a NaN has only NaN."""
    order = np.argsort(values, axis=0)
    ordered = np.take_along_axis(values, order, axis=0)
    position = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
    same = ordered[1:] == ordered[:-1]
    end = np.zeros_like(same[:1])
    first = np.maximum.accumulate(np.where(np.concatenate([end, same]), 0, position), axis=0)
    last = np.minimum.accumulate(np.where(np.concatenate([same, end]), len(values), position)[::-1], axis=0)[::-1]
    found = np.empty(values.shape)
    np.put_along_axis(found, order, (first + last) / 2 + 1, axis=0)
    return np.where(np.isnan(ordered[-1:]), np.nan, found)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])
