"""Sharper intervals in whole diagnoses: right where the truth is known, plain where gradients cannot be believed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taddaa import Covariance, Gaussian, Mean, Quantile, Settings, Target, Variance, diagnose

PRECISION = np.linalg.inv(np.array([[2.0, 0.9, 0.0], [0.9, 1.0, 0.3], [0.0, 0.3, 0.5]]))


def gaussian(x):
    return -0.5 * x @ jnp.asarray(PRECISION) @ x


def rows_of(report):
    return {(row.parameter, row.functional): row for row in report.rows}


def test_a_gaussian_is_known_to_the_last_digit_and_rounding_is_no_error():
    asked = [Mean(), Variance(), Quantile(0.9), Covariance(0, 1), Mean(of=lambda x: x[0] + 2 * x[2], name="sum")]
    report = diagnose(Target(gaussian, 3), Gaussian(np.zeros(3), np.sqrt([2.0, 1.0, 0.5])), asked)
    rows = rows_of(report)
    assert all(rows[f"x[{i}]", "variance"].corrected == pytest.approx(v, rel=1e-4) for i, v in enumerate([2.0, 1.0, 0.5]))
    assert rows["x[1]", "q0.9"].corrected == pytest.approx(1.2816, abs=1e-3)
    for i in range(3):
        for functional in ("mean", "variance", "q0.9"):
            assert rows[f"x[{i}]", functional].verdict == "within tolerance"
    total = rows["sum", "mean"]  # q's own value is known from draws only, the target's to the last digit
    assert total.verdict == "within tolerance" and total.corrected_upper - total.corrected_lower < 1e-4
    wrong = rows["x[0], x[1]", "covariance"]
    assert wrong.verdict == "error" and wrong.corrected == pytest.approx(0.9, abs=1e-3) and wrong.bound == pytest.approx(0.9, abs=2e-3)


def test_a_small_error_is_within_tolerance_and_a_large_one_is_not():
    sd = np.sqrt([2.0, 1.0, 0.5])
    for shift, verdict in ((0.05, "within tolerance"), (0.5, "error")):
        rows = rows_of(diagnose(Target(gaussian, 3), Gaussian([shift * sd[0], 0.0, 0.0], sd)))
        row = rows["x[0]", "mean"]
        assert row.verdict == verdict
        assert row.bound == pytest.approx(shift * sd[0], rel=0.01)  # the error itself is found, whatever is made of it


def test_constrained_parameters_and_functions_of_them():
    """exp of a normal: mean e^½, variance (e − 1)e; and a nonlinear function of two."""
    target = Target(lambda x: -0.5 * jnp.sum(x**2), 2, constrain=lambda x: {"scale": jnp.exp(x[0]), "b": x[1]})
    report = diagnose(
        target, Gaussian([0.3, 0.0], [1.0, 0.8]), [Mean(), Variance(), Mean(of=lambda p: jnp.tanh(p["b"]) * p["scale"], name="f")]
    )
    truth = {("scale", "mean"): np.exp(0.5), ("scale", "variance"): (np.e - 1) * np.e, ("b", "variance"): 1.0, ("f", "mean"): 0.0}
    rows = rows_of(report)
    for key, value in truth.items():
        assert rows[key].corrected_lower <= value <= rows[key].corrected_upper
    plain = rows_of(diagnose(target, Gaussian([0.3, 0.0], [1.0, 0.8]), settings=Settings(interval="plain")))
    for key in [("scale", "mean"), ("b", "mean")]:
        assert rows[key].detectable < 0.5 * plain[key].detectable


def test_what_jax_cannot_differentiate_is_sharpened_too():
    """A transform on the host, as Stan's are: its slopes are differences."""

    def constrain(x):
        return jax.pure_callback(lambda x: np.exp(np.asarray(x)), jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims")

    report = diagnose(Target(lambda x: -0.5 * jnp.sum(x**2), 2, constrain=constrain), Gaussian(np.zeros(2), np.ones(2)))
    for row in report.rows[:2]:
        assert row.detectable < 0.05 and row.corrected_lower <= np.exp(0.5) <= row.corrected_upper


def test_straightened_coordinates_sharpen_too():
    """A funnel with x₁ ~ N(0, e^x₀): variances 1 and e^½, all means 0."""

    def funnel(x):
        return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0]

    target, fit = Target(funnel, 5), Gaussian(np.zeros(5), np.ones(5))
    report = diagnose(target, fit)
    rows = rows_of(report)
    assert any("follows x[0]" in note for note in report.notes)
    for key, value in {("x[0]", "mean"): 0.0, ("x[0]", "variance"): 1.0, ("x[1]", "mean"): 0.0, ("x[1]", "variance"): np.exp(0.5)}.items():
        assert rows[key].corrected_lower <= value <= rows[key].corrected_upper
    plain = rows_of(diagnose(target, fit, settings=Settings(interval="plain")))
    assert rows["x[0]", "mean"].detectable < 0.5 * plain["x[0]", "mean"].detectable


