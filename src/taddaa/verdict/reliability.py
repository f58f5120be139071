"""Checks of a run: reasons to trust its rows, or not.

A bound needs the error to shrink as the chains move (the paper's Condition 1); a bound of zero means something only if
the chains could have moved. Each check looks for one way in which either fails, and says so in the user's words.
"""

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ..chains.walk import Walk, squared_correlation
from ..formulas.distributions import chi2_upper_quantile, normal_upper_quantile, rank_correlation, ranks
from .check import Check
from .judgement import PIECE, Judgement, Questions

RHO2_CUTOFF = 0.1  # the paper's (section 3.4)
TEST_LEVEL = 0.05  # of each family of tests, Bonferroni within the family
STEIN_CUTOFF = 4.5  # standard errors; transit shows as 6 to 35
NARROW_CUTOFF = 0.6  # well-scaled targets give −0.5 to 0.5, funnels 0.7 to 0.9
CHANGE_CUTOFF = 2.5  # standard errors, for the forces' mean and spread in such targets: exact starts give 0 to 2, wrong ones 5 to 20
NONFINITE_SHARE = 0.25
EDGE_SHARE = 0.005  # of non-finite proposals, from which the support has edges that chains meet
VARIANCE_TAIL, MEAN_TAIL = 0.5, 0.9  # tail indices above which a moment hardly exists (1/2 and 1 are the borders)
PRECISION_CUTOFF = 0.75  # the largest relative error that may stay hidden: 0.75 standard deviations, a factor of 2 in variance
DIRECTIONS = 3
DENSE_DIRECTIONS = 50  # dimensions up to which all eigenvectors are computed


def correlation_check(walk: Walk, questions: Questions) -> Check:
    """The paper's: ρ² between start and final state, over all rows."""
    rho2 = row_rho2(walk, questions)
    worst = float(rho2.max())
    return Check(
        "forgot the start",
        worst < RHO2_CUTOFF,
        worst,
        RHO2_CUTOFF,
        f"the chains still remember where they started (ρ² up to {worst:.2f}), so what has not moved may only be slow",
        rows=None,
        only_zero=True,
    )


def all_checks(walk: Walk, questions: Questions, judgement: Judgement) -> list[Check]:
    """Every check of the latest round."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinite quantities are the judgement's business
        return _all_checks(walk, questions, judgement)


def _all_checks(walk: Walk, questions: Questions, judgement: Judgement) -> list[Check]:
    directions = directions_moved_most(walk)
    # Forces balance only where the density vanishes at the edge of its support: many proposals beyond one tell that it may not.
    balance = [stein(walk)] if _nonfinite_share(walk) < EDGE_SHARE else []
    return [
        settled(walk, questions, directions),
        overshoot(walk, judgement.reference),
        memory(walk, questions),
        direction_memory(walk, questions, directions),
        *balance,
        acceptance(walk),
        narrow_regions(walk),
        nonfinite(walk),
        tails(walk, questions),
        precise(judgement),
    ]


def settled(walk: Walk, questions: Questions, directions: np.ndarray) -> Check:
    """Paired test over chains: does any row, or any direction that moved much, differ between the round's two ends?"""
    early, late = _ends(len(walk.snapshots))
    scores = []
    for piece in (piece for group in questions.groups for piece in group.pieces()):
        window = piece.window([snapshot.quantities for snapshot in walk.snapshots])
        pooled = window[:, 1:].reshape(-1, window.shape[-1])
        scores.append(_paired_z(piece.functional.score(window, pooled), early, late))
    along = np.stack([snapshot.positions @ directions for snapshot in walk.snapshots], axis=1)
    hidden = [_paired_z(along, early, late), _paired_z((along - along.mean(axis=(0, 1))) ** 2, early, late)]
    z, z_hidden = np.abs(np.concatenate(scores)), np.abs(np.concatenate(hidden))
    cutoff = float(normal_upper_quantile(TEST_LEVEL / 2 / (len(z) + len(z_hidden))))
    moving = np.flatnonzero(z > cutoff)
    anything = bool(moving.size or np.any(z_hidden > cutoff))
    return Check(
        "settled",
        not anything,
        float(max(z.max(), z_hidden.max(initial=0.0))),
        cutoff,
        "still moving when the chains stopped, so its bound may be above or below the true error",
        rows=tuple(moving.tolist()),
        more_iterations=True,
    )


