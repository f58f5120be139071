"""Intervals against published formulas, SciPy, and their coverage over replications."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from taddaa.formulas.interval import (
    Interval,
    bound,
    covariance_interval,
    exactly,
    log_variance_bonett,
    log_variance_chi2,
    mean_interval,
    movement,
    quantile_interval,
)

CHAINS = 387
REPLICATIONS = 2000
LEVEL = 0.95
# Three and a half standard errors of a coverage estimated from so many replications.
MONTE_CARLO = 3.5 * np.sqrt(LEVEL * (1 - LEVEL) / REPLICATIONS)


def normal(rng, shape):
    return rng.standard_normal(shape)


def student5(rng, shape):
    return rng.standard_t(5, shape)


def exponential(rng, shape):
    return rng.standard_exponential(shape)


def funnel_x2(rng, shape):
    return np.exp(rng.standard_normal(shape) / 2) * rng.standard_normal(shape)


# name: (sampler, mean, variance)
LAWS = {
    "normal": (normal, 0.0, 1.0),
    "t5": (student5, 0.0, 5 / 3),
    "exponential": (exponential, 1.0, 1.0),
    "funnel x2": (funnel_x2, 0.0, np.exp(0.5)),
}


@pytest.fixture(scope="module")
def replications():
    """For each law, REPLICATIONS samples of CHAINS independent draws, as the columns of one window."""
    rng = np.random.default_rng(20230425)
    return {name: sample(rng, (CHAINS, 1, REPLICATIONS)) for name, (sample, _, _) in LAWS.items()}


def coverage(interval: Interval, truth) -> float:
    return float(np.mean((interval.lower <= truth) & (truth <= interval.upper)))


# Closed forms -----------------------------------------------------------------------------------------------------------


def test_mean_interval_is_the_t_interval():
    sample = np.random.default_rng(0).gamma(2.0, size=40)
    found = mean_interval(sample[:, None, None], 0.9)
    expected = stats.t.interval(0.9, 39, loc=sample.mean(), scale=stats.sem(sample))
    np.testing.assert_allclose([found.lower[0], found.upper[0]], expected, rtol=1e-12)
    assert found.estimate[0] == pytest.approx(sample.mean())


@pytest.mark.parametrize(("level", "lower", "upper"), [(0.90, 0.3592, 0.9359), (0.95, 0.3263, 1.0841), (0.99, 0.2607, 1.5109)])
def test_bonett_reproduces_the_example_of_his_paper(level, lower, upper):
    """Bonett (2006), Computational Statistics and Data Analysis 50, 775–782: limits for a standard deviation, n = 8."""
    sample = np.array([15.83, 16.01, 16.24, 16.42, 15.33, 15.44, 16.88, 16.31])
    found = log_variance_bonett(sample[:, None, None], level)
    printed = [float(np.exp(part[0] / 2)) for part in (found.estimate, found.lower, found.upper)]
    np.testing.assert_allclose(printed, [0.5168, lower, upper], atol=5e-5)


@pytest.mark.parametrize("count", [12, 50, 387])
def test_bonett_equals_the_published_formula(count):
    sample = np.random.default_rng(count).standard_t(5, count)
    z, n = stats.norm.ppf(0.975), count
    c = n / (n - z)
    trimmed = stats.trim_mean(sample, 1 / (2 * np.sqrt(n - 4)))
    kurtosis = n * np.sum((sample - trimmed) ** 4) / np.sum((sample - sample.mean()) ** 2) ** 2
    error = c * np.sqrt((kurtosis - (n - 3) / n) / (n - 1))
    centre = np.log(c * np.var(sample, ddof=1))
    found = log_variance_bonett(sample[:, None, None], 0.95)
    np.testing.assert_allclose([found.lower[0], found.upper[0]], [centre - z * error, centre + z * error], rtol=1e-12)
    assert found.estimate[0] == pytest.approx(np.log(np.var(sample, ddof=1)))


def test_chi2_interval_is_the_textbook_one():
    sample = np.random.default_rng(3).normal(2.0, 3.0, 30)
    found = log_variance_chi2(sample[:, None, None], 0.95)
    pivot = 29 * np.var(sample, ddof=1)
    assert found.lower[0] == pytest.approx(np.log(pivot / stats.chi2.ppf(0.975, 29)))
    assert found.upper[0] == pytest.approx(np.log(pivot / stats.chi2.ppf(0.025, 29)))


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.9, 0.95])
def test_quantile_limits_are_the_binomial_order_statistics(p):
    sample = np.random.default_rng(4).standard_normal(CHAINS)
    ordered = np.sort(sample)
    low, high = (int(stats.binom.ppf(q, CHAINS, p)) for q in (0.025, 0.975))
    found = quantile_interval(sample[:, None, None], p, 0.95)
    assert (found.lower[0], found.upper[0]) == (ordered[low - 1], ordered[high + 1 - 1])
    # Exact for every continuous law: the quantile lies between them if low ≤ (draws below it) ≤ high.
    held = stats.binom.cdf(high, CHAINS, p) - stats.binom.cdf(low - 1, CHAINS, p)
    assert 0.95 <= held < 0.98
    assert found.estimate[0] == np.quantile(sample, p, method="inverted_cdf")


def test_too_few_draws_give_infinite_limits():
    sample = np.random.default_rng(5).standard_normal((20, 1, 1))
    low = quantile_interval(sample, 0.01, 0.95)
    high = quantile_interval(sample, 0.99, 0.95)
    assert low.lower[0] == -np.inf
    assert np.isfinite(low.upper[0])
    assert high.upper[0] == np.inf
    assert np.isfinite(high.lower[0])
    both = quantile_interval(sample[:4], 0.5, 0.95)
    assert (both.lower[0], both.upper[0]) == (-np.inf, np.inf)


def test_covariance_interval_of_a_pair():
    rng = np.random.default_rng(6)
    x, y = rng.multivariate_normal([1.0, -2.0], [[2.0, 0.8], [0.8, 1.0]], 5000).T
    found = covariance_interval(x[:, None, None], y[:, None, None], 0.95)
    assert found.estimate[0] == pytest.approx(np.cov(x, y)[0, 1], rel=1e-12)
    # Normal theory: Var(sxy) = (σ²τ² + c²)/n
    half = stats.norm.ppf(0.975) * np.sqrt((2.0 * 1.0 + 0.8**2) / 5000)
    assert (found.upper[0] - found.lower[0]) / 2 == pytest.approx(half, rel=0.06)


# Coverage ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_mean_coverage(replications, law):
    held = coverage(mean_interval(replications[law], LEVEL), LAWS[law][1])
    assert held == pytest.approx(LEVEL, abs=MONTE_CARLO)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_quantile_coverage(replications, p):
    low, high = stats.binom.ppf([0.025, 0.975], CHAINS, p)
    nominal = stats.binom.cdf(high, CHAINS, p) - stats.binom.cdf(low - 1, CHAINS, p)
    held = coverage(quantile_interval(replications["exponential"], p, LEVEL), stats.expon.ppf(p))
    assert held == pytest.approx(nominal, abs=MONTE_CARLO)


@pytest.mark.parametrize("law", LAWS)
def test_bonett_coverage_is_at_least_92_percent(replications, law):
    held = coverage(log_variance_bonett(replications[law], LEVEL), np.log(LAWS[law][2]))
    assert 0.92 <= held <= 0.97


def test_chi2_covers_normal_draws_and_no_others(replications):
    held = {law: coverage(log_variance_chi2(replications[law], LEVEL), np.log(LAWS[law][2])) for law in LAWS}
    assert held["normal"] == pytest.approx(LEVEL, abs=MONTE_CARLO)
    assert max(held["t5"], held["exponential"], held["funnel x2"]) < 0.85


def test_covariance_coverage():
    rng = np.random.default_rng(7)
    x = rng.standard_exponential((CHAINS, 1, REPLICATIONS))
    y = 0.5 * x + rng.standard_normal(x.shape)
    # Each column is a replication: the interval of the mean of products is columnwise.
    assert 0.92 <= coverage(covariance_interval(x, y, LEVEL), 0.5) <= 0.97


def autoregressive(rng, sample, correlation: float, states: int, replications: int):
    """Stationary normal chains, pushed through `sample`'s quantiles: states of a chain are correlated, chains are not."""
    state = rng.standard_normal((CHAINS, replications))
    path = []
    for _ in range(states):
        state = correlation * state + np.sqrt(1 - correlation**2) * rng.standard_normal(state.shape)
        path.append(sample(state))
    return np.stack(path, axis=1)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.95])
