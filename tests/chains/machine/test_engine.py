"""The engine: what it keeps, what it compiles, and that runs repeat exactly."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from known import COVARIANCE, KNOWN, gaussian_logdensity, paper_gaussian, run_chains
from taddaa import HMC, MALA, RWMH, Barker, Gaussian, Relay, Settings, Target
from taddaa.chains.machine import viewer
from taddaa.chains.machine.engine import Engine
from taddaa.chains.machine.meter import Meter
from taddaa.moves.adapt import adapt_step
from taddaa.moves.bend import Bend
from taddaa.moves.metric import Bent, Dense, Diagonal, DiagonalLowRank

PRECISION = np.linalg.inv(COVARIANCE)
TARGET = Target(gaussian_logdensity, dim=2, data=PRECISION)
APPROXIMATION = Gaussian([0.0, 0.0], [1.0, 1.0])
QUICK = Settings(chains=100, iterations=24, budget=1)


def content(report) -> dict:
    """All that a report says, except how long it took and when."""
    kept = json.loads(report.to_json())
    kept.pop("cost")
    kept["provenance"].pop("date")
    return kept


def test_the_same_seed_gives_the_same_report_and_another_does_not():
    first, again, other = (taddaa.diagnose(TARGET, APPROXIMATION, settings=QUICK, seed=seed) for seed in (3, 3, 4))
    assert content(first) == content(again)
    assert not np.array_equal(first.moved_draws, other.moved_draws)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_users_jax_configuration_is_left_alone(precision):
    before, settings = jax.config.jax_enable_x64, Settings(chains=100, iterations=8, budget=1, precision=precision)
    report = taddaa.diagnose(TARGET, APPROXIMATION, settings=settings)
    assert jax.config.jax_enable_x64 == before
    assert jnp.ones(1).dtype == (jnp.float64 if before else jnp.float32)
    with jax.enable_x64(True):
        inside = taddaa.diagnose(TARGET, APPROXIMATION, settings=settings)
        assert jnp.ones(1).dtype == jnp.float64
    np.testing.assert_array_equal(report.moved_draws, inside.moved_draws)


def test_single_precision_computes_in_single_precision_and_agrees():
    kinds = set()

    def logdensity(x, precision):
        kinds.add(str(x.dtype))
        return gaussian_logdensity(x, precision)

    settings = Settings(chains=387, precision="float32", budget=1)
    single = taddaa.diagnose(Target(logdensity, dim=2, data=PRECISION), APPROXIMATION, settings=settings)
    double = taddaa.diagnose(TARGET, APPROXIMATION, settings=Settings(chains=387, budget=1))
    assert kinds == {"float32"}
    for one, two in zip(single.rows, double.rows, strict=True):
        assert one.moved == pytest.approx(two.moved, abs=6 * max(two.detectable, 0.05))
        assert one.verdict == two.verdict


def test_data_is_cast_to_the_runs_precision():
    kinds = set()

    def logdensity(x, data):
        kinds.add((str(x.dtype), str(data["y"].dtype), str(data["n"].dtype)))
        return -0.5 * jnp.sum((x - data["y"][data["n"]]) ** 2)

    target = Target(logdensity, dim=2, data={"y": np.zeros(3), "n": np.array([0, 1])})
    taddaa.diagnose(target, APPROXIMATION, settings=Settings(chains=20, iterations=4, budget=1, precision="float32"))
    assert ("float32", "float32", "int32") in {(x, y, n.replace("64", "32")) for x, y, n in kinds}
    assert {x for x, _, _ in kinds} == {"float32"}


# Compiling --------------------------------------------------------------------------------------------------------------


def test_a_second_diagnosis_compiles_nothing():
    """Also with another seed, approximation and budget. Another Target starts afresh, for what it closes over may differ."""
    _, precision, sd = paper_gaussian(3)
    settings = Settings(chains=60, iterations=26, budget=1)
    target = Target(gaussian_logdensity, dim=3, data=precision)
    first = taddaa.diagnose(target, Gaussian(np.zeros(3), sd), settings=settings)
    assert first.cost.programs > 0
    assert first.cost.seconds_compiling > 0
    again = taddaa.diagnose(target, Gaussian(np.ones(3), 2 * sd), settings=Settings(chains=60, iterations=31, budget=2), seed=9)
    assert again.cost.programs == 0
    other = taddaa.diagnose(Target(gaussian_logdensity, dim=3, data=100 * precision), Gaussian(np.zeros(3), sd), settings=settings)
    assert other.cost.programs > 0
    # The data was an argument indeed: a hundred times the precision, a hundredth of the variance.
    pairs = [(a.moved, b.moved) for a, b in zip(first.rows, other.rows, strict=True) if a.functional == "variance"]
    assert all(b < a / 10 for a, b in pairs)


def test_what_a_function_closes_over_is_read_again_by_a_new_target():
    """A notebook's second cell: the data changes, the function does not."""
    world = {"y": 0.0}

    def logdensity(x):
        return -0.5 * jnp.sum((x - world["y"]) ** 2)

    approximation, settings = Gaussian(np.zeros(2), np.ones(2)), Settings(chains=100, iterations=40)
    assert taddaa.diagnose(logdensity, approximation, settings=settings).verdict in ("no error found", "within tolerance")
    world["y"] = 5.0
    assert taddaa.diagnose(logdensity, approximation, settings=settings).verdict == "error"