def overshoot(walk: Walk, reference: np.ndarray) -> Check:
    """Did a row, in the last three quarters of the way, stand outside the span between its start and where it ended?

    That is Condition 1 seen to fail, and since quantities pull each other along, it silences the whole run.
    """
    recent = [point for point in walk.path if walk.iteration / 4 <= point.iteration]
    ended, earlier = recent[-1], recent[:-1]
    if not earlier:
        return Check("no overshoot", True, 0.0, 0.0, "", more_iterations=True)
    estimate = np.array([point.estimate for point in earlier])
    error = np.hypot(np.array([point.error for point in earlier]), ended.error)
    low, high = np.minimum(reference, ended.estimate), np.maximum(reference, ended.estimate)
    beyond = np.maximum(low - estimate, estimate - high)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.nan_to_num(np.where(error > 0, beyond / error, 0.0), nan=0.0, posinf=0.0)
    cutoff = float(normal_upper_quantile(TEST_LEVEL / z.size))
    flagged = np.flatnonzero((z > cutoff).any(axis=0))
    return Check(
        "no overshoot",
        not flagged.size,
        float(z.max()),
        cutoff,
        f"{flagged.size} quantities went too far and came back, so errors did not shrink steadily in this run, as bounds need",
        more_iterations=True,
    )


def memory(walk: Walk, questions: Questions) -> Check:
    """Linear, rank and folded-rank correlation of each row's quantity with its start, and with the round's beginning.

    The latter sees regions that are slow to leave but that the approximation did not start in.
    """
    last = walk.snapshots[-1].quantities
    each = np.max([_by_pieces(_memory, then.quantities, last) for then in (walk.origin, walk.snapshots[0])], axis=0)
    worst = questions.per_row(each)
    cutoff = _memory_cutoff(len(last), 6 * len(worst))
    flagged = np.flatnonzero(worst >= cutoff)
    return Check(
        "forgot the start",
        not flagged.size,
        float(worst.max()),
        cutoff,
        "its chains still remember where they started, so that it has not moved may only mean that it is slow",
        rows=tuple(flagged.tolist()),
        only_zero=True,
        more_iterations=True,
    )


def direction_memory(walk: Walk, questions: Questions, directions: np.ndarray) -> Check:
    """The same along the directions across parameters that moved most, which single coordinates can hide.

    It concerns the rows that share a tenth or more of their variance with such a direction.
    """
    last = walk.snapshots[-1]
    along = last.positions @ directions
    each = _memory(walk.origin.positions @ directions, along)
    cutoff = _memory_cutoff(len(walk.starts), 3 * max(directions.shape[1], 1))
    shared = np.zeros(last.quantities.shape[1])
    for column in along[:, each >= cutoff].T:
        shared = np.maximum(shared, _by_pieces(lambda part, column=column: squared_correlation(column[:, None], part), last.quantities))
    return Check(
        "forgot the start along what moved",
        not np.any(each >= cutoff),
        float(each.max(initial=0.0)),
        cutoff,
        "along a direction across several parameters the chains still remember their start",
        rows=tuple(np.flatnonzero(questions.per_row(shared) >= RHO2_CUTOFF).tolist()),
        only_zero=True,
        more_iterations=True,
    )


def stein(walk: Walk) -> Check:
    """E ∇log π = 0 and E (x_i − m_i) ∂_i log π = −1 hold at the target; whitened, over the round's late states."""
    late = walk.snapshots[1:] if len(walk.snapshots) > 1 else walk.snapshots
    centre = np.mean([snapshot.positions.mean(axis=0) for snapshot in late], axis=0)
    force, virial = np.zeros_like(late[0].gradients), np.ones_like(late[0].gradients)
    for snapshot in late:
        force += snapshot.gradients / len(late)
        virial += (snapshot.positions - centre) * snapshot.gradients / len(late)
    statistics = np.concatenate([_mean_z(force), _mean_z(virial)])
    worst = float(np.nan_to_num(np.abs(statistics)).max())
    cutoff = max(STEIN_CUTOFF, float(normal_upper_quantile(TEST_LEVEL / 10 / len(statistics))))
    return Check(
        "gradients balance",
        worst < cutoff,
        worst,
        cutoff,
        "the chains are in transit: the average force on them is not zero, as it would be at the target",
        more_iterations=True,
    )


