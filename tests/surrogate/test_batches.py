"""Batch by batch to the posterior: what it costs, how far each may go, what counts how much, and when it is given up."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from hierarchies import DIM, THETA, Truth, Z, centred, evaluated, funnel, noncentred
from taddaa.surrogate import batches
from taddaa.surrogate.batches import LAST_REACH, LEAST_WEIGHT, LEAST_WORTH, OLDER, REACH, followed, sizes
from taddaa.surrogate.learn import learnt
from taddaa.surrogate.marginal import Drawn


class Asked:
    """A log density that remembers where it was asked; from some batch on it may be another one."""

    def __init__(self, logdensity, then=None, since: int = 1):
        self.first, self.then, self.since, self.places = evaluated(logdensity), then and evaluated(then), since, []

    def __call__(self, x):
        self.places.append(x)
        return (self.first if self.then is None or len(self.places) < self.since else self.then)(x)


def gone_after(asked: Asked, x: np.ndarray, later=(80, 80, 80), seed: int = 0):
    with np.errstate(all="ignore"):
        return followed(asked, x, *asked.first(x), list(later), np.random.default_rng(seed))


def places(dim: int, spread: float = 0.7, count: int = 160) -> np.ndarray:
    return spread * np.random.default_rng(1).standard_normal((count, dim))


@pytest.fixture
def learning(monkeypatch):
    """What was learnt from each time: places and weights."""
    told = []

    def learnt(x, gradients, weights, *others):
        told.append((x, weights))
        return original(x, gradients, weights, *others)

    original = batches.learnt
    monkeypatch.setattr(batches, "learnt", learnt)
    return told


@pytest.mark.parametrize("gradients", [40, 41, 399, 400, 777, 900])
def test_batches_are_paid_for_and_the_first_is_the_largest(gradients):
    first, *later = sizes(gradients)
    assert sum(later) + first == gradients and len(later) == 3 and first > max(later) >= min(later) > 0


def test_a_funnel_in_closed_form():
    asked = Asked(funnel)
    found = gone_after(asked, places(6))
    assert [x.shape for x in asked.places] == [(80, 6)] * 3
    np.testing.assert_array_equal(found.probes, asked.places[-1])
    assert np.abs(found.off).max() < 0.1 and 500 < found.worth <= 2000
    v, se = found.draws[:, 0], 1 / np.sqrt(found.worth)
    assert abs(v.mean()) < 4 * se and abs(np.log(v.var())) < 4 * np.sqrt(2) * se
    assert np.quantile(v, 0.05) == pytest.approx(stats.norm.ppf(0.05), abs=4 * se * 2.1)
    scaled = found.draws[:, 1:] * np.exp(-v / 2)[:, None]
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=0.06)


@pytest.mark.parametrize(("logdensity", "effects"), [(centred, THETA), (noncentred, Z)])
def test_hierarchies_by_quadrature_in_their_own_coordinates(logdensity, effects):
    found = gone_after(Asked(logdensity), places(DIM))
    mean, variance = Truth().moments(effects)
    se = np.sqrt(variance / found.worth)
    assert np.all(np.abs(found.draws.mean(axis=0) - mean) < 4.5 * se)
    assert np.all(np.abs(np.log(found.draws.var(axis=0) / variance)) < 7 / np.sqrt(found.worth))
    assert np.abs(found.off).max() < 1e-6


def test_what_the_surrogate_was_off_is_in_nats_with_the_median_at_zero():
    """A kink that no gradient before has shown, where v is over two."""

    def kinked(x):
        return funnel(x) - 3 * jnp.maximum(x[0] - 2, 0)

    found = gone_after(Asked(funnel, kinked, since=3), places(6))
    v = found.probes[:, 0]
    assert found is not None and v.max() > 2.3
    np.testing.assert_allclose(found.off, -3 * np.maximum(v - 2, 0), atol=0.1)


def test_a_gaussian_costs_no_further_gradient():
    asked = Asked(lambda x: -jnp.sum(x**2) / 2)
    assert gone_after(asked, places(6)) is None and not asked.places


def test_what_does_not_follow_is_given_up():
    """Another density at the new places than the first gradients have shown."""
    asked = Asked(funnel, lambda x: -jnp.sum(jnp.sin(9 * x)), since=1)
    assert gone_after(asked, places(6)) is None and len(asked.places) == 1
    asked = Asked(funnel, lambda x: -jnp.sum(jnp.sin(9 * x)), since=3)
    assert gone_after(asked, places(6)) is None and len(asked.places) == 3


@pytest.mark.parametrize(("end", "kept"), [(1.6, True), (0.0, False)])
def test_draws_outside_the_support_are_left_out_as_long_as_they_are_few(end, kept):
    def cut(x):
        return jnp.where(x[1] < end * jnp.exp(x[0] / 2), funnel(x), jnp.nan)

    asked = Asked(funnel, cut)
    found = gone_after(asked, places(6))
    assert (found is not None) == kept
    if kept:
        outside = [np.isnan(evaluated(cut)(x)[0]) for x in asked.places]
        assert all(0 < each.sum() <= 8 for each in outside)
        np.testing.assert_array_equal(found.probes, asked.places[-1])
        np.testing.assert_array_equal(found.off == -np.inf, outside[-1])
    else:
        assert len(asked.places) == 1


def test_the_first_draws_outside_the_support_are_left_out_too():
    found = gone_after(Asked(lambda x: jnp.where(x[1] < -1.2, -jnp.inf, funnel(x)), funnel), places(6))
    assert found is not None and np.isfinite(found.draws).all() and np.abs(found.off).max() < 0.1


def test_each_batch_goes_so_far_and_no_farther(learning):
    """In the logarithm of the variance, whose power is one here; from draws of a v that is much too narrow."""
    x = places(6) * [0.2, 1, 1, 1, 1, 1]
    asked = Asked(funnel)
    found = gone_after(asked, x)
    seen = x
    for batch in asked.places:
        assert seen[:, 0].min() - REACH < batch[:, 0].min() and batch[:, 0].max() < seen[:, 0].max() + REACH
        seen = np.concatenate([seen, batch])
    assert found.draws[:, 0].min() > seen[:, 0].min() - REACH and found.draws[:, 0].max() < seen[:, 0].max() + REACH
    assert asked.places[0][:, 0].max() > x[:, 0].max() + 0.5 * REACH and np.ptp(seen[:, 0]) > np.ptp(asked.places[0][:, 0])
    assert REACH <= 3


def test_the_last_draws_go_less_far_where_the_surrogate_was_not_right():
    """An improper v goes as far as it may: a fourth as far if the last batch has shown something that is not in the family."""

    def improper(x):
        return funnel(x) + x[0] ** 2 / 2

    def rippled(x):
        return improper(x) + 0.5 * jnp.sum(jnp.sin(3 * x[1:3]))

    for last in (None, rippled):
        asked, x = Asked(improper, last, since=3), places(6)
        found = gone_after(asked, x)
        seen, v = np.concatenate([x, *asked.places])[:, 0], found.draws[:, 0]
        farthest = max(seen.min() - v.min(), v.max() - seen.max())
        assert (0.8 * REACH < farthest < REACH) if last is None else (farthest < LAST_REACH)


def test_what_is_older_counts_half_and_what_is_nowhere_hardly(learning):
    """A wall beyond which the density falls by many nats."""

    def walled(x):
        return funnel(x) - 40 * jnp.maximum(x[0] - 1.2, 0.0)

    x = places(6, 0.5)
    asked = Asked(walled)
    gone_after(asked, x[x[:, 0] < 1.2])
    assert len(learning) >= 2
    for (before, old), (now, new), batch in zip(learning, learning[1:], asked.places, strict=False):
        np.testing.assert_array_equal(new[: len(before)], OLDER * old)
        np.testing.assert_array_equal(now[len(before) :], batch)
        mine = new[len(before) :]
        assert mine.max() == 1 and np.mean(mine == 1) >= 0.5  # the better half alike
        assert mine.min() >= LEAST_WEIGHT > 0
    first = learning[1][1][len(learning[0][0]) :]
    beyond = asked.places[0][:, 0] > 1.5
    assert beyond.any() and np.all(first[beyond] == LEAST_WEIGHT)
    value, surrogate = evaluated(walled)(asked.places[0])[0], evaluated(funnel)(asked.places[0])[0]
    off = value - surrogate
    np.testing.assert_allclose(first, np.clip(np.exp(np.minimum(off - np.median(off), 0)), LEAST_WEIGHT, 1), rtol=0.3, atol=0.02)


def test_what_cannot_be_solved_is_given_up(monkeypatch):
    def learnt(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(batches, "learnt", learnt)
    assert gone_after(Asked(funnel), places(6)) is None


def test_a_surrogate_without_a_peak_is_given_up():
    """Effects that are pushed apart, the more the wider they may be."""
    asked = Asked(lambda x: jnp.sum(x[1:] ** 2) * jnp.exp(x[0]) / 2 - x[0] ** 2 / 2)
    assert gone_after(asked, places(6)) is None and not asked.places


def test_where_a_surrogate_has_no_law_the_one_before_is_drawn_from():
    """One whose effects are pushed apart has no peak."""
    x = places(6)
    right, other, upward = (learnt(x, evaluated(funnel)(x)[1], np.ones(160)) for _ in range(3))
    upward.coefficients = -upward.coefficients
    for new, used in ((other, other), (upward, right), (None, right)):
        with np.errstate(all="ignore"):
            drawn, surrogate = batches._drawn(new, right, 2000, np.random.default_rng(0), REACH, True)
        assert surrogate is used and np.abs(drawn.x[:, 0].mean()) < 0.15 and np.isfinite(drawn.x).all()
    for before in (None, upward):
        with np.errstate(all="ignore"):
            assert batches._drawn(upward, before, 2000, np.random.default_rng(0), REACH, True) == (None, None)


def test_where_few_points_have_all_the_weight_the_surrogate_before_is_drawn_from(monkeypatch):
    worths = {"peaked": 0.99 * LEAST_WORTH * 2000, "broad": 1.01 * LEAST_WORTH * 2000}

    class Weighted:
        def __init__(self, surrogate):
            self.worth = worths[surrogate]

        def draw(self, *_):
            return Drawn(np.empty((0, 6)), self.worth, 2000)

    monkeypatch.setattr(batches, "Marginal", Weighted)
    for new, before, used in (("broad", "peaked", "broad"), ("peaked", "broad", "broad"), ("peaked", "peaked", None)):
        assert batches._drawn(new, before, 2000, np.random.default_rng(0), REACH, True)[1] == used


def test_effects_without_centring_are_known_to_have_their_scale_for_a_driver(monkeypatch):
    """Nothing else asks for one here."""
    monkeypatch.setattr("taddaa.surrogate.learn._add_driver", lambda *_: False)
    found = gone_after(Asked(noncentred), places(DIM))
    assert found is not None and np.abs(found.off).max() < 1e-6


def test_the_same_random_numbers_give_the_same():
    asked = Asked(funnel)
    one, other, third = (gone_after(asked, places(6), seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.draws, other.draws)
    assert not np.array_equal(one.draws, third.draws)
