"""Fits against closed forms: what the optimum is known to be, what must be refused, and what must be said."""

from dataclasses import FrozenInstanceError

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import taddaa
from known import paper_gaussian
from taddaa import InputError, Sampler, StudentT, Target, fit
from taddaa.fit.family import FullRank, MeanField, Tails
from taddaa.interop.callback import host_logdensity

DIM = 3
CENTRE = np.array([100.0, -2.0, 0.0])
UNITS = np.array([1.0, 1e-3, 50.0])  # coordinates in very different units
_, _PRECISION, _ = paper_gaussian(DIM)
PRECISION = _PRECISION / np.outer(UNITS, UNITS)
COVARIANCE = np.linalg.inv(PRECISION)
LOG_EVIDENCE = 0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1]
DF = np.array([3.0, 8.0])


def gaussian(x, data):
    return -0.5 * (x - data["centre"]) @ data["precision"] @ (x - data["centre"])


def student(x):
    return jnp.sum(jax.scipy.stats.t.logpdf((x - 1.0) / jnp.array([2.0, 0.01]), jnp.asarray(DF)))


def two_modes(x):
    """Two normals of sd 1 at ±4, the one on the left three times as heavy."""
    return jnp.logaddexp(jnp.log(0.75) - 0.5 * jnp.sum((x + 4) ** 2), jnp.log(0.25) - 0.5 * jnp.sum((x - 4) ** 2))


GAUSSIAN = Target(gaussian, DIM, data={"centre": CENTRE, "precision": PRECISION})
TWO_MODES = Target(two_modes, 2)


def variances(approximation):
    covariance = approximation.covariance()
    return covariance if covariance.ndim == 1 else np.diag(covariance)


# Closed forms ---------------------------------------------------------------------------------------------------------------


def test_meanfield_finds_the_conditional_variances():
    told = []
    found = fit.meanfield(GAUSSIAN, progress=told.append)
    sd = 1 / np.sqrt(np.diag(PRECISION))
    np.testing.assert_allclose((found.approximation.mean() - CENTRE) / sd, 0, atol=0.1)
    np.testing.assert_allclose(variances(found.approximation) / sd**2, 1, atol=0.05)
    assert np.max(np.abs(variances(found.approximation) / np.diag(COVARIANCE) - 1)) > 0.3  # not the marginal ones
    assert found.converged and found.agree and not found.notes
    # KL(q ‖ p) of the optimum in closed form; the ELBO's own noise is 1000 draws'.
    exact = LOG_EVIDENCE - 0.5 * (np.sum(np.log(np.diag(PRECISION))) - np.linalg.slogdet(PRECISION)[1])
    assert found.elbo == pytest.approx(exact, abs=0.15)
    steps = [each.step for each in told if each.stage != "starts"]
    assert steps == list(range(100, len(found.elbo_trace) + 1, 100))


def test_fullrank_recovers_the_covariance_and_the_evidence():
    found = fit.fullrank(GAUSSIAN)
    sd = np.sqrt(np.diag(COVARIANCE))
    np.testing.assert_allclose((found.approximation.mean() - CENTRE) / sd, 0, atol=0.02)
    np.testing.assert_allclose(found.approximation.covariance() / np.outer(sd, sd), COVARIANCE / np.outer(sd, sd), atol=0.03)
    assert found.elbo == pytest.approx(LOG_EVIDENCE, abs=0.01)
    assert found.converged and found.agree


def test_laplace_is_exact_on_a_gaussian():
    found = fit.laplace(GAUSSIAN, restarts=2)
    np.testing.assert_allclose((found.approximation.mean() - CENTRE) / np.sqrt(np.diag(COVARIANCE)), 0, atol=1e-6)
    np.testing.assert_allclose(found.approximation.covariance(), COVARIANCE, rtol=1e-6)
    assert found.elbo == pytest.approx(LOG_EVIDENCE, abs=1e-6)
    assert found.converged and found.agree


def test_pathfinder_comes_near_on_a_gaussian_in_even_units():
    """Its covariance is the optimiser's own: near, not exact."""
    centre, precision = np.array([1.0, -2.0, 0.0]), _PRECISION
    found = fit.pathfinder(Target(gaussian, DIM, data={"centre": centre, "precision": precision}))
    truth = np.linalg.inv(precision)
    np.testing.assert_allclose(found.approximation.mean(), centre, atol=0.1)
    np.testing.assert_allclose(np.log(variances(found.approximation) / np.diag(truth)), 0, atol=0.5)
    assert found.elbo == pytest.approx(0.5 * np.linalg.slogdet(2 * np.pi * truth)[1], abs=0.1)
    assert found.elbo == pytest.approx(found.elbo_trace.max(), abs=0.5)


