"""The tail index, and what is added for tails not seen, against what is known of Student's t, of Pareto and of light tails."""

import numpy as np
import pytest

from taddaa.formulas.interval import log_variance_bonett, with_unseen_tail
from taddaa.formulas.tail import beyond_the_farthest, tail_index


@pytest.mark.parametrize("df", [1.0, 2.0, 4.0])
def test_tail_index_of_student_is_one_over_its_degrees_of_freedom(df):
    draws = np.random.default_rng(1).standard_t(df, (100_000, 3))
    np.testing.assert_allclose(tail_index(draws, share=0.01), 1 / df, atol=0.12)


def test_tail_index_of_light_tails_is_small():
    rng = np.random.default_rng(2)
    assert np.all(tail_index(rng.standard_normal((4000, 3))) < 0.2)
    assert np.all(tail_index(rng.uniform(size=(4000, 3))) < 0.0)


def test_beyond_the_farthest_is_the_mean_excess_of_a_pareto_tail():
    """E[y − m; y > m] = P(y > m) m ξ/(1 − ξ), with the probability of what 100 chains all miss: (1 − p)^100 = α/2."""
    averages = np.r_[10.0, np.zeros(99)][:, None] - 0.1  # the farthest is 9.9 from the mean, which is zero
    missed = np.log(2 / 0.01) / 100
    np.testing.assert_allclose(beyond_the_farthest(averages, 0.5, 0.99), 9.9 * missed)
    np.testing.assert_allclose(beyond_the_farthest(averages, 0.75, 0.99), 3 * 9.9 * missed)
    assert beyond_the_farthest(averages, -0.2, 0.99) == 0
    assert np.isfinite(beyond_the_farthest(averages, 1.5, 0.99))


@pytest.mark.parametrize(("df", "most"), [(3.0, 0.04), (5.0, 0.008)])
def test_variances_of_heavy_tails_err_upward(df, most):
    """1,000 samples of 194 draws at 99.75 %: Bonett's upper end is under the variance of t₃ in 7 % of them, of t₅ in 0.9 %."""
    draws, level = np.random.default_rng(3).standard_t(df, (194, 1, 1000)), 0.9975
    plain, truth = log_variance_bonett(draws, level), np.log(df / (df - 2))
    found = with_unseen_tail(plain, draws, level)
    assert np.mean(found.upper < truth) < most < np.mean(plain.upper < truth)
    np.testing.assert_array_equal((found.estimate, found.lower), (plain.estimate, plain.lower))


@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_variances_of_light_tails_hardly_widen(law):
    draws = getattr(np.random.default_rng(4), law)(size=(194, 1, 300))
    plain = log_variance_bonett(draws, 0.9975)
    assert np.median(with_unseen_tail(plain, draws, 0.9975).upper - plain.upper) < 0.06 * np.median(plain.upper - plain.lower)
