"""Against scipy.stats, which a plain diagnosis does not import."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from taddaa.formulas import distributions as ours

PROBABILITIES = np.array([1e-8, 1e-4, 0.025, 0.3, 0.5, 0.75, 0.975, 0.9999])
DEGREES = [0.7, 1, 2.5, 10, 386, 5000, 1e10]


def test_normal():
    np.testing.assert_allclose(ours.normal_quantile(PROBABILITIES), stats.norm.ppf(PROBABILITIES), rtol=1e-12)
    np.testing.assert_allclose(ours.normal_upper_quantile(PROBABILITIES), stats.norm.isf(PROBABILITIES), rtol=1e-12)
    assert ours.normal_cdf(1.0) == pytest.approx(stats.norm.cdf(1.0), rel=1e-14)
    x = np.linspace(-40, 40, 9)
    np.testing.assert_allclose(ours.normal_logpdf(x), stats.norm.logpdf(x), rtol=1e-14)


@pytest.mark.parametrize("df", DEGREES)
def test_t_and_chi2(df):
    np.testing.assert_allclose(ours.t_quantile(PROBABILITIES, df), stats.t.ppf(PROBABILITIES, df), rtol=1e-7, atol=1e-12)
    x = np.array([-1e6, -3.0, 0.0, 0.1, 50.0])
    np.testing.assert_allclose(ours.t_logpdf(x, df), stats.t.logpdf(x, df), rtol=1e-9)
    np.testing.assert_allclose(ours.chi2_quantile(PROBABILITIES, df), stats.chi2.ppf(PROBABILITIES, df), rtol=1e-9)
    np.testing.assert_allclose(ours.chi2_upper_quantile(PROBABILITIES, df), stats.chi2.isf(PROBABILITIES, df), rtol=1e-9)


@pytest.mark.parametrize("p", [1e-4, 0.05, 0.5, 0.95, 0.999])
def test_binomial_quantiles(p):
    level, n = np.meshgrid([1e-9, 2.4e-5, 0.025, 0.4, 0.975, 1 - 2.4e-5, 1 - 1e-9], [10, 97, 194, 387, 3104, 20_000, 10**6])
    np.testing.assert_array_equal(ours.binomial_quantile(level, n, p), stats.binom.ppf(level, n, p))


@pytest.mark.parametrize("share", [0.0, 0.013, 0.1, 0.25])
def test_trimmed_mean(share):
    values = np.random.default_rng(0).standard_t(2, (101, 3))
    np.testing.assert_allclose(ours.trimmed_mean(values, share), stats.trim_mean(values, share, axis=0), rtol=1e-12)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 101), (40, 60), (101, 101)])
def test_order_statistics_of_a_window_are_those_of_all(low, high):
    values = np.random.default_rng(1).standard_t(2, (101, 3)).round(1)  # with ties
    window = ours.ordered(values, low, high)
    np.testing.assert_array_equal(window.values, np.sort(values, axis=0)[low - 1 : high])
    beyond = np.array([low - 5, (low + high) // 2, high + 5])
    expected = np.sort(values, axis=0)[np.clip(beyond, low, high) - 1, np.arange(3)]
    np.testing.assert_array_equal(window.at(beyond), expected)


def test_ranks():
    rng = np.random.default_rng(0)
    values = np.stack([rng.standard_normal(50), rng.integers(0, 5, 50), np.zeros(50), np.full(50, np.inf), rng.standard_normal(50)], axis=1)
    values[3, 4] = np.nan
    np.testing.assert_array_equal(ours.ranks(values), stats.rankdata(values, axis=0))
    np.testing.assert_array_equal(ours.ranks(values[:, 1]), stats.rankdata(values[:, 1]))
    expected = stats.spearmanr(values[:, 0], values[:, 1]).statistic
    assert ours.rank_correlation(values[:, 0], values[:, 1]) == pytest.approx(expected, rel=1e-12)


def test_a_diagnosis_imports_no_scipy_stats_no_scipy_optimize_and_no_pandas():
    """They take longer than many a diagnosis."""
    script = """
import sys, jax.numpy as jnp, numpy as np, taddaa
asked = [taddaa.Mean(), taddaa.Variance(), taddaa.Quantile(0.9)]
report = taddaa.diagnose(lambda x: -0.5 * jnp.sum(x**2), taddaa.Gaussian(np.zeros(2), np.ones(2)), asked)
str(report), report.headline
from taddaa.moves.straighten import learn_bend
z = np.random.default_rng(0).standard_normal((400, 6))
x = np.concatenate([z[:, :1], np.exp(z[:, :1]) * z[:, 1:]], axis=1)  # a funnel
pull = np.exp(-2 * x[:, :1])
assert learn_bend(x, np.concatenate([-x[:, :1] - 5 + pull * np.sum(x[:, 1:] ** 2, axis=1, keepdims=True), -pull * x[:, 1:]], axis=1))
assert not {"scipy.stats", "scipy.optimize", "pandas", "matplotlib"} & set(sys.modules), sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
