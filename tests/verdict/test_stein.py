"""Stein intervals against closed forms: exact for Gaussians, right coverage elsewhere, and nothing narrowed by a wrong gradient."""

import numpy as np
import pytest
from scipy import special, stats

from taddaa.formulas import crossfit
from taddaa.formulas.interval import Interval, log_variance_bonett, mean_interval, narrower, quantile_interval
from taddaa.moves.metric import Dense, Diagonal, DiagonalLowRank
from taddaa.verdict import lines, stein

CHAINS, STATES = 200, 2
METRICS = ("dense", "wrong", "diagonal", "low rank")


def gaussian(rng, dim=5, chains=CHAINS, states=STATES):
    """Draws of a correlated normal with mean 1000 and their gradients."""
    root = np.linalg.cholesky(0.5 * np.eye(dim) + 0.5) * np.geomspace(0.1, 10, dim)[:, None]
    z = rng.standard_normal((chains, states, dim))
    return 1000 + z @ root.T, -z @ np.linalg.inv(root), root


def metric_of(name, root, rng):
    dim = len(root)
    if name == "dense":
        return Dense(root)
    if name == "wrong":
        return Dense(root @ (np.eye(dim) + 0.2 * rng.standard_normal((dim, dim))))
    scale = np.sqrt((root**2).sum(axis=1))
    if name == "diagonal":
        return Diagonal(scale)
    return DiagonalLowRank(scale, np.linalg.qr(rng.standard_normal((dim, 2)))[0], np.array([2.0, 0.7]))


def scale_mixture(rng, chains, width=0.3, states=1):
    """x | s normal with standard deviation eˢ, s ~ N(0, width²), d = 3: fat tails, and a funnel's beginning."""
    s = width * rng.standard_normal((chains, states, 1))
    x = np.exp(s) * rng.standard_normal((chains, states, 2))
    squares = (x**2).sum(axis=2, keepdims=True) * np.exp(-2 * s)
    return np.concatenate([x, s], axis=2), np.concatenate([-x * np.exp(-2 * s), squares - 2 - s / width**2], axis=2)


def sharpened(x, g, metric, directions=None):
    return lines.project(x, g, metric, directions), stein.kernel_of(x, g, metric)


PLAIN = {stein.mean: mean_interval, stein.log_variance: log_variance_bonett}


def used(of, values, projection, kernel, level):
    """What is handed on: the plain interval where the sharper one is not worth while."""
    return narrower(PLAIN[of](values, level), of(values, projection, kernel, level))


def used_quantile(values, p, projection, kernel, level):
    return narrower(quantile_interval(values, p, level), stein.quantile(values, p, projection, kernel, level))


def indicator(below, projection):
    ordered = np.sort(projection.along.reshape(-1, projection.along.shape[-1]), axis=0)
    return stein._indicator_feature(below, projection, ordered, stein._normal_tails(projection.along))


def width(interval):
    return interval.upper - interval.lower


@pytest.mark.parametrize("name", METRICS)
def test_projection_is_that_of_the_definition(name):
    rng = np.random.default_rng(0)
    x, g, root = gaussian(rng, chains=7)
    metric = metric_of(name, root, rng)
    matrix = np.asarray(metric.push(np.asarray(metric.pull(np.eye(5)))))  # G
    directions = rng.standard_normal((3, 5))
    for given, v in ((directions, directions), (None, np.eye(5))):
        found = lines.project(x, g, metric, given)
        length = np.sqrt(np.einsum("kd,de,ke->k", v, matrix, v))
        along, force = (x - 1000) @ v.T / length, g @ matrix @ v.T / length
        np.testing.assert_allclose(found.force, force, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.along - found.along[0, 0], along - along[0, 0], atol=1e-9)
        if name == "dense":
            np.testing.assert_allclose(found.along, along, atol=1e-9)  # centred at the target's mean, not at the draws'
    pair = directions[:2]
    expected = pair[0] @ matrix @ pair[1] / np.sqrt((pair[0] @ matrix @ pair[0]) * (pair[1] @ matrix @ pair[1]))
    assert lines.alignment(metric, pair) == pytest.approx(expected)