def test_clustered_states_keep_coverage(correlation):
    window = autoregressive(np.random.default_rng(8), lambda z: z, correlation, 4, 1000)
    assert 0.93 <= coverage(mean_interval(window, LEVEL), 0.0) <= 0.97
    assert 0.92 <= coverage(log_variance_bonett(window, LEVEL), 0.0) <= 0.97
    for p in (0.5, 0.9):
        assert 0.925 <= coverage(quantile_interval(window, p, LEVEL), stats.norm.ppf(p)) <= 0.98


def test_states_of_a_chain_are_pooled():
    """The estimate is that of all states together, also when the states' own means differ."""
    window = np.random.default_rng(15).standard_normal((50, 3, 2)) + np.array([0.0, 2.0, 5.0])[:, None]
    flat = window.reshape(-1, 2)
    np.testing.assert_allclose(mean_interval(window, 0.9).estimate, flat.mean(axis=0))
    np.testing.assert_allclose(log_variance_bonett(window, 0.9).estimate, np.log(flat.var(axis=0, ddof=1)))
    expected = np.quantile(flat, 0.3, axis=0, method="inverted_cdf")
    np.testing.assert_allclose(quantile_interval(window, 0.3, 0.9).estimate, expected)
    pair = covariance_interval(window[..., :1], window[..., 1:], 0.9).estimate
    np.testing.assert_allclose(pair, np.cov(flat.T)[0, 1])


