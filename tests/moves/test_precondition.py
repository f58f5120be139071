"""Preconditioners: Fisher's defining equation, what it does with bad gradients, and metrics as linear maps."""

import jax
import numpy as np
import pytest

import taddaa
from known import COVARIANCE
from taddaa import Draws, Fisher, FromApproximation, Gaussian, Identity, Sampler, StudentT
from taddaa.moves.metric import Dense, Diagonal, DiagonalLowRank, unpulled, whitened


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def matrix(metric, dim: int) -> np.ndarray:
    """C, column by column, from the map itself."""
    return np.stack([np.asarray(metric.push(column)) for column in np.eye(dim)], axis=1)


def gram(metric, dim: int) -> np.ndarray:
    factor = matrix(metric, dim)
    return factor @ factor.T


def random_covariance(rng, dim: int) -> np.ndarray:
    """Scales over several orders of magnitude, and correlations with a condition number of 100."""
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    scale = np.exp(2 * rng.standard_normal(dim))
    return (rotation * np.geomspace(0.1, 10.0, dim)) @ rotation.T * np.outer(scale, scale)


LAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 3, shape),
    "heavy tails": lambda rng, shape: rng.standard_t(2.5, shape),
    "far away": lambda rng, shape: 50 + rng.standard_normal(shape),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dim", [1, 2, 20])
def test_fisher_is_the_covariance_of_a_gaussian_target_whatever_q_is(law, dim):
    rng = np.random.default_rng(dim)
    covariance = random_covariance(rng, dim)
    scale = np.sqrt(np.diag(covariance))
    draws = LAWS[law](rng, (10 * dim + 50, dim)) * scale * np.exp(0.7 * rng.standard_normal(dim))
    gradients = -np.linalg.solve(covariance, draws.T).T
    found = Fisher().initial(Draws(draws), draws, gradients)
    assert found.note == ""
    np.testing.assert_allclose(gram(found.metric, dim) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=1e-4)


def test_a_few_wild_gradients_hardly_matter():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((600, 2))
    gradients = -np.linalg.solve(COVARIANCE, draws.T).T
    gradients[:3] *= 1e8
    gradients[3:5] = [[np.nan, 0.0], [np.inf, 1.0]]
    found = Fisher().initial(Draws(draws), draws, gradients)
    scale = np.sqrt(np.diag(COVARIANCE))
    np.testing.assert_allclose(gram(found.metric, 2) / np.outer(scale, scale), COVARIANCE / np.outer(scale, scale), atol=0.25)


