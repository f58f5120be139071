"""What the chains' late states answer: intervals of movement and bounds, in arrays with one entry a row."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..formulas.distributions import normal_quantile
from ..formulas.interval import Interval, bound, movement
from .questions import Questions
from .sharpening import Evidence, sharpened

LEAST_SEEN = 10  # chains that must differ from the rest for a mean or variance to have an interval
FOUND_PROBABILITY = 0.95  # with which an error of the size `detectable` is found


class Judgement(NamedTuple):
    """One entry a row. All but `approximation` and `moved` are on the movement's scale (log variance for variances)."""

    approximation: np.ndarray
    moved: np.ndarray
    reference: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    bound: np.ndarray
    relative_bound: np.ndarray
    detectable: np.ndarray
    relative_detectable: np.ndarray
    relative_below: np.ndarray  # the same of a variance by the side below: above, its interval reaches where no chain has been
    unit: np.ndarray  # what `relative_…` is measured in
    unknown: np.ndarray  # the functional is not a finite number, or
    unseen: np.ndarray  # too few chains show anything but one and the same value
    fixed: np.ndarray  # one and the same number wherever it was looked at: a constant, or an event never seen
    within: np.ndarray  # the whole interval of the error lies inside the tolerance
    corrected: np.ndarray  # the target's own value, and its interval, on the functional's own scale
    corrected_lower: np.ndarray
    corrected_upper: np.ndarray
    at_most: np.ndarray  # the error, as coupled pairs certify it; infinite where they do not


class Tolerance(NamedTuple):
    """Errors that do not matter: in standard deviations for means, quantiles and covariances, in log variance for variances."""

    mean: float
    variance: float


def judge(
    questions: Questions, late: Sequence[np.ndarray], level: float, tolerance: Tolerance | None = None, evidence: Evidence | None = None
) -> Judgement:
    """Intervals, each at `level`, of how far every row moved, and the bounds that follow; sharpened where there is `evidence`."""
    plain = questions.moved(late, level)
    moved = plain if evidence is None else sharpened(questions, late, level, plain, evidence)
    with np.errstate(invalid="ignore", over="ignore"):
        reference = [interval(level) for interval in questions.references]
        moves = [movement(m, r) for m, r in zip(moved, reference, strict=True)]
        unit = np.concatenate([g.functional.unit(late[-1][:, g.columns].std(axis=0, ddof=1)) for g in questions.groups])
    estimate, lower, upper = (np.concatenate([getattr(move, part) for move in moves]) for part in Interval._fields)
    same = _constant(questions, late)
    estimate, lower, upper = (np.where(same, 0.0, part) for part in (estimate, lower, upper))
    unseen = ~same & _unseen(questions, late)
    unknown = ~np.isfinite(estimate) | np.isnan(lower) | np.isnan(upper) | unseen
    lower, upper = np.where(unknown, -np.inf, lower), np.where(unknown, np.inf, upper)
    bounds = bound(lower, upper)
    # An error is found with 95 % probability if it exceeds the half-width by 1.64 standard errors.
    # What was never seen to vary may do so where no chain came: no size of error would surely have shown.
    fixed = same & ~_exact(questions)
    with np.errstate(invalid="ignore"):  # ∞ − ∞ of what is unknown
        half = np.where(unknown | fixed, np.inf, np.maximum(upper - estimate, estimate - lower))
        found_beyond = 1 + normal_quantile(FOUND_PROBABILITY) / normal_quantile((1 + level) / 2)
        detectable, below = half * found_beyond, (estimate - lower) * found_beyond
        # Where it seems to have fallen further than that, it is the unseen tail above that hides an error.
        below = np.where(_variances(questions) & (below > 0) & (estimate >= -below), np.minimum(below, detectable), detectable)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative_bound = np.where(bounds > 0, bounds / unit, 0.0)
        relative_detectable, relative_below = (
            np.where(same, 0.0, np.where(np.isfinite(part), part / unit, np.inf)) for part in (detectable, below)
        )
    return Judgement(
        approximation=shown(questions, [interval.estimate for interval in reference]),
        moved=shown(questions, [interval.estimate for interval in plain]),
        reference=np.concatenate([interval.estimate for interval in reference]),
        lower=lower,
        upper=upper,
        bound=bounds,
        relative_bound=relative_bound,
        detectable=detectable,
        relative_detectable=relative_detectable,
        relative_below=relative_below,
        unit=unit,
        unknown=unknown,
        unseen=unseen,
        fixed=fixed,
        within=within(questions, lower, upper, unit, tolerance) & ~unknown & ~fixed,
        corrected=shown(questions, [interval.estimate for interval in moved]),
        corrected_lower=shown(questions, [interval.lower for interval in moved]),
        corrected_upper=shown(questions, [interval.upper for interval in moved]),
        at_most=np.full(len(lower), np.inf),
    )


def decided(questions: Questions, judgement: Judgement, tolerance: Tolerance | None) -> np.ndarray:
    """Rows whose error surely does not matter, or surely is there and is known to the tolerance; and what cannot be known better."""
    known = within(questions, *_centred(judgement.lower, judgement.upper), judgement.unit, tolerance)
    return judgement.within | judgement.fixed | ((judgement.bound > 0) & known)


def _centred(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of the same width about zero."""
    with np.errstate(invalid="ignore"):
        half = (upper - lower) / 2
    return -half, half


def within(questions: Questions, lower: np.ndarray, upper: np.ndarray, unit: np.ndarray, tolerance: Tolerance | None) -> np.ndarray:
    """Rows whose error, if it lies in these intervals, does not matter."""
    if tolerance is None:
        return np.zeros(len(lower), bool)
    limit = unit * np.where(_variances(questions), tolerance.variance, tolerance.mean)
    return (lower >= -limit) & (upper <= limit)


def _variances(questions: Questions) -> np.ndarray:
    return np.concatenate([np.full(len(group.labels), group.functional.label == "variance") for group in questions.groups])


def _constant(questions: Questions, late: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of quantities that are one and the same number under q and at the late states, as a matrix's fixed zeros are."""
    draws = questions.reference_draws
    if draws is None:
        return np.zeros(questions.rows, bool)
    same = np.ones(draws.shape[1], bool)
    for values in (*late, draws):  # the many draws last, and only of what has not differed among the few states
        left = np.flatnonzero(same)
        same[left] = np.all(values[:, left] == draws[0, left], axis=0)
    return questions.per_row(same)


def _unseen(questions: Questions, late: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of rare events: an interval from a handful of them is no interval."""
    differs = np.zeros(late[-1].shape, bool)
    with np.errstate(invalid="ignore"):  # half of them −∞ and half ∞ have no middle
        common = np.median(late[-1], axis=0)
    for values in late[-questions.states :]:
        differs |= values != common
    return questions.per_row(differs.sum(axis=0) < LEAST_SEEN) & ~_exact(questions)


def _exact(questions: Questions) -> np.ndarray:
    """Rows of quantiles, whose intervals hold for any distribution, rare events included."""
    return np.concatenate([np.full(len(g.labels), g.functional.label.startswith("q")) for g in questions.groups])


def shown(questions: Questions, values: list[np.ndarray]) -> np.ndarray:
    """Of each group's values on the movement's scale, those of the functionals themselves."""
    return np.concatenate([group.functional.shown(part) for group, part in zip(questions.groups, values, strict=True)])


def unseen_probability(chains: int) -> float:
    """The probability of an event that this many independent chains all miss one time in twenty: about 3/N."""
    return float(1 - (1 - FOUND_PROBABILITY) ** (1 / chains))
