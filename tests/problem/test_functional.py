"""Functionals: rows, labels, values under q, and bounds against a truth in closed form."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import taddaa
from taddaa import Covariance, Draws, Gaussian, InputError, Mean, Quantile, Settings, StudentT, Target, Variance
from taddaa.problem.functional import as_functionals

MEAN = np.array([1.0, 0.0, -1.0])
COVARIANCE = np.array([[2.0, 1.2, 0.0], [1.2, 1.0, 0.3], [0.0, 0.3, 0.5]])
PRECISION = np.linalg.inv(COVARIANCE)
# The approximation: one mean is off by a standard deviation, and correlations are ignored.
Q_MEAN, Q_SD = MEAN - [0.0, 1.0, 0.0], 1 / np.sqrt(np.diag(PRECISION))


def logdensity(x, precision):
    return -0.5 * (x - jnp.asarray(MEAN, x.dtype)) @ precision @ (x - jnp.asarray(MEAN, x.dtype))


def product(x):
    return x[0] * x[1]


def ends(x):
    return x[jnp.array([0, 2])]


TARGET = Target(logdensity, dim=3, names=["a", "b", "c"], data=PRECISION)
P90 = stats.norm.ppf(0.9)
# functional, and for each of its rows: name, label, F(q), F(π)
ASKED = [
    (Mean(), [(n, "mean", q, m) for n, q, m in zip("abc", Q_MEAN, MEAN, strict=True)]),
    (Variance(), [(n, "variance", q**2, v) for n, q, v in zip("abc", Q_SD, np.diag(COVARIANCE), strict=True)]),
    (
        Quantile(0.9),
        [
            (n, "q0.9", q + P90 * s, m + P90 * np.sqrt(v))
            for n, q, s, m, v in zip("abc", Q_MEAN, Q_SD, MEAN, np.diag(COVARIANCE), strict=True)
        ],
    ),
    (Covariance("a", "b"), [("a, b", "covariance", 0.0, 1.2)]),
    (Covariance(1, -1, name="b with c"), [("b with c", "covariance", 0.0, 0.3)]),
    (Mean(of=product), [("product", "mean", Q_MEAN[0] * Q_MEAN[1], MEAN[0] * MEAN[1] + 1.2)]),
    (Mean(of=ends, name="end"), [("end[0]", "mean", Q_MEAN[0], MEAN[0]), ("end[1]", "mean", Q_MEAN[2], MEAN[2])]),
    (
        Variance(of=lambda x: x[0] - x[1], name="difference"),
        [("difference", "variance", Q_SD[0] ** 2 + Q_SD[1] ** 2, 2.0 + 1.0 - 2.4)],
    ),
    (
        Quantile(0.1, of=jnp.sum, name="total"),
        [("total", "q0.1", Q_MEAN.sum() - P90 * np.linalg.norm(Q_SD), MEAN.sum() - P90 * np.sqrt(COVARIANCE.sum()))],
    ),
    (Covariance(of=lambda x: jnp.stack([x[0], x[1] + x[2]]), name="pair"), [("pair", "covariance", 0.0, 1.2)]),
]


@pytest.fixture(scope="module")
def report():
    return taddaa.diagnose(TARGET, Gaussian(Q_MEAN, Q_SD), functionals=[functional for functional, _ in ASKED], seed=1)


EXPECTED = [row for _, rows in ASKED for row in rows]


def on_scale(functional: str, value: float) -> float:
    return np.log(value) if functional == "variance" else value


def test_rows_come_in_the_order_asked(report):
    assert [(row.parameter, row.functional) for row in report.rows] == [(name, label) for name, label, _, _ in EXPECTED]


@pytest.mark.parametrize("index", range(len(EXPECTED)), ids=[f"{label} of {name}" for name, label, _, _ in EXPECTED])
def test_bounds_against_the_truth(report, index):
    row = report.rows[index]
    _, label, under_q, truth = EXPECTED[index]
    # Known exactly, or from 20,000 draws of q
    assert row.approximation == pytest.approx(under_q, abs=1e-9) or abs(row.approximation - under_q) < 0.08
    error = on_scale(label, truth) - on_scale(label, under_q)
    assert on_scale(label, row.corrected) == pytest.approx(on_scale(label, truth), abs=row.detectable)
    assert row.corrected_lower <= truth <= row.corrected_upper
    assert row.bound <= abs(error)
    assert row.lower <= error <= row.upper
    if abs(error) > 1.5 * row.detectable:
        assert row.verdict == "error"
        assert np.sign(row.lower) == np.sign(error)
    if error == 0:
        assert row.bound == 0.0 and row.verdict in ("no error found", "within tolerance")


def test_closed_forms_are_exact(report):
    for row, (_, label, under_q, _) in zip(report.rows, EXPECTED, strict=True):
        if row.parameter in {"a", "b", "c", "a, b", "b with c"}:
            assert row.approximation == pytest.approx(under_q, rel=1e-12, abs=1e-15), (row.parameter, label)


def test_relative_bounds_are_in_moved_standard_deviations(report):
    sd = {name: float(report.moved[name].std(ddof=1)) for name in "abc"}
    units = {"mean": sd, "q0.9": sd, "variance": dict.fromkeys("abc", 1.0)}
    checked = 0
    for row in report.rows:
        if row.bound > 0 and row.parameter in sd:
            assert row.relative_bound == pytest.approx(row.bound / units[row.functional][row.parameter], rel=1e-9)
            checked += 1
        if row.parameter == "a, b":
            assert row.relative_bound == pytest.approx(row.bound / (sd["a"] * sd["b"]), rel=1e-9)
    assert checked >= 4


def test_rho2_of_functions_too(report):
    moved, start = (np.prod(draws[:, :2], axis=1) for draws in (report.moved_draws, report.start_draws))
    row = next(row for row in report.rows if row.parameter == "product")
    assert row.rho2 == pytest.approx(np.corrcoef(start, moved)[0, 1] ** 2, abs=1e-9)
    pair = next(row for row in report.rows if row.parameter == "a, b")
    assert pair.rho2 == max(row.rho2 for row in report.rows[:2])


def test_rows_live_on_the_constrained_scale():
    """theta normal, log τ normal: on the user's scale τ is lognormal, known in closed form."""
    target = Target(lambda x: -0.5 * jnp.sum(x**2), dim=5, constrain=lambda x: {"theta": x[:4], "tau": jnp.exp(0.5 * x[4])})
    settings = Settings(chains=1000)
    asked = [Mean(), Variance(), Mean(of=lambda p: p["tau"] * p["theta"][3], name="scaled")]
    report = taddaa.diagnose(target, Gaussian(np.zeros(5), np.ones(5)), functionals=asked, settings=settings)
    assert report.labels == ("theta[0]", "theta[1]", "theta[2]", "theta[3]", "tau")
    assert list(report.moved.columns) == list(report.labels)
    assert np.all(report.moved["tau"] > 0)
    tau = {row.functional: row for row in report.rows if row.parameter == "tau"}
    mean, variance = np.exp(0.125), (np.exp(0.25) - 1) * np.exp(0.25)
    assert tau["mean"].approximation == pytest.approx(mean, abs=0.03)
    assert tau["mean"].moved == pytest.approx(mean, abs=0.08)
    assert tau["variance"].approximation == pytest.approx(variance, rel=0.15)
    assert tau["variance"].moved == pytest.approx(variance, rel=0.4)
    assert {row.verdict for row in report.rows} <= {"no error found", "within tolerance"}