def test_clustered_skewed_states_keep_coverage():
    window = autoregressive(np.random.default_rng(9), lambda z: stats.expon.ppf(stats.norm.cdf(z)), 0.6, 4, 500)
    assert 0.92 <= coverage(log_variance_bonett(window, LEVEL), 0.0) <= 0.98
    assert 0.92 <= coverage(mean_interval(window, LEVEL), 1.0) <= 0.98
    assert 0.92 <= coverage(quantile_interval(window, 0.9, LEVEL), stats.expon.ppf(0.9)) <= 0.985


def test_more_states_of_a_chain_narrow_the_interval_only_as_far_as_they_are_independent():
    rng = np.random.default_rng(10)
    widths = {}
    for correlation in (0.0, 0.999):
        window = autoregressive(rng, lambda z: z, correlation, 4, 50)
        for name, make in {
            "mean": mean_interval,
            "variance": log_variance_bonett,
            "quantile": lambda w, level: quantile_interval(w, 0.5, level),
        }.items():
            four, one = make(window, LEVEL), make(window[:, -1:], LEVEL)
            widths[name, correlation] = np.median((four.upper - four.lower) / (one.upper - one.lower))
    for name in ("mean", "variance", "quantile"):
        assert widths[name, 0.0] == pytest.approx(0.5, abs=0.06)
        assert widths[name, 0.999] == pytest.approx(1.0, abs=0.06)


# Movement and bound -----------------------------------------------------------------------------------------------------


def test_movement_from_a_known_reference_is_a_shift():
    moved = Interval(np.array([1.0]), np.array([0.8]), np.array([1.5]))
    found = movement(moved, exactly([0.25]))
    assert [float(part[0]) for part in found] == pytest.approx([0.75, 0.55, 1.25])


def test_movement_keeps_both_sides_of_a_lopsided_reference():
    """F(moved) exactly 1, F(q) between −0.1 and 0.4: the movement lies between 0.6 and 1.1."""
    found = movement(exactly([1.0]), Interval(np.array([0.0]), np.array([-0.1]), np.array([0.4])))
    assert [float(part[0]) for part in found] == pytest.approx([1.0, 0.6, 1.1])
    # Both lopsided: each side is the root of the sum of squares of the two sides that make it.
    moved = Interval(np.array([1.0]), np.array([0.7]), np.array([1.05]))
    both = movement(moved, Interval(np.array([0.0]), np.array([-0.12]), np.array([0.4])))
    assert [float(part[0]) for part in both] == pytest.approx([1.0, 1.0 - 0.5, 1.0 + 0.13])