def test_pathfinder_keeps_its_low_rank_in_high_dimension(monkeypatch):
    target = Target(gaussian, DIM, data={"centre": np.array([1.0, -2.0, 0.0]), "precision": _PRECISION})
    dense = fit.pathfinder(target, restarts=1).approximation
    monkeypatch.setattr(fit.methods, "DENSE_DIM", 1)
    found = fit.pathfinder(target, restarts=1)
    sampler = found.approximation
    assert isinstance(sampler, Sampler) and np.isfinite(found.elbo)
    draws, scale = sampler.sample(np.random.default_rng(0), 20_000), np.sqrt(variances(dense))
    np.testing.assert_allclose((draws.mean(axis=0) - dense.mean()) / scale, 0, atol=0.04)
    np.testing.assert_allclose(np.cov(draws.T) / np.outer(scale, scale), dense.covariance() / np.outer(scale, scale), atol=0.06)
    np.testing.assert_allclose(sampler.logdensity(draws[:50]), dense.logdensity(draws[:50]), rtol=1e-6)


def test_student_t_recovers_a_product_of_t():
    found = fit.student_t(Target(student, 2), restarts=2)
    assert isinstance(found.approximation, StudentT)
    np.testing.assert_allclose(found.approximation.loc, 1.0, atol=0.1)
    np.testing.assert_allclose(found.approximation.scale, [2.0, 0.01], rtol=0.05)
    np.testing.assert_allclose(found.approximation.df, DF, rtol=0.15)
    assert found.elbo == pytest.approx(np.log(2.0 * 0.01), abs=0.02)


def test_a_fixed_df_stays():
    found = fit.student_t(Target(student, 2), df=5.0, restarts=1, steps=100)
    assert set(found.approximation.df) == {5.0}


@pytest.mark.parametrize("family", [MeanField(), FullRank(), Tails(), Tails(4.0)], ids=repr)
def test_a_familys_draws_have_its_density(family):
    """E_q[r/q] = 1 for another density r with lighter tails; and a zero step stays. A wrong density gives another number."""
    with jax.enable_x64(True):
        parameters = family.start(jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0]))
        if isinstance(family, FullRank):
            parameters = parameters._replace(factor=parameters.factor.at[1, 0].set(0.7))
        draws = np.asarray(family.draw(parameters, family.noise(jax.random.key(0), 40_000, 2)))
        own = np.asarray(family.logdensity(parameters, draws))
        stay = family.move(parameters, jax.tree.map(jnp.zeros_like, parameters))
    other = stats.norm.logpdf(draws, [1.0, -2.0], [0.3, 2.0]).sum(axis=1)
    weights = np.exp(other - own)
    assert weights.mean() == pytest.approx(1, abs=5 * weights.std() / 200)
    assert abs(np.exp(other - own - 0.1).mean() - 1) > 5 * weights.std() / 200  # the negative control
    for before, after in zip(parameters, stay, strict=True):
        np.testing.assert_allclose(before, after)
    np.testing.assert_allclose(family.approximation(jax.tree.map(np.asarray, parameters)).logdensity(draws[:10]), own[:10])


# What must be said ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [fit.laplace, fit.pathfinder, fit.meanfield])
def test_restarts_on_two_modes_disagree_and_say_so(method):
    found = method(TWO_MODES)
    assert not found.agree
    assert sum("restarts ended elsewhere" in note and "several modes" in note for note in found.notes) == 1
    np.testing.assert_allclose(found.approximation.mean(), -4, atol=0.2)  # the heavier one
    assert found.restarts[0].elbo == pytest.approx(np.log(0.75 * 2 * np.pi), abs=0.05)
    elsewhere = [restart for restart in found.restarts if restart.distance > 1]
    assert elsewhere and all(restart.distance == pytest.approx(8, abs=0.5) for restart in elsewhere)


def test_one_start_cannot_disagree():
    found = fit.laplace(TWO_MODES, starts=[[3.0, 3.0]])
    assert found.agree and len(found.restarts) == 1
    np.testing.assert_allclose(found.approximation.mean(), 4, atol=0.01)


def test_too_few_steps_are_not_convergence():
    found = fit.meanfield(GAUSSIAN, steps=200)
    assert not found.converged
    assert "not converged after 200 steps" in str(found)
    assert len(found.elbo_trace) == 200


def test_a_climb_that_does_not_arrive_is_said(monkeypatch):
    for module in (fit.methods, fit.path):
        monkeypatch.setattr(module, "FIRST_CLIMB", 2)
        monkeypatch.setattr(module, "MOST_CLIMB", 1)
    found = fit.pathfinder(GAUSSIAN, restarts=1)
    assert not found.converged and "did not arrive in 3 iterations" in str(found)


