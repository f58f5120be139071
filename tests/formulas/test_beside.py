"""Functionals of a normal's draws beside linear quantities of it: exact where they should be, and never falsely narrow."""

import numpy as np
import pytest
from scipy import stats

from taddaa.formulas.beside import log_variance_beside, mean_beside, quantile_beside
from taddaa.formulas.interval import log_variance_bonett, mean_interval, quantile_interval

COUNT, LEVEL = 4000, 0.99
# exp(x/2) and 3 x − 1 of one coordinate each; x₁ + exp(x₂/5) x₃ of three; x₄², which has no slope on average
SLOPES = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]]) / np.array([1, 1, np.sqrt(2), 1])[:, None]
MEANS = np.array([np.exp(1 / 8), -1.0, 0.0, 1.0])
LOG_VARIANCES = np.log([np.exp(1 / 4) * (np.exp(1 / 4) - 1), 9.0, 1 + np.exp(2 / 25), 2.0])


def draws(seed):
    x = np.random.default_rng(seed).standard_normal((COUNT, 5))
    values = np.stack([np.exp(x[:, 0] / 2), 3 * x[:, 1] - 1, x[:, 1] + np.exp(x[:, 2] / 5) * x[:, 3], x[:, 4] ** 2], axis=1)
    return values, x @ SLOPES.T


def third_quantile(p):
    """Of x₁ + exp(x₂/5) x₃, by numerical integration over x₂."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    sd = np.sqrt(1 + np.exp(nodes * 2 / 5))
    cdf = lambda c: np.sum(weights * stats.norm.cdf(c / sd)) / weights.sum()  # noqa: E731
    low, high = -10.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle) < p else (low, middle)
    return low


def test_coverage():
    misses = np.zeros((3, 4))
    quantiles = np.array([np.exp(stats.norm.ppf(0.05) / 2), 3 * stats.norm.ppf(0.05) - 1, third_quantile(0.05), stats.chi2.ppf(0.05, 1)])
    for seed in range(150):
        values, along = draws(seed)
        found = (mean_beside(values, along, LEVEL), log_variance_beside(values, along, LEVEL), quantile_beside(values, 0.05, along, LEVEL))
        for row, (interval, truth) in enumerate(zip(found, (MEANS, LOG_VARIANCES, quantiles), strict=True)):
            misses[row] += (interval.lower > truth) | (interval.upper < truth)
    assert misses.max() <= 7, misses  # 1.5 expected; over 7 has a probability of 1e-4


def test_one_coordinate_is_known_almost_exactly_and_three_better_than_plainly():
    values, along = draws(1)
    width = lambda interval: interval.upper - interval.lower  # noqa: E731
    gain = [
        width(mean_interval(values[:, None], LEVEL)) / width(mean_beside(values, along, LEVEL)),
        width(log_variance_bonett(values[:, None], LEVEL)) / width(log_variance_beside(values, along, LEVEL)),
        width(quantile_interval(values[:, None], 0.05, LEVEL)) / width(quantile_beside(values, 0.05, along, LEVEL)),
    ]
    assert np.min(gain, axis=0)[1] > 6  # linear: exact but for rounding, gaps and the coefficients' own noise
    assert gain[0][0] > 10 and gain[2][0] > 6
    assert np.all(np.array(gain)[:, 2] > 1.4)


def test_a_direction_that_says_nothing_neither_helps_nor_harms():
    values, _ = draws(2)
    other = np.random.default_rng(3).standard_normal(values.shape)
    plain, beside = mean_interval(values[:, None], LEVEL), mean_beside(values, other, LEVEL)
    np.testing.assert_allclose(beside.upper - beside.lower, plain.upper - plain.lower, rtol=0.15)
    assert np.all(np.isnan(quantile_beside(values, 0.5, np.full_like(values, np.nan), LEVEL).estimate))


@pytest.mark.parametrize("p", [0.05, 0.5, 0.99])
def test_quantiles_of_a_normal_itself(p):
    _, along = draws(4)
    found = quantile_beside(along, p, along, LEVEL)
    np.testing.assert_allclose(found.estimate, stats.norm.ppf(p), atol=3 / COUNT / stats.norm.pdf(stats.norm.ppf(p)))


def test_discrete_quantities_are_not_sharpened_to_between_their_values():
    _, along = draws(5)
    found = quantile_beside(np.round(along), 0.5, along, LEVEL)
    assert np.all((found.lower <= 0) & (found.upper >= 0) | np.isnan(found.estimate))
