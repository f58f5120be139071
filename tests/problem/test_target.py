"""Targets: labels, data, and what is refused (see also test_bad_input)."""

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from taddaa import InputError, Target
from taddaa.problem.target import as_target, flat_values


def standard(x):
    return -0.5 * jnp.sum(x**2)


def test_labels_of_a_plain_vector():
    assert Target(standard, dim=3).labels == ("x[0]", "x[1]", "x[2]")
    assert Target(standard, dim=2, names=["alpha", "beta"]).labels == ("alpha", "beta")


def test_labels_come_from_constrain_in_the_users_order():
    def constrain(x):
        return {"theta": x[:4], "tau": jnp.exp(x[4]), "b": x[5:9].reshape(2, 2)}

    target = Target(standard, dim=9, constrain=constrain)
    assert target.labels == ("theta[0]", "theta[1]", "theta[2]", "theta[3]", "tau", "b[0,0]", "b[0,1]", "b[1,0]", "b[1,1]")
    x = jnp.arange(9.0)
    values = flat_values(constrain(x))
    np.testing.assert_allclose(values, [0, 1, 2, 3, np.exp(4), 5, 6, 7, 8], rtol=1e-6)


@pytest.mark.parametrize(
    ("constrain", "labels"),
    [
        (lambda x: x * 2, ("x[0]", "x[1]")),
        (lambda x: {"group": {"mu": x[0], "sd": x[1]}}, ("group.mu", "group.sd")),
        (lambda x: (x[0], x), ("x[0]", "x[1][0]", "x[1][1]")),
        (jnp.sum, ("x",)),
    ],
)
def test_labels_of_other_shapes(constrain, labels):
    assert Target(standard, dim=2, constrain=constrain).labels == labels


def test_names_for_the_values_of_constrain():
    def constrain(x):
        return jnp.append(x, x.sum())

    assert Target(standard, dim=3, constrain=constrain, names=["a", "b", "c", "sum"]).labels == ("a", "b", "c", "sum")
    with pytest.raises(InputError, match=r"names must hold one label for each of constrain's 4 values, got 3"):
        _ = Target(standard, dim=3, constrain=constrain, names=["a", "b", "c"]).labels


def test_constrain_and_functions_may_take_the_data():
    data = {"scale": np.array([2.0, 3.0])}
    target = Target(
        lambda x, data: -0.5 * jnp.sum((x / data["scale"]) ** 2), dim=2, data=data, constrain=lambda x, data: {"z": x / data["scale"]}
    )
    assert target.labels == ("z[0]", "z[1]")
    report = taddaa.diagnose(
        target,
        taddaa.Gaussian([0.0, 0.0], [2.0, 3.0]),
        functionals=[taddaa.Variance(), taddaa.Mean(of=lambda p, data: jnp.sum(p["z"] * data["scale"] ** 0), name="total")],
        settings=taddaa.Settings(chains=400, iterations=20, budget=1),
    )
    assert [row.parameter for row in report.rows] == ["z[0]", "z[1]", "total"]
    for row in report.rows[:2]:
        assert row.moved == pytest.approx(1.0, abs=0.25)


def test_optional_second_arguments_are_not_data():
    """Only a function that needs two arguments is given the data."""
    from taddaa.problem.target import call_with_data

    assert call_with_data(lambda x, power=2: x**power, 3.0, {"a": 1}) == 9.0
    assert call_with_data(lambda x, data: x + data, 3.0, 4.0) == 7.0
    assert call_with_data(lambda x: x + 1, 3.0, 4.0) == 4.0
    assert call_with_data(abs, -3.0, 4.0) == 3.0


def test_a_bare_function_becomes_a_target_of_the_approximations_dimension():
    assert as_target(standard, 4).dim == 4
    known = Target(standard, dim=2)
    assert as_target(known, 5) is known


def test_check_traces_and_never_runs():
    calls = []

    def logdensity(x):
        calls.append(type(x))
        return -0.5 * jnp.sum(x**2)

    Target(logdensity, dim=3).check()
    assert len(calls) == 1
    assert "Tracer" in calls[0].__name__