def test_gradients_are_counted():
    """A host function sees every evaluation: those of the fit, and the log densities of its ELBOs, which are no gradients."""
    seen = 0

    def counted(x):
        nonlocal seen
        seen += len(x)
        return -0.5 * (x**2).sum(axis=1), -x

    target = Target(host_logdensity(counted), 2)
    found = fit.meanfield(target, restarts=2, draws=7, steps=100)
    assert len(found.elbo_trace) == 100
    checked_starts, local_elbos, final_elbos = 2, 2 * 16 * 25, 2 * 1000
    assert found.gradients == seen - checked_starts - local_elbos - final_elbos
    assert found.gradients > 2 * 7 * 100


def test_a_bad_region_is_left_out_and_counted():
    target = Target(lambda x: jnp.where(x[0] > -1.0, -0.5 * jnp.sum(x**2), jnp.nan), 1)
    found = fit.meanfield(target, restarts=2, spread=0.3, steps=400)
    assert any("not finite at" in note for note in found.notes)
    assert np.all(np.isfinite(found.elbo_trace))


def test_the_same_seed_gives_the_same_fit():
    first, second, other = (fit.meanfield(GAUSSIAN, steps=200, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.elbo_trace, second.elbo_trace)
    assert not np.array_equal(first.elbo_trace, other.elbo_trace)


def test_a_fit_is_frozen_and_its_approximation_is_diagnosed():
    found = fit.laplace(GAUSSIAN)
    with pytest.raises(FrozenInstanceError):
        found.converged = False
    report = taddaa.diagnose(GAUSSIAN, found.approximation, seed=1)  # one seed in twenty may raise a false alarm
    assert {row.verdict for row in report.rows} <= {"no error found", "within tolerance"}


# Refusals -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logdensity", "words"),
    [
        (lambda x: -((x[0] + x[1]) ** 2), "singular"),
        (lambda x: x[0] * x[1] * 1.8 - 0.5 * (x[0] ** 2 + x[1] ** 2), "indefinite"),
        (lambda x: 0.5 * x[0] ** 2 - 0.5 * x[1] ** 2, "curved upwards along coordinate 0"),
        (lambda x: -0.5 * x[0] ** 2, "flat along coordinate 1"),
        (host_logdensity(lambda x: (-0.5 * (x**2).sum(axis=1), -x)), "needs second derivatives"),
    ],
    ids=["singular", "indefinite", "saddle", "flat", "host"],
)
def test_laplace_refuses_what_is_no_mode(logdensity, words):
    """From the stationary point itself, or from elsewhere for the last, where gradients must have been seen to change."""
    starts = [[0.5, 0.5]] if "second" in words else [[0.0, 0.0]]
    with pytest.raises(InputError, match=words):
        fit.laplace(Target(logdensity, 2), starts=starts)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"restarts": 0}, "restarts must be"),
        ({"draws": 2.5}, "draws must be"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"spread": np.inf}, "spread must be"),
        ({"seed": -1}, "seed must be"),
        ({"starts": [[0.0]]}, "starts must have shape"),
        ({"starts": [[0.0, 0.0, np.nan]]}, r"not finite at starts\[0\]"),
    ],
)
def test_bad_options_get_one_sentence(options, words):
    with pytest.raises(InputError, match=words):
        fit.meanfield(GAUSSIAN, **options)


def test_bad_targets_get_one_sentence():
    with pytest.raises(InputError, match=r"wrap it: taddaa\.Target"):
        fit.meanfield(two_modes)
    with pytest.raises(InputError, match="pass starts="):
        fit.laplace(Target(lambda x: jnp.sum(x) + jnp.nan, 2))
    with pytest.raises(InputError, match="df must be"):
        fit.student_t(GAUSSIAN, df=-1)


def test_pathfinder_copes_with_units_that_differ_by_ten_thousand():
    """A product of normals, whose best Gaussian is itself: ELBO = log normaliser, in closed form."""
    sd = np.random.default_rng(0).permutation(np.logspace(-2, 2, 100))
    found = fit.pathfinder(Target(lambda x, sd: -0.5 * jnp.sum((x / sd) ** 2), 100, data=sd), restarts=2)
    assert found.converged
    np.testing.assert_allclose(found.elbo, 50 * np.log(2 * np.pi) + np.log(sd).sum(), atol=0.1)
    np.testing.assert_allclose(np.sqrt(np.diag(found.approximation.covariance())), sd, rtol=0.05)