def shifted_gradient(by):
    """The log density of a normal with a gradient that is not its own."""

    @jax.custom_vjp
    def logdensity(x):
        return -0.5 * jnp.sum(x**2)

    logdensity.defvjp(lambda x: (logdensity(x), x), lambda x, g: (g * (by - x),))
    return logdensity


@pytest.mark.parametrize("by", [0.1, 0.3, 1.0])
def test_a_gradient_that_is_not_that_of_the_log_density_sharpens_nothing(by):
    """Metropolis still leads the chains to the log density's own target, so plain intervals hold, and sharper ones would not."""
    report = diagnose(Target(shifted_gradient(by), 2), Gaussian(np.zeros(2), np.ones(2)))
    assert any("does not agree with finite differences" in note for note in report.notes)
    assert rows_of(report)["x[0]", "mean"].detectable > 0.05
    assert not any(
        "finite differences" in note for note in diagnose(Target(shifted_gradient(0.0), 2), Gaussian(np.zeros(2), np.ones(2))).notes
    )


def test_an_edge_of_the_support_sharpens_nothing():
    """An exponential on its own scale: its density does not vanish at 0, where Stein's identity fails."""
    target = Target(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf), 1)
    row = rows_of(diagnose(target, Gaussian([1.0], [0.5])))["x[0]", "mean"]
    assert row.detectable > 0.05
    assert row.verdict == "untrusted" or row.corrected_lower <= 1.0 <= row.corrected_upper


def test_plain_and_paper_are_as_they_were():
    target, q = Target(gaussian, 3), Gaussian(np.zeros(3), np.sqrt([2.0, 1.0, 0.5]))
    plain = diagnose(target, q, settings=Settings(interval="plain"))
    least = 4 / np.sqrt(387 * 16)  # four standard errors, were all sixteen states of all chains independent
    assert all(row.detectable > 0.5 * least for row in plain.rows)
    assert all(row.corrected == row.moved for row in plain.rows if row.verdict != "untrusted")
    paper = diagnose(target, q, settings=Settings.paper())
    assert {row.verdict for row in paper.rows} <= {"error", "no error found", "untrusted"}
    assert not any("finite differences" in note for note in paper.notes)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_all_intervals_of_a_report_hold_together(precision):
    """Twelve reports of a logistic-like target with a known mean: nominal 95 %, at most 3 may miss (probability under 2 %)."""
    target = Target(lambda x: jnp.sum(x - 2 * jax.nn.softplus(x)), 4)  # four standard logistics: mean 0, variance π²/3
    missed = 0
    for seed in range(12):
        report = diagnose(target, Gaussian(np.full(4, 0.4), np.full(4, 1.4)), settings=Settings(precision=precision), seed=seed)
        truth = [0.0] * 4 + [np.pi**2 / 3] * 4
        missed += any(not row.corrected_lower <= value <= row.corrected_upper for row, value in zip(report.rows, truth, strict=True))
        assert all(row.corrected_upper - row.corrected_lower < 0.2 * np.pi / np.sqrt(3) for row in report.rows if row.functional == "mean")
    assert missed <= 3


@pytest.mark.parametrize(("df", "most"), [(3.0, 6), (5.0, 2)])
def test_right_variances_of_heavy_tails_err_upward(df, most):
    """Twenty reports of five Student t: with intervals as long above as below, 13 miss for t₃, whose squares have no variance."""
    target = Target(lambda x: -0.5 * (df + 1) * jnp.sum(jnp.log1p(x * x / df)), 5)
    missed, trusted, truth = 0, 0, df / (df - 2)
    for seed in range(20):
        report = diagnose(target, Gaussian(np.zeros(5), np.full(5, 0.5 * np.sqrt(truth))), seed=seed)
        rows = [row for row in report.rows if row.functional == "variance" and np.isfinite(row.corrected)]
        assert all(row.corrected_lower <= truth for row in rows)
        missed += any(row.corrected_upper < truth for row in rows)
        trusted += sum(row.verdict != "untrusted" for row in rows)
    assert missed <= most and trusted >= 60
