"""What states say, against intervals written here from SciPy's distributions: bounds, tolerance, and what is too rare to judge."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from taddaa import Gaussian, Mean, Quantile, Settings, Target, Variance, diagnose
from taddaa.formulas.interval import exactly
from taddaa.verdict.judgement import LEAST_SEEN, Tolerance, judge
from taddaa.verdict.questions import Known, Questions, RowGroup

LEVEL, CHAINS = 0.9, 200


def ask(functional, reference, columns=1):
    """One functional of each column, which the approximation is known to have at `reference` (on the movement's scale)."""
    places = np.arange(columns)
    group = RowGroup(functional, places, tuple(f"x[{i}]" for i in places), places)
    return Questions((group,), (), (Known(exactly(np.full(columns, reference))),), "chi2", states=1, kurtosis=None)


def normal(columns=1, mean=0.0):
    return np.random.default_rng(0).normal(mean, 1.0, (CHAINS, columns))


def test_the_bound_of_a_mean_is_the_near_end_of_students_interval():
    states = normal(mean=1.0)
    found = judge(ask(Mean(), 0.0), [states], LEVEL)
    low, high = stats.t.interval(LEVEL, CHAINS - 1, states.mean(), stats.sem(states[:, 0]))
    assert (found.lower[0], found.upper[0]) == pytest.approx((low, high))
    assert found.bound[0] == pytest.approx(low) and found.relative_bound[0] == pytest.approx(low / states.std(ddof=1))
    assert (found.corrected_lower[0], found.corrected_upper[0]) == pytest.approx((low, high))


def test_the_bound_of_a_variance_is_on_the_log_scale():
    states = normal()
    found = judge(ask(Variance(), np.log(0.25)), [states], LEVEL)
    squares = (CHAINS - 1) * states.var(ddof=1)
    low, high = (squares / stats.chi2.ppf(tail, CHAINS - 1) for tail in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    assert found.bound[0] == pytest.approx(np.log(low / 0.25)) == found.relative_bound[0]
    assert (found.corrected_lower[0], found.corrected_upper[0]) == pytest.approx((low, high))


def test_what_would_have_been_seen_is_found_with_95_percent():
    """Half the width, and 1.64 standard errors more."""
    states = normal(mean=0.05)
    found = judge(ask(Mean(), 0.0), [states], LEVEL)
    half = stats.sem(states[:, 0]) * stats.t.ppf((1 + LEVEL) / 2, CHAINS - 1)
    assert found.bound[0] == 0
    assert found.detectable[0] == pytest.approx(half * (1 + stats.norm.ppf(0.95) / stats.norm.ppf((1 + LEVEL) / 2)))


def test_only_a_variance_goes_by_the_side_below():
    """A few chains far from all others make the interval of a tail's quantile long on one side: an error could hide there."""
    states = normal()
    states[:8] += 10
    right = np.log(states.var())
    for reference in (right, right - 1):
        variance = judge(ask(Variance(), reference), [states], LEVEL)
        assert 0 < variance.relative_below[0] < variance.relative_detectable[0]
    fell = judge(ask(Variance(), right + 1), [states], LEVEL)  # which the side above may hide
    assert fell.relative_below[0] == fell.relative_detectable[0]
    for other in (Mean(), Quantile(0.95)):
        found = judge(ask(other, 0.0), [states], LEVEL)
        assert found.relative_below[0] == found.relative_detectable[0]


@pytest.mark.parametrize("side", [-1, 1])
def test_within_tolerance_is_the_whole_interval_and_not_one_end(side):
    states = normal(columns=2) - normal(columns=2).mean(axis=0) + np.array([0.0, side * 0.3])
    found = judge(ask(Mean(), 0.0, 2), [states], LEVEL, Tolerance(mean=0.3, variance=1e-9))
    assert found.within.tolist() == [True, False]
    assert not judge(ask(Mean(), 0.0, 2), [states], LEVEL).within.any()
    assert judge(ask(Variance(), 0.0), [normal()], LEVEL, Tolerance(mean=1e-9, variance=0.5)).within.all()


@pytest.mark.parametrize(("met", "unseen"), [(LEAST_SEEN - 1, True), (LEAST_SEEN, False)])
def test_an_event_that_few_chains_met_has_no_interval(met, unseen):
    """A normal interval from a handful of ones says nothing; a quantile's, from the binomial law, does."""
    states = (np.arange(CHAINS)[:, None] < met).astype(float)
    found = judge(ask(Mean(), 0.5), [states], LEVEL)
    assert found.unseen[0] == found.unknown[0] == unseen
    assert (found.bound[0] == 0) == unseen and np.isinf(found.detectable[0]) == unseen
    assert not judge(ask(Quantile(0.5), 0.0), [states], LEVEL).unseen[0]


def test_what_is_not_finite_is_unknown():
    states = normal()
    states[0] = np.inf
    found = judge(ask(Mean(), 0.0), [states], LEVEL, Tolerance(1e9, 1e9))
    assert found.unknown[0] and found.bound[0] == 0 and not found.within[0]


def test_coordinates_of_a_normal_fit_are_known_exactly_whatever_the_others_are():
    """Most parameters of most models are coordinates as they are; of the others draws tell, here of a lognormal and of a kink."""
    mean, sd = np.array([0.3, -1.0, 2.0, 0.0]), np.array([1.5, 0.4, 0.7, 1.0])
    target = Target(
        lambda x: -0.5 * jnp.sum(((x - mean) / sd) ** 2),
        dim=4,
        constrain=lambda x: {"scale": jnp.exp(x[1]), "b": x[jnp.array([3, 0])], "kink": jnp.minimum(x[2], 3.0)},
    )
    report = diagnose(target, Gaussian(mean, sd), [Mean(), Variance(), Quantile(0.9)], Settings(chains=60, iterations=20, budget=1))
    said = {(row.parameter, row.functional): row.approximation for row in report.rows}
    for parameter, i in (("b[0]", 3), ("b[1]", 0)):
        assert said[parameter, "mean"] == mean[i]
        assert said[parameter, "variance"] == pytest.approx(sd[i] ** 2, rel=1e-14)
        assert said[parameter, "q0.9"] == pytest.approx(stats.norm(mean[i], sd[i]).ppf(0.9), rel=1e-12)
    lognormal, beyond = stats.lognorm(sd[1], scale=np.exp(mean[1])), stats.norm(mean[2], sd[2])
    assert said["scale", "mean"] == pytest.approx(lognormal.mean(), rel=1e-3)
    assert said["scale", "variance"] == pytest.approx(lognormal.var(), rel=0.02)
    assert said["scale", "q0.9"] == pytest.approx(lognormal.ppf(0.9), rel=1e-3)
    below = beyond.expect(lambda x: np.minimum(x, 3.0))
    assert below < mean[2] - 0.02 and said["kink", "mean"] == pytest.approx(below, abs=3e-3)
