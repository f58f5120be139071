"""Pairs of a run's own chains: H has the target's own mean though the run has not arrived, and their cost is bounded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import taddaa
from taddaa import Gaussian, Settings, Target
from taddaa.chains import pairs
from taddaa.chains.pairs import run_pairs
from taddaa.moves.metric import enter

SKEW = np.array([3.0, 1.0])
MEANS = special.digamma(SKEW) - special.digamma(1.0)
VARIANCES = special.polygamma(1, SKEW) + special.polygamma(1, 1.0)


def skewed(x):
    """Logistic densities e^{−x}/(1 + e^{−x})^{1+b}, with known moments."""
    return jnp.sum(-x - (1 + SKEW) * jnp.log1p(jnp.exp(-x)))


def paired(walk, seed=0):
    with jax.enable_x64(True):
        return run_pairs([walk], seed, len(walk.starts) // 2)


@pytest.fixture(scope="module")
def unsettled():
    """2,000 chains that stop long before they have come to the target."""
    start = Gaussian(MEANS + np.array([4.0, -5.0]), 0.3 * np.ones(2))
    settings = Settings(chains=2000, iterations=3, budget=1)
    return taddaa.diagnose(Target(skewed, 2), start, settings=settings, seed=1)


def test_h_has_the_targets_own_mean_though_the_run_has_not_arrived(unsettled, monkeypatch):
    monkeypatch.setattr(pairs, "MOST_SHARE", 100)  # of so short a run
    monkeypatch.setattr(pairs, "STATES", 1)
    monkeypatch.setattr(pairs, "PILOT_SHARE", 0)  # X is one iteration ahead: nearly all is in the corrections
    found = paired(unsettled.continuation.walk)
    assert np.isfinite(found.meeting).all()
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0)
    assert found.lag == 1 and np.mean((found.weights < 0).any(axis=1)) > 0.5
    functions = np.concatenate([found.places, (found.places - MEANS) ** 2], axis=2)
    h = np.einsum("psk,ps->pk", functions, found.weights)
    truth, cutoff = np.concatenate([MEANS, VARIANCES]), stats.norm.isf(1e-4 / 8)
    assert np.max(np.abs(h.mean(axis=0) - truth) / (h.std(axis=0) / np.sqrt(len(h)))) < cutoff
    moved = unsettled.moved_draws  # a test with power: the run itself, and pairs without their corrections, are far off
    assert np.max(np.abs(moved.mean(axis=0) - MEANS) / (moved.std(axis=0) / np.sqrt(len(moved)))) > 2 * cutoff
    ahead = functions[:, : pairs.STATES].mean(axis=1)
    assert np.max(np.abs(ahead.mean(axis=0) - truth) / (ahead.std(axis=0) / np.sqrt(len(h)))) > 2 * cutoff


def test_pilots_make_the_lag_so_long_that_most_pairs_meet_in_time(unsettled, monkeypatch):
    monkeypatch.setattr(pairs, "STATES", 1)
    monkeypatch.setattr(pairs, "MOST_SHARE", 1000)  # of so short a run
    monkeypatch.setattr(pairs, "PILOT_SHARE", 1000)
    monkeypatch.setattr(pairs, "PILOTS", 400)
    found = paired(unsettled.continuation.walk)
    late = np.mean(found.meeting > found.lag)  # without pilots, with a lag of 1, it is over a half
    assert found.lag > 1 and abs(late - (1 - pairs.LAG_LEVEL)) < 0.06, (found.lag, late)


@pytest.mark.parametrize("count", [20, 40, 70])
def test_partners_are_two_chains_and_each_is_used_alike(count):
    first, second = pairs.partners(40, count, 3)
    assert len(first) == len(second) == count and np.all(first != second)
    assert len(set(zip(first, second, strict=True))) == count
    used = np.bincount(np.r_[first, second], minlength=40)
    assert used.max() - used.min() <= 1 or count == 70
    for part in (first, second):  # the one as often as the other
        assert np.ptp(np.bincount(part, minlength=40)) <= 1


def test_the_same_seed_gives_the_same_pairs_and_another_gives_others(unsettled):
    first, again, other = (paired(unsettled.continuation.walk, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.meeting, again.meeting)
    np.testing.assert_array_equal(first.places, again.places)
    assert not np.array_equal(first.places[:, 0], other.places[:, 0])


@pytest.mark.slow
def test_states_and_forces_are_those_of_the_target():
    """In bent coordinates too: densities there have the gradients that pairs noted."""
    fit = Gaussian(np.zeros(5), np.r_[1.0, np.full(4, np.exp(0.25))])
    funnel = lambda x: -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0]  # noqa: E731
    found = taddaa.diagnose(funnel, fit, settings=Settings(budget=1), seed=0)
    walk = found.continuation.walk
    assert type(walk.metric).__name__ == "Bent"
    pair = paired(walk)
    with jax.enable_x64(True):
        gradient = walk.engine.evaluate(pair.places[:, 0])[1]
    inside = enter(walk.metric, pair.places[:, 0], gradient[:, 0], gradient)
    np.testing.assert_allclose(inside[0], pair.positions[:, 0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(inside[2], pair.gradients[:, 0], rtol=1e-5, atol=1e-7)


def test_pairs_in_two_places_do_not_meet_and_cost_no_more_than_their_share():
    apart = Target(lambda x: jnp.logaddexp(-0.5 * jnp.sum((x - 15) ** 2), -0.5 * jnp.sum((x + 15) ** 2)), 2)
    both = taddaa.Draws(np.random.default_rng(0).normal(size=(4000, 2)) + 15 * np.repeat([1, -1], 2000)[:, None])
    report = taddaa.diagnose(apart, both, settings=Settings(chains=200, budget=1), seed=0)
    before = report.cost.gradients
    found = paired(report.continuation.walk)
    assert 0.3 < np.mean(np.isinf(found.meeting)) < 0.7
    assert found.gradients_taken <= pairs.MOST_SHARE * before