def test_fisher_solves_g_b_g_equals_a():
    """On draws and gradients that have nothing to do with a Gaussian, and are bounded so that all weigh the same."""
    rng = np.random.default_rng(1)
    dim = 4
    draws = rng.uniform(-1, 1, (500, dim)) @ rng.standard_normal((dim, dim))
    gradients = rng.choice([-1.0, 1.0], (500, dim))
    g = gram(Fisher().initial(Draws(draws), draws, gradients).metric, dim)
    a, b = np.cov(draws, rowvar=False), np.cov(gradients, rowvar=False)
    np.testing.assert_allclose(g @ b @ g, a, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(g, g.T)


@pytest.mark.parametrize("useless", ["not finite", "constant"])
def test_useless_gradients_fall_back_to_the_approximation_and_say_so(useless):
    rng = np.random.default_rng(2)
    approximation = Gaussian([0.0, 0.0], [2.0, 3.0])
    draws = approximation.sample(rng, 100)
    gradients = np.full((100, 2), np.nan) if useless == "not finite" else np.ones((100, 2))
    found = Fisher().initial(approximation, draws, gradients)
    np.testing.assert_allclose(gram(found.metric, 2), np.diag([4.0, 9.0]))
    assert "approximation's own covariance was used" in found.note
    assert ("0 of 100" in found.note) == (useless == "not finite")


def test_too_few_gradients_give_a_diagonal_and_a_note():
    rng = np.random.default_rng(3)
    dim = 40
    scale = np.exp(rng.standard_normal(dim))
    draws = 3 * rng.standard_normal((50, dim))
    found = Fisher().initial(Draws(draws), draws, -draws / scale**2)
    assert "50 usable pilot gradients" in found.note
    np.testing.assert_allclose(gram(found.metric, dim), np.diag(scale**2), rtol=1e-8, atol=1e-12)


def test_fisher_asks_for_clearly_more_pilots_than_dimensions():
    assert Fisher().pilots(10, 387) == 387
    assert Fisher().pilots(1000, 387) >= 1500
    assert Fisher().pilots(100_000, 387) == 387
    assert FromApproximation().pilots(1000, 387) == Identity().pilots(1000, 387) == 0


def test_improved_from_moving_chains():
    """The states of chains in a Gaussian target give its covariance; useless ones leave the metric as it is."""
    rng = np.random.default_rng(4)
    states = rng.multivariate_normal([0.0, 0.0], COVARIANCE, 300)
    old = Dense(np.eye(2))
    better = Fisher().improved(old, states, -np.linalg.solve(COVARIANCE, states.T).T, 387).metric
    np.testing.assert_allclose(gram(better, 2), COVARIANCE, rtol=1e-5)
    assert Fisher().improved(old, states, np.full_like(states, np.nan), 387).metric is old
    assert Fisher().improved(old, np.zeros_like(states), states, 387).metric is old
    for fixed in (FromApproximation(), Identity()):
        assert fixed.improved(old, states, states, 387).metric is old


# The paper's, and none --------------------------------------------------------------------------------------------------


def test_the_papers_preconditioner_is_the_covariance_of_q():
    none = np.zeros((0, 2))
    full = FromApproximation().initial(Gaussian([0.0, 1.0], covariance=COVARIANCE), none, none)
    np.testing.assert_allclose(gram(full.metric, 2), COVARIANCE)
    diagonal = FromApproximation().initial(StudentT([0.0, 0.0], [1.0, 2.0], 6.0), none, none)
    np.testing.assert_allclose(gram(diagonal.metric, 2), np.diag([1.5, 6.0]))
    assert isinstance(diagonal.metric, Diagonal)


def test_the_papers_preconditioner_without_a_closed_form():
    draws = np.random.default_rng(5).multivariate_normal([0.0, 0.0], COVARIANCE, 200)
    for approximation in (Draws(draws), Sampler(lambda key, n: jax.random.normal(key, (n, 2)), 2), StudentT([0.0, 0.0], [1.0, 1.0], 1.5)):
        found = FromApproximation().initial(approximation, draws, draws)
        np.testing.assert_allclose(gram(found.metric, 2), np.cov(draws, rowvar=False))
    few = np.random.default_rng(6).standard_normal((20, 30))
    found = FromApproximation().initial(Draws(few), few, few)
    assert "20 draws cannot give a covariance matrix of dimension 30" in found.note
    np.testing.assert_allclose(gram(found.metric, 30), np.diag(few.var(axis=0, ddof=1)))


def test_identity():
    np.testing.assert_array_equal(matrix(Identity().initial(Gaussian([0.0] * 3, [5.0] * 3), None, None).metric, 3), np.eye(3))


# Metrics ----------------------------------------------------------------------------------------------------------------


def low_rank_metric(rng, dim: int, variance: float, count: int = 400):
    """Learnt from exact draws of a Gaussian with one long direction; and that direction."""
    direction = np.ones(dim) / np.sqrt(dim)
    draws = rng.standard_normal((count, dim)) + (np.sqrt(variance) - 1) * np.outer(rng.standard_normal(count), direction)
    covariance = np.eye(dim) + (np.sqrt(variance) - 1) ** 2 * np.outer(direction, direction)
    gradients = -np.linalg.solve(covariance, draws.T).T
    blank = DiagonalLowRank(np.ones(dim), np.zeros((dim, 20)), np.ones(20))
    return Fisher().improved(blank, draws, gradients, 387).metric, direction, covariance


def test_push_and_pull_are_adjoint_and_match_the_matrix():
    rng = np.random.default_rng(7)
    metric, _, _ = low_rank_metric(rng, 60, 100.0)
    for m in (metric, Dense(rng.standard_normal((60, 60))), Diagonal(np.exp(rng.standard_normal(60)))):
        z, g = rng.standard_normal((2, 60))
        assert float(m.push(z) @ g) == pytest.approx(float(z @ m.pull(g)), rel=1e-10)
        np.testing.assert_allclose(m.pull(g), matrix(m, 60).T @ g, atol=1e-10)
    basis = np.asarray(metric.basis)
    dense = np.diag(metric.scale) @ (np.eye(60) + basis @ np.diag(np.asarray(metric.stretch) - 1) @ basis.T)
    np.testing.assert_allclose(matrix(metric, 60), dense, atol=1e-10)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-10)


def test_low_rank_metric_finds_the_long_direction():
    """Whitened by it, the target is much rounder than whitened by scales alone."""
    metric, direction, covariance = low_rank_metric(np.random.default_rng(8), 60, 400.0)
    scales_only = np.linalg.cond(covariance / np.diag(covariance)[:, None])
    assert np.linalg.cond(np.linalg.solve(gram(metric, 60), covariance)) < 0.1 * scales_only
    values, vectors = np.linalg.eigh(gram(metric, 60))
    assert abs(vectors[:, -1] @ direction) > 0.95
    assert values[0] > 0


def test_beyond_2000_dimensions_memory_stays_linear():
    dim, chains = 2500, 40
    scale = np.exp(0.5 * np.random.default_rng(9).standard_normal(dim))
    target = taddaa.Target(lambda x, scale: -0.5 * ((x / scale) ** 2).sum(), dim=dim, data=scale)
    approximation = Gaussian(np.zeros(dim), 0.5 * scale)
    pilots = approximation.sample(np.random.default_rng(0), chains)
    found = Fisher().initial(approximation, pilots, -pilots / scale**2)
    assert sum(np.size(leaf) for leaf in jax.tree.leaves(found.metric)) <= 30 * dim
    settings = taddaa.Settings(chains=chains, iterations=16, budget=1, simultaneous=False)
    report = taddaa.diagnose(target, approximation, settings=settings)
    assert np.size(report.handover.inverse_mass) == dim
    variances = [row for row in report.rows if row.functional == "variance"]
    assert np.mean([row.moved / row.approximation for row in variances]) > 1.2


@pytest.mark.parametrize("kind", ["dense", "diagonal", "low rank"])
def test_whitening_undoes_a_metric(kind):
    rng, dim = np.random.default_rng(2), 6
    basis = np.linalg.qr(rng.normal(size=(dim, 2)))[0]
    scale = rng.uniform(0.5, 2.0, dim)
    metric = {
        "dense": Dense(rng.normal(size=(dim, dim))),
        "diagonal": Diagonal(scale),
        "low rank": DiagonalLowRank(scale, basis, np.array([3.0, 0.2])),
    }[kind]
    z, g = rng.normal(size=(2, 4, dim))
    np.testing.assert_allclose(whitened(metric, np.asarray(metric.push(z))), z)
    np.testing.assert_allclose(unpulled(metric, np.asarray(metric.pull(g))), g)
