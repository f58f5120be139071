"""`taddaa.glance` against closed forms, its words, and what it refuses."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from hierarchies import DIM, THETA, Truth, Z, centred, evaluated, noncentred
from hierarchies import funnel as known_funnel
from taddaa.interop.callback import from_callback
from taddaa.report.glance import DOUBTFUL, SEEMS_RIGHT, SEEMS_WRONG
from taddaa.report.glance import _seems as seems
from taddaa.surrogate import batches

COVARIANCE = np.array([[2.0, 1.2], [1.2, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)


def gaussian(x):
    return -0.5 * x @ jnp.asarray(PRECISION) @ x


TARGET = taddaa.Target(gaussian, dim=2, names=["a", "b"])
MEANFIELD = taddaa.Gaussian(np.array([0.5, 0.0]), 1 / np.sqrt(np.diag(PRECISION)))


def funnel(x):
    return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-3 * x[0]) - 1.5 * 9 * x[0]


MEANFIELDS = {
    centred: taddaa.Gaussian(np.r_[0.0, np.full(DIM - 1, 0.4)], np.r_[0.5, 0.4, np.full(DIM - 2, 0.5)]),
    noncentred: taddaa.Gaussian(np.r_[-0.3, 0.5, np.zeros(DIM - 2)], np.r_[0.7, 0.4, np.ones(DIM - 2)]),
}
OF_FUNNEL = taddaa.Gaussian(np.zeros(6), np.r_[0.6, np.ones(5)])
ASKED = [taddaa.Mean(), taddaa.Variance(), taddaa.Quantile(0.05)]


def counted(logdensity, approximation):
    """The same on the host, and the numbers of rows that it was asked for, but for those that try it out."""
    evaluate, asked = evaluated(logdensity), []

    def on_host(x):
        asked.append(len(x))
        return evaluate(x)

    target, _ = from_callback(on_host, approximation.dim, approximation)
    taddaa.glance(target, approximation)  # compiles, and tries it out
    asked.clear()
    return target, asked


def rows(glance) -> dict[tuple[str, str], object]:
    return {(row.parameter, row.functional): row for row in glance.rows}


def test_a_gaussian_target_is_seen_exactly():
    found = taddaa.glance(TARGET, MEANFIELD, [taddaa.Mean(), taddaa.Variance(), taddaa.Quantile(0.95)])
    for i, name in enumerate("ab"):
        sd = np.sqrt(COVARIANCE[i, i])
        assert rows(found)[name, "mean"].estimate == pytest.approx(0, abs=1e-6)
        assert rows(found)[name, "variance"].estimate == pytest.approx(COVARIANCE[i, i], rel=1e-5)
        assert rows(found)[name, "q0.95"].estimate == pytest.approx(1.6448536 * sd, rel=1e-5)
    assert rows(found)["a", "mean"].error == pytest.approx(0.5 / np.sqrt(2), rel=1e-5)
    share = 1 / PRECISION[0, 0] / COVARIANCE[0, 0]
    assert rows(found)["a", "variance"].error == pytest.approx(np.log(share), rel=1e-4)
    assert [row.seems for row in found.rows] == [SEEMS_WRONG, SEEMS_RIGHT, *[SEEMS_WRONG] * 4]
    assert found.gradients == 400 and not found.astray


def test_parameters_on_another_scale_and_functions_of_them():
    """x normal with the wrong mean: the right exp(x) is lognormal, its logarithm normal."""
    target = taddaa.Target(lambda x: -0.5 * jnp.sum((x - 1) ** 2) / 0.01, dim=1, constrain=lambda x: {"s": jnp.exp(x[0])})
    asked = [taddaa.Mean(), taddaa.Mean(of=lambda p: jnp.log(p["s"]), name="log s")]
    found = rows(taddaa.glance(target, taddaa.Gaussian(np.array([1.1]), np.array([0.05])), asked))
    assert found["s", "mean"].estimate == pytest.approx(np.exp(1 + 0.005), rel=0.003)
    assert found["log s", "mean"].estimate == pytest.approx(1.0, abs=1e-3)
    assert found["log s", "mean"].error == pytest.approx(1.0, abs=0.05)


def test_a_funnel_is_doubted_as_a_whole():
    found = taddaa.glance(taddaa.Target(funnel, dim=10), taddaa.Gaussian(np.zeros(10), np.ones(10)))
    assert found.astray and {row.seems for row in found.rows} == {DOUBTFUL}
    assert found.headline.startswith("First look, not a bound: says nothing")


@pytest.mark.parametrize(("logdensity", "effects"), [(centred, THETA), (noncentred, Z)])
def test_a_hierarchy_is_seen_as_quadrature_sees_it(logdensity, effects):
    """And known to be: it is in the family, which is exact there. Of a fit without correlations that is wrong in most quantities."""
    target, truth = taddaa.Target(logdensity, dim=DIM), Truth()
    mean, variance = truth.moments(effects)
    found = taddaa.glance(target, MEANFIELDS[logdensity], ASKED)
    assert found.followed and found.bent < 1e-3 and found.gradients == 400 and not found.astray
    estimated = {kind: np.array([row.estimate for row in found.rows if row.functional == kind]) for kind in ("mean", "variance")}
    assert np.abs((estimated["mean"] - mean) / np.sqrt(variance)).max() < 0.09  # four standard errors of 2,000 draws
    assert np.abs(np.log(estimated["variance"] / variance)).max() < 0.15
    assert rows(found)["x[0]", "q0.05"].estimate == pytest.approx(truth.quantile(0.05), abs=0.2)
    for row in found.rows:
        assert row.doubt < 0.15 and row.seems != DOUBTFUL
        assert (row.seems == SEEMS_WRONG) == (abs(row.error) > (0.15 if row.functional == "variance" else 0.1))
    own = MEANFIELDS[logdensity].mean()
    for name, value, right, spread in zip([f"x[{i}]" for i in range(DIM)], own, mean, np.sqrt(variance), strict=True):
        assert rows(found)[name, "mean"].error == pytest.approx((value - right) / spread, abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_a_funnel_is_seen_in_closed_form(seed):
    """v ~ N(0, 1), and others given it N(0, exp(v)): their variance is e^½, and their kurtosis 3e."""
    asked = [*ASKED, taddaa.Covariance(0, 1), taddaa.Mean(of=lambda x: x[1] ** 2 * jnp.exp(-x[0]), name="square")]
    found = taddaa.glance(taddaa.Target(known_funnel, dim=6), OF_FUNNEL, asked, seed=seed)
    seen = rows(found)
    assert found.followed and found.bent < 1e-3 and found.gradients == 400
    assert seen["x[0]", "mean"].estimate == pytest.approx(0, abs=0.1)
    assert np.log(seen["x[0]", "variance"].estimate) == pytest.approx(0, abs=0.14)
    assert seen["x[0]", "q0.05"].estimate == pytest.approx(-1.645, abs=0.2)
    assert seen["square", "mean"].estimate == pytest.approx(1, abs=0.15)
    assert seen["x[0], x[1]", "covariance"].estimate == pytest.approx(0, abs=0.2)
    for i in range(1, 6):
        assert np.log(seen[f"x[{i}]", "variance"].estimate) == pytest.approx(0.5, abs=0.3)
        assert seen[f"x[{i}]", "mean"].seems == SEEMS_RIGHT and seen[f"x[{i}]", "variance"].seems != SEEMS_RIGHT
    assert "of what these gradients say of the posterior" in " ".join(str(found).split()) and json.loads(found.to_json())["followed"]


def test_progress_tells_of_each_batch_and_no_gradient_is_spent_twice():
    target, asked = counted(known_funnel, OF_FUNNEL)
    told = []
    found = taddaa.glance(target, OF_FUNNEL, progress=told.append)
    assert found.followed and [step.iteration for step in told] == [160, 240, 320, 400]
    assert {(step.stage, step.planned, step.look) for step in told} == {("first look", 400, "")}
    assert sum(asked) == found.gradients == 400


@pytest.mark.parametrize("spent", [0, 1, 3])
def test_what_is_given_up_is_looked_at_straight_with_what_is_left(spent, monkeypatch):
    """With all gradients as if nobody had tried, with those of the first batch if none are left."""
    target, asked = counted(known_funnel, OF_FUNNEL)
    told, draws = [], []

    def followed(evaluate, x, values, gradients, later, rng):
        draws.append(x)
        for size in later[:spent]:
            evaluate(rng.standard_normal((size, 6)))

    monkeypatch.setattr(batches, "followed", followed)
    found = taddaa.glance(target, OF_FUNNEL, progress=told.append)
    assert not found.followed and found.gradients == sum(asked) == told[-1].iteration == 400
    assert len(draws[0]) == 160
    monkeypatch.setattr(batches, "MOST_DIM", 5)
    straight = taddaa.glance(target, OF_FUNNEL)
    same = [one.estimate for one in found.rows] == [other.estimate for other in straight.rows]
    assert same == (spent == 0) and not straight.followed and np.isfinite([row.estimate for row in found.rows]).all()


def test_where_a_surrogate_cannot_follow_the_look_is_straight_and_pays_no_more():
    """Spheres, where others' widths depend on all coordinates alike."""
    for logdensity, dim in ((lambda x: -3 * jnp.log1p(x @ x), 6), (lambda x: -2 * (x @ x - 4) ** 2, 5)):
        found = taddaa.glance(taddaa.Target(logdensity, dim=dim), taddaa.Gaussian(np.zeros(dim), np.ones(dim)))
        assert not found.followed and found.gradients == 400 and DOUBTFUL in {row.seems for row in found.rows}


