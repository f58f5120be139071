"""The diagnosis: plan → start → walk while quantities move → judge → report (Algorithm 1 and what goes beyond it)."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .chains.checkpoint import Checkpoint
from .chains.machine.engine import Engine
from .chains.machine.meter import Meter
from .chains.machine.placement import agreed, computing, refuse_forked
from .chains.walk import Progress, Walk, find_step
from .errors import InputError, kindly, whole_seed
from .glancing import looked_at
from .identity import identity, refuse_other_inputs
from .plan import Plan
from .problem.approximation import Approximation, Draws, Inflated, as_approximation
from .problem.drawn import drawn, refuse_misshapen, refuse_unrepresentable
from .problem.framework import as_problem
from .problem.functional import Functional, as_functionals
from .problem.target import Target, as_target
from .report.build import report_of
from .report.report import Report
from .settings import Settings, as_settings, with_tolerance
from .show.progress import watched
from .verdict.asking import ask, refuse_nan
from .verdict.certificate import Certified, certified_by_pairs
from .verdict.checks.arms import ArmsAgree
from .verdict.checks.check import Check
from .verdict.checks.registry import SETS, examine, worth_running_on
from .verdict.checks.run import Run
from .verdict.first_look import LEAST
from .verdict.gradients import gradients_agree
from .verdict.judgement import Judgement, Tolerance, judge
from .verdict.questions import Questions
from .verdict.sharpening import gather

DISAGREE = "the gradient does not agree with finite differences of the log density, so intervals are plain"


@partial(kindly, elsewhere=("settings=taddaa.Settings(…)", Settings))
def diagnose(
    target: Target | Callable | Any,
    approximation: Approximation | Any = None,
    functionals: Sequence[Functional] | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    *,
    tolerance: float | tuple[float, float] | None = None,
    data: Any = None,
    var_names: str | Sequence[str] | None = None,
    other_starts: Approximation | str | None = None,
    certify: bool = False,
    progress: Callable[[Progress], None] | bool | None = None,
    checkpoint: str | PathLike | None = None,
) -> Report:
    """Lower bounds on the error of an approximation, quantity by quantity, with reasons to trust them or not.

    Args:
        target: a `Target`, or a log density function of a flat vector; or a model of PyMC, Bambi, NumPyro or Stan.
        approximation: `Gaussian`, `StudentT`, `Draws`, `Sampler`, or a distribution with `sample(key, shape)`; or the framework's own
            fit of its model (`docs/examples.md` has one screen each), or draws in an ArviZ DataTree or InferenceData. A PyMC
            approximation knows its model: ``diagnose(approx)``.
        functionals: what to judge; the mean and variance of each parameter by default.
        settings: `Settings()` by default.
        seed: the same seed gives the same report.
        tolerance: errors that do not matter, in standard deviations (variances: one and a half times it, in log variance), or a
            pair of both. It decides what is *within tolerance* and how errors are called and ordered; 0.1 by default.
        data: what a NumPyro model takes: a tuple of arguments or a dict of keyword arguments. Other models hold their data.
        var_names: the parameters to judge, as in ArviZ: names of arrays or elements, ["b", "tau", "~b[x3]"]; with ~ in front what to
            leave out. By default all but constants and large deterministics.
        other_starts: a second arm of chains, from another approximation or from "inflated" draws of this one (three times
            as wide); rows on which the arms disagree are untrusted, for example because of another mode.
        certify: whether to run coupled pairs of the moved chains until they meet, which certifies how large errors are at most with
            no check of ours (`report.certificate`, the rows' `at_most`), for about a quarter more gradients.
        progress: by itself one line on a terminal or in a notebook, with an estimate of the time left; False for silence, or a
            function that is called with a `Progress` after each block of iterations.
        checkpoint: a file that the run is saved to as it goes. The same call finds it after a kill or a crash and goes on, to
            the identical report; given with a larger budget, a finished run goes on too. Another diagnosis is refused.
    """
    settings = as_settings(settings) if tolerance is None else with_tolerance(as_settings(settings), tolerance)
    target, approximation = as_problem(target, approximation, data)
    approximation = as_approximation(approximation)
    refuse_misshapen(approximation)
    target = as_target(target, approximation.dim)
    second = _checked_other_starts(other_starts, approximation)
    if not isinstance(certify, bool):
        raise InputError(f"certify must be True or False, got {certify!r}")
    if target.dim != approximation.dim:
        raise InputError(f"target has dim = {target.dim}, but the approximation has dimension {approximation.dim}")
    functionals, seed = as_functionals(functionals, var_names), whole_seed(seed)
    if settings.gradients is not None and (second is not None or certify):
        raise InputError("gradients plans neither a second arm nor pairs, so it does not go with other_starts or certify; leave one out")
    settings.plan(target.dim).refuse_too_large(target.dim)
    refuse_forked()
    if isinstance(jnp.zeros(()), jax.core.Tracer):
        raise InputError("diagnose cannot be called inside jax.jit: it compiles and runs programs of its own; call it outside")
    with computing(settings.precision), watched(progress, settings.plan(target.dim).in_words) as told:
        saved = Checkpoint(checkpoint)
        target.check()
        if jax.process_count() > 1:
            refuse_other_inputs(target, approximation, second, functionals, settings, seed, saved)
        study = _prepare(target, approximation, functionals, settings, seed, saved)
        walk = study.onward(study.begin(approximation, arm=0, progress=told), arm=0)
        if not walk.rounds or walk.under_way:  # a resumed walk may stand at the end of a round, which is judged again
            walk.round()
        judgement, checks = study.walk_on(walk)
        arms = [walk]
        if second is not None:
            check, other = study.compare_arms(walk, judgement, second, told)
            checks.append(check)
            arms += [] if other is None else [other]
        certified = study.certify(arms, judgement, told) if certify else None
        return report_of(approximation, settings, seed, study.questions, walk, judgement, checks, study.notes, certified)


def resumed(report: Report, budget: float, progress: Callable[[Progress], None] | bool | None = None) -> Report:
    """The diagnosis that a report came from, with a larger budget: its chains go on where they stand, at least one round more."""
    there = report.continuation
    if there is None:
        raise InputError(
            "resume needs the process that made the report, where its chains are; elsewhere diagnose again with the same inputs, a larger "
            "budget and, to go on from a file, checkpoint="
        )
    if any(check.name == ArmsAgree.name for check in report.checks):
        raise InputError("resume knows nothing of a second arm; diagnose again with other_starts and a larger budget")
    walk = copy.copy(there.walk)
    # A larger budget is asked for: what gradients allowed has been used.
    chains = there.settings.chains if there.settings.gradients is None else len(walk.starts)
    settings = replace(there.settings, budget=budget, gradients=None, chains=chains)
    plan = settings.plan(walk.engine.target.dim)
    if 2 * walk.iteration > plan.most_iterations:
        least = 2 * walk.iteration / plan.iterations
        raise InputError(f"budget must be at least {least:g} for the chains to go on from where they stand, got {budget!r}")
    with computing(settings.precision), watched(progress, plan.in_words) as told:
        old = walk.engine
        walk.engine = Engine(old.target, settings.kernel, plan.chains, there.seed, settings.precision, Meter(), settings.groups)
        walk.engine.noise_state = old.noise_state
        if walk.exploring:
            walk.explore()
        cost = report.cost
        walk.engine.meter.resume(cost.gradients, cost.programs, cost.seconds_compiling, cost.seconds_running + cost.seconds_compiling)
        walk.plan, walk.on_progress, walk.save = plan, told, lambda walk: None
        walk.traces, walk.snapshots, walk.path = list(walk.traces), list(walk.snapshots), list(walk.path)
        study = _Study(there.approximation, settings, there.seed, plan, walk.engine, there.questions, Checkpoint(None), list(there.notes))
        study.gradients_agree = DISAGREE not in there.notes
        walk.round()
        judgement, checks = study.walk_on(walk)
        certified = None if report.certificate is None else study.certify([walk], judgement, told)
        return report_of(there.approximation, settings, there.seed, study.questions, walk, judgement, checks, study.notes, certified)


def _prepare(target: Target, approximation: Approximation, functionals, settings: Settings, seed: int, saved: Checkpoint) -> "_Study":
    plan = settings.plan(target.dim)
    engine = Engine(target, settings.kernel, plan.chains, seed, settings.precision, Meter(), settings.groups)
    rng = np.random.default_rng([seed, 0])
    with np.errstate(over="ignore", divide="ignore"):  # an approximation of such a scale is refused in words, with its draws
        questions = ask(functionals, engine, approximation, rng, settings.variance_interval, settings.states, settings.interval)
    bought = [] if settings.gradients is None else [_bought(settings, plan, target.dim)]
    return _Study(approximation, settings, seed, plan, engine, questions, saved, [*questions.notes, *bought])


def _bought(settings: Settings, plan: Plan, dim: int) -> str:
    """What a budget of gradients paid for, beside what would have been planned without it."""
    free = replace(settings, gradients=None).plan(dim)
    return (
        f"gradients={settings.gradients:,} pays for {plan.chains} chains ({free.chains} without it) of at most "
        f"{plan.most_iterations} iterations ({free.most_iterations})"
    )


@dataclass
class _Study:
    """What is fixed before the chains move, and the steps that need it."""

    approximation: Approximation
    settings: Settings
    seed: int
    plan: Plan
    engine: Engine
    questions: Questions
    saved: Checkpoint
    notes: list[str]
    gradients_agree: bool = True  # with the log density, at the starts

    def begin(self, approximation: Approximation, arm: int, progress: Callable[[Progress], None] | None) -> Walk:
        """Draw starts and pilots, and find a metric and a first step from the pilots."""
        engine, chains, preconditioner = self.engine, self.plan.chains, self.settings.preconditioner
        wanted = preconditioner.pilots(engine.target.dim, chains)
        draws = drawn(approximation, np.random.default_rng([self.seed, 1 + arm]), chains + wanted)
        refuse_unrepresentable(draws, self.settings.precision)
        starts, pilots = draws[:chains].copy(), draws[chains:]  # a copy lets the pilots' memory go
        if isinstance(approximation, Draws) and len(approximation.draws) < len(draws):
            few = f"{len(approximation.draws)} draws are fewer than the {len(draws)} wanted for starts and pilots, so some serve twice"
            self.notes.append(few)
        if wanted:
            values, gradients = engine.evaluate(pilots)
            gradients[~np.isfinite(values)] = np.nan  # outside the support they say nothing
            found = preconditioner.initial(approximation, pilots, gradients)
            if progress is not None and arm == 0:
                self._tell_first_look(progress, pilots, values, gradients, found.metric)
        else:
            found = preconditioner.initial(approximation, starts, np.zeros_like(starts))
        metric, step = agreed(found.metric), engine.kernel.initial_step(engine.target.dim)
        if wanted:
            step = find_step(engine, engine.start(pilots[:chains], metric, step), metric, pilots[:chains])
        begun = engine.start(starts, metric, step)
        self._note_starts(found.note, engine.host(begun.point.logdensity), arm)
        observe = lambda positions: engine.observe(positions, self.questions.functions)  # noqa: E731
        walk = Walk(
            engine,
            preconditioner,
            self.plan,
            starts,
            metric,
            begun,
            observe,
            self.questions.summarise,
            self.settings.checks == "all",
            progress,
        )
        refuse_nan(self.questions.groups, walk.origin.quantities, "starts")
        if self.settings.interval == "stein" and not agreed(gradients_agree(engine, walk.origin.positions, walk.origin.gradients)):
            self.gradients_agree = False
            self.notes.append(DISAGREE)
        return walk

    def _tell_first_look(self, progress: Callable[[Progress], None], pilots, values, gradients, metric) -> None:
        """The pilots' gradients are paid for: whoever waits may know what they say."""
        if np.isfinite(gradients).all(axis=1).sum() >= LEAST:
            seen = looked_at(self.engine, self.approximation, self.questions, pilots, values, gradients, metric, self.settings, self.seed)
            progress(Progress("first look", 0, self.plan.iterations, math.nan, math.nan, seen.headline))

    def onward(self, walk: Walk, arm: int) -> Walk:
        """From its starts to the end of its opening, or to wherever it was saved."""
        if self.saved.path is not None:
            same = identity(self.approximation, self.settings, self.seed, self.questions, walk)
            walk.save = lambda walk: self.saved.save(walk, arm, same)
            if self.saved.resume(walk, arm, same):
                return walk
        walk.open()
        return walk

    def _note_starts(self, note: str, logdensity: np.ndarray, arm: int) -> None:
        outside = int(np.sum(~np.isfinite(logdensity)))
        if outside == len(logdensity):
            raise InputError(
                f"logdensity is not finite at any of {outside} draws of the approximation (the first gives {logdensity[0]}); "
                "do target and approximation use the same coordinates and support?"
            )
        where = "second arm: " * bool(arm)
        if note:
            self.notes.append(where + note)
        if outside:
            self.notes.append(
                f"{where}logdensity was not finite at {outside} of {len(logdensity)} starts, whose chains had to find support first"
            )

    @property
    def tolerance(self) -> Tolerance | None:
        """Errors that do not matter; the paper has none."""
        settings = self.settings
        return Tolerance(settings.mean_tolerance, settings.variance_tolerance) if settings.checks == "all" else None

    def level(self, looks: int) -> float:
        """Each interval's own level: look r of at most R may spend α/2^r (the last what is left), shared by all rows."""
        if not self.settings.simultaneous:
            return self.settings.level
        most = 1 + int(math.log2(self.plan.most_iterations / self.plan.iterations) + 1e-9)
        return 1 - (1 - self.settings.level) / 2 ** min(looks, most - 1) / self.questions.rows

    def look(self, walk: Walk) -> tuple[Judgement, list[Check], bool]:
        """At the end of a round: what it says, whether to believe it, and whether to run on.

        Sharper intervals cost more than plain ones, so they are made only where plain ones alone would not send the chains on.
        """
        last = 2 * walk.iteration > self.plan.most_iterations
        for sharpen in (False, True):
            judgement = self.judge(walk, sharpen)
            checks = self.check(walk, judgement)
            onward = walk.newly_bent or worth_running_on(checks, walk.rounds, walk.noted)
            if onward and not last:
                break
        return judgement, checks, onward

    def walk_on(self, walk: Walk) -> tuple[Judgement, list[Check]]:
        """From the end of a round, while quantities move and the budget allows."""
        while True:
            judgement, checks, onward = self.look(walk)
            if agreed(2 * walk.iteration > self.plan.most_iterations or not onward):
                return judgement, checks
            walk.noted = {check.name: float(check.value) for check in checks}
            walk.round()

    def judge(self, walk: Walk, sharpen: bool) -> Judgement:
        evidence = gather(walk, self.questions) if sharpen and self.settings.interval == "stein" and self.gradients_agree else None
        return judge(self.questions, walk.seen.late_quantities, self.level(walk.rounds), self.tolerance, evidence)

    def check(self, walk: Walk, judgement: Judgement) -> list[Check]:
        return examine(Run(walk, self.questions, judgement, self.level(walk.rounds)), SETS[self.settings.checks])

    def compare_arms(self, walk: Walk, judgement: Judgement, second: Approximation, progress) -> tuple[Check, Walk | None]:
        """A second arm from other starts, as long as the first; none if it could not start."""
        try:
            begun = self.begin(second, arm=1, progress=progress)
        except InputError as error:
            return ArmsAgree().could_not_start(error), None
        arm = self.onward(begun, arm=1)
        while arm.rounds < walk.rounds:
            arm.round()
        return ArmsAgree().examine(Run(walk, self.questions, judgement, self.level(walk.rounds), arm)), arm

    def certify(self, arms: list[Walk], judgement: Judgement, progress) -> Certified:
        """Pairs of the chains of all arms: with other starts, they show whether all came to the same place."""
        settings = self.settings
        each = 1 - (1 - settings.level) / self.questions.rows if settings.simultaneous else settings.level
        run = Run(arms[0], self.questions, judgement, each)
        sharpen = settings.interval == "stein" and self.gradients_agree
        return certified_by_pairs(run, arms, self.seed, settings.level, self.tolerance, sharpen=sharpen, progress=progress)


def _checked_other_starts(other_starts: Any, approximation: Approximation) -> Approximation | None:
    if other_starts is None:
        return None
    if isinstance(other_starts, str):
        if other_starts != "inflated":
            raise InputError(f"other_starts must be 'inflated' or an approximation, got {other_starts!r}")
        return Inflated(approximation)
    other = as_approximation(other_starts, "other_starts")
    refuse_misshapen(other)
    if other.dim != approximation.dim:
        raise InputError(f"other_starts has dimension {other.dim}, but the approximation has {approximation.dim}")
    return other
