"""Pairs of chains: each is a MALA chain, they meet as often as can be and never part, and their H has the target's own mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from taddaa.moves import coupled
from taddaa.moves.coupled import Pair, PairNoise, coupled_normals, move_together
from taddaa.moves.kernel import MALA, Noise, Point, metropolis

MANY, STEP = 20_000, 1.5
LEVEL = 1e-4  # of each family of tests


def logdensity(x):
    """Not Gaussian, with known moments: a skewed logistic e^{−x}/(1 + e^{−x})^{1+b}, b = 3, beside a plain one, b = 1."""
    return jnp.sum(-x - (1 + SKEW) * jnp.log1p(jnp.exp(-x)))


SKEW = np.array([3.0, 1.0])
MEANS = special.digamma(SKEW) - special.digamma(1.0)
VARIANCES = special.polygamma(1, SKEW) + special.polygamma(1, 1.0)


def at(x) -> Point:
    value, slope = jax.value_and_grad(logdensity)(x)
    return Point(x, value, slope, slope)


def noise_of(seed, *shape, shortest=1.0) -> PairNoise:
    rng = np.random.default_rng(seed)
    normal, uniform, accept = rng.standard_normal((*shape, 2, 2)), rng.random(shape), rng.random((*shape, 2))
    return PairNoise(normal, uniform, shortest ** rng.random(shape), accept)


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


# The coupling of the proposals ---------------------------------------------------------------------------------------------


def normals(apart, count=MANY, couple=coupled_normals):
    rng = np.random.default_rng(1)
    normal, uniform = rng.standard_normal((count, len(apart))), rng.random(count)
    same, other = jax.vmap(couple, in_axes=(None, 0, 0))(jnp.asarray(apart), normal, uniform)
    return np.asarray(same), np.asarray(normal), np.asarray(other)


APART = ([0.3, 0.0, 0.0], [1.0, -1.0, 0.5], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0])


def not_normal(other) -> float:
    """The smallest p-value of its coordinates and of two directions, times their number."""
    ways = np.concatenate([np.eye(other.shape[1]), [np.ones(other.shape[1]) / np.sqrt(other.shape[1])]])
    ps = [stats.kstest(other @ way, "norm").pvalue for way in ways]
    ps.append(stats.kstest(np.sum(other**2, axis=1), stats.chi2(other.shape[1]).cdf).pvalue)
    return len(ps) * min(ps)


@pytest.mark.parametrize("apart", APART)
def test_the_second_chains_numbers_are_standard_normal(apart):
    assert not_normal(normals(apart)[2]) > LEVEL


def forgetful(apart, normal, uniform):
    """Forgets the residual: where the proposals differ, the second keeps the first's numbers."""
    same, _ = coupled_normals(apart, normal, uniform)
    return same, jnp.where(same, normal + apart, normal)


def test_a_coupling_that_forgets_the_residual_is_caught():
    assert min(not_normal(normals(apart, couple=forgetful)[2]) for apart in APART[:3]) < LEVEL / 1e3


@pytest.mark.parametrize("apart", APART)
def test_proposals_are_the_same_as_often_as_two_such_normals_can_be(apart):
    """One less the total variation distance of N(0, I) and N(apart, I): 2 Φ(−|apart|/2)."""
    same, first, second = normals(apart)
    most = 2 * stats.norm.cdf(-np.linalg.norm(apart) / 2)
    assert abs(same.mean() - most) <= 4.5 * np.sqrt(most * (1 - most) / MANY) + 1e-12
    np.testing.assert_allclose(first[same] + apart, second[same])


# One iteration ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [False, True])
def test_each_chain_by_itself_is_a_mala_chain(alone):
    """From one state, its law after an iteration is that of the kernel: two samples of each chain, compared in four ways."""
    starts, step = jnp.array([[0.5, -1.0], [1.2, 0.4]]), STEP
    pair = Pair(at(starts[0]), at(starts[1]), jnp.array(False))
    moved = jax.jit(jax.vmap(lambda noise: move_together(pair, noise, step, alone, jax.vmap(at)).pair))(noise_of(2, MANY))

    @jax.jit
    @jax.vmap
    def single(start, normal, accept):
        return metropolis(
            MALA(), at(start), Noise(normal, jnp.zeros(0), accept), step, lambda here, z: at(here.position + z)
        ).point.position

    ps = []
    for number, chain in enumerate((moved.first, moved.second)):
        noise = noise_of(3 + number, MANY)
        expected = np.asarray(single(jnp.tile(starts[number], (MANY, 1)), noise.normal[:, 0], noise.accept[:, 0]))
        for way in ([1, 0], [0, 1], [1, 1], [1, -1]):
            ps.append(stats.ks_2samp(np.asarray(chain.position) @ way, expected @ way).pvalue)
    assert len(ps) * min(ps) > LEVEL


