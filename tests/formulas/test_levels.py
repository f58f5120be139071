"""Quantiles from a better distribution function."""

import numpy as np
from scipy import stats

from taddaa.formulas.distributions import Ordered
from taddaa.formulas.levels import solved, window_around


def test_the_true_distribution_function_gives_the_true_quantile():
    ordered = np.sort(np.random.default_rng(0).standard_normal((2000, 3)) * [1, 2, 5], axis=0)
    exact = lambda rank, at: (stats.norm.cdf(at, scale=[1, 2, 5]), np.full(3, 0.01))  # noqa: E731
    found = solved(Ordered(1, ordered), 2000, 0.2, np.full(3, 0.009), exact)
    np.testing.assert_allclose(found.estimate, stats.norm.ppf(0.2, scale=[1, 2, 5]), rtol=2e-3)
    # Slopes come from the draws, and so vary by a few tenths.
    np.testing.assert_allclose(found.lower - found.estimate, stats.norm.ppf(0.19, scale=[1, 2, 5]) - found.estimate, rtol=0.5)
    np.testing.assert_allclose(found.upper - found.estimate, stats.norm.ppf(0.21, scale=[1, 2, 5]) - found.estimate, rtol=0.5)


def test_an_absurd_distribution_function_is_not_believed_and_one_too_wide_has_no_ends():
    ordered = np.sort(np.random.default_rng(1).standard_normal((500, 1)), axis=0)
    assert np.isnan(solved(Ordered(1, ordered), 500, 0.5, np.array([0.02]), lambda rank, at: (np.array([0.9]), np.array([0.01]))).estimate)
    wide = solved(Ordered(1, ordered), 500, 0.05, np.array([0.01]), lambda rank, at: (rank / 500, np.array([0.06])))
    assert wide.lower == -np.inf and np.isfinite(wide.upper)


def test_a_window_around_the_quantile_tells_as_much_as_all_draws_in_order():
    draws = np.random.default_rng(2).standard_normal((20_000, 3)) * [1, 2, 5]
    cdf = lambda rank, at: (stats.norm.cdf(at, scale=[1, 2, 5]), np.full(3, 0.001))  # noqa: E731
    for p in (0.001, 0.05, 0.5, 0.99):
        error = float(np.sqrt(p * (1 - p) / 20_000))
        window = window_around(draws, p, error)
        assert len(window.values) < 4000
        whole = solved(Ordered(1, np.sort(draws, axis=0)), 20_000, p, np.full(3, error), cdf)
        np.testing.assert_array_equal(solved(window, 20_000, p, np.full(3, error), cdf), whole)