def test_kernel_is_the_stein_operator_on_both_arguments():
    """Against finite differences of the base kernel."""
    rng = np.random.default_rng(1)
    y, y2, g, g2 = rng.standard_normal((4, 3))
    step = 1e-4
    unit = step * np.eye(3)

    def base(a, b):
        return np.exp(-np.sum((a - b) ** 2) / (2 * stein.KERNEL_WIDTH * 3))

    def first(a, b):
        return np.array([base(a + e, b) - base(a - e, b) for e in unit]) / (2 * step)

    def second(a, b):
        return np.array([base(a, b + e) - base(a, b - e) for e in unit]) / (2 * step)

    cross = sum((first(y, y2 + e)[i] - first(y, y2 - e)[i]) / (2 * step) for i, e in enumerate(unit))
    expected = cross + g @ second(y, y2) + g2 @ first(y, y2) + base(y, y2) * (g @ g2)
    assert stein._kernel_block(y[None], g[None], y2[None], g2[None])[0, 0] == pytest.approx(expected, abs=1e-6)


def test_features_and_kernel_have_mean_zero():
    x, g = scale_mixture(np.random.default_rng(2), 200_000)
    projection = lines.project(x, g, Diagonal(np.array([1.1, 1.1, 0.3])))
    features = np.concatenate([stein.features_of(projection), indicator(x <= 0.5, projection).mean(axis=1)[..., None]], axis=2)
    block = stein._kernel_block(x[:, 0], g[:, 0], np.ones((1, 3)), np.ones((1, 3)))
    for values in (features.reshape(len(features), -1), block):
        z = values.mean(axis=0) / values.std(axis=0) * np.sqrt(len(values))
        assert np.abs(z).max() < 4.5


@pytest.mark.parametrize("name", METRICS)
def test_gaussian_is_exact_up_to_rounding(name):
    rng = np.random.default_rng(3)
    x, g, root = gaussian(rng)
    metric = metric_of(name, root, rng)
    projection, kernel = sharpened(x, g, metric)
    sd = np.sqrt(np.diag(root @ root.T))
    exact = name == "dense"  # in another metric two features cannot do it alone, but the interval still narrows
    found = used(stein.mean, x, projection, kernel, 0.9999)
    assert np.all(np.abs(found.estimate - 1000) <= found.upper - found.estimate)
    assert np.all(width(found) < (1e-5 if exact else 0.4) * sd)
    assert np.all(width(found) > 1e-7 * sd)  # rounding must not become an error
    found = used(stein.log_variance, x, projection, kernel, 0.9999)
    assert np.all(np.abs(found.estimate - 2 * np.log(sd)) <= found.upper - found.estimate)
    assert np.all(width(found) < (1e-5 if exact else 1.0))
    found = used_quantile(x, 0.1, projection, kernel, 0.9999)
    truth = 1000 + sd * stats.norm.ppf(0.1)
    assert np.all((found.lower <= truth) & (truth <= found.upper))
    assert np.all(width(found) < (2e-5 if exact else 2.0) * sd)
    if exact:
        pair = stein.covariance(x[..., :2], projection.of([0, 1]), kernel, 0.9999, lines.alignment(metric, np.eye(5)[:2]))
        truth = (root @ root.T)[0, 1]
        assert pair.lower[0] <= truth <= pair.upper[0] and width(pair)[0] < 1e-4 * sd[0] * sd[1]


def test_remainders_are_what_two_regressions_by_hand_give():
    """Fold by fold, against the normal equations of Gaussian-process regression with a constant and features of its own."""
    rng = np.random.default_rng(4)
    values, features = rng.standard_normal((30, 1)), rng.standard_normal((30, 1, 2))
    points = rng.standard_normal((30, 3))
    matrix = np.exp(-((points[:, None] - points) ** 2).sum(axis=2))
    kernel = crossfit.Kernel(matrix, [np.linalg.eigh(matrix[np.ix_(fit, fit)]) for fit, _ in crossfit.folds(30)])
    found = crossfit.regress(values, features, kernel, np.full((crossfit.FOLDS, 1), 0.3)).remainders[:, 0]
    for fit, rest in crossfit.folds(30):
        columns = np.column_stack([np.ones(len(fit)), features[fit, 0]])
        inverse = np.linalg.inv(np.eye(len(fit)) + matrix[np.ix_(fit, fit)] / 0.3)
        beta = np.linalg.solve(columns.T @ inverse @ columns, columns.T @ inverse @ values[fit, 0])
        smooth = matrix[np.ix_(rest, fit)] / 0.3 @ inverse @ (values[fit, 0] - columns @ beta)
        np.testing.assert_allclose(found[rest], values[rest, 0] - features[rest, 0] @ beta[1:] - smooth, atol=1e-8)


