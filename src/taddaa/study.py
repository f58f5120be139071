"""What a diagnosis fixes before its chains move, and the steps that need it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .chains.checkpoint import Checkpoint
from .chains.machine.engine import Engine
from .chains.machine.meter import Meter
from .chains.machine.placement import agreed
from .chains.walk import Progress, Walk, find_step
from .errors import InputError
from .glancing import Seen, looked_at
from .identity import identity
from .plan import Plan
from .problem.approximation import Approximation, Draws
from .problem.drawn import drawn, refuse_unrepresentable
from .problem.target import Target
from .settings import Settings
from .verdict.asking import ask, refuse_nan
from .verdict.certificate import Certified, certified_by_pairs
from .verdict.checks.arms import ArmsAgree
from .verdict.checks.check import Check
from .verdict.checks.registry import SETS, examine, failures, too_narrow, worth_running_on
from .verdict.checks.run import Run
from .verdict.first_look import LEAST
from .verdict.gradients import gradients_agree
from .verdict.judgement import Judgement, Tolerance, decided, judge
from .verdict.questions import Questions
from .verdict.sharpening import gather

DISAGREE = "the gradient does not agree with finite differences of the log density, so intervals are plain"
EARLY_SHARE = 1 / 8  # of α, for a look at T/2: with half of it few more rows would be decided there
DECIDED = 0.9  # of the rows, for a run to end there


@dataclass
class Study:
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

    def __post_init__(self):
        looks = [self.most_looks] + [0] * bool(self.plan.early)
        self.questions = self.questions.at_strictest(max(self.level(look) for look in looks))

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
        observe = lambda positions: engine.viewer.observe(positions, self.questions.functions)  # noqa: E731
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
            seen = Seen(pilots, np.asarray(values, float), gradients)
            found = looked_at(self.engine, self.approximation, self.questions, seen, metric, self.settings, self.seed)
            progress(Progress("first look", 0, self.plan.iterations, math.nan, math.nan, found.headline))

    def onward(self, walk: Walk, arm: int) -> Walk:
        """From its starts to the end of its opening, or to wherever it was saved."""
        if self.saved.path is not None:
            same = identity(self.approximation, self.settings, self.seed, self.questions, walk)
            walk.save = lambda walk: self.saved.save(walk, arm, same)
            if self.saved.resume(walk, arm, same):
                self.plan = walk.plan
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

    def level(self, look: int) -> float:
        """Each interval's own level, shared by all rows: an early look spends α/8, look r of at most R α/2^r of the rest (the last all)."""
        if not self.settings.simultaneous:
            return self.settings.level
        early = EARLY_SHARE if self.plan.early else 0.0
        share = early if look == 0 else (1 - early) / 2 ** min(look, self.most_looks - 1)
        return 1 - (1 - self.settings.level) * share / self.questions.rows

    @property
    def most_looks(self) -> int:
        """From T on."""
        return 1 + int(math.log2(self.plan.most_iterations / self.plan.iterations) + 1e-9)

    def look(self, walk: Walk, last: bool) -> tuple[Judgement, list[Check], bool]:
        """At the end of a round: what it says, whether to believe it, and whether to run on.

        Sharper intervals cost more than plain ones, so they are made only where plain ones alone would not send the chains on.
        """
        run: Run | None = None
        for sharpen in (False, True):
            judgement = self.judge(walk, sharpen)
            run = Run(walk, self.questions, judgement, self.level(walk.full_rounds)) if run is None else run.judged(judgement)
            checks = examine(run, SETS[self.settings.checks])
            onward = worth_running_on(checks, walk.full_rounds, walk.noted)
            if not (onward or last or sharpen):
                onward = too_narrow(checks) and walk.could_be_straightened
            if sharpen and walk.full_rounds == 0:
                onward = onward or not self.may_end_early(judgement, checks)
            onward = bool(agreed(onward))
            if onward and not last:
                break
        return judgement, checks, onward

    def may_end_early(self, judgement: Judgement, checks: list[Check]) -> bool:
        """Half of the planned way is enough where no check fails, and nearly all is decided."""
        known = decided(self.questions, judgement, self.tolerance)
        return all(check.passed for check in checks) and bool(known.mean() >= DECIDED)

    def goes_on_anyway(self, walk: Walk) -> bool:
        """Whatever its states say: in coordinates bent in the opening, or to T where no one step suits all chains yet."""
        return walk.newly_bent or (walk.full_rounds == 0 and not walk.exploring)

    def walk_on(self, walk: Walk) -> tuple[Judgement, list[Check]]:
        """From the end of a round, while quantities move and the budget allows."""
        while True:
            last = 2 * walk.iteration > self.plan.most_iterations
            if last or not agreed(self.goes_on_anyway(walk)):
                judgement, checks, onward = self.look(walk, last)
                walk.noted = failures(checks)  # also at the last look: the chains may be resumed
                if agreed(last or not onward):
                    return judgement, checks
            walk.round()

    def judge(self, walk: Walk, sharpen: bool) -> Judgement:
        evidence = gather(walk, self.questions) if sharpen and self.settings.interval == "stein" and self.gradients_agree else None
        return judge(self.questions, walk.seen.late_quantities, self.level(walk.full_rounds), self.tolerance, evidence)

    def compare_arms(self, walk: Walk, judgement: Judgement, second: Approximation, progress) -> tuple[Check, Walk | None]:
        """A second arm from other starts, as long as the first; none if it could not start."""
        try:
            begun = self.begin(second, arm=1, progress=progress)
        except InputError as error:
            return ArmsAgree().could_not_start(error), None
        arm = self.onward(begun, arm=1)
        while arm.rounds < walk.rounds:
            arm.round()
        return ArmsAgree().examine(Run(walk, self.questions, judgement, self.level(walk.full_rounds), arm)), arm

    def certify(self, arms: list[Walk], judgement: Judgement, progress) -> Certified:
        """Pairs of the chains of all arms: with other starts, they show whether all came to the same place."""
        settings = self.settings
        each = 1 - (1 - settings.level) / self.questions.rows if settings.simultaneous else settings.level
        run = Run(arms[0], self.questions, judgement, each)
        sharpen = settings.interval == "stein" and self.gradients_agree
        return certified_by_pairs(run, arms, self.seed, settings.level, self.tolerance, sharpen=sharpen, progress=progress)


def prepare(
    target: Target, approximation: Approximation, functionals, settings: Settings, seed: int, saved: Checkpoint, *, certify: bool
) -> "Study":
    plan = settings.plan(target.dim)
    if certify:  # pairs go on from where chains have come at T, and may cost a share of what that did
        plan = replace(plan, early=0)
    engine = Engine(target, settings.kernel, plan.chains, seed, settings.precision, Meter(), settings.groups)
    rng = np.random.default_rng([seed, 0])
    with np.errstate(over="ignore", divide="ignore"):  # an approximation of such a scale is refused in words, with its draws
        questions = ask(functionals, engine, approximation, rng, settings.variance_interval, settings.states, settings.interval)
    bought = [] if settings.gradients is None else [_bought(settings, plan, target.dim)]
    return Study(approximation, settings, seed, plan, engine, questions, saved, [*questions.notes, *bought])


def _bought(settings: Settings, plan: Plan, dim: int) -> str:
    """What a budget of gradients paid for, beside what would have been planned without it."""
    free = replace(settings, gradients=None).plan(dim)
    return (
        f"gradients={settings.gradients:,} pays for {plan.chains} chains ({free.chains} without it) of at most "
        f"{plan.most_iterations} iterations ({free.most_iterations})"
    )