def test_what_was_asked_on_the_way_counts_where_it_is_given_up(monkeypatch):
    """A narrow fit of a quartic: where the posterior is, features say more of it; what the fit says is that of its own draws."""
    target, narrow = taddaa.Target(lambda x: -jnp.sum(x**4) / 4, dim=2), taddaa.Gaussian([0.3, 0.3], [0.2, 0.2])
    grid = np.linspace(-5, 5, 2001)
    weights = np.exp(-(grid**4) / 4)
    right = weights @ grid**2 / weights.sum()

    def followed(evaluate, x, values, gradients, later, rng):
        evaluate(0.8 * rng.standard_normal((sum(later), 2)))

    off, asked = [], [taddaa.Variance(), taddaa.Mean(of=lambda x: x[0] ** 2, name="square")]
    monkeypatch.setattr("taddaa.glancing.NEARLY_STRAIGHT", 0.0)
    for way in (lambda *_: None, followed):
        monkeypatch.setattr(batches, "followed", way)
        found = taddaa.glance(target, narrow, asked)
        assert not found.followed and found.gradients == 400
        off.append(max(abs(np.log(row.estimate / right)) for row in found.rows))
        own = [0.04, 0.04, 0.04 + 0.09]
        np.testing.assert_allclose([row.approximation for row in found.rows], own, rtol=0.1)
    assert off[0] > 0.5 and off[1] < 0.15