def engine_of(target, chains, kernel=None, dtype="float64") -> Engine:
    return Engine(target, kernel or Barker(), chains, 0, dtype, Meter(), 2)


def run_arguments(engine, chains, dim):
    metric = Diagonal(jnp.ones(dim))
    starts = np.random.default_rng(0).standard_normal((chains, dim))
    begun = engine.start(starts, metric, 0.5)
    return begun, metric, starts


def program_arguments(engine, begun, metric, starts):
    (lane,) = engine._lanes(begun, starts)
    return begun, 20, lane.draw(20), engine._cast_metric(metric), lane.anchor, lane.membership, engine._data


class Another(Barker):
    """Goes over to a kernel of another program, of which nobody told it."""

    def exploring(self, dim):
        return MALA()


def test_a_kernel_that_goes_over_to_any_other_has_a_program_for_it():
    with jax.enable_x64(True):
        known, metric = KNOWN["correlated"], Dense(np.linalg.cholesky(COVARIANCE))
        target, starts = Target(known.logdensity, dim=2), known.sample(np.random.default_rng(0), 400)
        engine = Engine(target, Another(), 400, 0, "float64", Meter(), 2)
        chains, _ = engine.advance(engine.start(starts, metric, 0.5), metric, starts, 5)
        after = engine.under(engine.kernel.exploring(engine.target.dim))
        chains, trace = after.advance(chains, metric, starts, 300)
        assert trace.acceptance[-100:].mean() == pytest.approx(MALA.target_acceptance, abs=0.05)
        moved = after.host(after.flat(chains, metric).position)
        np.testing.assert_allclose(np.cov(moved.T), COVARIANCE, atol=5 * np.abs(COVARIANCE).max() / np.sqrt(200))
        value, _ = after.evaluate(starts)
        np.testing.assert_allclose(value, jax.vmap(known.logdensity)(starts), rtol=1e-12)


def test_a_density_without_a_gradient_is_no_density_of_zero():
    """Starts with a finite log density whose gradient is NaN are inside the support, and said to be so."""
    trap = Target(lambda x: -0.5 * jnp.sum(x**2) + jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0)), dim=2)  # NaN gradients for x < 0
    report = taddaa.diagnose(trap, APPROXIMATION, settings=QUICK)
    assert not any("logdensity was not finite" in note for note in report.notes)


def test_a_first_diagnosis_compiles_the_gradient_once():
    """One program evaluates starts and pilots, and chains on their way before and after they have arrived; the steps are on the host."""
    target = Target(gaussian_logdensity, dim=2, data=PRECISION)
    report = taddaa.diagnose(target, APPROXIMATION)
    assert report.continuation.walk.exploring
    assert report.cost.programs == 1


