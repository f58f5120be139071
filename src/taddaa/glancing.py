"""The first look: gradients at draws of the approximation → estimates of the right values, without a chain."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .asked import as_asked
from .chains.machine.engine import Engine
from .chains.machine.meter import Meter
from .chains.machine.placement import computing
from .chains.machine.threads import one_blas_thread
from .chains.walk import Progress
from .errors import InputError, kindly
from .moves.metric import Metric, on_host
from .moves.precondition import Fisher
from .problem.approximation import Approximation
from .problem.drawn import drawn, refuse_unrepresentable
from .problem.functional import Functional
from .problem.target import Target
from .report.glance import Glance, rows_of, straight
from .settings import Settings
from .show.progress import watched
from .verdict.asking import ask, refuse_nan
from .verdict.first_look import LEAST, LOOKED_AT, NEARLY_STRAIGHT, bending, first_look
from .verdict.followed_look import FollowedLook
from .verdict.questions import Questions
from .verdict.sharpening import Evidence, directions_of


@partial(kindly, elsewhere=("settings=taddaa.Settings(…)", Settings))
def glance(
    target: Target | Callable | Any,
    approximation: Approximation | Any = None,
    functionals: Sequence[Functional] | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    *,
    tolerance: float | tuple[float, float] | None = None,
    data: Any = None,
    var_names: str | Sequence[str] | None = None,
    progress: Callable[[Progress], None] | bool | None = None,
) -> Glance:
    """A first look for the price of 400 gradients (three a dimension, from d = 134 on): estimates of errors, never bounds.

    Where draws of the approximation see too little of the posterior, three fifths of the gradients go after it (docs/first-look.md).

    Args:
        target, approximation, functionals, tolerance, data, var_names: as `diagnose` takes them. Covariances and functionals of your own
            are looked at only where draws go after the posterior.
        settings: of these, the tolerances and the precision count.
        seed: the same seed gives the same estimates.
        progress: as `diagnose` takes it; gradients are counted as its iterations are.
    """
    from .surrogate.batches import sizes  # not with the module, whose functions a diagnosis has too

    asked = as_asked("glance", target, approximation, functionals, settings, seed, tolerance, data, var_names)
    target, approximation, functionals, settings, seed = asked
    wanted = Fisher().pilots(target.dim, LOOKED_AT)
    first, *later = sizes(wanted)
    with computing(settings.precision, wanted * target.dim), watched(progress, "first look") as told:
        target.check()
        engine = Engine(target, settings.kernel, later[0], seed, settings.precision, Meter(), 1)
        with np.errstate(over="ignore", divide="ignore"):
            questions = ask(functionals, engine, approximation, np.random.default_rng([seed, 0]), settings.variance_interval, 1)
        draws = drawn(approximation, np.random.default_rng([seed, 1]), wanted)
        refuse_unrepresentable(draws, settings.precision)

        def evaluate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            values, gradients = engine.evaluate(x)
            if told is not None:
                told(Progress("first look", engine.meter.gradients, wanted, math.nan, math.nan))
            gradients = np.array(gradients, float)
            gradients[~np.isfinite(values)] = np.nan
            return np.asarray(values, float), gradients

        values, gradients = evaluate(draws[:first])
        moved = _followed(engine, evaluate, approximation, questions, draws[:first], values, gradients, later, settings, seed)
        if moved is not None:
            return moved
        if rest := wanted - engine.meter.gradients:
            more = evaluate(draws[first : first + rest])
            values, gradients = np.concatenate([values, more[0]]), np.concatenate([gradients, more[1]])
        _refuse_few(int(np.isfinite(gradients).all(axis=1).sum()), len(values))
        draws = draws[: len(values)]
        found = Fisher().initial(approximation, draws, gradients)
        return looked_at(engine, approximation, questions, draws, values, gradients, found.metric, settings, seed, found.note)


def _followed(
    engine: Engine,
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    approximation: Approximation,
    questions: Questions,
    draws: np.ndarray,
    values: np.ndarray,
    gradients: np.ndarray,
    later: list[int],
    settings: Settings,
    seed: int,
) -> Glance | None:
    """From batches of draws that go after the posterior, where it is too unlike what the approximation's own draws see of it."""
    from .surrogate.batches import MOST_DIM, followed

    usable = np.isfinite(gradients).all(axis=1)
    if engine.target.dim > MOST_DIM or usable.sum() < LEAST:
        return None
    metric = Fisher().initial(approximation, draws, gradients).metric
    with np.errstate(all="ignore"), one_blas_thread():
        if bending(draws[usable], gradients[usable], values[usable], on_host(metric)) <= NEARLY_STRAIGHT:
            return None
        found = followed(evaluate, draws, values, gradients, later, np.random.default_rng([seed, 2]))
        if found is None:
            return None
        at_draws, at_probes = (engine.viewer.observe(x, questions.functions) for x in (found.draws, found.probes))
        look = FollowedLook(at_draws, at_probes, found.off, found.worth)
        rows = rows_of(questions, look, look.astray, settings.mean_tolerance, settings.variance_tolerance)
    return Glance(rows, look.bent, True, engine.meter.gradients, engine.meter.seconds, seed, questions.notes)


def looked_at(
    engine: Engine,
    approximation: Approximation,
    questions: Questions,
    draws: np.ndarray,
    logdensity: np.ndarray,
    gradients: np.ndarray,
    metric: Metric,
    settings: Settings,
    seed: int,
    note: str = "",
) -> Glance:
    """What draws with known gradients say; a diagnosis' pilots too."""
    chosen = np.flatnonzero(np.isfinite(gradients).all(axis=1) & np.isfinite(logdensity))[:LOOKED_AT]
    x, g = draws[chosen], np.asarray(gradients[chosen], float)
    quantities = engine.viewer.observe(x, questions.functions)
    refuse_nan(questions.groups, quantities, "draws of the approximation")
    coordinates = engine.target.dim if engine.target.constrain is None else 0
    directions = directions_of(engine, x, questions, metric, quantities.shape[1], coordinates)
    with np.errstate(all="ignore"):  # what is not finite is doubtful
        evidence = Evidence(x[:, None], g[:, None], on_host(metric), coordinates, directions)
        look = first_look(quantities, np.asarray(logdensity[chosen], float), evidence)
        own = _own(approximation, questions, quantities)
        rows = rows_of(questions, partial(straight, look, own), look.astray, settings.mean_tolerance, settings.variance_tolerance)
    outside = len(draws) - int(np.isfinite(logdensity).sum())
    notes = [*questions.notes] + [note] * bool(note) + [f"logdensity was not finite at {outside} of {len(draws)} draws"] * bool(outside)
    return Glance(rows, look.bent, False, engine.meter.gradients, engine.meter.seconds, seed, tuple(notes))


def _own(approximation: Approximation, questions: Questions, quantities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each quantity under q: exactly where they are known, else from as many draws as there are."""
    mean, covariance = approximation.mean(), approximation.covariance()
    if questions.reference_draws is not None or mean is None or covariance is None or len(mean) != quantities.shape[1]:
        many = quantities if questions.reference_draws is None else questions.reference_draws
        return many.mean(axis=0), many.std(axis=0)
    return mean, np.sqrt(covariance if covariance.ndim == 1 else np.diag(covariance))


def _refuse_few(usable: int, wanted: int) -> None:
    if usable < LEAST:
        raise InputError(
            f"log density and gradient are finite at {usable} of {wanted} draws of the approximation, and a first look needs {LEAST}; "
            "do target and approximation use the same coordinates and support?"
        )