def test_movement_of_two_means_is_close_to_welch():
    rng = np.random.default_rng(11)
    x, y = rng.normal(0, 1, 300), rng.normal(0.2, 3, 500)
    found = movement(*(mean_interval(part[:, None, None], 0.95) for part in (x, y)))
    welch = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    np.testing.assert_allclose([found.lower[0], found.upper[0]], [welch.low, welch.high], rtol=0.005)


@pytest.mark.parametrize("law", ["normal", "exponential", "funnel x2"])
def test_two_sample_coverage(replications, law):
    """Moved draws from one law, the approximation's draws from another; both with their own sampling error."""
    rng = np.random.default_rng(12)
    other = 2.0 * rng.standard_normal((600, 1, REPLICATIONS)) + 1.0
    moved = replications[law]
    _, mean, variance = LAWS[law]
    made = {
        "mean": (mean_interval, mean - 1.0),
        "variance": (log_variance_bonett, np.log(variance) - np.log(4.0)),
    }
    for make, truth in made.values():
        held = coverage(movement(make(moved, LEVEL), make(other, LEVEL)), truth)
        assert 0.925 <= held <= 0.97


def test_two_sample_quantile_coverage(replications):
    other = 2.0 * np.random.default_rng(13).standard_normal((600, 1, REPLICATIONS)) + 1.0
    found = movement(quantile_interval(replications["exponential"], 0.9, LEVEL), quantile_interval(other, 0.9, LEVEL))
    held = coverage(found, stats.expon.ppf(0.9) - stats.norm.ppf(0.9, 1.0, 2.0))
    assert 0.935 <= held <= 0.98


def test_ignoring_the_references_own_error_would_lose_coverage(replications):
    """The negative control of the two-sample interval."""
    other = np.random.default_rng(14).standard_normal((CHAINS, 1, REPLICATIONS))
    naive = movement(mean_interval(replications["normal"], LEVEL), exactly(other.mean(axis=(0, 1))))
    assert coverage(naive, 0.0) < 0.88


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_bound_is_the_distance_of_zero_from_the_interval(one, other):
    lower, upper = sorted((one, other))
    expected = max(lower, 0.0) + max(-upper, 0.0)
    assert float(bound(lower, upper)) == expected


def test_bound_of_half_infinite_intervals():
    np.testing.assert_array_equal(bound([-np.inf, 2.0, -np.inf], [np.inf, np.inf, -3.0]), [0.0, 2.0, 3.0])


@settings(deadline=None, max_examples=40)
@given(
    st.integers(10, 60),
    st.integers(1, 4),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.floats(0.02, 0.98),
    st.integers(0, 2**32 - 1),
)
def test_limits_are_ordered_and_follow_shifts_and_scales(chains, states, level, p, seed):
    window = np.random.default_rng(seed).standard_normal((chains, states, 2))
    for make in (mean_interval, log_variance_bonett, log_variance_chi2, lambda w, lv: quantile_interval(w, p, lv)):
        found = make(window, level)
        assert np.all(found.lower <= found.upper)
        wider = make(window, (1 + level) / 2)
        assert np.all(wider.lower <= found.lower) and np.all(wider.upper >= found.upper)
    for make in (mean_interval, lambda w, lv: quantile_interval(w, p, lv)):
        moved = make(3.0 * window + 2.0, level)
        np.testing.assert_allclose(moved.lower, 3.0 * make(window, level).lower + 2.0, rtol=1e-9, atol=1e-9)
    for make in (log_variance_bonett, log_variance_chi2):
        moved = make(3.0 * window + 2.0, level)
        np.testing.assert_allclose(moved.upper, make(window, level).upper + 2 * np.log(3.0), rtol=1e-9, atol=1e-9)
