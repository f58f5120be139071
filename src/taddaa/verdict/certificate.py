"""What coupled pairs certify: intervals of the target's own values that need no arrival, and what follows for each row.

Pairs' H has the target's own mean exactly, so that its intervals rest on the central limit theorem over pairs and on nothing else
(`chains.pairs`). They are sharpened as the run's own are, since H is linear and the features' mean under the target is zero.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from ..chains.pairs import Paired, run_pairs
from ..chains.walk import Progress, Walk
from ..formulas.interval import Interval, bound, excess_width, joined, movement, widened
from ..problem.functional import Quantile
from .checks.run import Run
from .judgement import Judgement, Tolerance, shown, within
from .questions import Questions, RowGroup
from .sharpening import Evidence, gather, interval_of, narrowed

LEAST_PAIRS = 20  # for intervals over them
MOST_REFUTED = 0.05  # of the rows, from which nothing is certified
APART = 0.03  # in standard deviations (of log variance): so far must pairs and moved chains lie apart to contradict each other


class Brackets(NamedTuple):
    """One entry a row: the interval of the error on the movement's scale, and what it rests on."""

    lower: np.ndarray
    upper: np.ndarray
    value: np.ndarray  # the target's own, with its interval, on the functional's own scale
    value_lower: np.ndarray
    value_upper: np.ndarray
    known: np.ndarray  # whether there is a bracket
    refuted: np.ndarray  # whether it contradicts what the moved chains say
    within: np.ndarray  # whether the error surely is within the tolerance

    @property
    def certified(self) -> np.ndarray:
        return self.known & ~self.refuted

    @property
    def at_most(self) -> np.ndarray:
        return np.where(self.certified, np.maximum(np.abs(self.lower), np.abs(self.upper)), np.inf)


class Certified(NamedTuple):
    """Pairs that have been run, what they say of each row, and how far from the target their chains are at most."""

    paired: Paired
    brackets: Brackets
    distance: float


def certified_by_pairs(
    run: Run,
    arms: list[Walk],
    seed: int,
    level: float,
    tolerance: Tolerance | None,
    *,
    sharpen: bool,
    progress: Callable[[Progress], None] | None,
) -> Certified:
    """Run pairs of the chains of all arms, and judge every row by them; `level` is that of the report as a whole."""
    paired = run_pairs(arms, seed, pairs_needed(run), progress)
    engine, questions = run.walk.engine, run.questions
    shape = paired.weights.shape
    quantities = engine.viewer.observe(paired.places.reshape(-1, paired.places.shape[2]), questions.functions).reshape(*shape, -1)
    own = gather(run.walk, questions) if sharpen else None
    evidence = None
    if own is not None:
        evidence = Evidence(paired.positions, paired.gradients, own.metric, own.coordinates, own.directions, paired.weights)
        evidence = evidence if evidence.believed else None
    found = brackets(run, paired, quantities, evidence, tolerance)
    return Certified(paired, found, distance(paired, level))