def some_bend() -> Bend:
    """The first coordinate drives the others, and one that nobody has is padding; data say something of the last."""
    select, levels = np.eye(3)[:, :2], np.array([[0, 0, 0], [0, 1.0, 1.0]])
    stretch, shift, known = np.array([[0, 0.5, 0.2], [0, 0, 0]]), np.array([[0, 0, 0.1], [0, 0, 0]]), np.array([0, 0, 0.3])
    return Bend(np.ones(3), np.full(3, 0.5), select, stretch, shift, levels, known, np.array([0, 0.1, 0.2]), np.array([0, 0, 0.4]))


def test_chains_that_have_arrived_or_are_straightened_compile_nothing_more():
    with jax.enable_x64(True):
        meter, target = Meter(), Target(lambda x: -0.5 * jnp.sum(x**2), dim=3)
        engine = Engine(target, taddaa.Settings().kernel, 50, 0, "float64", meter, 2)
        starts, metric = np.random.default_rng(0).standard_normal((50, 3)), Dense(np.eye(3))
        chains, _ = engine.advance(engine.start(starts, metric, 0.5), metric, starts, 10)
        programs, exploring, bent = meter.programs, engine.under(engine.kernel.exploring(engine.target.dim)), Bent(some_bend(), np.eye(3))
        chains, trace = exploring.advance(chains, metric, starts, 40)
        assert exploring.kernel.gradients_per_iteration == 3 and engine.kernel.gradients_per_iteration == 1
        # Of trajectories, whose step is as long as it may be.
        assert trace.acceptance[-10:].mean() > 0.8 and trace.log_step[-1] == pytest.approx(np.log(exploring.kernel.longest_step))
        exploring.advance(exploring.repoint(chains, metric, bent), bent, starts, 5)
        assert meter.programs == programs


METRICS = {
    "dense": Dense(np.tril(np.full((3, 3), 0.4)) + np.eye(3)),
    "diagonal": Diagonal(np.array([1.0, 0.5, 2.0])),
    "low rank": DiagonalLowRank(np.array([1.0, 0.5, 2.0]), np.array([[0.6], [0.0], [0.8]]), np.array([1.5])),
    "bent": Bent(some_bend(), 0.7 * np.eye(3)),
}


def on_the_host(kernel):
    """The same, stepping there."""
    return type("Stepping", (type(kernel),), {"stepwise": True})(*dataclasses.astuple(kernel))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("kernel", [Barker(), MALA(), HMC(leapfrog=3)], ids=lambda kernel: kernel.label)
@pytest.mark.parametrize("metric", METRICS)
def test_steps_on_the_host_are_those_of_the_compiled_loop(metric, kernel, precision):
    """The same random numbers, two groups with steps of their own, some chains outside the support at first."""
    metric, tolerance = METRICS[metric], 1e-5 if precision == "float64" else 5e-3
    target = Target(lambda x, scale: jnp.log(x[0] + 1.5) - 0.5 * jnp.sum((x * scale) ** 2), dim=3, data=np.array([1.0, 2.0, 0.5]))
    starts, found = np.random.default_rng(4).standard_normal((120, 3)), []
    with jax.enable_x64(precision == "float64"):
        for one in (on_the_host(kernel), kernel):
            engine = Engine(target, one, 120, 7, precision, Meter(), 2)
            assert engine._stepwise == one.stepwise
            few, early = engine.advance(engine.start(starts, metric, 0.3), metric, starts, 2)
            chains, trace = engine.advance(few, metric, starts, 43)  # more than a block
            found.append((engine.fetched(few), early, engine.fetched(chains), trace, json.dumps(engine.noise_state, default=str)))
    (mine, early, later, trace, state), (theirs, other_early, other_later, other, other_state) = found
    assert state == other_state
    for one, two in zip(jax.tree.leaves((mine, early)), jax.tree.leaves((theirs, other_early)), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)
    assert np.ptp(theirs.log_step) > 0 and theirs.nonfinite.sum() > 0 and 0 < theirs.accepted.sum() < 240
    # Later a decision may fall otherwise by rounding, and then that chain goes its own way.
    assert np.mean(trace.acceptance) == pytest.approx(np.mean(other.acceptance), abs=0.02)
    np.testing.assert_allclose(later.log_step, other_later.log_step, atol=0.2)


