"""Certificates: brackets that hold, rows that pairs trust or refute, and runs that are never certified."""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import taddaa
from taddaa import Draws, Gaussian, InputError, Mean, Quantile, Report, Settings, StudentT, Target, Variance
from taddaa.moves import precondition
from taddaa.show.page import report_to_html
from taddaa.verdict.certificate import Brackets, certified_judgement, distance, pairs_needed
from taddaa.verdict.checks.check import Check
from taddaa.verdict.judgement import Judgement
from taddaa.verdict.outcome import REFUTED, verdicts

COVARIANCE = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 4.0]])
PRECISION = np.linalg.inv(COVARIANCE)


@pytest.fixture(scope="module")
def gaussian():
    """A mean-field fit of a Gaussian with one mean off by a half."""
    target = Target(lambda x: -0.5 * x @ PRECISION @ x, 3, names=["a", "b", "c"])
    fit = Gaussian(np.array([0.5, 0.0, 0.0]), 1 / np.sqrt(np.diag(PRECISION)))
    asked = [Mean(), Variance(), Quantile(0.9), taddaa.Covariance("a", "b")]
    return taddaa.diagnose(target, fit, functionals=asked, certify=True, seed=0)


def test_errors_of_a_gaussian_are_known_from_both_sides(gaussian):
    sd, fitted = np.sqrt(np.diag(COVARIANCE)), 1 / np.sqrt(np.diag(PRECISION))
    quantile = 1.2815515655446004 * (sd - fitted) - np.array([0.5, 0, 0])
    errors = np.abs(np.concatenate([[0.5, 0, 0], 2 * np.log(sd / fitted), quantile, [0.8]]))
    for row, error in zip(gaussian.rows, errors, strict=True):
        assert row.bound <= error + 1e-4 and error <= row.at_most + 1e-4 and row.at_most < error + 1e-3, (row, error)
    certificate = gaussian.certificate
    assert certificate.holds and certificate.rows == len(gaussian.rows)
    assert 0 < certificate.median_meeting < certificate.last_meeting < 1
    assert 0 < certificate.distance < 0.15  # a bound at 95 % from 97 pairs
    assert certificate.gradients < 0.35 * (gaussian.cost.gradients - certificate.gradients)


@pytest.mark.parametrize(
    ("asked", "rows", "pairs"), [((Mean(), Variance()), 40, 97), ((Mean(), Quantile(0.05)), 44, 150), ((Quantile(0.99),), 4, 194)]
)
def test_quantiles_in_tails_need_more_pairs(asked, rows, pairs):
    """What may be missed with probability α among P pairs is an event of probability log(2/α)/P."""
    groups = [SimpleNamespace(functional=functional) for functional in asked]
    run = SimpleNamespace(walk=SimpleNamespace(starts=np.zeros((194, 2))), questions=SimpleNamespace(groups=groups), level=1 - 0.05 / rows)
    assert pairs_needed(run) == pairs


def test_it_is_kept_in_json_and_shown(gaussian):
    again = Report.from_json(gaussian.to_json())
    assert again.certificate == gaussian.certificate
    assert [row.at_most for row in again.rows] == [row.at_most for row in gaussian.rows]
    text, page = str(again), report_to_html(again)
    assert "error ≤" in text and again.certificate.sentence[:30] in text
    assert again.certificate.sentence in page and "How large errors are at least and at most" in page
    plain = replace(again, certificate=None, rows=tuple(replace(row, at_most=np.inf) for row in again.rows))
    assert "error ≤" not in str(plain) and 'id="certificate"' not in report_to_html(plain)


def test_without_it_nothing_is_certified(gaussian):
    plain = taddaa.diagnose(Target(lambda x: -0.5 * jnp.sum(x**2), 1), Gaussian(np.zeros(1), np.ones(1)), settings=Settings(chains=50))
    assert plain.certificate is None
    assert all(np.isinf(row.at_most) for row in plain.rows)
    with pytest.raises(InputError, match="certify must be True or False, got 'yes'"):
        taddaa.diagnose(plain.continuation.walk.engine.target, Gaussian(np.zeros(1), np.ones(1)), certify="yes")


def skewed(x):
    return jnp.sum(-x - 4 * jnp.log1p(jnp.exp(-x)))  # mean 3/2, variance π²/3 − 5/4


@pytest.mark.slow
def test_brackets_of_short_runs_hold_together():
    """Means, variances and quantiles of a skewed target, in 20 runs too short to arrive: nominal 95 %, so 4 failures are rare."""
    cdf = lambda x: (1 + np.exp(-x)) ** -3.0  # noqa: E731
    quantile = optimize.brentq(lambda x: cdf(x) - 0.9, 0, 10)
    truth = np.repeat([1.5, np.log(np.pi**2 / 3 - 1.25), quantile], 2)
    target, asked, missed = Target(skewed, 2), [Mean(), Variance(), Quantile(0.9)], 0
    fit = Gaussian(np.array([2.5, 1.0]), np.array([0.7, 0.7]))
    reference = np.repeat([0.0, 2 * np.log(0.7), 0.7 * stats.norm.ppf(0.9)], 2) + np.tile([2.5, 1.0], 3) * np.repeat([1, 0, 1], 2)
    for seed in range(20):
        report = taddaa.diagnose(target, fit, asked, Settings(chains=200, iterations=32, budget=1), seed=seed, certify=True)
        assert report.certificate.met == report.certificate.pairs == 100
        missed += any(row.at_most < abs(truth[i] - reference[i]) for i, row in enumerate(report.rows))
    assert missed <= 4


# What is never certified -----------------------------------------------------------------------------------------------------


def two_modes(x):
    return jnp.logaddexp(-0.5 * jnp.sum((x - 6) ** 2), -0.5 * jnp.sum((x + 6) ** 2))


