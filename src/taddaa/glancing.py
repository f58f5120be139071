"""The first look: gradients at draws of the approximation → estimates of the right values, without a chain."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .asked import as_asked
from .chains.machine.engine import Engine
from .chains.machine.meter import Meter
from .chains.machine.placement import computing
from .chains.machine.threads import one_blas_thread
from .chains.walk import Progress
from .errors import InputError, kindly
from .formulas.distributions import chi2_quantile
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
from .verdict.first_look import LEAST, LOOKED_AT, NEARLY_STRAIGHT, bending, first_look, holds
from .verdict.followed_look import FollowedLook
from .verdict.questions import Questions
from .verdict.sharpening import Evidence, directions_of

THERE = 0.999  # of a Gaussian posterior, that has this log density at least


class Seen(NamedTuple):
    """Places, log densities and gradients."""

    x: np.ndarray
    values: np.ndarray
    gradients: np.ndarray

    @classmethod
    def together(cls, batches: "list[Seen]") -> "Seen":
        return cls(*map(np.concatenate, zip(*batches, strict=True)))

    def where(self, chosen: np.ndarray) -> "Seen":
        return Seen(*(part[chosen] for part in self))


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

        asked_at: list[Seen] = []

        def evaluate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            values, gradients = engine.evaluate(x)
            if told is not None:
                told(Progress("first look", engine.meter.gradients, wanted, math.nan, math.nan))
            gradients = np.array(gradients, float)
            gradients[~np.isfinite(values)] = np.nan
            asked_at.append(Seen(x, np.asarray(values, float), gradients))
            return asked_at[-1].values, gradients

        with np.errstate(all="ignore"):  # what is not finite is doubtful
            evaluate(draws[:first])
            moved = _followed(engine, evaluate, approximation, questions, asked_at[0], later, settings, seed)
            if moved is not None:
                return moved
            own, *elsewhere = asked_at
            if rest := wanted - engine.meter.gradients:
                evaluate(draws[first : first + rest])
                own = Seen.together([own, asked_at[-1]])
            _refuse_few(int(np.isfinite(own.gradients).all(axis=1).sum()), len(own.x))
            # What went after the posterior and did not keep up has seen more of it than draws of the approximation; not all of it is there.
            asked_for = Seen.together([own, *elsewhere])
            least = np.nanmax(asked_for.values) - chi2_quantile(THERE, target.dim) / 2
            seen = Seen.together([own, *(batch.where(batch.values >= least) for batch in elsewhere)])
            found = Fisher().initial(approximation, seen.x, seen.gradients)
            return looked_at(engine, approximation, questions, seen, found.metric, settings, seed, found.note, len(own.x))


def _followed(
    engine: Engine,
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    approximation: Approximation,
    questions: Questions,
    seen: Seen,
    later: list[int],
    settings: Settings,
    seed: int,
) -> Glance | None:
    """From batches of draws that go after the posterior, where it is too unlike what the approximation's own draws see of it."""
    from .surrogate.batches import MOST_DIM, followed

    usable = np.isfinite(seen.gradients).all(axis=1)
    if engine.target.dim > MOST_DIM or usable.sum() < LEAST:
        return None
    metric = Fisher().initial(approximation, seen.x, seen.gradients).metric
    with one_blas_thread():
        if bending(seen.x[usable], seen.gradients[usable], seen.values[usable], on_host(metric)) <= NEARLY_STRAIGHT:
            return None
        found = followed(evaluate, *seen, later, np.random.default_rng([seed, 2]))
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
    seen: Seen,
    metric: Metric,
    settings: Settings,
    seed: int,
    note: str = "",
    count: int | None = None,
) -> Glance:
    """What places with known gradients say, of which the first `count`, or all, are draws of the approximation; a diagnosis' pilots too."""
    usable = np.flatnonzero(np.isfinite(seen.gradients).all(axis=1) & np.isfinite(seen.values))
    chosen = usable if count is not None else usable[:LOOKED_AT]
    draws = seen.values[:count]
    x, g = seen.x[chosen], np.asarray(seen.gradients[chosen], float)
    quantities = engine.viewer.observe(x, questions.functions)
    mine = quantities[chosen < len(draws)]
    refuse_nan(questions.groups, mine, "draws of the approximation")
    coordinates = engine.target.dim if engine.target.constrain is None else 0
    directions = directions_of(engine, x, questions, metric, quantities.shape[1], coordinates)
    with np.errstate(all="ignore"):  # what is not finite is doubtful
        evidence = Evidence(x[:, None], g[:, None], on_host(metric), coordinates, directions)
        look = first_look(quantities, np.asarray(seen.values[chosen], float), evidence)
        look = look if holds(draws, g) else look._replace(bent=math.inf)
        own = _own(approximation, questions, mine)
        rows = rows_of(questions, partial(straight, look, own), look.astray, settings.mean_tolerance, settings.variance_tolerance)
    outside = len(draws) - int(np.isfinite(draws).sum())
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