class ToAWalk(Relay):
    """Goes over to a kernel without gradients, which cannot be stepped on the host."""

    def exploring(self, dim):
        return RWMH()


class ToAnother(Relay):
    """Goes over to a kernel that is written for one chain."""

    def exploring(self, dim):
        return type("OneChain", (MALA,), {"rowwise": False})()


@pytest.mark.parametrize("kernel", [ToAWalk(), ToAnother()], ids=lambda kernel: type(kernel).__name__)
def test_kernels_that_cannot_step_on_the_host_have_a_loop(kernel):
    """Where a gradient is not finite, a kernel that uses none goes on."""
    with jax.enable_x64(True):
        trap = Target(lambda x: -0.5 * jnp.sum(x**2) + 0 * jnp.sqrt(jnp.maximum(x[0] + 1, 0.0)), dim=2)
        starts, metric = np.random.default_rng(0).standard_normal((400, 2)), Dense(np.eye(2))
        engine = Engine(trap if isinstance(kernel, ToAWalk) else TARGET, kernel, 400, 0, "float64", Meter(), 2)
        chains, _ = engine.advance(engine.start(starts, metric, 0.5), metric, starts, 3)
        after = engine.under(engine.kernel.exploring(engine.target.dim))
        assert engine._stepwise and not after._stepwise
        chains, trace = after.advance(chains, metric, starts, 200)
        assert trace.acceptance[-100:].mean() == pytest.approx(after.kernel.target_acceptance, abs=0.05)
        if isinstance(kernel, ToAWalk):
            assert np.mean(after.host(chains.point.position)[:, 0] < -1) == pytest.approx(0.159, abs=0.06)


def test_huge_gradients_warn_nobody_on_the_host():
    with jax.enable_x64(True):
        engine = Engine(Target(lambda x: -1e150 * jnp.sum(x**2), dim=2), Relay(), 20, 0, "float64", Meter(), 1)
        chains = engine.start(np.full((20, 2), 1e5), Dense(np.full((2, 2), 1e200)), 0.1)
        assert not np.isfinite(engine.host(chains.point.slope)).all()


@pytest.mark.parametrize(("kernel", "dim", "stepwise"), [("relay", 50, True), ("relay", 6000, False), ("barker", 50, False)])
def test_where_steps_are_on_the_host(kernel, dim, stepwise):
    engine = Engine(Target(lambda x: -0.5 * jnp.sum(x**2), dim=dim), Settings(kernel=kernel).kernel, 20, 0, "float32", Meter(), 2)
    assert engine._stepwise == stepwise


def test_large_data_have_a_compiled_loop():
    """Only arrays that depend on the parameters count, also those inside of functions that are called."""
    few, many = (np.ones((rows, 2)) for rows in (2000, 50_000))
    within = jax.jit(lambda x, y: jnp.sum(jax.nn.softplus(y @ x)))
    for data, logdensity, largest in (
        (few, lambda x, y: -jnp.sum((y @ x) ** 2), 2000),
        (many, lambda x, y: -jnp.sum((y @ x) ** 2), 50_000),
        (many, lambda x, y: -jnp.sum((jnp.sum(jnp.sqrt(y) + 1, axis=0) * x) ** 2), 2),
        (many, lambda x, y: -within(x, y), 50_000),
    ):
        target = Target(logdensity, dim=2, data=data)
        assert target.check() == largest
        assert Engine(target, Relay(), 100, 0, "float32", Meter(), 2)._stepwise == (largest < 20_000)


def test_large_data_is_an_argument_and_no_constant():
    with jax.enable_x64(True):
        data = np.random.default_rng(0).standard_normal((2000, 5))
        target = Target(lambda x, y: -0.5 * jnp.sum((y @ x) ** 2) / 2000, dim=5, data=data)
        engine = engine_of(target, 8)
        begun, metric, starts = run_arguments(engine, 8, 5)
        arguments = program_arguments(engine, begun, metric, starts)
        lowered = engine._programs.advance.lower(*arguments).as_text()
        assert len(lowered) < 200_000  # the numbers alone, baked in, would take that many bytes
        jaxpr = jax.make_jaxpr(engine._programs.advance)(*arguments)
        assert all(np.size(const) < 100 for const in jaxpr.consts)