def uncertified(report):
    return report.certificate.rows == 0 and all(np.isinf(row.at_most) for row in report.rows)


def test_two_modes_that_starts_reach_are_not_certified():
    both = Draws(np.random.default_rng(0).normal(size=(4000, 2)) + 6 * np.repeat([1, -1], 2000)[:, None])
    report = taddaa.diagnose(two_modes, both, settings=Settings(chains=200, budget=2), certify=True)
    assert uncertified(report) and not report.certificate.holds
    assert report.certificate.sentence.startswith("Nothing is certified: ")


def test_other_starts_show_a_mode_that_the_fit_has_missed():
    fit, elsewhere = Gaussian(np.full(2, 6.0), np.ones(2)), Gaussian(np.full(2, -6.0), np.ones(2))
    settings = Settings(chains=200, budget=1)
    assert taddaa.diagnose(two_modes, fit, settings=settings, certify=True).certificate.holds  # the limit that the sentence names
    assert uncertified(taddaa.diagnose(two_modes, fit, settings=settings, certify=True, other_starts=elsewhere))


def test_chains_that_cannot_move_are_not_certified():
    spiky = lambda x: -0.5 * jnp.sum(x**2) + 200 * jnp.sum(jnp.cos(60 * x))  # noqa: E731
    report = taddaa.diagnose(spiky, Gaussian(np.zeros(2), np.ones(2)), settings=Settings(chains=200, budget=1), certify=True)
    assert uncertified(report)


def test_a_funnel_in_coordinates_that_are_not_straightened_is_not_certified(monkeypatch):
    """Chains that cannot enter the neck do not meet those that cannot leave it."""
    monkeypatch.setattr(precondition, "find_straightening", lambda *_: None)
    funnel = lambda x: -0.5 * (x[0] / 3) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 4.5 * x[0]  # noqa: E731
    fit = Gaussian(np.zeros(10), np.r_[3.0, np.full(9, 2.0)])
    report = taddaa.diagnose(funnel, fit, settings=Settings(chains=200, budget=1), certify=True)
    assert uncertified(report)


def test_chains_that_have_not_arrived_are_not_certified():
    settings = Settings(chains=200, iterations=6, budget=1)
    assert uncertified(taddaa.diagnose(skewed, Gaussian(np.array([9.0, -6.0]), 0.3 * np.ones(2)), settings=settings, certify=True))


def test_heavy_tails_are_never_certain():
    cauchy = lambda x: -jnp.sum(jnp.log1p(x**2))  # noqa: E731
    fit = StudentT(np.zeros(1), np.ones(1), 1.0)
    report = taddaa.diagnose(cauchy, fit, [Mean(), Quantile(0.5)], Settings(chains=300, budget=4), certify=True, seed=1)
    assert np.isinf(report.rows[0].at_most)


# By hand --------------------------------------------------------------------------------------------------------------------


def judged(lower, upper, within):
    count = len(lower)
    zero, no = np.zeros(count), np.zeros(count, bool)
    lower, upper = np.array(lower), np.array(upper)
    bounds = np.where((lower <= 0) & (upper >= 0), 0.0, np.minimum(np.abs(lower), np.abs(upper)))
    within = np.array(within)
    return Judgement(
        zero, zero, zero, lower, upper, bounds, bounds, zero, zero, zero, zero + 1, no, no, no, within, zero, zero, zero, zero + np.inf
    )


def test_pairs_trust_what_checks_silence_and_refute_what_they_contradict():
    """Rows: silenced and certified wrong; silenced and certified fine; trusted but refuted; without a bracket; trusted and certified."""
    judgement = judged([0.4, -0.1, 0.4, 0.4, 0.4], [0.6, 0.1, 0.6, 0.6, 0.6], [False] * 5)
    ends = np.array([0.5, -0.02, 2.0, -np.inf, 0.45]), np.array([0.7, 0.03, 2.2, np.inf, 0.55])
    masks = (np.array(mask, bool) for mask in ([1, 1, 1, 0, 1], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]))  # known, refuted, within
    brackets = Brackets(*ends, *[np.full(5, 7.0)] * 3, *masks)
    check = Check("a check", False, 1.0, 0.0, "it was silenced", rows=(0, 1, 3))
    silenced = np.array([word == "untrusted" for word, _ in verdicts(judgement, [check])])
    after = certified_judgement(judgement, brackets, silenced)
    found = verdicts(after, [check], brackets)
    assert found == [("error", ""), ("within tolerance", ""), ("untrusted", REFUTED), ("untrusted", "it was silenced"), ("error", "")]
    np.testing.assert_allclose(after.at_most, [0.7, 0.03, np.inf, np.inf, 0.55])
    np.testing.assert_allclose(after.bound, [0.5, 0.0, 0.4, 0.4, 0.4])
    np.testing.assert_allclose(after.corrected, [7.0, 7.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(("late", "expected"), [([], 1 - 0.025 ** (1 / 200)), ([250] * 200, 1.0), ([30, np.inf], 1.0)])
def test_the_distance_is_bounded_by_how_many_pairs_met_late(late, expected):
    meeting = np.full(200, 5.0)
    meeting[: len(late)] = late
    assert distance(SimpleNamespace(meeting=meeting, lag=10), 0.95) == pytest.approx(expected)
    one = np.r_[15.0, np.full(199, 5.0)]  # one of 200 needs one lag more: Clopper and Pearson's limit for one, and for none
    limit = stats.binomtest(1, 200).proportion_ci(0.95, method="exact").high + 1 - 0.0125 ** (1 / 200)
    assert distance(SimpleNamespace(meeting=one, lag=10), 0.95) == pytest.approx(limit, rel=1e-6)