def acceptance(walk: Walk) -> Check:
    """The mean acceptance of the round's last quarter against where theory wants it."""
    target = walk.engine.kernel.target_acceptance
    mean = float(walk.traces[-1].acceptance.mean())
    low, high = target / 2, (1 + target) / 2
    word = "too many" if mean < low else "too few"
    return Check(
        "acceptance",
        low <= mean <= high,
        mean,
        low if mean < target else high,
        f"{word} proposals were rejected ({mean:.0%} accepted, {target:.0%} wanted), so the chains explore badly",
        only_zero=True,
        more_iterations=True,
    )


def narrow_regions(walk: Walk) -> Check:
    """Is part of the target too narrow for the shared step, and has the share of chains there changed?

    In a well-scaled target a chain's acceptance rises with the force on it, or does not depend on it; in a funnel's neck
    it falls, and chains neither enter nor leave. It is seen by the rank correlation, over chains, of rejected proposals with
    the log norm of the whitened gradient. Where these norms have the mean and spread that they had at the start, the chains
    that stand still stand where they belong; otherwise the slow exchange with the neck is still under way.
    """
    message = "part of the target is too narrow for the chains' common step, so they can hardly enter or leave it"
    at_start, *late = [walk.engine.force(snapshot.gradients, walk.metric) for snapshot in (walk.origin, *walk.snapshots[1:])]
    force, rejected = np.mean(late, axis=0), 1 - walk.acceptance_of_chains
    varied = np.ptp(rejected) > 0 and np.ptp(force) > 0
    narrow = bool(varied and rank_correlation(rejected, force) >= NARROW_CUTOFF)
    gained = np.stack([force - at_start, np.mean((late - np.mean(late)) ** 2, axis=0) - (at_start - at_start.mean()) ** 2], axis=1)
    change = float(np.abs(_mean_z(gained)).max()) if narrow else 0.0
    return Check("all chains move", change < CHANGE_CUTOFF, change, CHANGE_CUTOFF, message, slow_for_good=narrow)


def nonfinite(walk: Walk) -> Check:
    """Proposals whose log density or gradient was NaN or infinite, over all iterations; and chains that never left such a start."""
    share = _nonfinite_share(walk)
    lost = int(np.sum(~np.isfinite(walk.engine.host(walk.chains.point.logdensity))))
    message = f"{share:.0%} of the proposals had a NaN or infinite log density or gradient"
    if lost:
        message = f"{lost} chains started where the log density is not finite and never found its support"
    passed = share < NONFINITE_SHARE and not lost
    return Check("finite proposals", passed, share, NONFINITE_SHARE, message, more_iterations=lost > 0)


def tails(walk: Walk, questions: Questions) -> Check:
    """Moments that do not exist: the tail index of the moved draws, and of q's where they were needed, against each row's need."""
    needs = {"mean": MEAN_TAIL, "variance": VARIANCE_TAIL, "covariance": VARIANCE_TAIL}
    index = _by_pieces(lambda *late: tail_index(np.concatenate(late)), *walk.late_quantities)
    if questions.reference_draws is not None:
        index = np.maximum(index, _by_pieces(tail_index, questions.reference_draws))
    limit = np.concatenate([np.full(len(group.labels), needs.get(group.functional.label, np.inf)) for group in questions.groups])
    flagged = np.flatnonzero(questions.per_row(index) > limit)
    return Check(
        "moments exist",
        not flagged.size,
        float(index.max()),
        VARIANCE_TAIL,
        "its draws have tails so heavy that this moment may not exist; ask for quantiles instead",
        rows=tuple(flagged.tolist()),
    )


def precise(judgement: Judgement) -> Check:
    """A few chains far from all others (stragglers, heavy tails) make intervals so wide that errors can hide in them."""
    width = judgement.relative_detectable
    flagged = np.flatnonzero(width > PRECISION_CUTOFF)
    return Check(
        "narrow enough",
        not flagged.size,
        float(width.max()),
        PRECISION_CUTOFF,
        "its interval is so wide that a large error could hide in it: a few chains are far from the others, or chains or draws are too few",
        rows=tuple(flagged.tolist()),
        only_zero=True,
        # Stragglers may still arrive; where all rows are wide, more chains or draws are needed instead.
        more_iterations=bool(np.any(np.isfinite(width[flagged]) & (width[flagged] > 2 * np.median(width)))),
    )