def test_states_of_all_iterations_are_never_kept():
    """Beside the block of random numbers it is given, the program makes nothing larger than the chains' own N·d."""
    chains, dim = 32, 7
    with jax.enable_x64(True):
        engine = engine_of(Target(lambda x: -0.5 * jnp.sum(x**2), dim=dim), chains)
        begun, metric, starts = run_arguments(engine, chains, dim)
        chains_made, told = jax.eval_shape(engine._programs.advance, *program_arguments(engine, begun, metric, starts))
        largest = max(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(chains_made))
        assert largest <= chains * dim
        assert int(np.prod(told.shape)) == engine._block * (3 + 3 * dim)  # of an iteration only sums over chains


def test_blocks_of_random_numbers_shrink_in_high_dimension():
    with jax.enable_x64(True):
        engine = engine_of(Target(lambda x: -0.5 * jnp.sum(x**2), dim=50_000), 387)
        noise_bytes = 4 * engine._block * 387 * (50_000 + engine.kernel.uniforms(50_000))
        assert engine._block == 1 or noise_bytes <= 2**26


# The path ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [1, 7, 20, 47])
def test_the_trace_is_numpys_largest_squared_correlation(iterations):
    known = KNOWN["banana"]
    starts = 1e3 + known.sample(np.random.default_rng(1), 50)
    moved, trace = run_chains(known, Barker(), starts, Dense(np.eye(2)), iterations, step=1.0)
    assert trace.rho2.shape == trace.acceptance.shape == trace.log_step.shape == (iterations,)
    expected = [np.corrcoef(starts[:, i], moved[:, i])[0, 1] ** 2 for i in range(2)]
    assert trace.rho2[-1] == pytest.approx(max(expected), rel=1e-4)  # in single precision, for pictures


def test_the_step_follows_the_acceptance():
    """ψ ← ψ + (ᾱ_t − ᾱ_*)/√(t+1), from the trace of a run over several blocks."""
    known = KNOWN["student"]
    starts = known.sample(np.random.default_rng(2), 64)
    _, trace = run_chains(known, RWMH(), starts, Diagonal(np.ones(2)), 45, step=3.0)
    assert trace.log_step[0] == pytest.approx(np.log(3.0))
    expected = np.log(3.0) + np.cumsum((trace.acceptance - 0.234) / np.sqrt(np.arange(45) + 1))
    np.testing.assert_allclose(trace.log_step[1:], expected[:-1], rtol=1e-5)
    assert float(adapt_step(0.0, 0.9, 3.0, Barker())) == pytest.approx(0.25)


def test_the_step_grows_no_further_than_a_quarter_of_a_turn():
    kernel = HMC(leapfrog=4, jitter=0.5, longest=1.2)
    assert kernel.longest_step == pytest.approx(0.4)  # 4 steps of it, shortened to three quarters on average
    assert float(adapt_step(np.log(0.39), 0.9, 0.0, kernel)) == pytest.approx(np.log(0.4))
    assert float(adapt_step(np.log(0.39), 0.5, 0.0, kernel)) == pytest.approx(np.log(0.39) - 0.151)


def test_a_new_metric_restarts_the_steps_clock_and_renews_the_slopes():
    with jax.enable_x64(True):
        engine = engine_of(Target(gaussian_logdensity, 2, data=PRECISION), 50)
        begun, metric, starts = run_arguments(engine, 50, 2)
        chains, _ = engine.advance(begun, metric, starts, 30)
        better = Dense(np.linalg.cholesky(COVARIANCE))
        chains = engine.repoint(chains, metric, better)
        np.testing.assert_allclose(
            chains.point.slope, np.asarray(chains.point.gradient) @ np.linalg.cholesky(COVARIANCE), rtol=1e-5, atol=1e-6
        )
        _, trace = engine.advance(chains, better, starts, 3)
    taken = np.diff(trace.log_step)
    np.testing.assert_allclose(taken, (trace.acceptance[:2] - 0.4) / np.sqrt([1.0, 2.0]), rtol=1e-3, atol=1e-6)


