"""Planning: the smallest numbers that satisfy the definitions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from taddaa import HMC, MALA, RWMH, Barker, Settings
from taddaa.plan import chains_for_mean, chains_for_variance, iterations_for


def test_chains_of_the_papers_tolerances():
    assert chains_for_mean(0.1, 0.95) == 387
    assert chains_for_variance(0.15, 0.95) == 344
    assert Settings(interval="plain").plan(5).chains == Settings.paper().plan(5).chains == 387
    assert Settings().plan(5).chains == 194  # sharper intervals from more states of each


def test_chains_when_the_whole_width_is_compared():
    """The definition as printed in the paper, which compares the whole width with the tolerance."""
    assert chains_for_variance(0.15 / 2, 0.95) == 1368


def test_the_larger_of_both_numbers_is_planned():
    plan = Settings(mean_tolerance=1.0, interval="plain").plan(5)
    assert plan.chains == chains_for_variance(0.15, 0.95) == 344


@given(st.floats(0.02, 2.0), st.floats(0.5, 0.999))
def test_chains_for_mean_is_the_smallest_that_is_enough(tolerance, level):
    n = chains_for_mean(tolerance, level)
    half = [stats.t.interval(level, count - 1)[1] / math.sqrt(count) for count in (n, n - 1) if count >= 2]
    assert half[0] <= tolerance
    assert n == 2 or half[1] > tolerance


@given(st.floats(0.05, 3.0), st.floats(0.5, 0.999))
def test_chains_for_variance_is_the_smallest_that_is_enough(tolerance, level):
    n = chains_for_variance(tolerance, level)
    width = []
    for count in (n, n - 1):
        if count >= 2:
            low, high = stats.chi2.interval(level, count - 1)
            width.append(math.log(high / low))
    assert width[0] <= 2 * tolerance
    assert n == 2 or width[1] > 2 * tolerance


@pytest.mark.parametrize("kernel", [Barker(), MALA(), RWMH()])
@pytest.mark.parametrize(("dim", "iterations"), [(1, 50), (8, 100), (11, 111), (27, 150), (64, 200), (1000, 500)])
def test_iterations_grow_with_the_cube_root(kernel, dim, iterations):
    assert iterations_for(kernel, dim) == iterations


@pytest.mark.parametrize(("leapfrog", "dim", "iterations"), [(10, 1, 5), (10, 16, 10), (10, 81, 15), (5, 16, 20), (1000, 1, 1)])
def test_iterations_of_hmc(leapfrog, dim, iterations):
    assert iterations_for(HMC(leapfrog=leapfrog), dim) == iterations


def test_what_the_user_chooses_is_used():
    plan = Settings(chains=50, iterations=30, budget=3.5).plan(11)
    assert (plan.chains, plan.iterations, plan.most_iterations) == (50, 30, 105)
    assert Settings.paper().plan(11).most_iterations == 111
