"""A walk that has been judged and checked → the report."""

import datetime
import platform
from dataclasses import fields
from math import nan

import jax
import numpy as np
import scipy

from ..chains.walk import Walk
from ..moves.metric import as_covariance
from ..problem.approximation import Approximation
from ..problem.origin import Origin
from ..settings import Settings
from ..verdict.certificate import Certified, certified_judgement
from ..verdict.checks.check import Check
from ..verdict.checks.memory import row_rho2
from ..verdict.checks.registry import caveats, condemning
from ..verdict.judgement import Judgement, unseen_probability
from ..verdict.outcome import UNTRUSTED, arrived, verdicts
from ..verdict.questions import Questions
from ..version import own_version
from .certificate import Certificate
from .continuation import Continuation
from .parts import Cost, Handover, Paths, Provenance, Row
from .report import Report
from .straightened import straightened

HANDED_STEP = 0.5  # of the chains' own: NUTS wants more of its proposals accepted (0.89 to 0.97 then, 0.44 to 0.88 with all of it)


def report_of(
    approximation: Approximation,
    settings: Settings,
    seed: int,
    questions: Questions,
    walk: Walk,
    judgement: Judgement,
    checks: list[Check],
    notes: list[str],
    certified: Certified | None = None,
) -> Report:
    """The report on a walk that has been judged and checked."""
    names = [(label, group.functional.label) for group in questions.groups for label in group.labels]
    rho2, verdict = row_rho2(walk.seen, questions), verdicts(judgement, checks)
    believed = arrived(checks, len(names))
    if certified is not None:
        doubted = ~believed | np.array([word == UNTRUSTED for word, _ in verdict])
        judgement = certified_judgement(judgement, certified.brackets, doubted)
        verdict, believed = verdicts(judgement, checks, certified.brackets), believed | certified.brackets.certified
    rows = tuple(_row(*names[i], judgement, i, float(rho2[i]), *verdict[i], bool(believed[i])) for i in range(len(names)))
    labels, meter = walk.engine.target.labels, walk.engine.meter
    return Report(
        rows=rows,
        checks=tuple(checks),
        cost=Cost(
            gradients=meter.gradients,
            seconds_compiling=meter.compiling,
            seconds_running=meter.seconds - meter.compiling,
            programs=meter.programs,
            iterations=walk.iteration,
            planned_iterations=walk.plan.iterations,
        ),
        provenance=_provenance(approximation, settings, seed, walk),
        notes=tuple(dict.fromkeys([*notes, *_closing_notes(names, walk, judgement, checks)])),
        paths=_paths(walk, questions, judgement),
        labels=labels,
        start_draws=walk.seen.origin.quantities[:, : len(labels)],
        moved_draws=walk.seen.snapshots[-1].quantities[:, : len(labels)],
        axes=walk.engine.target.axes,
        certificate=None if certified is None else _certificate(certified, walk),
        handover=Handover(walk.seen.snapshots[-1].positions, as_covariance(walk.metric), HANDED_STEP * walk.step_length),
        continuation=Continuation(walk, questions, approximation, settings, seed, tuple(notes)),
    )


def _certificate(certified: Certified, walk: Walk) -> Certificate:
    paired, brackets = certified.paired, certified.brackets
    meetings = paired.meeting / walk.plan.iterations
    return Certificate(
        pairs=len(meetings),
        met=int(np.isfinite(meetings).sum()),
        lag=paired.lag,
        median_meeting=float(np.sort(meetings)[len(meetings) // 2]),  # of infinite ones there is no mean
        last_meeting=float(meetings.max()),
        distance=certified.distance,
        rows=int(brackets.certified.sum()),
        refuted=int(brackets.refuted.sum()),
        gradients=paired.gradients_taken,
        meetings=tuple(float(meeting) for meeting in meetings),
    )


def _closing_notes(names: list[tuple[str, str]], walk: Walk, judgement: Judgement, checks: list[Check]) -> list[str]:
    """What the user should know beside rows and checks."""
    notes = list((walk.engine.target.origin or Origin()).notes)
    rejected = int(np.sum(walk.engine.host(walk.chains.nonfinite)))
    if rejected:
        notes.append(f"{rejected} proposals had a NaN or infinite log density or gradient and were rejected")
    if walk.seen.left_out:
        notes.append(
            f"{walk.seen.left_out} of {walk.plan.chains} chains started where the target has no mass to speak of, have not come away "
            "from there, and are left out"
        )
    if condemning(checks) is None:  # nothing is learnt of a target that the chains have not seen
        notes += straightened(walk)
    notes += caveats(checks)
    fixed = np.flatnonzero(judgement.fixed)
    if fixed.size:
        parameter, functional = names[fixed[0]]
        notes.append(
            f"the {functional} of {parameter}{f' and {fixed.size - 1} more' * (fixed.size > 1)}: one and the same value in every draw, "
            f"before and after; what happens with a probability below {unseen_probability(walk.plan.chains):.1%} may never have been "
            "seen, so no size of error can be excluded (would see: ∞)"
        )
    return notes


def _provenance(approximation: Approximation, settings: Settings, seed: int, walk: Walk) -> Provenance:
    packages = [("taddaa", own_version()), ("jax", jax.__version__), ("numpy", np.__version__), ("scipy", scipy.__version__)]
    origin = walk.engine.target.origin or Origin()
    versions = [*(f"{name} {version}" for name, version in [*packages, ("python", platform.python_version())]), origin.framework]
    return Provenance(
        seed=seed,
        chains=walk.plan.chains,
        kernel=settings.kernel.label,
        preconditioner=settings.preconditioner.label,
        level=settings.level,
        simultaneous=settings.simultaneous,
        settings=", ".join(f"{field.name}={getattr(settings, field.name)}" for field in fields(settings)),
        approximation=approximation.describe(),
        versions=", ".join(filter(None, versions)),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        data=origin.data,
    )


def _row(parameter: str, functional: str, judgement: Judgement, i: int, rho2: float, verdict: str, reason: str, believed: bool) -> Row:
    known = believed and verdict != UNTRUSTED
    return Row(
        parameter=parameter,
        functional=functional,
        approximation=float(judgement.approximation[i]),
        moved=float(judgement.moved[i]),
        lower=float(judgement.lower[i]),
        upper=float(judgement.upper[i]),
        bound=float(judgement.bound[i]),
        relative_bound=float(judgement.relative_bound[i]),
        detectable=float(judgement.detectable[i]),
        rho2=rho2,
        verdict=verdict,
        reason=reason,
        corrected=float(judgement.corrected[i]) if known else nan,
        corrected_lower=float(judgement.corrected_lower[i]) if known else nan,
        corrected_upper=float(judgement.corrected_upper[i]) if known else nan,
        at_most=float(judgement.at_most[i]),
    )


def _paths(walk: Walk, questions: Questions, judgement: Judgement) -> Paths:
    estimate, error = questions.summarise(walk.origin.quantities)
    trace = walk.trace
    return Paths(
        snapshots=np.array([0] + [point.iteration for point in walk.path]),
        estimate=np.array([estimate] + [point.estimate for point in walk.path]),
        error=np.array([error] + [point.error for point in walk.path]),
        rho2=np.array([np.ones(questions.rows)] + [questions.per_row(point.rho2) for point in walk.path]),
        reference=judgement.reference,
        unit=judgement.unit,
        acceptance=trace.acceptance,
        step=np.exp(trace.log_step),
        rho2_max=trace.rho2,
    )
