"""Approximations: samples and closed forms agree with each other and with SciPy; draws are handed out fairly."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from known import COVARIANCE
from taddaa import Draws, Gaussian, Sampler, StudentT
from taddaa.problem.approximation import as_approximation

MEAN = np.array([1.0, -2.0])


def everything():
    return {
        "mean-field": (Gaussian(MEAN, [0.5, 3.0]), stats.multivariate_normal(MEAN, np.diag([0.25, 9.0]))),
        "full": (Gaussian(MEAN, covariance=COVARIANCE), stats.multivariate_normal(MEAN, COVARIANCE)),
    }


@pytest.mark.parametrize("name", everything())
def test_gaussian_against_scipy(name):
    approximation, oracle = everything()[name]
    draws = approximation.sample(np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(draws.mean(axis=0), MEAN, atol=0.1)
    np.testing.assert_allclose(np.cov(draws, rowvar=False), oracle.cov, rtol=0.05, atol=0.1)
    np.testing.assert_allclose(approximation.logdensity(draws[:50]), oracle.logpdf(draws[:50]))
    np.testing.assert_array_equal(approximation.mean(), MEAN)
    covariance = approximation.covariance()
    np.testing.assert_allclose(np.diag(covariance) if covariance.ndim == 1 else covariance, oracle.cov)
    np.testing.assert_allclose(approximation.quantile(0.9), stats.norm.ppf(0.9, MEAN, np.sqrt(np.diag(oracle.cov))))


def test_student_against_scipy():
    loc, scale, df = np.array([0.0, 5.0]), np.array([1.0, 2.0]), np.array([3.0, 10.0])
    approximation = StudentT(loc, scale, df)
    draws = approximation.sample(np.random.default_rng(1), 20_000)
    for i in range(2):
        law = stats.t(df[i], loc[i], scale[i])
        assert stats.kstest(draws[:, i], law.cdf).pvalue > 1e-3
        assert approximation.mean()[i] == law.mean()
        assert approximation.covariance()[i] == pytest.approx(law.var())
        assert approximation.quantile(0.05)[i] == pytest.approx(law.ppf(0.05))
    expected = stats.t.logpdf(draws[:9], df, loc, scale).sum(axis=1)
    np.testing.assert_allclose(approximation.logdensity(draws[:9]), expected)


def test_moments_that_do_not_exist_are_nan():
    approximation = StudentT([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(np.isnan(approximation.mean()), [True, False, False])
    np.testing.assert_array_equal(np.isnan(approximation.covariance()), [True, True, False])
    assert StudentT([0.0, 1.0], [1.0, 1.0], 5).quantile(0.5)[1] == 1.0


def test_draws_are_used_once_before_any_is_used_again():
    draws = np.arange(60.0).reshape(30, 2)
    sample = Draws(draws).sample(np.random.default_rng(0), 75)
    assert len(np.unique(sample[:30], axis=0)) == len(np.unique(sample[30:60], axis=0)) == 30
    assert not np.array_equal(sample[:30], sample[30:60])
    few = Draws(draws).sample(np.random.default_rng(0), 12)
    assert len(np.unique(few, axis=0)) == 12
    assert not np.array_equal(few, draws[:12])  # in random order: rows of a Markov chain come sorted by time


def test_resampled_draws_are_warned_about():
    rows = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(UserWarning, match="only 80 of 100 draws are distinct, as after importance resampling"):
        Draws(np.concatenate([rows[:80], rows[:20]]))


def test_draws_know_no_closed_form():
    draws = Draws(np.random.default_rng(2).standard_normal((50, 3)))
    assert (draws.mean(), draws.covariance(), draws.quantile(0.5), draws.logdensity(draws.draws)) == (None,) * 4
    assert draws.describe() == "50 draws of dimension 3"


def test_sampler_passes_a_key_and_keeps_what_is_known():
    approximation = Sampler(
        lambda key, count: 2.0 + jax.random.normal(key, (count, 2)),
        2,
        lambda x: stats.norm.logpdf(x, 2.0).sum(axis=1),
        mean=[2.0, 2.0],
        covariance=[1.0, 1.0],
    )
    rng = np.random.default_rng(3)
    first, second = approximation.sample(rng, 1000), approximation.sample(rng, 1000)
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(first.mean(axis=0), 2.0, atol=0.15)
    np.testing.assert_allclose(approximation.logdensity(np.zeros((1, 2))), 2 * stats.norm.logpdf(2.0))
    np.testing.assert_array_equal(approximation.mean(), [2.0, 2.0])
    np.testing.assert_array_equal(approximation.covariance(), [1.0, 1.0])
    again = approximation.sample(np.random.default_rng(3), 1000)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize(
    "distribution",
    [
        dist.MultivariateNormal(jnp.asarray(MEAN), jnp.asarray(COVARIANCE)),
        dist.Normal(jnp.asarray(MEAN), jnp.ones(2)),
        dist.Normal(jnp.asarray(MEAN), jnp.ones(2)).to_event(1),
    ],
    ids=["event", "batch", "to_event"],
)
def test_numpyro_distributions_are_accepted(distribution):
    approximation = as_approximation(distribution)
    assert approximation.dim == 2
    draws = approximation.sample(np.random.default_rng(4), 4000)
    np.testing.assert_allclose(draws.mean(axis=0), MEAN, atol=0.2)
    covariance = COVARIANCE if isinstance(distribution, dist.MultivariateNormal) else np.eye(2)
    expected = stats.multivariate_normal(MEAN, covariance).logpdf(draws[:5])
    np.testing.assert_allclose(approximation.logdensity(draws[:5]), expected, rtol=1e-4)
