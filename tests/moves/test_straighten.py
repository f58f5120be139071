"""Maps are learnt where there is something to learn: known funnels come out, and nothing comes out of nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taddaa.moves import divergence as divergences
from taddaa.moves import straighten
from taddaa.moves.bend import Bend
from taddaa.moves.divergence import Divergence, Edges
from taddaa.moves.straighten import bend_of, find_stretching, learn_bend, with_siblings

CHAINS = 387


def with_gradients(logdensity, draws):
    with jax.enable_x64(True):
        return draws, np.asarray(jax.jit(jax.vmap(jax.grad(logdensity)))(draws))


def edges(dim, stretches, shifts, turns):
    found = Edges(np.zeros((dim, dim), bool), np.zeros((dim, dim), bool), np.full(dim, -1))
    for k, i in stretches:
        found.stretches[k, i] = True
    for k, i in shifts:
        found.shifts[k, i] = True
    for i, turn in turns.items():
        found.turn[i] = turn
    return found


@pytest.fixture
def divergence():
    """Children 4 and 5 of driver 1, itself a child of 0; 2, 3 and 0 shift."""
    found = edges(6, [(1, 4), (1, 5), (0, 1)], [(2, 4), (1, 5), (0, 5), (3, 1)], {4: 0, 5: 0, 1: 1})
    return Divergence(*np.random.default_rng(0).standard_normal((2, 40, 6)), found)


def test_the_divergence_is_that_of_the_map(divergence):
    """Written by hand for many states, against the map itself and automatic differentiation."""
    theta = 0.5 * np.random.default_rng(1).standard_normal(divergence.size)
    _, _, centre, log_scale = divergence.unpacked(theta)
    with jax.enable_x64(True):
        bend: Bend = bend_of(divergence.shape(theta), np.zeros(6), np.ones(6))

        def loss(w, r):
            value = jax.grad(lambda w: jnp.vdot(r, bend.forward(w)[0]) + bend.forward(w)[1])(w)
            return jnp.log1p(jnp.mean((value * jnp.exp(log_scale) + (w - centre) * jnp.exp(-log_scale)) ** 2))

        np.testing.assert_allclose(
            divergence.losses(theta), jax.vmap(loss)(bend.on_host().enter(divergence.u, divergence.r)[0], divergence.r), rtol=1e-10
        )


def test_its_slope_is_that_of_its_value(divergence):
    theta = 0.5 * np.random.default_rng(1).standard_normal(divergence.size)
    value = lambda theta: divergence.value_and_slope(theta)[0]  # noqa: E731
    steps = 1e-6 * np.eye(divergence.size)
    numerical = [(value(theta + step) - value(theta - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(divergence.value_and_slope(theta)[1], numerical, atol=1e-7)


def test_the_divergence_is_the_same_in_blocks(divergence, monkeypatch):
    theta = 0.5 * np.random.default_rng(1).standard_normal(divergence.size)
    whole, slope = divergence.value_and_slope(theta)
    assert len(divergence.blocks) == 1
    monkeypatch.setattr(divergences, "BLOCK_NUMBERS", 6 * 9)  # five blocks, the last of four states
    found = edges(6, [(1, 4), (1, 5), (0, 1)], [(2, 4), (1, 5), (0, 5), (3, 1)], {4: 0, 5: 0, 1: 1})
    parts = Divergence(divergence.u, divergence.r, found)
    assert len(parts.blocks) == 5
    assert parts.value_and_slope(theta)[0] == pytest.approx(whole, rel=1e-12)
    np.testing.assert_allclose(parts.value_and_slope(theta)[1], slope, rtol=1e-10, atol=1e-14)


def test_a_funnel_is_straightened():
    """Neal's, d = 10: with the exact map (a slope of ½ on the driver's own scale) it is a standard normal."""
    rng = np.random.default_rng(2)
    first = rng.standard_normal((CHAINS, 1))
    draws = np.concatenate([first, np.exp(first / 2) * rng.standard_normal((CHAINS, 9))], axis=1)
    x, g = with_gradients(lambda x: -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 4.5 * x[0], draws)
    bend = learn_bend(x, g)
    assert bend is not None
    driver = np.argmax(np.asarray(bend.select)[:, 0])
    slopes = np.asarray(bend.stretch)[0, 1:] / float(bend.scale[0])
    assert driver == 0 and np.asarray(bend.levels).sum() == 9
    np.testing.assert_allclose(slopes, 0.5, atol=0.06)
    w = bend.on_host().enter(x, 0 * x)[0] * np.asarray(bend.scale)
    assert np.all(np.abs(np.corrcoef(np.abs(w[:, 1:]).T, w[:, 0])[-1, :-1]) < 0.2)  # widths no longer follow the driver


def eight_schools(x):
    """mu, log tau, theta: theta leans on mu, and is as wide as tau."""
    mu, log_tau, theta = x[0], x[1], x[2:]
    prior = -0.5 * (mu / 5) ** 2 - jnp.log1p((jnp.exp(log_tau) / 5) ** 2) + log_tau
    return prior - 0.5 * jnp.sum(((theta - mu) / jnp.exp(log_tau)) ** 2) - 8 * log_tau - 0.5 * jnp.sum((theta / 12) ** 2)


def test_a_hierarchy_leans_on_its_mean():
    rng = np.random.default_rng(3)
    mu, log_tau = 4 * rng.standard_normal((CHAINS, 1)), 1 + 1.2 * rng.standard_normal((CHAINS, 1))
    theta = mu + np.exp(log_tau) * rng.standard_normal((CHAINS, 8))
    bend = learn_bend(*with_gradients(eight_schools, np.concatenate([mu, log_tau, theta], axis=1)))
    assert bend is not None
    select, stretch, shift = (np.asarray(part) for part in (bend.select, bend.stretch, bend.shift))
    drivers = {int(np.argmax(column)): k for k, column in enumerate(select.T) if column.any()}
    assert set(drivers) == {0, 1}
    assert np.all(stretch[drivers[1], 2:] > 0.3) and np.all(stretch[drivers[0]] == 0)
    leans = shift[drivers[0], 2:] * float(bend.scale[0]) ** -1 * np.asarray(bend.scale)[2:]
    assert np.all(leans > 0.5) and shift[drivers[0], 0] == 0


@pytest.mark.parametrize("seed", range(3))
def test_children_that_the_data_know_well_are_straightened_with_their_siblings(seed):
    """The sizes of their gradients hardly follow the driver in the mouth; left out, any of them would close the neck to all.

    Three coordinates are no siblings, though the driver shifts one of them.
    """
    rng = np.random.default_rng([seed, 8])
    groups, chains = 30, 194
    information = np.geomspace(0.7, 40, groups)
    data = rng.normal(0.3, np.sqrt(0.25**2 + 1 / information))
    log_tau, mu = np.maximum(rng.normal(-1.4, 0.5, chains), -2.0), rng.normal(0.3, 0.15, chains)
    precision = np.exp(-2 * log_tau)[:, None] + information
    place = (np.exp(-2 * log_tau)[:, None] * mu[:, None] + information * data) / precision
    theta = place + rng.standard_normal((chains, groups)) / np.sqrt(precision)
    alone = rng.standard_normal((chains, 3)) + log_tau[:, None] * np.array([0, 0, 0.7])

    def logdensity(x):
        log_tau, mu, theta, alone = x[0], x[1], x[2 : 2 + groups], x[2 + groups :] - x[0] * jnp.array([0, 0, 0.7])
        prior = -(mu**2) / 2 - jnp.sum((theta - mu) ** 2) * jnp.exp(-2 * log_tau) / 2 - groups * log_tau - log_tau**2
        return prior - jnp.sum(information * (theta - data) ** 2) / 2 - alone @ alone / 2

    x, g = with_gradients(logdensity, np.column_stack([log_tau, mu, theta, alone]))
    u, r = (x - np.median(x, axis=0)) / x.std(axis=0), g * x.std(axis=0)
    size, everyone = np.log(r**2 + 1e-6 * np.mean(r**2, axis=0)), np.ones(x.shape[1], bool)
    by_size = find_stretching(u, size, everyone)
    both = with_siblings(u, r, size, by_size, everyone)
    assert by_size[0, 2:-3].sum() < groups
    assert both[0, 2:-3].all() and not both[:, -3:].any() and not both[:, 0].any()
    bend = learn_bend(x, g)
    assert bend is not None
    children = np.asarray(bend.levels).sum(axis=0) > 0
    assert children[2:-3].all() and not children[0] and not children[-3:].any()


@pytest.mark.parametrize("seed", range(3))
def test_a_hierarchy_among_many_others_is_straightened(seed, monkeypatch):
    """Fifteen groups among 45 heavy-tailed coordinates, of whose loss no map takes anything, and a scale that the fit holds tight."""
    groups, rng = 15, np.random.default_rng(seed)

    def logdensity(x):
        log_tau, mu, theta, heavy = x[0], x[1], x[2 : 2 + groups], x[2 + groups :]
        prior = -(log_tau**2) / 2 - mu**2 / 2 - jnp.sum((theta - mu) ** 2) * jnp.exp(-2 * log_tau) / 2 - groups * log_tau
        return prior - 2 * jnp.sum(jnp.log1p(heavy**2 / 3))

    log_tau, mu = 0.2 * rng.standard_normal((CHAINS, 1)), rng.standard_normal((CHAINS, 1))
    theta, heavy = mu + np.exp(log_tau) * rng.standard_normal((CHAINS, groups)), rng.standard_t(3, (CHAINS, 45))
    bend = learn_bend(*with_gradients(logdensity, np.column_stack([log_tau, mu, theta, heavy])))
    assert bend is not None and np.asarray(bend.levels).any(axis=0)[2 : 2 + groups].sum() >= groups - 2
    monkeypatch.setattr(straighten, "COMMON_SHARE", 0.0)
    plain = learn_bend(*with_gradients(logdensity, np.column_stack([log_tau, mu, theta, heavy])))
    assert 1.2 < float(bend.gain) / float(plain.gain) < 1.6  # a quarter of the coordinates, told as if they were a third
    assert learn_bend(*with_gradients(lambda x: -2 * jnp.sum(jnp.log1p(x**2 / 3)), heavy)) is None


def test_a_few_children_among_many_others_need_the_whole_gain():
    """Five that a scale drives a little, of a hundred coordinates: it is seen, and not worth a map."""
    rng, groups = np.random.default_rng(0), 5

    def logdensity(x):
        log_tau, theta = x[0], x[1 : 1 + groups]
        prior = -(log_tau**2) / 2 - jnp.sum(theta**2) * jnp.exp(-2 * log_tau) / 2 - groups * log_tau
        return prior - 2 * jnp.sum(jnp.log1p(x[1 + groups :] ** 2 / 3))

    log_tau = 0.4 * rng.standard_normal((CHAINS, 1))
    theta = np.exp(log_tau) * rng.standard_normal((CHAINS, groups))
    x, g = with_gradients(logdensity, np.column_stack([log_tau, theta, rng.standard_t(3, (CHAINS, 94))]))
    assert find_stretching(x, np.log(g**2), np.ones(100, bool))[0, 1 : 1 + groups].sum() >= 4
    assert learn_bend(x, g) is None
    assert learn_bend(x[:, :12], g[:, :12]) is not None


def test_siblings_keep_children_of_their_own():
    """0 drives twelve scales, and four of these drive two more each: all are straightened, in two turns."""
    rng = np.random.default_rng(9)

    def logdensity(x):
        scales, more = x[1:13], x[13:].reshape(4, 2)
        outer = -0.5 * x[0] ** 2 / 0.36 - 0.5 * jnp.sum(scales**2) * jnp.exp(-2 * x[0]) - 12 * x[0]
        return outer - 0.5 * jnp.sum(more**2 * jnp.exp(-2 * scales[:4, None])) - 2 * jnp.sum(scales[:4])

    top = 0.6 * rng.standard_normal((CHAINS, 1))
    scales = np.exp(top) * rng.standard_normal((CHAINS, 12))
    more = np.exp(np.repeat(scales[:, :4], 2, axis=1)) * rng.standard_normal((CHAINS, 8))
    bend = learn_bend(*with_gradients(logdensity, np.concatenate([top, scales, more], axis=1)))
    assert bend is not None
    children = np.asarray(bend.levels).sum(axis=0) > 0
    assert children[13:].all() and children[1:13].sum() >= 11 and not children[0]


def test_drivers_of_drivers():
    """0 drives 1, and 1 drives four more."""

    def logdensity(x):
        outer = -0.5 * x[0] ** 2 - 0.5 * x[1] ** 2 * jnp.exp(-2 * x[0]) - x[0]
        return outer - 0.5 * jnp.sum(x[2:] ** 2) * jnp.exp(-2 * x[1]) - 4 * x[1]

    rng = np.random.default_rng(4)
    first = 0.6 * rng.standard_normal((CHAINS, 1))
    second = np.exp(first) * rng.standard_normal((CHAINS, 1))
    x = np.concatenate([first, second, np.exp(second) * rng.standard_normal((CHAINS, 4))], axis=1)
    bend = learn_bend(*with_gradients(logdensity, x))
    assert bend is not None
    levels = np.asarray(bend.levels)
    stands = [int(np.argmax(column)) if column.any() else -1 for column in levels.T]
    assert min(stands[2:]) > stands[1] > stands[0] == -1


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dim", [3, 20, 60])
def test_nothing_is_learnt_from_nothing(dim, seed):
    """A correlated Gaussian has no drivers."""
    rng = np.random.default_rng([seed, dim])
    factor = rng.standard_normal((dim, dim)) / np.sqrt(dim) + np.eye(dim)
    precision = np.linalg.inv(factor @ factor.T)
    x = rng.standard_normal((CHAINS, dim)) @ factor.T
    assert learn_bend(x, -x @ precision) is None


def test_chains_that_are_nowhere_do_not_hide_a_funnel():
    """One in ten far out, with forces a million times as large."""
    rng = np.random.default_rng(5)
    first = rng.standard_normal((CHAINS, 1))
    x = np.concatenate([first, np.exp(first) * rng.standard_normal((CHAINS, 6))], axis=1)
    x[:38] += 30 * rng.standard_normal((38, 7))
    bend = learn_bend(*with_gradients(lambda x: -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-2 * x[0]) - 6 * x[0], x))
    assert bend is not None
    assert np.argmax(np.asarray(bend.select)[:, 0]) == 0


def test_constant_coordinates_learn_nothing():
    x = np.random.default_rng(6).standard_normal((CHAINS, 3))
    x[:, 1] = 2.0
    assert learn_bend(x, -x) is None


def leans_by_itself(u, r, log_force2, i, left):
    """The definition, for one coordinate: the best share of what is left, by least squares, as long as it is large enough."""
    stiff = np.exp(0.5 * (log_force2 - np.median(log_force2)))
    y, chosen = -np.clip(r / stiff, *np.array([-3, 3]) * np.median(np.abs(r / stiff))), [i]
    for _ in range(straighten.MOST_SHIFTING):
        base = np.column_stack([stiff, 1 / stiff, u[:, i] / stiff, stiff[:, None] * u[:, chosen]])
        rest = y - base @ np.linalg.lstsq(base, y, rcond=None)[0]
        features = stiff[:, None] * u
        features -= base @ np.linalg.lstsq(base, features, rcond=None)[0]
        share = np.zeros(u.shape[1])
        for k in set(np.flatnonzero(left).tolist()) - set(chosen):
            share[k] = (features[:, k] @ rest) ** 2 / (features[:, k] @ features[:, k] * (rest @ rest))
        if share.max() < 0.1:
            break
        chosen.append(int(share.argmax()))
    return chosen[1:]


@pytest.mark.parametrize("at_once", [10**5, 400], ids=["at once", "one by one"])
def test_what_many_lean_on_is_found_as_for_each_by_itself(at_once, monkeypatch):
    """Forces of different sizes; what is not left is not leant on."""
    monkeypatch.setattr(straighten, "AT_ONCE", at_once)
    rng = np.random.default_rng(2)
    u, left = rng.standard_normal((400, 7)), np.arange(7) != 6
    scale = np.column_stack([u[:, 0], 3 + 0.5 * u[:, 0], -2 - u[:, 1]])  # log forces
    away = np.column_stack([u[:, 3] - 0.8 * u[:, 2], u[:, 4] - 0.5 * u[:, 2] + 0.5 * u[:, 5] - 0.9 * u[:, 6], u[:, 5]])
    r = -np.exp(scale) * (away + 0.1 * rng.standard_normal((400, 3)))
    own = np.array([3, 4, 5])
    found = straighten._leans_on(u, r, 2 * scale, own, left)
    assert found == [leans_by_itself(u, r[:, k], 2 * scale[:, k], own[k], left) for k in range(3)]
    assert [set(on) for on in found] == [{2}, {2, 5}, set()]
