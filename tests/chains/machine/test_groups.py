"""Chains in groups: each with its own step and random numbers, in threads or in one program, with the same outcome."""

import subprocess
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import taddaa.chains.machine.engine
from known import gaussian_logdensity, paper_gaussian
from taddaa import HMC, MALA, RWMH, Barker, Gaussian, InputError, Settings, Target, diagnose
from taddaa.chains.machine.engine import Engine
from taddaa.chains.machine.groups import Groups
from taddaa.chains.machine.meter import Meter
from taddaa.chains.machine.noise import QUANTILES, HostNoise
from taddaa.chains.machine.placement import Placement
from taddaa.moves.metric import Dense

DIM = 3
COVARIANCE, PRECISION, _ = paper_gaussian(DIM)
METRIC = Dense(np.linalg.cholesky(COVARIANCE))


@pytest.fixture(autouse=True)
def threads_for_the_smallest(monkeypatch):
    monkeypatch.setattr(taddaa.chains.machine.engine, "THREADS_OPERATIONS", 0)


def gaussian() -> Target:
    return Target(gaussian_logdensity, DIM, data=PRECISION)


def walked(target, chains, groups, kernel=None, iterations=50, dtype="float64"):
    """An engine, where its chains have come to, and the trace."""
    starts = np.random.default_rng(0).standard_normal((chains, target.dim))
    with jax.enable_x64(dtype == "float64"):
        engine = Engine(target, kernel or Barker(), chains, 5, dtype, Meter(), groups)
        moved, trace = engine.advance(engine.start(starts, METRIC, 0.5), METRIC, starts, iterations)
        return engine, engine.fetched(moved), trace, starts


# Who is where -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chains", "wanted", "sizes"),
    [(387, 2, [194, 193]), (100, 2, [50, 50]), (99, 2, [99]), (10, 4, [10]), (205, 4, [69, 69, 67]), (2601, 52, [51] * 51)],
)
def test_sizes(chains, wanted, sizes):
    groups = Groups.of(chains, wanted)
    assert groups.sizes == sizes
    rows = np.arange(chains)
    parts = groups.split(rows)
    assert {len(part) for part in parts} == {groups.size}
    np.testing.assert_array_equal(np.concatenate(parts)[:chains], rows)
    assert np.all(np.concatenate(parts)[chains:] == chains - 1)
    membership = groups.membership(chains + 5)
    np.testing.assert_array_equal(membership.sum(axis=1), sizes)
    np.testing.assert_array_equal(membership.sum(axis=0), [1] * chains + [0] * 5)


@pytest.mark.parametrize("groups", [0, None, 1.5, True, "2"])
def test_groups_must_be_a_positive_number(groups):
    with pytest.raises(InputError, match="groups must be a whole number of at least 1"):
        Settings(groups=groups)
    with pytest.raises(InputError, match="states must be a whole number of at least 1"):
        Settings(states=groups)


def test_the_paper_has_one_group():
    assert Settings.paper().groups == 1