def tail_index(draws: np.ndarray, share: float = 0.1) -> np.ndarray:
    """The moment estimator of Dekkers, Einmahl and de Haan (1989) for |x − median|: 1/ν for Student t_ν, ≤ 0 if light."""
    distance = np.sort(np.abs(draws - np.median(draws, axis=0)), axis=0)
    count = max(int(share * len(draws)), 5)
    top, threshold = distance[-count:], distance[-count - 1]
    excess = np.log(np.maximum(top, np.finfo(float).tiny)) - np.log(np.maximum(threshold, np.finfo(float).tiny))
    first, second = excess.mean(axis=0), (excess**2).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        index = first + 1 - 0.5 / (1 - first**2 / second)
    # Where most draws are one value (an event, a hinge) there is no tail to speak of.
    return np.where(threshold > 0, np.nan_to_num(index, nan=0.0, posinf=0.0, neginf=0.0), 0.0)


def directions_moved_most(walk: Walk) -> np.ndarray:
    """Directions (d, ≤ 4), in units of moved standard deviations: the mean's shift, and where the spread changed most.

    Chosen at the middle of the round, because a test at its ends must not look for what it was chosen by.
    """
    start, moved = walk.origin.positions, walk.snapshots[len(walk.snapshots) // 2].positions
    scale = moved.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    dim = start.shape[1]
    if dim == 1:
        return 1 / scale[:, None]
    shift = (moved.mean(axis=0) - start.mean(axis=0)) / scale
    before, after = [(part - part.mean(axis=0)) / scale / np.sqrt(len(part) - 1) for part in (start, moved)]
    spread = _extreme_directions(after, before, min(DIRECTIONS, dim - 1))
    size = np.linalg.norm(shift)
    columns = [spread] if size == 0 else [shift[:, None] / size, spread]
    return np.concatenate(columns, axis=1) / scale[:, None]


def _extreme_directions(after: np.ndarray, before: np.ndarray, count: int) -> np.ndarray:
    """Eigenvectors (d, ≤ count) of the change in covariance with the largest |eigenvalue|."""
    dim = after.shape[1]
    if dim <= DENSE_DIRECTIONS:
        values, vectors = np.linalg.eigh(after.T @ after - before.T @ before)
        return vectors[:, np.argsort(-np.abs(values))[:count]]
    change = LinearOperator((dim, dim), matvec=lambda v: after.T @ (after @ v) - before.T @ (before @ v), dtype=float)
    try:
        return eigsh(change, k=count, which="LM", v0=np.ones(dim), tol=1e-3)[1]
    except ArpackError:  # nothing changed, or no convergence: then no direction stands out
        return np.zeros((dim, 0))


def row_rho2(walk: Walk, questions: Questions) -> np.ndarray:
    """ρ² of each row's quantity (the larger of two for a covariance)."""
    return questions.per_row(squared_correlation(walk.origin.quantities, walk.snapshots[-1].quantities))


def _memory_cutoff(chains: int, tests: int) -> float:
    """The paper's 0.1, or what independent starts and ends would exceed by chance where chains are few."""
    return max(RHO2_CUTOFF, float(chi2_upper_quantile(TEST_LEVEL / tests, 1)) / chains)


def _memory(start: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """The largest squared correlation of three kinds, for each column."""
    ranked = [ranks(part) / len(part) - 0.5 for part in (start, moved)]
    pairs = [(start, moved), tuple(ranked), tuple(np.abs(rank) for rank in ranked)]
    return np.max([squared_correlation(*pair) for pair in pairs], axis=0)


def _nonfinite_share(walk: Walk) -> float:
    return float(np.mean(walk.engine.host(walk.chains.nonfinite)) / max(walk.iteration, 1))


def _ends(count: int) -> tuple[list[int], list[int]]:
    """The snapshots to compare: the round's first two with its last two, or first with last if there are few."""
    return ([0, 1], [count - 2, count - 1]) if count >= 4 else ([0], [count - 1])


def _paired_z(score: np.ndarray, early: list[int], late: list[int]) -> np.ndarray:
    return _mean_z(score[:, late].mean(axis=1) - score[:, early].mean(axis=1))


def _mean_z(values: np.ndarray) -> np.ndarray:
    """Mean over chains in standard errors, for each column; 0 where nothing varies."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.where(error > 0, values.mean(axis=0) / error, 0.0))


def _by_pieces(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """A function of columns, applied to few columns at a time, so that its copies stay small in high dimension."""
    starts = range(0, arrays[0].shape[1], PIECE)
    return np.concatenate([function(*(array[:, first : first + PIECE] for array in arrays)) for first in starts])
