"""Comparators against ArviZ, BlackJAX and closed forms of Gaussians; ranks that follow the truth."""

import math
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from blackjax.diagnostics import psis_weights

import taddaa
from known import gaussian_logdensity, paper_gaussian
from taddaa import Draws, Gaussian, InputError, Mean, Sampler, Settings, StudentT, Target, Variance, compare, k_hat
from taddaa.comparison.comparators import _moments, comparators_of, two_divergence_bound, wasserstein_bound
from taddaa.comparison.compare import WHOLE
from taddaa.comparison.weights import Weights

DIM = 3
COVARIANCE, PRECISION, CONDITIONAL_SD = paper_gaussian(DIM)
TARGET = Target(gaussian_logdensity, DIM, data=PRECISION)
EXACT = Gaussian(np.zeros(DIM), covariance=COVARIANCE)
MEAN_FIELD = Gaussian(np.zeros(DIM), CONDITIONAL_SD)
SHIFTED = Gaussian([1.0, 0.3, -0.3], covariance=1.2 * COVARIANCE)
LOG_EVIDENCE = 0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1]


def wide_weights(sd: float, dim: int, count: int, shift: float = 0.0):
    """Draws of N(0, sd² I) with the log weights of exp(shift) N(0, I)."""
    q = Gaussian(np.zeros(dim), np.full(dim, sd))
    draws = q.sample(np.random.default_rng(0), count)
    return q, Weights(draws, shift + Gaussian(np.zeros(dim), np.ones(dim)).logdensity(draws) - q.logdensity(draws))


# k-hat ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [MEAN_FIELD, SHIFTED, StudentT(np.zeros(DIM), CONDITIONAL_SD, 4)], ids=["mean-field", "shifted", "t"])
def test_k_hat_is_arvizs(q):
    """The weights anew, from the draws that the seed gives; BlackJAX's own implementation as a second oracle."""
    draws = q.sample(np.random.default_rng([5, 21]), 10_000)
    log_weights = -0.5 * np.einsum("ni,ij,nj->n", draws, PRECISION, draws) - q.logdensity(draws)
    found = k_hat(TARGET, q, seed=5)
    assert found == pytest.approx(float(array_stats.psislw(-log_weights)[1]), abs=1e-4)
    with jax.enable_x64(True):
        assert found == pytest.approx(float(psis_weights(jnp.asarray(log_weights))[1]), abs=0.02)
    assert abs(found - float(array_stats.psislw(log_weights)[1])) > 0.1  # what the wrong sign would give


def test_k_hat_knows_the_tail():
    """For q = N(0, s²) and p = N(0, 1) the weights' tail has shape 1 − s²; wider q bounds them."""
    target = Target(lambda x: -0.5 * x[0] ** 2, 1)
    assert k_hat(target, Gaussian([0.0], [0.5])) == pytest.approx(0.75, abs=0.15)
    assert k_hat(target, Gaussian([0.0], [2.0])) < 0
    assert k_hat(target, Gaussian([0.0], [1.0])) == -math.inf


def test_k_hat_needs_a_density_and_sense():
    draws = EXACT.sample(np.random.default_rng(0), 200)
    with pytest.raises(InputError, match="needs the approximation's log density"):
        k_hat(TARGET, Draws(draws))
    with pytest.raises(InputError, match="draws must be"):
        k_hat(TARGET, EXACT, draws=10)
    with pytest.raises(InputError, match="dim = 3, but the approximation has dimension 2"):
        k_hat(TARGET, Gaussian([0.0, 0.0], [1.0, 1.0]))
    with pytest.raises(InputError, match="not finite at any"):
        k_hat(lambda x: -np.inf + 0 * x[0], Gaussian([0.0], [1.0]))


# Wasserstein bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sd", "dim"), [(1.2, 1), (1.5, 2), (1.1, 5)])
def test_bounds_are_those_of_the_closed_form(sd, dim):
    """exp D₂ = (s²/√(2s² − 1))^d; KL(q ‖ p) = d (s² − 1 − 2 log s)/2; the bound on D₂ is D₂ + 2 KL, whatever p's constant."""
    q, weights = wide_weights(sd, dim, 200_000, shift=7.0)
    divergence = dim * np.log(sd**2 / np.sqrt(2 * sd**2 - 1))
    kl = dim * (sd**2 - 1 - 2 * np.log(sd)) / 2
    assert two_divergence_bound(weights.log_weights, 7.0) == pytest.approx(divergence, rel=0.05)
    found = comparators_of(q, weights)
    assert found.elbo == pytest.approx(7.0 - kl, abs=0.01)
    bound = divergence + 2 * kl
    w1 = 2 * np.sqrt(dim * sd**2 * np.expm1(bound))
    w2 = 2 * ((dim**2 + 2 * dim) * sd**4 * np.expm1(bound)) ** 0.25
    assert found.w1 == pytest.approx(w1, rel=0.03)
    assert found.w2 == pytest.approx(w2, rel=0.03)
    assert found.mean_error == min(found.w1, found.w2)
    assert found.sd_error == found.w2
    assert found.covariance_error == pytest.approx(2 * found.w2 * (sd + found.w2), rel=1e-9)
    # Valid: W₂ of these two Gaussians is |s − 1| √d. And not vacuous: some larger distance is excluded.
    assert abs(sd - 1) * np.sqrt(dim) <= found.w2 < 20 * sd * np.sqrt(dim)


