"""NumPy arrays that functions close over: runs in single precision, before and after, and diagnoses in double do not disturb each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from taddaa.problem.constants import with_own_constants

QUICK = taddaa.Settings(chains=60, budget=1)
FIT = taddaa.Gaussian(np.zeros(2), np.ones(2))


@pytest.fixture(autouse=True)
def single_precision():
    """Other tests in this process may have loaded a framework that changed JAX's default."""
    with jax.enable_x64(False):
        yield


def functions():
    """New arrays and functions: a log density, a view and a quantity that close over them."""
    data, scale, grid = np.arange(17.0), np.array([1.0, 2.0]), np.arange(5)
    logdensity = lambda x: -0.5 * jnp.sum(x**2) - 0.005 * jnp.sum((data - x[0]) ** 2)  # noqa: E731
    constrain = lambda x: {"b": scale * x, "a": jnp.exp(x[0])}  # noqa: E731
    predict = lambda p: jnp.mean((data - p["b"][0]) ** 2) + jnp.sum(grid * p["b"][1])  # noqa: E731
    return logdensity, constrain, predict


def used(logdensity, constrain, predict):
    """As in a fit of the user's own, in single precision."""
    x = jnp.zeros(2)
    assert x.dtype == jnp.float32
    return jax.jit(logdensity)(x), jax.jit(constrain)(x), jax.jit(predict)(constrain(x)), jax.jit(jax.grad(logdensity))(x)


def diagnosed(logdensity, constrain, predict):
    target = taddaa.Target(logdensity, 2, constrain=constrain)
    return taddaa.diagnose(target, FIT, [taddaa.Mean(), taddaa.Mean(of=predict, name="loss")], settings=QUICK)


def test_before_and_after():
    """The report, and with it our programs, is alive when the user goes on."""
    alone = diagnosed(*functions())
    made = functions()
    before = used(*made)
    report = diagnosed(*made)
    assert [row.parameter for row in report.rows] == ["b[0]", "b[1]", "a", "loss"]
    np.testing.assert_array_equal([row.moved for row in report.rows], [row.moved for row in alone.rows])
    jax.tree.map(np.testing.assert_array_equal, before, used(*made))
    assert report.continuation is not None


def test_a_first_look_and_a_fit_too():
    logdensity, _, _ = made = functions()
    used(*made)
    seen, fitted = taddaa.glance(logdensity, FIT), taddaa.fit.laplace(taddaa.Target(logdensity, 2))
    used(*made)
    assert seen is not None and fitted is not None


def test_the_trick_is_transparent():
    weights = np.array([1.0, 2.0, 3.0])
    function = lambda x, data: jnp.sum(weights * x * data["a"]) + data["b"]  # noqa: E731
    own, data = with_own_constants(function), {"b": 2.0, "a": jnp.arange(3.0)}
    for change in (lambda f: f, jax.grad, jax.hessian, lambda f: jax.jit(jax.grad(f))):
        np.testing.assert_array_equal(change(own)(jnp.ones(3), data), change(function)(jnp.ones(3), data))
    np.testing.assert_array_equal(jax.vmap(own, (0, None))(jnp.ones((4, 3)), data), jax.vmap(function, (0, None))(jnp.ones((4, 3)), data))
    assert weights.flags.writeable


def test_other_errors_are_told_as_they_are():
    with pytest.raises(taddaa.InputError, match=r"logdensity\(x\) failed on a vector of length 2: KeyError"):
        taddaa.diagnose(lambda x: {}["missing"], FIT)
