"""Features along curves and along common directions: mean zero, right coverage, and nothing narrowed by what is not so."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from taddaa import Gaussian, Mean, Quantile, Target, Variance, diagnose
from taddaa.formulas.interval import log_variance_bonett, mean_interval, narrower, quantile_interval, with_unseen_tail
from taddaa.moves.metric import Bent, Dense
from taddaa.verdict import lines, stein

WIDTH, DIM = 0.4, 8
FACTOR = np.diag([1.1] * 6 + [0.35, 1.0])


def hierarchy(rng, chains):
    """x₁…x₆ | s normal with standard deviation eˢ, s ~ N(0, 0.4²), m ~ N(0, 1): states and gradients."""
    s, m = WIDTH * rng.standard_normal((chains, 1, 1)), rng.standard_normal((chains, 1, 1))
    x = np.exp(s) * rng.standard_normal((chains, 1, 6))
    squares = (x**2).sum(axis=2, keepdims=True) * np.exp(-2 * s)
    return np.concatenate([x, s, m], axis=2), np.concatenate([-x * np.exp(-2 * s), squares - 6 - s / WIDTH**2, -m], axis=2)


def quantities(x, g):
    """x₁, x₁ + m and eˢ m, each with its direction, and Lf and Γf by hand."""
    s, m, scale = x[..., 6], x[..., 7], np.exp(x[..., 6])
    slopes = np.zeros((*x.shape[:2], 3, DIM))
    slopes[..., 0, 0] = slopes[..., 1, 0] = slopes[..., 1, 7] = 1
    slopes[..., 2, 6], slopes[..., 2, 7] = scale * m, scale
    matrix = FACTOR @ FACTOR
    bends = np.stack([0 * s, 0 * s, scale * m * matrix[6, 6]], axis=-1)
    drift = np.einsum("nwkd,de,nwe->nwk", slopes, matrix, g) + bends
    directions = np.eye(DIM)[[0, 0, 7]] + np.eye(DIM)[[7, 7, 7]] * [[0], [1], [0]]
    return (
        np.stack([x[..., 0], x[..., 0] + m, scale * m], axis=-1),
        drift,
        np.einsum("nwkd,de,nwke->nwk", slopes, matrix, slopes),
        directions,
    )


def projected(x, g):
    values, drift, square, directions = quantities(x, g)
    straight = lines.project(x, g, Dense(FACTOR), directions)
    whole = lines.with_common(straight, x, g, Dense(FACTOR), directions)
    return values, straight, whole._replace(curve=lines.project_on_curves(values, drift, square))


def test_all_features_have_mean_zero():
    x, g = hierarchy(np.random.default_rng(0), 100_000)
    values, _, whole = projected(x, g)
    assert whole.common.shape == (100_000, 3, 10)
    ordered = np.sort(whole.curve.along.reshape(-1, 3), axis=0)
    indicator = stein._indicator_feature(values <= 0.5, whole.curve, ordered, stein._normal_tails(whole.curve.along)).mean(axis=1)[
        ..., None
    ]
    features = np.concatenate([stein.features_of(whole), indicator], axis=2).reshape(len(x), -1)
    assert np.abs(features.mean(axis=0) / features.std(axis=0) * np.sqrt(len(x))).max() < 4.5


def test_a_straight_curve_is_its_direction():
    x, g = hierarchy(np.random.default_rng(1), 50)
    values, drift, square, directions = quantities(x, g)
    curve, line = lines.project_on_curves(values, drift, square), lines.project(x, g, Dense(FACTOR), directions)
    for one, other in zip(curve[:2], line[:2], strict=True):
        np.testing.assert_allclose(one[..., :2], other[..., :2], atol=1e-9)
    np.testing.assert_allclose(curve.square[..., :2], 1.0)
    # A quantity alone is what it is among others.
    for one, other in zip(curve.of([2])[:3], curve[:3], strict=True):
        np.testing.assert_array_equal(one[..., 0], other[..., 2])


def test_coverage_and_gain():
    """80 samples of 200 chains; the truth by integration over s."""
    rng, level = np.random.default_rng(2), 0.95
    grid = np.linspace(-8 * WIDTH, 8 * WIDTH, 2001)
    mass = stats.norm.pdf(grid, scale=WIDTH)
    points = np.linspace(-4, 0, 4001)
    tenth = [
        np.interp(0.1, stats.norm.cdf(points[:, None] / np.sqrt(np.exp(2 * grid) + more)) @ mass / mass.sum(), points) for more in (0, 1, 0)
    ]
    square = np.exp(2 * WIDTH**2)
    truth = np.array([np.zeros(3), np.log([square, square + 1, square]), tenth])
    missed, width = np.zeros((3, 3)), np.zeros((2, 80, 3, 3))
    for sample in range(80):
        values, straight, whole = projected(*hierarchy(rng, 200))
        variance = with_unseen_tail(log_variance_bonett(values, level), values, level)
        plain = mean_interval(values, level), variance, quantile_interval(values, 0.1, level)
        for which, projection in enumerate((straight, whole)):
            sharp = (
                stein.mean(values, projection, None, level),
                stein.log_variance(values, projection, None, level),
                stein.quantile(values, 0.1, projection, None, level),
            )
            found = np.array([narrower(*pair) for pair in zip(plain, sharp, strict=True)])  # (3, part, quantity)
            width[which, sample] = found[:, 2] - found[:, 1]
        missed += (found[:, 1] > truth) | (found[:, 2] < truth)
    assert missed.max() <= stats.binom.ppf(1 - 1e-4, 80, 1 - level) + 1, missed
    gain = np.median(width[0] / width[1], axis=0)
    assert gain[0, 0] > 1.3 and gain[0, 2] > 2 and gain[1, 2] > 1.1, gain  # what common directions, and what curves, are for


def test_what_is_left_in_tails_that_no_chain_has_seen():
    """exp of a normal: Lf and f Lf + Γf explain nearly all of it but in the far tail, so that they may narrow at most threefold."""
    rng, level, held, widths = np.random.default_rng(5), 0.95, np.zeros(2), []
    for _ in range(80):
        x = rng.standard_normal((194, 8, 1))
        values = np.exp(x)
        straight = lines.project(x, -x, Dense(np.eye(1)), np.eye(1))
        curved = straight._replace(curve=lines.project_on_curves(values, values - x * values, values**2))
        mean, variance = stein.mean(values, curved, None, level), stein.log_variance(values, curved, None, level)
        few = stein.mean(values, straight, None, level)
        widths.append(float((mean.upper - mean.lower)[0] / (few.upper - few.lower)[0]))
        held += [mean.lower[0] <= np.exp(0.5) <= mean.upper[0], variance.lower[0] <= np.log((np.e - 1) * np.e) <= variance.upper[0]]
    assert np.all(held >= stats.binom.ppf(1e-3, 80, level)), held
    assert min(widths) > 0.33


def test_a_kink_is_noticed():
    """|x| of a normal: away from 0 its second derivative is zero, and L|x| = −|x| has not the mean zero."""
    x = np.random.default_rng(4).standard_normal((387, 2, 1))
    curve = lines.project_on_curves(np.abs(x), -np.abs(x), np.ones_like(x))
    assert not stein.balanced(curve).any()


@pytest.mark.parametrize("seed", range(2))
def test_products_in_a_whole_diagnosis(seed):
    """m + eˢ z, whose direction turns with s, and a function with a kink: their laws are known, and an exact fit has no error."""
    scales = np.array([1.0, WIDTH, 1.0])
    target = Target(
        lambda x: -0.5 * jnp.sum((x / scales) ** 2),
        3,
        constrain=lambda x: {"m": x[0], "s": jnp.exp(x[1]), "a": x[0] + jnp.exp(x[1]) * x[2]},
    )
    largest = lambda p: jnp.maximum(p["m"], p["a"] - p["m"])  # noqa: E731
    report = diagnose(
        target, Gaussian(np.zeros(3), scales), [Mean(), Variance(), Quantile(0.05), Mean(of=largest, name="largest")], seed=seed
    )
    rows = {(row.parameter, row.functional): row for row in report.rows}
    square = np.exp(2 * WIDTH**2)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    larger = np.sum(weights / weights.sum() * np.sqrt((1 + np.exp(2 * WIDTH * nodes)) / (2 * np.pi)))  # E max(m, eˢ z)
    truth = {("a", "mean"): 0.0, ("a", "variance"): 1 + square, ("s", "mean"): np.exp(WIDTH**2 / 2), ("largest", "mean"): larger}
    for key, value in truth.items():
        assert rows[key].corrected_lower <= value <= rows[key].corrected_upper, key
    assert all(row.verdict != "error" for row in report.rows)
    assert rows["a", "mean"].verdict == "within tolerance"


def test_parameters_that_all_depend_on_several_coordinates():
    """Under a map they have no curves; their intervals do without."""
    funnel = lambda x: -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0]  # noqa: E731
    target = Target(funnel, 5, constrain=lambda x: {"y": x[1:] + x[0]})
    report = diagnose(target, Gaussian(np.zeros(5), np.r_[1.0, np.full(4, np.exp(0.25))]))
    assert isinstance(report.continuation.walk.metric, Bent)
    for row in report.rows:
        if row.functional == "variance":
            assert row.corrected_lower <= 1 + np.exp(0.5) <= row.corrected_upper