def test_a_better_evidence_bound_narrows_them():
    q, weights = wide_weights(1.5, 2, 20_000)
    assert comparators_of(q, weights, evidence=0.0).w2 < 0.9 * comparators_of(q, weights).w2


def test_bounds_hold_for_every_error_of_gaussians():
    compared = compare(
        {"shifted": SHIFTED, "wide": Gaussian(np.zeros(DIM), covariance=1.5 * COVARIANCE)}, TARGET, settings=Settings.paper()
    )
    for name, q in (("shifted", SHIFTED), ("wide", Gaussian(np.zeros(DIM), covariance=1.5 * COVARIANCE))):
        found = compared.comparators[name]
        assert np.linalg.norm(q.mean()) <= found.mean_error
        assert np.max(np.abs(np.sqrt(np.diag(q.covariance())) - np.sqrt(np.diag(COVARIANCE)))) <= found.sd_error
        assert np.linalg.norm(q.covariance() - COVARIANCE, 2) <= found.covariance_error
        assert found.elbo < LOG_EVIDENCE


def test_no_divergence_no_distance():
    assert wasserstein_bound(0.0, 3.0, 2) == 0.0
    assert wasserstein_bound(math.log(2.0), 16.0, 2) == pytest.approx(4.0)  # 2 · 16^¼ · 1
    assert wasserstein_bound(math.log(2.0), 16.0, 1) == pytest.approx(8.0)
    assert wasserstein_bound(1e6, 1.0, 2) == math.inf


@pytest.mark.parametrize(
    "q",
    [MEAN_FIELD, SHIFTED, StudentT(np.zeros(DIM), [1.0, 2.0, 3.0], [9.0, 20.0, 30.0])],
    ids=["mean-field", "full", "t"],
)
def test_moments_in_closed_form_are_those_of_draws(q):
    draws = q.sample(np.random.default_rng(1), 400_000)
    by_draws = _moments(Sampler(lambda key, count: draws[:count], DIM), draws)
    np.testing.assert_allclose(_moments(q, draws), by_draws, rtol=0.03)


# Availability ---------------------------------------------------------------------------------------------------------------


def test_bounds_are_not_given_where_they_are_not_valid():
    q, weights = wide_weights(0.2, 1, 10_000)
    found = comparators_of(q, weights)
    assert found.k_hat > 0.7
    assert math.isnan(found.w1) and math.isnan(found.w2) and math.isnan(found.covariance_error)
    assert "above 0.7" in found.reason
    assert math.isfinite(found.elbo)


def test_reasons_for_heavy_tails_for_draws_and_for_no_support():
    q = StudentT([0.0], [1.0], 3.0)
    draws = q.sample(np.random.default_rng(0), 1000)
    found = comparators_of(q, Weights(draws, Gaussian([0.0], [1.0]).logdensity(draws) - q.logdensity(draws)))
    assert math.isfinite(found.w1) and math.isnan(found.w2) and "fourth moment" in found.reason
    assert "density is not known" in comparators_of(q, None).reason
    q, weights = wide_weights(1.5, 1, 1000)
    half = Weights(weights.draws, np.where(weights.draws[:, 0] > 0, weights.log_weights, -np.inf))
    assert "ELBO is not finite" in comparators_of(q, half).reason


# Comparing ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared():
    draws = EXACT.sample(np.random.default_rng(10), 2000)
    narrow = Gaussian(np.zeros(DIM), CONDITIONAL_SD / 3)
    approximations = {"mean-field": MEAN_FIELD, "exact": EXACT, "again": EXACT, "narrow": narrow, "draws": Draws(draws)}
    return compare(approximations, TARGET, [Mean(), Variance()], seed=2)