def test_a_shifted_log_scale_is_found_on_the_users_scale():
    target = Target(lambda x: -0.5 * jnp.sum(x**2), dim=1, constrain=lambda x: {"tau": jnp.exp(x[0])})
    report = taddaa.diagnose(target, Gaussian([-1.0], [1.0]), functionals=[Mean(), Quantile(0.5)])
    mean, median = report.rows
    assert 0.3 < mean.bound <= np.exp(0.5) - np.exp(-0.5)
    assert 0.3 < median.bound <= 1 - np.exp(-1.0)
    assert median.corrected_lower <= 1.0 <= median.corrected_upper < 1.01  # where only the shape between points is in doubt


# Draws: two-sample intervals ---------------------------------------------------------------------------------------------


def exact_draws(seed, count=500):
    return Draws(np.random.default_rng([77, seed]).multivariate_normal(MEAN, COVARIANCE, count))


QUANTITIES = [Mean(), Variance(), Quantile(0.9), Covariance("a", "b"), Mean(of=product)]


@pytest.mark.slow
def test_exact_draws_are_rarely_called_wrong():
    """All 11 intervals of a report hold together at 95 %: of 60 reports on exact draws, about 3 may err, 9 are too many."""
    settings = Settings(chains=200, iterations=20, budget=1)
    reports = [taddaa.diagnose(TARGET, exact_draws(seed), QUANTITIES, settings, seed=seed) for seed in range(60)]
    wrong = sum(any(row.bound > 0 for row in report.rows) for report in reports)
    assert wrong <= 9
    assert len(reports[0].rows) == 11