def test_pairs_that_have_met_never_part():
    starts = 3 * np.random.default_rng(5).standard_normal((2, 500, 2))
    pairs = Pair(jax.vmap(at)(starts[0]), jax.vmap(at)(starts[1]), jnp.zeros(500, bool))

    def iterate(pairs, noise):
        moved = jax.vmap(lambda pair, noise: move_together(pair, noise, STEP, False, jax.vmap(at)).pair)(pairs, noise)
        return moved, (moved.met, jnp.all(moved.first.position == moved.second.position, axis=1))

    _, (met, equal) = jax.jit(lambda pairs, noise: jax.lax.scan(iterate, pairs, noise))(pairs, noise_of(4, 200, 500))
    met, equal = np.asarray(met), np.asarray(equal)
    np.testing.assert_array_equal(met, equal)
    assert np.all(met[1:] >= met[:-1])
    assert met[-1].all() and not met[0].all()


# E H is the target's own -----------------------------------------------------------------------------------------------------


def unbiased_of(move, lag=4, length=80, pairs=MANY // 2, shortest=1.0):
    """H of x and (x − its mean)², (pairs, 4), of chains that start far away; also whether all pairs met."""
    begun = np.array([2.5, -3.0]) + 0.5 * np.random.default_rng(6).standard_normal((2, pairs, 2))
    functions = lambda point: jnp.concatenate([point.position, (point.position - MEANS) ** 2], axis=1)  # noqa: E731

    def iterate(carried, now):
        state, total, number = carried
        gap = functions(state.first) - jnp.where(number == lag, 0.0, functions(state.second))  # at first X only
        total = total + jnp.where((number >= lag) & (number % lag == 0), gap, 0.0)
        moved = jax.vmap(lambda pair, noise: move(pair, noise, number < lag))(state, now)
        second = jax.tree.map(lambda new, old: jnp.where(number < lag, old, new), moved.second, state.second)
        return (moved._replace(second=second), total, number + 1), None

    state = Pair(jax.vmap(at)(begun[0]), jax.vmap(at)(begun[1]), jnp.zeros(pairs, bool))
    whole = jax.jit(lambda state, noise: jax.lax.scan(iterate, (state, jnp.zeros((pairs, 4)), 0), noise)[0])
    state, total, _ = whole(state, noise_of(7, lag + length, pairs, shortest=shortest))
    return np.asarray(total), bool(np.all(state.met))


def worst_z(found) -> float:
    errors = found.std(axis=0) / np.sqrt(len(found))
    return float(np.max(np.abs(found.mean(axis=0) - np.concatenate([MEANS, VARIANCES])) / errors))


CUTOFF = stats.norm.isf(LEVEL / 8)


def right(pair, noise, alone):
    return move_together(pair, noise, STEP, alone, jax.vmap(at)).pair


def test_h_has_the_targets_own_mean_though_its_chains_have_not_arrived():
    found, met = unbiased_of(right)
    assert met
    assert worst_z(found) < CUTOFF


def test_a_kernel_that_does_not_leave_the_target_alone_is_caught():
    unadjusted = lambda pair, noise, alone: right(pair, noise._replace(accept=0 * noise.accept), alone)  # noqa: E731
    assert worst_z(unbiased_of(unadjusted, pairs=MANY)[0]) > 2 * CUTOFF


def test_a_step_that_a_chain_chooses_by_where_it_is_is_caught():
    def adapting(pair, noise, alone):
        step = jnp.where(pair.first.position[0] > 1.0, 3.0, 0.5)
        return move_together(pair, noise, step, alone, jax.vmap(at)).pair

    assert worst_z(unbiased_of(adapting)[0]) > 2 * CUTOFF


def test_a_coupling_that_forgets_the_residual_is_caught_by_h(monkeypatch):
    monkeypatch.setattr(coupled, "coupled_normals", forgetful)
    assert worst_z(unbiased_of(right)[0]) > 2 * CUTOFF


def test_with_steps_of_random_length_too():
    found, met = unbiased_of(right, length=150, shortest=0.1)
    assert met
    assert worst_z(found) < CUTOFF


def test_with_steps_that_are_longer_while_x_walks_ahead_it_is_caught():
    """X and Y must move by one and the same kernel, at every time."""
    longer = lambda pair, noise, alone: right(pair, noise._replace(scale=jnp.where(alone, 1.0, 0.3)), alone)  # noqa: E731
    assert worst_z(unbiased_of(longer)[0]) > 2 * CUTOFF