def test_leave_one_out_errors_are_those_of_leaving_one_out():
    rng = np.random.default_rng(5)
    values, columns = rng.standard_normal((20, 1)), np.concatenate([np.ones((20, 1, 1)), rng.standard_normal((20, 1, 2))], axis=2)
    matrix = np.cov(rng.standard_normal((20, 50)))
    ridge = np.array([0.5])
    errors = []
    for i in range(20):
        rest = np.arange(20) != i
        inverse = np.linalg.inv(np.eye(19) + matrix[np.ix_(rest, rest)] / 0.5)
        b = columns[rest, 0]
        beta = np.linalg.solve(b.T @ inverse @ b, b.T @ inverse @ values[rest, 0])
        smooth = matrix[i, rest] / 0.5 @ inverse @ (values[rest, 0] - b @ beta)
        errors.append(values[i, 0] - columns[i, 0] @ beta - smooth)
    assert crossfit._fitted(values, columns, np.linalg.eigh(matrix), ridge)[0][0] == pytest.approx(np.mean(np.square(errors)), rel=1e-6)


@pytest.mark.parametrize("with_kernel", [True, False])
def test_coverage_where_tails_are_fat(with_kernel):
    """x, its variance and its 10 % quantile, and exp(s), whose direction is its gradient: 60 samples of 150 chains."""
    rng = np.random.default_rng(6)
    metric = Diagonal(np.array([1.1, 1.1, 0.3]))
    level, spread = 0.95, 0.3
    grid = np.linspace(-8 * spread, 8 * spread, 2001)
    mass = stats.norm.pdf(grid, scale=spread)
    points = np.linspace(-3, 0, 3001)
    tenth = np.interp(0.1, stats.norm.cdf(points[:, None] * np.exp(-grid)) @ mass / mass.sum(), points)
    held, gained = np.zeros(4), np.zeros(4)
    for _ in range(60):
        x, g = scale_mixture(rng, 150)
        values = np.concatenate([x[..., :1], np.exp(x[..., 2:])], axis=2)
        projection = lines.project(x, g, metric, np.eye(3)[[0, 2]])
        kernel = stein.kernel_of(x, g, metric) if with_kernel else None
        means, variances = used(stein.mean, values, projection, kernel, level), stein.log_variance(values, projection, kernel, level)
        quantiles = used_quantile(values, 0.1, projection, kernel, level)
        plain = [mean_interval(values, level), log_variance_bonett(values, level), quantile_interval(values, 0.1, level)]
        rows = [(means, 0, 0.0, 0), (means, 1, np.exp(spread**2 / 2), 0), (variances, 0, 2 * spread**2, 1), (quantiles, 0, tenth, 2)]
        for i, (interval, column, truth, which) in enumerate(rows):
            held[i] += interval.lower[column] <= truth <= interval.upper[column]
            gained[i] += width(interval)[column] < 0.95 * width(plain[which])[column]
    assert np.all(held >= stats.binom.ppf(1e-3, 60, level))
    assert np.all(gained[:2] > 50)  # the means always gain


def wrong_gradients(x, g):
    return {
        "shifted": g + np.array([0.5, 0, 0]),
        "slightly shifted": g + np.array([0.12, 0, 0]),
        "tempered": 0.6 * g,
        "of another target": -x,
        "zero": 0 * g,
        "noise": np.random.default_rng(0).standard_normal(g.shape),
        "turned": -g,
        "one coordinate forgotten": g * np.array([1, 1, 0]),
    }


@pytest.mark.parametrize("name", wrong_gradients(np.zeros((1, 1, 3)), np.zeros((1, 1, 3))))
def test_a_wrong_gradient_is_noticed(name):
    x, g = scale_mixture(np.random.default_rng(7), 387)
    metric = Diagonal(np.array([1.1, 1.1, 0.3]))
    assert stein.balanced(lines.project(x, g, metric)).all()
    assert not stein.balanced(lines.project(x, wrong_gradients(x, g)[name], metric)).all()


