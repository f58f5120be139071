"""Effects written without centring: found exactly whatever the likelihood, or not at all, and moved with the right Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hierarchies import GROUPS, centred, evaluated, noncentred
from taddaa.surrogate.recentre import Recentring

PLACES = 160
RNG = np.random.default_rng(0)
COUNTS, SUCCESSES = RNG.poisson(3.0, 8), RNG.integers(0, 2, 8)
MIXED = RNG.standard_normal((12, 8))


def found(logdensity, dim: int, seed: int = 0, places: int = PLACES) -> dict[int, list[int]]:
    x = 0.7 * np.random.default_rng(seed).standard_normal((places, dim))
    effects = Recentring.found(x, evaluated(logdensity)(x)[1]).effects
    return {k: list(map(int, i)) for k, i in effects.items()}


def with_likelihood(likelihood):
    """A normal prior of log τ and μ, and of eight effects in units of τ."""
    return lambda x: -jnp.sum(x**2) / 2 + likelihood(x[1] + jnp.exp(x[0]) * x[2:])


LIKELIHOODS = {
    "normal": lambda theta: -jnp.sum((theta - 1) ** 2),
    "Poisson": lambda theta: jnp.sum(COUNTS * theta - jnp.exp(theta)),
    "Bernoulli": lambda theta: jnp.sum(SUCCESSES * theta - jnp.logaddexp(0.0, theta)),
    "heavy-tailed": lambda theta: -2 * jnp.sum(jnp.log1p((theta - 1) ** 2 / 3)),
    "of sums": lambda theta: -jnp.sum(jnp.log(jnp.cosh(MIXED @ theta))),
}


def test_the_prior_of_effects_is_known_in_their_new_coordinates():
    found = Recentring({1: np.array([3, 4, 6]), 2: np.array([5, 7, 8])}).parts(9)
    assert [(part.driver, part.power, part.certain) for part in found] == [(1, -2.0, True), (2, -2.0, True)]
    for part, effects in zip(found, ([3, 4, 6], [5, 7, 8]), strict=True):
        assert np.argwhere(part.products).tolist() == [[i, i] for i in effects] and not part.linear.any() and not part.bends.any()


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_effects_are_found_whatever_is_said_of_them(name):
    assert found(with_likelihood(LIKELIHOODS[name]), 10) == {0: list(range(2, 10))}


@pytest.mark.parametrize(
    "prior",
    [
        lambda k: -jnp.exp(2 * k) / 8 + k,  # half-normal
        lambda k: -jnp.exp(k) / 3 + k,  # exponential
        lambda k: -3 * k - jnp.exp(-2 * k),  # of an inverse gamma variance
    ],
)
def test_effects_are_found_whatever_the_scales_prior(prior):
    def logdensity(x):
        return noncentred(x) + x[0] ** 2 / 2 + prior(x[0])

    assert found(logdensity, 2 + GROUPS) == {0: list(range(2, 10))}


def test_each_scale_has_its_own_effects():
    def logdensity(x):
        theta, other = jnp.exp(x[6]) * x[:6], jnp.exp(x[7]) * x[8:12]
        return -jnp.sum(x**2) / 2 - jnp.sum(jnp.cosh(theta[:4] + other)) - jnp.sum((theta - 1) ** 4) / 9

    assert found(logdensity, 12) == {6: list(range(6)), 7: [8, 9, 10, 11]}


def entering_twice(x):
    """Where an effect counts by itself as well."""
    return noncentred(x) - jnp.sum(jnp.log(jnp.cosh(x[2:])))


def of_two(x):
    return -jnp.sum(x**2) / 2 - jnp.sum((jnp.exp(x[0]) * x[2:4] - 1) ** 2) - jnp.sum((x[4:] - x[1]) ** 4)


def with_another_prior(x):
    """Effects of variance four."""
    return noncentred(x) + 0.375 * jnp.sum(x[2:] ** 2)


def with_a_strange_scale(x):
    """Whose prior is none of those that are looked for, so that what is left cannot be told from what is not explained."""
    return noncentred(x) - 4 * jnp.cos(3 * x[0])


def of_another_link(x):
    return -jnp.sum(x**2) / 2 - jnp.sum((HEARD - x[1] - jnp.logaddexp(0.0, x[0]) * x[2:]) ** 2) / 2


HEARD = np.linspace(-1, 2, 8)


@pytest.mark.parametrize(
    "logdensity",
    [centred, entering_twice, of_two, with_another_prior, with_a_strange_scale, of_another_link, lambda x: -jnp.sum(x**2) / 2],
)
def test_what_is_no_effect_in_units_of_a_scale_is_left_alone(logdensity):
    assert found(logdensity, 2 + GROUPS) == {}


def test_from_too_few_places_nothing_is_found():
    dim = 2 + GROUPS
    assert found(noncentred, dim, places=dim + 4 + 1 + 5) == {0: list(range(2, 10))}
    assert found(noncentred, dim, places=dim + 4 + 5) == {}


def test_gradients_with_noise_find_nothing():
    x = 0.7 * np.random.default_rng(0).standard_normal((PLACES, 2 + GROUPS))
    gradients = evaluated(noncentred)(x)[1]
    noisy = gradients + 0.01 * gradients.std(axis=0) * np.random.default_rng(1).standard_normal(gradients.shape)
    assert Recentring.found(x, gradients).effects and not Recentring.found(x, noisy).effects


WAY = Recentring({0: np.array([2, 3, 4]), 5: np.array([1, 6])})


def twisted(x):
    return -jnp.sum(jnp.cosh(x)) - jnp.sin(x[0] * x[2] + x[5] * x[6]) + x[1] * x[3] * x[4]


def test_inward_is_the_density_of_the_new_coordinates_with_its_gradient():
    """By the inverse map's own Jacobian, and JAX's derivative of all."""

    def outward(y):
        by = jnp.exp(-jnp.array([0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]) * y[0] - jnp.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]) * y[5])
        return y * by

    def transformed(y):
        return twisted(outward(y)) + jnp.linalg.slogdet(jax.jacfwd(outward)(y))[1]

    x = np.random.default_rng(0).standard_normal((30, 7))
    y, values, slopes = WAY.inward(x, *evaluated(twisted)(x))
    expected, gradients = evaluated(transformed)(y)
    np.testing.assert_allclose(values, expected, rtol=1e-10)
    np.testing.assert_allclose(slopes, gradients, rtol=1e-8, atol=1e-8)


def test_outward_leads_back_and_nothing_is_changed_in_place():
    x = np.random.default_rng(1).standard_normal((20, 7))
    kept, values = x.copy(), np.zeros(20)
    y, _, _ = WAY.inward(x, values, x)
    np.testing.assert_allclose(WAY.outward(y), x, rtol=1e-12)
    np.testing.assert_array_equal(x, kept)
    assert not values.any() and np.abs(y - x).max() > 0.1


def test_without_effects_everything_stays():
    x = np.random.default_rng(2).standard_normal((20, 3))
    for now in WAY._replace(effects={}).inward(x, x[:, 0], x)[::2]:
        np.testing.assert_array_equal(now, x)