def test_long_runs_reach_the_wanted_acceptance():
    known = KNOWN["correlated"]
    starts = known.sample(np.random.default_rng(3), 500)
    for kernel, wanted in ((Barker(), 0.4), (RWMH(), 0.234)):
        _, trace = run_chains(known, kernel, starts, Dense(np.eye(2)), 150, step=20.0)
        assert trace.acceptance[-30:].mean() == pytest.approx(wanted, abs=0.03)


def test_gradients_are_counted():
    settings = Settings.paper(chains=40, iterations=25)
    report = taddaa.diagnose(TARGET, APPROXIMATION, settings=settings)
    assert report.cost.gradients == 40 * 25 + 40  # the run, and once at the starts
    assert report.cost.iterations == report.cost.planned_iterations == 25
    hmc = taddaa.diagnose(TARGET, APPROXIMATION, settings=Settings.paper(chains=40, iterations=6, kernel="hmc"))
    assert hmc.cost.gradients == 40 * 6 * 10 + 40


def test_paths_of_a_report():
    report = taddaa.diagnose(TARGET, APPROXIMATION, settings=QUICK)
    paths, rows = report.paths, len(report.rows)
    snapshots = len(paths.snapshots)
    assert paths.snapshots[0] == 0
    assert paths.snapshots[-1] == 24
    assert paths.estimate.shape == paths.error.shape == paths.rho2.shape == (snapshots, rows)
    assert paths.acceptance.shape == paths.step.shape == paths.rho2_max.shape == (24,)
    for i, row in enumerate(report.rows):
        start, moved = report.start_draws[:, i % 2], report.moved_draws[:, i % 2]
        value = np.log(start.var(ddof=1)) if row.functional == "variance" else start.mean()
        assert paths.estimate[0, i] == pytest.approx(value)
        assert row.rho2 == pytest.approx(np.corrcoef(start, moved)[0, 1] ** 2, abs=1e-9)
        assert paths.rho2[-1, i] == pytest.approx(row.rho2)
    np.testing.assert_array_equal(paths.rho2[0], 1.0)


def test_progress_is_told():
    told = []
    taddaa.diagnose(TARGET, APPROXIMATION, settings=QUICK, progress=told.append)
    assert [event.iteration for event in told] == sorted(event.iteration for event in told)
    assert told[-1].iteration == 24
    first, *walked = told
    assert first.stage == "first look" and first.look and first.iteration == 0  # before any chain has moved
    assert all(0 <= event.acceptance <= 1 and event.planned >= event.iteration and not event.look for event in walked)


# Slopes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [10**6, 8], ids=["at once", "in blocks, of fewer states"])
def test_slopes_are_those_of_automatic_differentiation(numbers, monkeypatch):
    """Mean gradients of parameters on their own scale and of a function of them, in a map's coordinates; a kink far away is not met."""
    monkeypatch.setattr(viewer, "SLOPE_NUMBERS", numbers)
    select, one = np.array([[1.0], [0.0], [0.0]]), np.array([[0.0, 0.7, -0.4]])
    with jax.enable_x64(True):
        bend = Bend(
            *map(jnp.asarray, (np.ones(3), np.full(3, 2.0), select, one, 0.3 * one, np.array([[0.0, 1.0, 1.0]]), *np.zeros((3, 3))))
        )
        constrain, function = lambda x: {"a": jnp.exp(x[0]), "b": x[1:] ** 2}, lambda p: p["a"] * p["b"][0] + jnp.abs(p["a"])
        engine = engine_of(Target(lambda x: -0.5 * jnp.sum(x**2), dim=3, constrain=constrain), 20)
        w = np.random.default_rng(0).standard_normal((5, 3))

        def seen(w):
            parameters = constrain(bend.forward(w)[0])
            return jnp.concatenate([parameters["a"][None], parameters["b"], function(parameters)[None]])

        used = w if numbers > 8 else w[:1]
        right = np.mean([jax.jacobian(seen)(state) for state in used], axis=0)
        found = engine.viewer.slopes(w, (function,), Bent(bend, np.eye(3)), w.std(axis=0))
        np.testing.assert_allclose(found, right, rtol=1e-7, atol=1e-7)