@pytest.mark.parametrize("law", [stats.uniform(0, 1), stats.expon(), stats.halfnorm()])
def test_density_at_the_edge_of_the_support_is_noticed(law):
    x = law.rvs((387, 1, 2), random_state=8)
    slope = {"uniform": 0 * x, "expon": 0 * x - 1, "halfnorm": -x}[law.dist.name]
    assert not stein.balanced(lines.project(x, slope, Diagonal(np.full(2, law.std())))).all()


def test_right_gradients_are_rarely_called_wrong():
    rng = np.random.default_rng(9)
    metric = Diagonal(np.array([1.1, 1.1, 0.3]))
    alarms = sum(not stein.balanced(lines.project(*scale_mixture(rng, 100), metric)).all() for _ in range(400))
    assert alarms <= stats.binom.ppf(0.999, 400, 0.01)


def test_features_that_tell_nothing_narrow_nothing():
    """A quantity that has nothing to do with its direction: the plain interval to the last digit."""
    rng = np.random.default_rng(10)
    x, values = rng.standard_normal((300, 2, 3)), rng.standard_normal((300, 2, 3))
    projection, kernel = sharpened(x, -x, Diagonal(np.ones(3)))
    pairs = [
        (used(stein.mean, values, projection, kernel, 0.99), mean_interval(values, 0.99)),
        (used(stein.log_variance, values, projection, kernel, 0.99), log_variance_bonett(values, 0.99)),
        (used_quantile(values, 0.3, projection, kernel, 0.99), quantile_interval(values, 0.3, 0.99)),
    ]
    for sharp, plain in pairs:
        np.testing.assert_array_equal(np.array(sharp), np.array(plain))


def test_constants_discrete_and_infinite_quantities():
    rng = np.random.default_rng(11)
    x, g, root = gaussian(rng)
    values = np.concatenate([np.full_like(x[..., :1], 3.0), np.round(x[..., 4:] / 10), np.where(x[..., :1] > 1000.2, np.inf, 1.0)], axis=2)
    projection, kernel = sharpened(x, g, Dense(root), np.eye(5)[[0, 4, 0]])
    with np.errstate(all="ignore"):
        means, plain = used(stein.mean, values, projection, kernel, 0.99), mean_interval(values, 0.99)
        variances = used(stein.log_variance, values, projection, kernel, 0.99)
        quantiles = used_quantile(values, 0.5, projection, kernel, 0.99)
        plain_variances, plain_quantiles = log_variance_bonett(values, 0.99), quantile_interval(values, 0.5, 0.99)
    assert means.lower[0] <= 3.0 <= means.upper[0] and width(means)[0] <= 1e-9
    assert means.lower[1] <= 100 <= means.upper[1] and width(means)[1] < 0.7 * width(plain)[1]  # a rounded value still gains
    for sharp, old in ((means, plain), (variances, plain_variances), (quantiles, plain_quantiles)):
        np.testing.assert_array_equal(sharp.estimate[2], old.estimate[2])
    for part, old in zip(quantiles, plain_quantiles, strict=True):
        np.testing.assert_array_equal(part[:2], old[:2])  # ties: order statistics only


@pytest.mark.parametrize("chains", [10, 12, 16])
def test_few_chains_never_fail_and_rarely_mislead(chains):
    rng = np.random.default_rng(12)
    held = 0
    for _ in range(100):
        x, g = scale_mixture(rng, chains)
        metric = Diagonal(np.array([1.1, 1.1, 0.3]))
        projection, kernel = sharpened(x, g, metric)
        found = used(stein.mean, x, projection, kernel, 0.95)
        assert np.all(width(used(stein.log_variance, x, projection, kernel, 0.95)) > 0)
        used_quantile(x, 0.5, projection, kernel, 0.95)
        held += found.lower[0] <= 0 <= found.upper[0]
    assert held >= stats.binom.ppf(1e-3, 100, 0.93)


