"""Minima as SciPy finds them, with no more values asked for; and nothing worse where a function misbehaves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from taddaa.formulas.minimise import DOWN, LEVEL, _cubic, _stepped, least_within, minimise


class Counted:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)


def rosenbrock(x):
    return optimize.rosen(x), optimize.rosen_der(x)


def quadratic(dim, worst):
    scales = np.geomspace(1, worst, dim)
    return lambda x: (0.5 * float(scales @ (x - 1) ** 2), scales * (x - 1))


def saturating(x):
    """As the loss that maps are learnt by: hardly any slope far out."""
    return float(np.log1p((x - 2) ** 2).sum()), 2 * (x - 2) / (1 + (x - 2) ** 2)


CASES = {
    "Rosenbrock, 2": (rosenbrock, np.array([-1.2, 1.0])),
    "Rosenbrock, 30": (rosenbrock, np.full(30, -1.2)),
    "quadratic": (quadratic(20, 1e4), np.zeros(20)),
    "saturating": (saturating, np.array([30.0, -7.0, 2.5])),
}


@pytest.mark.parametrize("case", CASES)
def test_as_low_as_scipy_for_about_as_many_values(case):
    function, start = CASES[case]
    ours, theirs = Counted(function), Counted(function)
    found = minimise(ours, start, 500)
    scipys = optimize.minimize(theirs, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    lowest = function(np.full(len(start), 2.0 if case == "saturating" else 1.0))[0]
    assert function(found)[0] - lowest < max(10 * (scipys.fun - lowest), 1e-7)
    assert ours.calls <= 1.5 * theirs.calls + 5


def test_few_steps_are_few():
    calls = Counted(rosenbrock)
    some = minimise(calls, np.full(10, -1.2), 5)
    assert calls.calls < 30
    assert 1 < rosenbrock(some)[0] < rosenbrock(np.full(10, -1.2))[0]


def test_at_a_minimum_it_stays():
    np.testing.assert_array_equal(minimise(rosenbrock, np.ones(3), 10), np.ones(3))
    assert len(minimise(lambda x: (0.0, x), np.zeros(0), 10)) == 0


def test_where_the_function_is_not_finite_it_steps_back():
    """log x − x has no value left of zero, and its first step would go there."""

    def function(x):
        with np.errstate(all="ignore"):
            return float(np.sum(x - np.log(x))), 1 - 1 / x

    np.testing.assert_allclose(minimise(function, np.array([40.0, 1e-3]), 100), 1.0, atol=1e-3)


def test_a_slope_that_lies_ends_where_it_began():
    start = np.array([1.0, 2.0])
    np.testing.assert_array_equal(minimise(lambda x: (float(x @ x), -2 * x), start, 50), start)


def test_a_cubic_is_least_where_it_is():
    value, slope = (lambda x: x**3 - 3 * x + 1), (lambda x: 3 * x**2 - 3)
    for a, b in ((0.0, 1.7), (-0.5, 4.0), (0.9, 1.05)):
        assert _cubic((a, value(a), slope(a)), (b, value(b), slope(b))) == pytest.approx(1.0, abs=1e-9)
    assert _cubic((0.0, 0.0, -1.0), (2.0, 5.0, -10.0)) <= 2.0


@pytest.mark.parametrize("length", [1e-4, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("function", [rosenbrock, saturating, quadratic(3, 100.0)])
def test_wolfes_conditions_hold_after_a_step_of_any_length(function, length):
    """Too short a step must grow, too long a one must shrink."""
    x = np.array([-1.2, 1.0, 0.5])
    value, slope = function(x)
    way = -slope / np.linalg.norm(slope)
    there, new_value, new_slope = _stepped(function, x, value, slope, way, length)
    assert new_value <= value + DOWN * (there - x) @ slope
    assert new_slope @ way >= LEVEL * (slope @ way)
    assert _stepped(function, x, value, slope, -way, length) is None


def test_a_jump_just_behind_the_start_is_no_failure():
    def function(x):
        return (-float(x[0]), np.array([-1.0])) if x[0] <= 1 else (1e6 * float(x[0]), np.array([1e6]))

    assert 0.9 < minimise(function, np.zeros(1), 30)[0] <= 1


def test_what_was_learnt_elsewhere_is_forgotten_where_it_misleads():
    """Curvature that grows a millionfold on the way: steps that fitted before it are refused."""

    def function(x):
        return float(np.sum(np.where(x > 1, 0.5 * (x - 1) ** 2, 5e5 * (x - 1) ** 2))), np.where(x > 1, x - 1, 1e6 * (x - 1))

    np.testing.assert_allclose(minimise(function, np.array([300.0, -2.0, 5.0]), 500), 1.0, atol=1e-3)


@pytest.mark.parametrize("side", [-1, 1])
def test_what_is_not_a_number_is_never_the_least(side):
    def function(x):
        return float("nan") if side * (x - 0.6) > 0.02 else (x - 0.6) ** 2

    at, value = least_within(function, [(0.2, 0.16), (0.61, 1e-4), (1.0, 0.16)], 1e-3, 20)
    assert value <= 1e-4 and abs(at - 0.6) < 0.011


@pytest.mark.parametrize("side", [-1, 1])
def test_lopsided_losses_take_no_more_values(side):
    """Flat on one side and steep on the other: parabolas alone creep, and the tries run out (0.03 to 0.06 off)."""
    for least in np.linspace(0.72, 0.88, 30):

        def function(x, least=least):
            z = side * (x - least)
            return float(np.expm1(20 * z) - 20 * z if z > 0 else 0.4 * z**2)

        points = [(x, function(x)) for x in (0.6, 0.8, 1.1)]
        if points[1][1] <= min(points[0][1], points[2][1]):
            assert abs(least_within(function, points, 5e-3, 12)[0] - least) < 0.01


@given(
    shape=st.sampled_from([lambda x: x**2, lambda x: np.cosh(x) - 1, lambda x: x**4 + 0.1 * x**2, lambda x: np.log1p(5 * x**2), np.abs]),
    least=st.floats(0.2, 0.8),
    part=st.floats(0.1, 0.9),
)
def test_one_dimension(shape, least, part):
    """From any three of which the middle one is lowest; also where no parabola fits."""
    function = Counted(lambda x: float(shape(x - least)))
    middle = 2 * least * part if least < 0.5 else 1 - 2 * (1 - least) * part
    points = [(at, function.function(at)) for at in (0.0, middle, 1.0)]
    if not points[1][1] <= min(points[0][1], points[2][1]):
        return
    at, value = least_within(function, points, 1e-3, 40)
    assert abs(at - least) < 5e-3
    assert value == function.function(at)
    assert function.calls <= 40


def test_about_as_many_values_as_brents_method():
    ours, theirs = (Counted(lambda x: float(np.log1p(3 * (x - 0.7) ** 2) + 0.1 * x)) for _ in range(2))
    found = least_within(ours, [(x, ours.function(x)) for x in (0.4, 0.6, 1.1)], 5e-3, 12)
    brents = optimize.minimize_scalar(theirs, bounds=(0.4, 1.1), method="bounded", options={"xatol": 5e-3})
    assert found[1] < brents.fun + 1e-5
    assert ours.calls <= theirs.calls + 3
