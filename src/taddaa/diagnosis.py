"""The diagnosis: plan → start → walk while quantities move → judge → report (Algorithm 1 and what goes beyond it)."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import jax

from .asked import as_asked, as_other_starts
from .chains.checkpoint import Checkpoint
from .chains.machine.engine import Engine
from .chains.machine.meter import Meter
from .chains.machine.placement import computing
from .chains.walk import Progress
from .errors import InputError, kindly
from .identity import refuse_other_inputs
from .problem.approximation import Approximation
from .problem.functional import Functional
from .problem.target import Target
from .report.build import report_of
from .report.report import Report
from .settings import Settings
from .show.progress import watched
from .study import DISAGREE, Study, prepare
from .verdict.checks.arms import ArmsAgree


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
    asked = as_asked("diagnose", target, approximation, functionals, settings, seed, tolerance, data, var_names)
    target, approximation, functionals, settings, seed = asked
    second = as_other_starts(other_starts, approximation)
    if not isinstance(certify, bool):
        raise InputError(f"certify must be True or False, got {certify!r}")
    if settings.gradients is not None and (second is not None or certify):
        raise InputError("gradients plans neither a second arm nor pairs, so it does not go with other_starts or certify; leave one out")
    plan = settings.plan(target.dim)
    plan.refuse_too_large(target.dim)
    with computing(settings.precision, plan.chains * target.dim), watched(progress, plan.in_words) as told:
        saved = Checkpoint(checkpoint)
        target.check()
        if jax.process_count() > 1:
            refuse_other_inputs(target, approximation, second, functionals, settings, seed, saved, certify=certify)
        study = prepare(target, approximation, functionals, settings, seed, saved, certify=certify)
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
    plan = replace(settings.plan(walk.engine.target.dim), early=walk.plan.early)
    if 2 * walk.iteration > plan.most_iterations:
        least = 2 * walk.iteration / plan.iterations
        raise InputError(f"budget must be at least {least:g} for the chains to go on from where they stand, got {budget!r}")
    with computing(settings.precision, walk.starts.size), watched(progress, plan.in_words) as told:
        old = walk.engine
        walk.engine = Engine(old.target, settings.kernel, plan.chains, there.seed, settings.precision, Meter(), settings.groups)
        walk.engine.noise_state = old.noise_state
        walk.use_kernel()
        cost = report.cost
        walk.engine.meter.resume(cost.gradients, cost.programs, cost.seconds_compiling, cost.seconds_running + cost.seconds_compiling)
        walk.plan, walk.on_progress, walk.save = plan, told, lambda walk: None
        walk.traces, walk.snapshots, walk.path = list(walk.traces), list(walk.snapshots), list(walk.path)
        study = Study(there.approximation, settings, there.seed, plan, walk.engine, there.questions, Checkpoint(None), list(there.notes))
        study.gradients_agree = DISAGREE not in there.notes
        walk.round()
        judgement, checks = study.walk_on(walk)
        certified = None if report.certificate is None else study.certify([walk], judgement, told)
        return report_of(there.approximation, settings, there.seed, study.questions, walk, judgement, checks, study.notes, certified)