def test_quantiles_in_a_tail_that_has_no_mean():
    """Of half-Cauchy scales, whose points lie far apart there: each interval's ends are in order, and nearly all hold at a strict level."""
    rng, level, p = np.random.default_rng(0), 1 - 0.05 / 400, 0.95
    outside, widths = 0, []
    for _ in range(40):
        scale = np.abs(rng.standard_cauchy((194, 4, 12)))
        projection = lines.project(np.log(scale), 1 - 2 * scale**2 / (1 + scale**2), Diagonal(np.full(12, 1.5)))
        found, plain = stein.quantile(scale, p, projection, None, level), quantile_interval(scale, p, level)
        known = np.isfinite(found.estimate + found.lower + found.upper)  # elsewhere the plain one is used
        assert np.all((found.lower <= found.estimate)[known] & (found.estimate <= found.upper)[known])
        outside += int(np.sum((found.lower[known] > np.tan(p * np.pi / 2)) | (found.upper[known] < np.tan(p * np.pi / 2))))
        widths.append((found.upper - found.lower)[known] / (plain.upper - plain.lower)[known])
    assert outside <= 1  # of 480; one in two thousand is expected
    assert np.median(np.concatenate(widths)) < 0.3  # and it gains


def test_a_quantile_far_out_has_finite_features():
    t = np.array([-40.0, -8.0, 0.0, 8.0, 40.0])[:, None, None]
    features = indicator(t <= -8.0, lines.Projection(t, -t))
    assert np.all(np.isfinite(features))
    # For a standard normal the feature is the indicator less its probability, exactly.
    np.testing.assert_allclose(features[:, 0, 0], (t[:, 0, 0] <= -8.0) - special.ndtr(-8.0), atol=1e-12)


def test_the_kernel_is_left_out_where_it_cannot_help():
    metric = Diagonal(np.ones(50))
    x = np.random.default_rng(13).standard_normal((60, 1, 50))
    assert stein.kernel_of(x, -x, metric) is None
    assert stein.kernel_of(x[..., :3], np.where(x[..., :3] > 2, np.inf, -x[..., :3]), Diagonal(np.ones(3))) is None
    assert stein.kernel_of(x[:5, :, :3], -x[:5, :, :3], Diagonal(np.ones(3))) is None
    assert stein.kernel_of(x[..., :3], -x[..., :3], Diagonal(np.ones(3))) is not None


def test_a_kernel_narrows_at_most_fivefold():
    """x⁴ of a normal: the kernel fits it nearly exactly where the chains are, and cannot know beyond."""
    x = np.random.default_rng(14).standard_normal((300, 1, 2))
    values = x[..., :1] ** 4
    projection, kernel = sharpened(x, -x, Diagonal(np.ones(2)), np.eye(2)[:1])
    alone, both = (used(stein.mean, values, projection, each, 0.95) for each in (None, kernel))
    ratio = width(alone)[0] / width(both)[0]
    assert 3 < ratio <= stein.KERNEL_GAIN * (1 + 1e-6)
    assert both.lower[0] <= 3 <= both.upper[0]


def test_heavy_tails_widen():
    """The half-width of the documented formula, with SciPy's quantiles and kurtosis."""
    left = np.random.default_rng(15).standard_t(3, (200, 1))
    centre, half = crossfit.centre_and_half(left, 0.999)
    sd, kurtosis = left.std(ddof=1), np.mean((left - left.mean()) ** 4) / left.var(ddof=1) ** 2
    student = stats.t.ppf(0.9995, 2 * 200 / (kurtosis - 1)) * sd / np.sqrt(200)
    missing = np.abs(left - left.mean()).max() * np.log(2000) / 200
    assert centre[0] == pytest.approx(left.mean()) and half[0] == pytest.approx(np.hypot(student, missing))
    assert half[0] > 1.2 * (mean_interval(left[:, None], 0.999).upper[0] - left.mean())


def test_a_wild_variance_does_not_look_precise(monkeypatch):
    """Ten times the draws' own variance, give or take one of it: on the log scale that would seem narrow."""
    x = np.random.default_rng(17).standard_normal((100, 1, 1))
    projection = lines.project(x, -x, Diagonal(np.ones(1)))
    monkeypatch.setattr(stein, "_sharp", lambda *_: Interval(*(np.full(1, value) for value in (10.0, 9.0, 11.0))))
    np.testing.assert_array_equal(np.array(used(stein.log_variance, x, projection, None, 0.99)), np.array(log_variance_bonett(x, 0.99)))
