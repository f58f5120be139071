"""`taddaa.glance` against closed forms, its words, and what it refuses."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from taddaa.report.glance import DOUBTFUL, SEEMS_RIGHT, SEEMS_WRONG

COVARIANCE = np.array([[2.0, 1.2], [1.2, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)


def gaussian(x):
    return -0.5 * x @ jnp.asarray(PRECISION) @ x


TARGET = taddaa.Target(gaussian, dim=2, names=["a", "b"])
MEANFIELD = taddaa.Gaussian(np.array([0.5, 0.0]), 1 / np.sqrt(np.diag(PRECISION)))


def funnel(x):
    return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-3 * x[0]) - 1.5 * 9 * x[0]


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