@pytest.mark.parametrize(
    ("logdensity", "approximation"),
    [
        (lambda x: -2.0 * x[0] + x[1], taddaa.Gaussian([0.0, 0.0], [1.0, 1.0])),
        (lambda x: -(x[0] ** 2) / 2 + 0 * x[1], taddaa.Gaussian([0.0, 0.0], [1.0, 1.0])),
        (lambda x: jnp.where(x[0] > 0, -(x @ x) / 2, -jnp.inf), taddaa.Gaussian([1.0, 0.0], [0.5, 1.0])),
    ],
)
def test_where_steins_identity_does_not_hold_nothing_is_said(logdensity, approximation):
    found = taddaa.glance(taddaa.Target(logdensity, dim=2), approximation)
    assert found.astray and {row.seems for row in found.rows} == {DOUBTFUL} and "says nothing: draws leave" in found.headline
    assert json.loads(found.to_json())["bent"] is None


def test_what_is_no_number_does_not_seem_right():
    for error, doubt, said in ((np.nan, 0.01, DOUBTFUL), (0.0, np.nan, DOUBTFUL), (0.0, 0.01, SEEMS_RIGHT), (np.inf, 0.01, SEEMS_WRONG)):
        assert seems(error, doubt, 0.1, astray=False) == said


def test_gradients_beyond_all_measure_are_doubted_and_break_nothing():
    found = taddaa.glance(taddaa.Target(lambda x: 1e200 * known_funnel(x), dim=6), OF_FUNNEL)
    assert {row.seems for row in found.rows} == {DOUBTFUL} and "too large" in str(found)