def pairs_needed(run: Run) -> int:
    """Half as many as chains. For a quantile in a tail so many that what pairs may miss at the row's level is rarer than the tail."""
    levels = [group.functional.p for group in run.questions.groups if isinstance(group.functional, Quantile)]
    chains, tail = len(run.walk.starts), min((min(p, 1 - p) for p in levels), default=0.5)
    return int(np.clip(np.ceil(np.log(2 / (1 - run.level)) / tail), chains // 2, chains))


def distance(paired: Paired, level: float) -> float:
    """At most, in total variation, of X_L from the target: E max(0, ⌈(τ − 2L)/L⌉) (Biswas, Jacob and Vanetti 2019).

    The probability of each value is bounded by Clopper and Pearson's limit, the j-th at level 1 − α/2^j.
    """
    if not all_met(paired):
        return 1.0
    late = np.maximum(np.ceil((paired.meeting - paired.lag) / paired.lag), 0.0)
    total, pairs = 0.0, len(late)
    for j in range(1, int(late.max()) + 2):
        count = int(np.sum(late >= j))
        total += 1.0 if count == pairs else float(special.betaincinv(count + 1, pairs - count, 1 - (1 - level) / 2**j))
        if count == 0:
            break
    return min(total, 1.0)


def all_met(paired: Paired) -> bool:
    return bool(np.isfinite(paired.meeting).all())


def brackets(run: Run, paired: Paired, quantities: np.ndarray, evidence: Evidence | None, tolerance: Tolerance | None) -> Brackets:
    """Of every row, each at the run's level, from the quantities (P, S, k) at the pairs' states."""
    questions, judgement, level = run.questions, run.judgement, run.level
    found = [_values(questions, group, paired, quantities, level, evidence) for group in questions.groups]
    with np.errstate(invalid="ignore", over="ignore"):
        moves = [movement(value, reference(level)) for value, reference in zip(found, questions.references, strict=True)]
    estimate, lower, upper = (np.concatenate([getattr(move, part) for move in moves]) for part in Interval._fields)
    enough = all_met(paired) and len(paired.meeting) >= LEAST_PAIRS
    # What was never seen to vary may do so where no chain came, and heavy tails are never certain.
    known = enough & np.isfinite(estimate + lower + upper) & ~(judgement.unknown | judgement.unseen | judgement.fixed | run.momentless)
    gap = np.maximum(lower - judgement.upper, judgement.lower - upper)
    refuted = known & (gap > APART * judgement.unit)
    if refuted.mean() > MOST_REFUTED:  # the run is not where its pairs are, and has not come to rest
        known = refuted
    value, value_lower, value_upper = (shown(questions, [getattr(part, name) for part in found]) for name in Interval._fields)
    return Brackets(
        np.where(known, lower, -np.inf),
        np.where(known, upper, np.inf),
        value,
        value_lower,
        value_upper,
        known,
        refuted,
        known & within(questions, lower, upper, judgement.unit, tolerance),
    )


def _values(
    questions: Questions, group: RowGroup, paired: Paired, quantities: np.ndarray, level: float, evidence: Evidence | None
) -> Interval:
    """The interval of the functional under the target, on the movement's scale."""

    def of(piece: RowGroup, evidence: Evidence | None) -> Interval:
        with np.errstate(all="ignore"):  # what is not finite is not certified
            window = quantities[:, :, piece.columns]
            interval = interval_of(piece, window, level, evidence, paired.weights)
            if questions.kurtosis is None or piece.functional.label != "variance":
                return interval
            return widened(interval, excess_width(window, questions.kurtosis[piece.columns]))

    plain = joined([of(piece, None) for piece in group.pieces()])
    if evidence is None:
        return plain
    return narrowed(group, plain, joined([of(piece, evidence) for piece in group.pieces()]), evidence)


def certified_judgement(judgement: Judgement, brackets: Brackets, silenced: np.ndarray) -> Judgement:
    """Rows that the checks silence and pairs certify are judged by their brackets; of the others these say how large errors are at most."""
    taken = silenced & brackets.certified
    least = bound(brackets.lower, brackets.upper)
    half = (brackets.upper - brackets.lower) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(least > 0, least / judgement.unit, 0.0)
        relative_half = half / judgement.unit
    changes = {
        "lower": brackets.lower,
        "upper": brackets.upper,
        "bound": least,
        "relative_bound": relative,
        "detectable": 2 * half,  # an error as large as the whole bracket is found nearly surely, on whichever side it is longer
        "relative_detectable": 2 * relative_half,
        "corrected": brackets.value,
        "corrected_lower": brackets.value_lower,
        "corrected_upper": brackets.value_upper,
    }
    changed = {name: np.where(taken, new, getattr(judgement, name)) for name, new in changes.items()}
    inside = np.where(taken, brackets.within, judgement.within | (brackets.certified & brackets.within))
    at_most = np.where(brackets.certified, np.maximum(brackets.at_most, changed["bound"]), np.inf)
    return judgement._replace(**changed, within=inside, at_most=at_most)
