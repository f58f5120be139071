"""Distributions of other libraries: each is asked for draws in its own way, and its density is that of its draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import taddaa
from frameworks import need
from taddaa.problem.approximation import as_approximation

MEAN, SD = np.array([1.0, -2.0]), np.array([0.5, 2.0])


def in_numpyro():
    dist = need("numpyro.distributions")
    return dist.Normal(jnp.array(MEAN), jnp.array(SD)).to_event(1)


def in_distrax():
    return need("distrax").MultivariateNormalDiag(jnp.array(MEAN), jnp.array(SD))


def in_tfp():
    tfp = need("tensorflow_probability.substrates.jax")
    return tfp.distributions.MultivariateNormalDiag(jnp.array(MEAN), jnp.array(SD))


def in_flowjax():
    return need("flowjax.distributions").Normal(jnp.array(MEAN), jnp.array(SD))


def in_torch():
    torch = need("torch")
    return torch.distributions.Independent(torch.distributions.Normal(torch.tensor(MEAN), torch.tensor(SD)), 1)


def batch_of_torch():
    torch = need("torch")
    return torch.distributions.Normal(torch.tensor(MEAN), torch.tensor(SD))


def in_zuko():
    zuko, torch = need("zuko"), need("torch")
    return zuko.distributions.DiagNormal(torch.tensor(MEAN), torch.tensor(SD))


class SeedByName:
    """As TensorFlow Probability and distrax are called, so that it is tested where they are absent."""

    __module__ = "tensorflow_probability.substrates.jax"
    batch_shape, event_shape = (), (2,)

    def sample(self, sample_shape=(), seed=None):
        return MEAN + SD * jax.random.normal(seed, (*sample_shape, 2))

    def log_prob(self, value):
        return jnp.sum(jax.scipy.stats.norm.logpdf(value, MEAN, SD), -1)


class WithShape:
    """As flowjax's distributions are called."""

    __module__ = "flowjax.distributions"
    shape, cond_shape = (2,), None

    def sample(self, key, sample_shape=()):
        return MEAN + SD * jax.random.normal(key, (*sample_shape, 2))

    log_prob = SeedByName.log_prob


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [in_numpyro, in_distrax, in_tfp, in_flowjax, SeedByName, WithShape]
    + [pytest.param(make, marks=pytest.mark.torch) for make in (in_torch, batch_of_torch, in_zuko)],
)
def test_draws_and_density_belong_together(make):
    q = as_approximation(make())
    draws = q.sample(np.random.default_rng(0), 10_000)
    np.testing.assert_array_equal(draws, q.sample(np.random.default_rng(0), 10_000))
    assert not np.array_equal(draws, q.sample(np.random.default_rng(1), 10_000))
    for column in range(2):
        assert stats.kstest(draws[:, column], stats.norm(MEAN[column], SD[column]).cdf).pvalue > 1e-4
    np.testing.assert_allclose(q.logdensity(draws), stats.norm.logpdf(draws, MEAN, SD).sum(axis=1), atol=1e-4)


@pytest.mark.torch
def test_torchs_own_stream_is_left_alone():
    torch = need("torch")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    as_approximation(in_torch()).sample(np.random.default_rng(0), 5)
    assert torch.equal(before, torch.get_rng_state())


def test_conditional_and_shaped_distributions():
    conditional = WithShape()
    conditional.cond_shape = (3,)
    with pytest.raises(taddaa.InputError, match=r"conditional on a variable of shape \(3,\)"):
        as_approximation(conditional)
    shaped = SeedByName()
    shaped.event_shape = (2, 2)
    with pytest.raises(taddaa.InputError, match=r"over a flat vector, got draws of shape \(2, 2\)"):
        as_approximation(shaped)


@pytest.mark.torch
def test_a_posterior_of_sbi_draws_without_a_progress_bar():
    torch = need("torch")

    class DirectPosterior:
        __module__ = "sbi.inference.posteriors.direct_posterior"

        def sample(self, shape, show_progress_bars=True):
            assert not show_progress_bars
            return torch.randn((*shape, 2))

        def log_prob(self, theta):
            return -0.5 * (theta**2).sum(-1)

    q = as_approximation(DirectPosterior())
    assert q.dim == 2 and q.sample(np.random.default_rng(0), 5).shape == (5, 2)