def test_the_better_one_is_first_on_each_wrong_quantity(compared):
    frame = compared.to_dataframe()
    for i in range(DIM):
        row = frame.loc[(f"x[{i}]", "variance")]
        assert row[("mean-field", "verdict")] == row[("narrow", "verdict")] == "error"
        assert row[("exact", "rank")] == row[("draws", "rank")] == 1
        assert row[("exact", "rank")] < row[("mean-field", "rank")] < row[("narrow", "rank")]
        assert compared.best(f"x[{i}]", "variance") == ("exact", "again", "draws")
        mean = frame.loc[(f"x[{i}]", "mean")]
        assert all(mean[(name, "rank")] == 1 for name in ("mean-field", "exact", "draws"))
    with pytest.raises(InputError, match="no row"):
        compared.best("x[0]", "median")


def test_random_numbers_are_common(compared):
    assert compared.reports["exact"].rows == compared.reports["again"].rows
    assert compared.comparators["exact"] == compared.comparators["again"]
    first, second = (compared.reports[name].start_draws for name in ("mean-field", "narrow"))
    np.testing.assert_allclose(first, 3 * second)
    report = taddaa.diagnose(TARGET, MEAN_FIELD, [Mean(), Variance()], seed=2)
    assert report.rows == compared.reports["mean-field"].rows
    other = taddaa.diagnose(TARGET, MEAN_FIELD, [Mean(), Variance()], seed=3)
    assert report.rows != other.rows


def test_comparators_stand_in_the_same_table(compared):
    frame = compared.to_dataframe()
    assert len(frame) == 2 * DIM + 7
    whole = frame.loc[WHOLE]
    assert whole.loc["PSIS k-hat", ("mean-field", "bound")] == pytest.approx(k_hat(TARGET, MEAN_FIELD, seed=2), abs=1e-12)
    assert whole.loc["ELBO", ("exact", "bound")] == pytest.approx(LOG_EVIDENCE)
    assert whole.loc["ELBO", ("exact", "rank")] == 1
    assert whole.loc["ELBO", ("narrow", "rank")] == 4
    assert math.isnan(whole.loc["Wasserstein-2 ≤", ("narrow", "bound")])
    assert "above 0.7" in whole.loc["Wasserstein-2 ≤", ("narrow", "verdict")]
    assert "density" in whole.loc["ELBO", ("draws", "verdict")]


def test_the_text_says_who_is_best(compared):
    text = str(compared)
    line = next(line for line in text.splitlines() if line.startswith("x[0]") and "variance" in line)
    assert line.rstrip().endswith("exact, again, draws")
    counted = next(line for line in text.splitlines() if line.startswith("exact: "))
    assert counted.endswith("; unbeaten in 6 of 6 quantities.") and "error," not in counted
    assert sum(int(number) for number in re.findall(r"(\d+) (?:within tolerance|no error found)", counted)) == 6
    assert "n/a for narrow: k-hat is above 0.7" in text
    assert "nan" not in text.lower()


def test_what_is_within_tolerance_is_unbeaten_and_named(compared):
    """Even if another is surely closer: the difference does not matter."""
    far, near = (
        replace(compared.reports["exact"].rows[0], verdict="within tolerance", lower=low, upper=low + 0.01, bound=low)
        for low in (0.05, 0.01)
    )
    reports = {name: replace(compared.reports["exact"], rows=(row,)) for name, row in (("far", far), ("near", near))}
    comparators = dict.fromkeys(reports, compared.comparators["exact"])
    found = replace(compared, reports=reports, comparators=comparators)
    assert found.ranks() == [{"far": 1, "near": 1}]
    text = str(found)
    assert "far: 1 within tolerance; unbeaten in 1 of 1 quantities." in text
    assert next(line for line in text.splitlines() if line.startswith("x[0]")).count("within tolerance") == 2
    wrong = replace(found, reports=reports | {"far": replace(reports["far"], rows=(replace(far, verdict="error"),))})
    assert wrong.ranks() == [{"far": 2, "near": 1}]


def test_an_untrusted_row_has_no_rank():
    stuck = Settings(chains=50, iterations=2, budget=1)
    found = compare({"far": Gaussian(np.full(DIM, 1e3), np.ones(DIM)), "exact": EXACT}, TARGET, settings=stuck)
    assert found.reports["far"].rows[0].verdict == "untrusted"
    assert found.ranks()[0]["far"] is None
    assert found.comparators["far"].k_hat == math.inf
    assert found.to_dataframe().loc[("x[0]", "mean")].isna()[("far", "rank")]


def test_bad_input_gets_one_sentence():
    with pytest.raises(InputError, match="approximations must be a dict"):
        compare([EXACT], TARGET)
    with pytest.raises(InputError, match="dim = 3, but the approximation has dimension 1"):
        compare({"exact": EXACT, "other": Gaussian([0.0], [1.0])}, TARGET)