def test_each_interval_of_draws_covers_by_itself():
    """The paper preset's levels: each interval holds by itself, so that its misses over reports are binomial."""
    settings = Settings.paper(chains=200, iterations=20, variance_interval="bonett")
    reports = [taddaa.diagnose(TARGET, exact_draws(seed), QUANTITIES, settings, seed=seed) for seed in range(60)]
    missed = np.mean([[not row.lower <= 0 <= row.upper for row in report.rows] for report in reports])
    # 660 intervals, correlated within a report; a one-sample interval would miss 15 to 25 %.
    assert 0.005 < missed < 0.11


def test_wrong_draws_are_found():
    draws = Draws(np.random.default_rng(5).multivariate_normal(MEAN + np.eye(3)[1], COVARIANCE, 400))
    rows = taddaa.diagnose(TARGET, draws, [Mean()], seed=2).rows
    assert rows[1].verdict == "error" and {rows[0].verdict, rows[2].verdict} <= {"no error found", "within tolerance"}
    assert 0.5 < rows[1].bound <= 1.1  # the draws' own mean is off by sampling error, which the interval includes


# The functionals themselves ---------------------------------------------------------------------------------------------


def test_scores_average_to_the_functional():
    """The settle test follows each state's score: its mean is the functional (or p) at the pooled value."""
    draws = np.random.default_rng(3).gamma(2.0, size=(4000, 2))
    window = draws[:, None]
    np.testing.assert_allclose(Mean().score(window, draws).mean(axis=(0, 1)), draws.mean(axis=0))
    np.testing.assert_allclose(Variance().score(window, draws).mean(axis=(0, 1)), draws.var(axis=0))
    np.testing.assert_allclose(Quantile(0.3).score(window, draws).mean(axis=(0, 1)), 0.3, atol=1e-3)
    np.testing.assert_allclose(Covariance(0, 1).score(window, draws).mean(), np.cov(draws.T, ddof=0)[0, 1])


def test_closed_forms_of_q():
    q = StudentT([1.0, 2.0], [1.0, 3.0], [5.0, 5.0])
    np.testing.assert_allclose(Mean().closed_form(q), [1.0, 2.0])
    np.testing.assert_allclose(Variance().closed_form(q), np.log([5 / 3, 15.0]))
    np.testing.assert_allclose(Quantile(0.2).closed_form(q), stats.t.ppf(0.2, 5, [1.0, 2.0], [1.0, 3.0]))
    assert Mean().closed_form(exact_draws(0)) is None
    assert Variance().closed_form(exact_draws(0)) is None


def test_what_may_be_asked():
    assert [type(item) for item in as_functionals(None)] == [Mean, Variance]
    assert as_functionals([Mean, Quantile(0.5)]) == (Mean(), Quantile(0.5))
    assert as_functionals(Quantile(0.5)) == (Quantile(0.5),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantile(0.0), r"p must lie strictly between 0 and 1, got 0\.0"),
        (lambda: Quantile(1), r"got 1"),
        (lambda: Quantile("0.5"), r"got '0\.5'"),
        (lambda: Quantile(float("nan")), r"got nan"),
        (lambda: Mean(of=3), r"of must be a function of the parameters, such as lambda p: p\[0\], or a name, got int: 3"),
        (lambda: Mean([]), r'var_names must be names of parameters such as "b", "b\[0\]" or \["b", "~mu"\], got \[\]'),
        (lambda: Quantile(0.9, ["b", 3]), r"var_names must be names of parameters"),
        (lambda: Quantile(abs), r"the quantile's p must lie strictly between 0 and 1"),
        (Covariance, r"Covariance needs two parameters"),
        (lambda: Covariance("a"), r"Covariance needs two parameters"),
        (lambda: as_functionals([]), r"functionals must name at least one quantity, got an empty list"),
        (lambda: as_functionals(["mean"]), r"functionals must hold taddaa\.Mean.*got str"),
    ],
)
def test_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
