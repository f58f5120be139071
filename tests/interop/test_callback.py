"""from_callback: exact values, one call for all chains, and a failure costs one proposal only."""

import jax
import numpy as np
import pytest

import taddaa

DIM = 3
STANDARD = taddaa.Gaussian(np.zeros(DIM), np.ones(DIM))


def normal(x):
    return -0.5 * np.sum(x**2, axis=1), -x


def evaluated(fn, rows):
    target, _ = taddaa.from_callback(fn, DIM, STANDARD)
    with jax.enable_x64(True):
        return [np.asarray(part) for part in jax.jit(jax.vmap(jax.value_and_grad(target.logdensity)))(rows)]


def test_values_and_gradients_come_through_in_double_precision():
    rows = np.random.default_rng(0).normal(size=(100, DIM))
    values, gradients = evaluated(lambda x: (np.sum(np.sin(x), axis=1), np.cos(x)), rows)
    np.testing.assert_array_equal(values, np.sum(np.sin(rows), axis=1))
    np.testing.assert_array_equal(gradients, np.cos(rows))


def test_one_call_for_all_chains_with_an_array_of_its_own():
    calls = []

    def fn(x):
        calls.append((x.shape, x.dtype, x.flags.writeable))
        result = normal(x.copy())
        x[:] = np.nan
        return result

    rows = np.ones((50, DIM))
    values, _ = evaluated(fn, rows)
    assert calls[-1] == ((50, DIM), np.float64, True)
    np.testing.assert_array_equal(values, -1.5)


def sometimes(x):
    if np.any(x[:, 0] > 1):
        raise ArithmeticError("outside")
    return normal(x)


def test_an_exception_for_one_chain_is_minus_infinity_for_that_chain():
    rows = np.array([[0.5, 1, 2], [1.5, 1, 2], [0.0, 0, 1]])
    values, gradients = evaluated(sometimes, rows)
    np.testing.assert_array_equal(values, [-2.625, -np.inf, -0.5])
    np.testing.assert_array_equal(gradients[[0, 2]], -rows[[0, 2]])


def test_a_nan_for_one_chain_is_minus_infinity_for_that_chain():
    values, _ = evaluated(lambda x: (np.where(x[:, 0] > 1, np.nan, -0.5 * np.sum(x**2, axis=1)), -x), np.array([[0.0, 0, 1], [2.0, 0, 1]]))
    np.testing.assert_array_equal(values, [-0.5, -np.inf])


def test_failing_proposals_are_rejected_and_counted():
    """A normal cut off at 2 by exceptions: the chains stay below, and the report says how often they were refused."""

    def cut(x):
        if np.any(x > 2):
            raise ArithmeticError("outside")
        return normal(x)

    narrow = taddaa.Gaussian(np.full(DIM, -1.0), np.full(DIM, 0.3))
    report = taddaa.diagnose(*taddaa.from_callback(cut, DIM, narrow))
    assert report.moved_draws.max() <= 2
    assert any("were rejected" in note for note in report.notes)
    assert report.rows[0].moved > report.rows[0].approximation  # the other proposals were not


@pytest.mark.parametrize("settings", [taddaa.Settings(), taddaa.Settings(kernel="rwmh"), taddaa.Settings(precision="float32")])
def test_right_is_right_and_wrong_is_wrong(settings):
    assert taddaa.diagnose(*taddaa.from_callback(normal, DIM, STANDARD), settings=settings).verdict in (
        "no error found",
        "within tolerance",
    )
    wide = taddaa.Gaussian(np.zeros(DIM), np.full(DIM, 2.0))
    report = taddaa.diagnose(*taddaa.from_callback(normal, DIM, wide), settings=settings)
    assert {row.functional for row in report.rows if row.verdict == "error"} == {"variance"}


def test_names_and_scale():
    target, approximation = taddaa.from_callback(normal, DIM, STANDARD, constrain=lambda x: {"a": x[0], "b": jax.numpy.exp(x[1:])})
    report = taddaa.diagnose(target, approximation, settings=taddaa.Settings(chains=50, budget=1))
    assert report.labels == ("a", "b[0]", "b[1]") and np.all(report.moved["b[1]"] > 0)


def broken(x):
    raise OSError("no such model")


@pytest.mark.parametrize(
    ("fn", "match"),
    [
        (None, "fn must be a function"),
        (broken, "fn failed on every one of 8 draws .* OSError: no such model"),
        (lambda x: -x, "fn must return the pair"),
        (lambda x: (-x, -np.sum(x, axis=1)), "the pair is the other way round"),
        (lambda x: (np.zeros((len(x), 1)), -x), r"log densities of shape \(8,\)"),
        (lambda x: (np.zeros(len(x)), -x[:, :2]), r"gradients of shape \(8, 3\)"),
        (lambda x: (np.array(["one"] * len(x)), -x), "log densities as numbers, got ndarray: ValueError"),
    ],
)
def test_functions_that_cannot_work(fn, match):
    with pytest.raises(taddaa.InputError, match=match):
        taddaa.from_callback(fn, DIM, STANDARD)


def test_dimensions_must_agree():
    with pytest.raises(taddaa.InputError, match="approximation has dimension 3, but dim = 4"):
        taddaa.from_callback(normal, 4, STANDARD)