def test_many_dimensions_are_looked_at_straight():
    dim = 301
    target = taddaa.Target(known_funnel, dim=dim)
    found = taddaa.glance(target, taddaa.Gaussian(np.zeros(dim), np.r_[0.6, np.ones(dim - 1)]))
    assert not found.followed and found.gradients == 3 * dim and found.astray


def test_a_support_that_draws_leave_is_followed_as_far_as_most_stay_inside():
    """Where a twentieth of all draws have no density, and where a quarter have none."""
    for end, inside in ((-1.0, True), (0.0, False)):

        def cut(x, end=end):
            return jnp.where(x[1] > end * jnp.exp(x[0] / 2) - 0.7, known_funnel(x), -jnp.inf)

        found = taddaa.glance(taddaa.Target(cut, dim=6), OF_FUNNEL)
        assert found.gradients == 400 and (found.followed or found.notes) and np.isfinite([row.estimate for row in found.rows]).all()
        assert found.followed == inside


def test_what_the_features_cannot_explain_is_doubtful():
    asked = [taddaa.Mean(of=lambda x: jnp.abs(x[0]), name="abs"), taddaa.Covariance("a", "b")]
    found = taddaa.glance(TARGET, MEANFIELD, asked)
    assert [row.seems for row in found.rows] == [DOUBTFUL, DOUBTFUL]
    assert "—" in str(found)


def test_words_tables_and_json_agree():
    found = taddaa.glance(TARGET, MEANFIELD, seed=3)
    assert "not a bound" in found.headline and str(found).startswith(found.headline) and repr(found) == str(found)
    assert list(found.to_dataframe().parameter) == ["a", "b", "a", "b"]
    stored = json.loads(found.to_json())
    assert stored["schema"] == "taddaa-glance" and stored["rows"][0]["estimate"] == found.rows[0].estimate
    assert [row.estimate for row in taddaa.glance(TARGET, MEANFIELD, seed=3).rows] == [row.estimate for row in found.rows]


def test_what_cannot_be_looked_at_is_refused():
    with pytest.raises(taddaa.InputError, match="dim = 2"):
        taddaa.glance(TARGET, taddaa.Gaussian(np.zeros(3), np.ones(3)))
    outside = taddaa.Target(lambda x: jnp.where(x[0] > 50, -0.5 * x @ x, -jnp.inf), dim=2)
    with pytest.raises(taddaa.InputError, match="finite at 0 of 400 draws"):
        taddaa.glance(outside, MEANFIELD)


def test_a_diagnosis_tells_its_first_look_before_the_chains_move():
    told = []
    settings = taddaa.Settings(chains=100, iterations=16, budget=1)
    taddaa.diagnose(TARGET, MEANFIELD, settings=settings, progress=told.append)
    assert told[0].look.startswith("First look, not a bound:") and told[0].iteration == 0
    assert not any(step.look for step in told[1:])