# The same outcome, however they run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [Barker(), MALA(), RWMH(), HMC()])
@pytest.mark.parametrize(("chains", "groups"), [(161, 2), (160, 3)])
def test_threads_and_one_program_agree(kernel, chains, groups, monkeypatch):
    apart, moved, trace, _ = walked(gaussian(), chains, groups, kernel)
    assert apart._apart and all(apart._safe.values())
    monkeypatch.setattr(taddaa.chains.machine.engine, "THREADS_NUMBERS", 0)
    together, expected, told, _ = walked(gaussian(), chains, groups, kernel)
    assert not together._apart
    for ours, theirs in zip(jax.tree.leaves(moved), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)
    for ours, theirs in zip(trace, told, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_every_group_has_a_step_and_random_numbers_of_its_own():
    _, moved, trace, starts = walked(gaussian(), 150, 3)
    steps = moved.log_step.reshape(3, 50)
    assert np.all(steps == steps[:, :1]) and len(np.unique(steps)) == 3
    assert moved.log_step.mean() == pytest.approx(trace.log_step[-1] + (trace.acceptance[-1] - 0.4) / np.sqrt(50), rel=1e-9)
    moves = (moved.point.position - starts).reshape(3, 50, DIM)
    assert len({round(float(group[0, 0]), 12) for group in moves}) == 3


def test_the_trace_is_over_all_groups():
    _, moved, trace, starts = walked(gaussian(), 387, 2)
    expected = max(np.corrcoef(starts[:, i], moved.point.position[:, i])[0, 1] ** 2 for i in range(DIM))
    assert trace.rho2[-1] == pytest.approx(expected, rel=1e-4)
    assert moved.accepted.sum() / (387 * 50) == pytest.approx(trace.acceptance.mean(), abs=0.01)


def test_gradients_that_cost_nothing_are_not_worth_threads(monkeypatch):
    monkeypatch.undo()
    assert not walked(gaussian(), 120, 2)[0]._apart
    assert walked(Target(lambda x, data: -jnp.sum((data @ x) ** 2), DIM, data=np.ones((500, DIM))), 120, 2)[0]._apart


def test_single_precision_in_threads():
    engine, moved, _, _ = walked(gaussian(), 120, 2, dtype="float32")
    assert engine._apart
    assert moved.point.position.dtype == np.float32


def test_a_report_does_not_depend_on_threads(monkeypatch):
    approximation = Gaussian(np.zeros(DIM), 0.5 * np.ones(DIM))
    settings = Settings(chains=101, iterations=30)
    apart = diagnose(gaussian(), approximation, settings=settings)
    monkeypatch.setattr(taddaa.chains.machine.engine, "THREADS_NUMBERS", 0)
    together = diagnose(gaussian(), approximation, settings=settings)
    np.testing.assert_allclose([row.bound for row in apart.rows], [row.bound for row in together.rows], rtol=1e-6, atol=1e-9)
    assert apart.headline == together.headline


# What must not run twice at once --------------------------------------------------------------------------------------


def with_cholesky(x):
    factor = jnp.linalg.cholesky(jnp.eye(DIM) + jnp.outer(x, x))
    return -0.5 * x @ x - jnp.sum(jnp.log(jnp.diag(factor)))


def with_fft(x):
    return -0.5 * jnp.sum(jnp.abs(jnp.fft.fft(x)) ** 2)


@pytest.mark.parametrize("logdensity", [with_cholesky, with_fft])
def test_programs_that_call_libraries_are_not_run_twice_at_once(logdensity):
    """LAPACK and FFT wait inside for threads of XLA's pool: two programs that hold them all would wait for ever."""
    engine, *_ = walked(Target(logdensity, DIM), 120, 2)
    assert not engine._apart


class Solving(NamedTuple):
    """A user's metric that calls LAPACK."""

    inverse: Any

    def push(self, z):
        return jax.scipy.linalg.solve_triangular(self.inverse, z, lower=True)

    def pull(self, gradient):
        return jax.scipy.linalg.solve_triangular(self.inverse, gradient, lower=True, trans=1)


def test_a_metric_that_calls_libraries_is_not_run_twice_at_once():
    starts = np.random.default_rng(0).standard_normal((120, DIM))
    with jax.enable_x64(True):
        engine = Engine(gaussian(), Barker(), 120, 5, "float64", Meter(), 2)
        for metric, safe in ((METRIC, True), (Solving(np.eye(DIM)), False)):
            engine.advance(engine.start(starts, metric, 0.5), metric, starts, 3)
            assert engine._safe[jax.tree.structure(metric)] == safe


def test_the_users_host_code_is_called_once_an_iteration_for_all_chains():
    rows_of_calls = []

    def host(rows):
        rows_of_calls.append(len(rows))
        return -0.5 * np.sum(rows**2, axis=1), -rows

    target, _ = taddaa.from_callback(host, DIM, Gaussian(np.zeros(DIM), np.ones(DIM)))
    rows_of_calls.clear()
    walked(target, 120, 2, iterations=10)
    assert rows_of_calls == [120] * 11  # and once at the starts


# Outside the support ----------------------------------------------------------------------------------------------------


def beyond(x):
    return jnp.where(x[0] > 2, -0.5 * jnp.sum((x - 3) ** 2), -jnp.inf)


@pytest.mark.parametrize("kernel", [Barker(), RWMH()])
def test_a_group_that_is_all_outside_keeps_its_step_and_finds_the_support(kernel):
    starts = np.random.default_rng(0).standard_normal((120, DIM)) * 0.5
    starts[:5, 0] = 3.0  # some of the first group
    with jax.enable_x64(True):
        engine = Engine(Target(beyond, DIM), kernel, 120, 5, "float64", Meter(), 2)
        metric = Dense(np.eye(DIM))
        begun = engine.start(starts, metric, 1.0)
        once, trace = engine.advance(begun, metric, starts, 1)
        steps = engine.host(once.log_step)
        moved, _ = engine.advance(once, metric, starts, 60)
        found = np.isfinite(engine.host(moved.point.logdensity))
    assert np.all(steps[60:] == 0) and np.all(steps[:60] != 0)
    # The mean over the five, whichever group they are in.
    adapted = steps[0] + kernel.target_acceptance
    assert trace.acceptance[0] == pytest.approx(adapted)
    assert found[:60].mean() > 0.5 and found[60:].mean() > 0.5


# Random numbers -------------------------------------------------------------------------------------------------------


def drawn(kernel, seed=0):
    return HostNoise(seed, Groups.of(200, 2), kernel, 5, Placement(200, None)).of_group(0, 40, 40).normal.ravel()


def test_quantiles_are_symmetric_and_nearly_normal():
    np.testing.assert_array_equal(QUANTILES, -QUANTILES[::-1])
    assert np.var(QUANTILES.astype(float)) == pytest.approx(1.0, abs=1e-4)
    for kernel in (Barker(), RWMH()):
        noise = drawn(kernel)
        assert np.isin(noise, QUANTILES).all()
        assert stats.kstest(noise, "norm").pvalue > 0.01
        assert np.corrcoef(noise[:-1], noise[1:])[0, 1] == pytest.approx(0, abs=4 / np.sqrt(noise.size))


def test_kernels_whose_correction_knows_the_normal_density_get_normal_numbers():
    for kernel in (MALA(), HMC()):
        noise = drawn(kernel)
        assert np.isin(noise, QUANTILES).mean() < 0.2
        assert stats.kstest(noise, "norm").pvalue > 0.01


def test_groups_draw_independent_numbers():
    noise = HostNoise(0, Groups.of(200, 2), Barker(), 5, Placement(200, None))
    first, second = (noise.of_group(group, 40, 40) for group in (0, 1))
    for ours, theirs in zip(first, second, strict=True):
        assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] == pytest.approx(0, abs=4 / np.sqrt(ours.size))


# What only experience shows -------------------------------------------------------------------------------------------

PRODUCTS = """
import numpy as np, jax.numpy as jnp, taddaa
def logdensity(x, data):
    hidden = jnp.tanh(data @ x.reshape(5, 6))
    return -0.5 * x @ x - jnp.sum((hidden @ hidden.T) ** 2) / 1000
target = taddaa.Target(logdensity, 30, data=np.random.default_rng(0).standard_normal((40, 5)))
for seed in range(3):
    taddaa.diagnose(target, taddaa.Gaussian(np.zeros(30), np.ones(30)), settings=taddaa.Settings(groups=4, budget=1), seed=seed)
"""


def test_matrix_products_side_by_side_come_to_an_end():
    """XLA's own operations do not wait for each other's threads; a release in which they do would hang here, and not at a user's."""
    subprocess.run([sys.executable, "-c", PRODUCTS], check=True, timeout=120)
