"""Do quantities still change?"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ...formulas.distributions import chi2_upper_quantile, normal_upper_quantile
from ...formulas.pieces import PIECE, THREADS, in_threads
from ...formulas.zscore import mean_z
from .check import MORE_TIME, TEST_LEVEL, Check, Checker, Silences
from .memory import memory
from .run import Run

if TYPE_CHECKING:
    from ..questions import RowGroup

FURTHEST, FAR = 3, 1.0  # so many rows, if they have come this far in standard deviations or log variance, are looked at most sternly
DRIFT = 0.03  # in standard deviations of what drifts: nobody cares about less
SOME, WIDESPREAD = 0.1, 0.5  # of the rows move: from which others are looked at more sternly; from which the whole run is under way
MOST = 0.75  # of the rows are named: others are looked at more sternly too; of an array: so is the rest of it
RESTLESS = 2.0  # standard errors of drift, then and of what has come furthest
LINGERING = 0.01  # the level of a test for memory over half of the round, then
ROUNDING = 1e-12  # of a quantity: under it nothing varies
SLOWEST, LEFT, SURE = 8, 0.05, 2.5  # so many quantities that came far may not remember it, but for this; standard errors
TOGETHER = 1.5  # standard errors, of all together (in place and in spread: one run in eight at rest, of those that have gone so long)
NORMAL_MIDDLE = 1.349  # standard deviations that the middle half of a normal distribution is wide
FURTHEST_OUT = 9.0  # standard deviations squared that count: no chain far out decides for all
FORGOTTEN = 0.1  # of a row's correlation over half of the round, surely less: what forgets so soon is not freed slowly


class Settled(Checker):
    """Paired test over chains: does any row, or any direction that moved much, differ between the round's two ends?

    A quantity that still moves makes all its rows untrusted, and those of quantities that share variance with it over chains.
    """

    name = "settled"
    question = "Do the quantities still change between the beginning and the end of the last round?"
    detail = (
        "Directions that moved much are looked at as well. Drifts under 0.03 do not count; up to T the three rows that came "
        "furthest, if further than 1, must not go on by two standard errors (unless chains surely forget them within half of the round), "
        "and up to 2T the eight quantities that came furthest, if further than 1, must not remember so much of their way over half of the "
        "round that it would be 0.05; beyond 2T, where most coordinates came further than 1 in place or in spread, all together must not "
        "go on that way by one and a half standard errors; they are shown "
        "as if at the cutoff. "
        "It names all that is asked of a quantity that moves, quantities that share a tenth of their variance with it, and the rest of an "
        "array of which three quarters do; every one without a bound, if half of them move."
    )
    measures = "standard errors of change within the last round"
    should_be = "below the cutoff of a paired test over chains, 5 % for all together (and up to 7 % for each rule on what came furthest)"
    remedy = MORE_TIME
    silences = Silences.NAMED
    more_iterations = True

    def examine(self, run: Run) -> Check:
        snapshots = run.seen.snapshots
        early, late = _ends(len(snapshots))
        quantities = [snapshot.quantities for snapshot in snapshots]
        pieces = (piece for group in run.questions.groups for piece in group.pieces(PIECE // THREADS))
        parts = in_threads(lambda piece: _moved_within(piece, quantities, early, late), pieces)
        found, kept, drift = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        along = np.stack([snapshot.positions @ run.directions for snapshot in snapshots], axis=1)
        hidden = [gained(along, early, late), gained((along - along.mean(axis=(0, 1))) ** 2, early, late)]
        spread = along[:, 1:].std(axis=(0, 1))
        z, z_hidden = np.abs(found), np.abs([mean_z(more) for more in hidden])
        large_hidden = np.abs([more.mean(axis=0) for more in hidden]) > DRIFT * np.stack([spread, spread**2])
        z, z_hidden = np.where(drift & ~run.momentless, z, 0.0), np.where(large_hidden, z_hidden, 0.0)
        cutoff = float(normal_upper_quantile(TEST_LEVEL / 2 / (z.size + z_hidden.size)))
        surely, at_most = kept
        goes_on = _not_there_yet(run, early, late) & (z > RESTLESS) & (at_most > FORGOTTEN)
        together = run.questions.per_row(_go_on_together(run, early, late).astype(float)) > 0
        stern = goes_on | _has_way_left(run, surely) | together
        z = np.where(stern, np.maximum(z, cutoff * (1 + 1e-9)), z)  # as if at the cutoff, so that one does for all
        moving = z > cutoff
        named = run.tied(moving) | run.tied_to_direction(along[:, -1][:, (z_hidden > cutoff).any(axis=0)])
        named = _with_the_rest_of_their_arrays(run, named)
        # What has a bound has been seen to move; where much moves, the rest must show that it does not.
        if named.mean() > MOST:
            lingers = run.questions.per_row(memory(snapshots[len(snapshots) // 2].quantities, snapshots[-1].quantities))
            named |= (run.judgement.bound == 0) & (lingers > float(chi2_upper_quantile(LINGERING, 1)) / len(snapshots[-1].quantities))
        if moving.mean() > SOME:
            restless = run.questions.per_row(_worst_of_quantity(run, np.abs(found))) > RESTLESS
            named |= (run.judgement.bound == 0) & (restless | (moving.mean() > WIDESPREAD))
        return self.found(
            not (moving.any() or np.any(z_hidden > cutoff)),
            float(max(z.max(), z_hidden.max(initial=0.0))),
            cutoff,
            "this quantity, or one it depends on, was still moving when the chains stopped, "
            "so its bound may be above or below the true error",
            np.flatnonzero(named),
            each=z,
        )


def _moved_within(
    piece: "RowGroup", quantities: list[np.ndarray], early: list[int], late: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each row, its movement within the round in standard errors, what chains remember of it (2, k), and whether anybody cares."""
    window = piece.window(quantities)
    pooled = window[:, 1:].reshape(-1, window.shape[-1])
    score = piece.functional.score(window, pooled)
    more = gained(score, early, late)
    return mean_z(more), remembered(score[:, 1:]), np.abs(more.mean(axis=0)) > DRIFT * score[:, 1:].std(axis=(0, 1))


def _not_there_yet(run: Run, early: list[int], late: list[int]) -> np.ndarray:
    """In the first round, of the rows (a mask) that have come furthest since the start those that still go the same way.

    A scale that the approximation holds too tight is freed slowly, and too few chains show it for a test among hundreds of rows.
    """
    found = np.zeros(len(run.judgement.reference), bool)
    if run.walk.full_rounds > 1:
        return found
    estimates, come = run.summaries[:, 0], _come(run)
    going = estimates[late].mean(axis=0) - estimates[early].mean(axis=0)
    found[np.argsort(-np.abs(come))[:FURTHEST]] = True
    return found & (np.abs(come) > FAR) & (going * come > 0)


def _with_the_rest_of_their_arrays(run: Run, named: np.ndarray) -> np.ndarray:
    """Where nearly all elements of an array move, as factors do that may be turned, the others do so too slowly to be seen."""
    of_two = lambda group: group.functional.label == "covariance"  # noqa: E731
    names = [label if of_two(group) else label.split("[")[0] for group in run.questions.groups for label in group.labels]
    found, arrays = np.unique(names, return_inverse=True)
    if not named.any() or len(found) == 1:  # a vector without names is all that there is
        return named
    share = np.bincount(arrays, named) / np.bincount(arrays)
    return named | (share > MOST)[arrays]


def remembered(score: np.ndarray) -> np.ndarray:
    """What chains surely remember, and may remember, of each row over half of the round, (2, k) of (N, W, k): a correlation, less some
    standard errors and more by as many."""
    half, spread = score.shape[1] // 2, score.std(axis=(0, 1))
    if half == 0:
        return np.stack([np.zeros(score.shape[2]), np.ones(score.shape[2])])
    varies = spread > ROUNDING * np.abs(score).max(axis=(0, 1))
    late = (score - score.mean(axis=(0, 1))) / np.where(varies, spread, np.inf)
    products = (late[:, : late.shape[1] - half] * late[:, half:]).mean(axis=1)
    error = SURE * products.std(axis=0, ddof=1) / np.sqrt(len(products))
    sure, most = products.mean(axis=0) + np.stack([-error, error])
    return np.stack([np.maximum(np.nan_to_num(sure), 0.0), np.nan_to_num(most, nan=1.0)])


def _has_way_left(run: Run, kept: np.ndarray) -> np.ndarray:
    """In the first two rounds, of the quantities that have come furthest the rows (a mask) that have some way left.

    What is slow goes on as slowly as it forgets, and a drift that so slow a quantity has within a round hides in its spread. As much of its
    way as chains remember over half of the round is a rule of thumb for what is left: too much where they forget at an even
    rate, and about right for the scales that we saw stop too soon.
    """
    if run.walk.full_rounds > 2:
        return np.zeros(len(kept), bool)
    come = np.abs(_come(run))
    furthest, far = _worst_of_quantity(run, come), np.zeros(run.seen.snapshots[-1].quantities.shape[1])
    far[np.argsort(-furthest)[:SLOWEST]] = 1.0
    return (run.questions.per_row(far * (furthest > FAR)) > 0) & (come * kept > LEFT)


def _go_on_together(run: Run, early: list[int], late: list[int]) -> np.ndarray:
    """Beyond 2T, a mask of the quantities that came far, if most coordinates did and all together go on the same way.

    Factors of a matrix that may be turned drift so slowly that some rounds show it of none by itself; but they share the way that they
    have come, in place or in spread, and one test along that way each sees it. Noise would go back rather than on, for the way ends
    where the round begins.
    """
    seen = run.seen
    nothing = np.zeros(seen.origin.quantities.shape[1], bool)
    if run.walk.full_rounds <= 2:
        return nothing
    path = np.stack([snapshot.positions for snapshot in seen.snapshots], axis=1)
    ways = _ways(seen.origin.positions, path[:, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        path = np.nan_to_num((path - path[:, 1:].mean(axis=(0, 1))) / path[:, 1:].std(axis=(0, 1)))
    for kind, (way, score) in enumerate(zip(ways, (path, np.minimum(path**2, FURTHEST_OUT)), strict=True)):
        along = gained(score, early, late) @ way
        together = np.mean(np.abs(way) > FAR) > WIDESPREAD and along.mean() > DRIFT * np.abs(way).sum()
        if together and mean_z(along[:, None])[0] > TOGETHER:
            return np.abs(_ways(seen.origin.quantities, seen.snapshots[0].quantities)[kind]) > FAR
    return nothing


def _ways(origin: np.ndarray, begun: np.ndarray) -> np.ndarray:
    """How far each column has come from the start to where the round begins: in standard deviations, and in log variance."""
    (middle, width), (at, wide) = ((half.mean(axis=0), np.ptp(half, axis=0)) for half in (_middle_half(origin), _middle_half(begun)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ways = np.stack([(at - middle) / (wide / NORMAL_MIDDLE), 2 * np.log(wide / width)])
    return np.where(np.isfinite(ways), ways, 0.0)


def _middle_half(values: np.ndarray) -> np.ndarray:
    """Where it begins and ends, of each column (2, k): tails have no say."""
    return np.quantile(values, [0.25, 0.75], axis=0)


def _come(run: Run) -> np.ndarray:
    """How far each row has come since the start, in standard deviations or log variance; 0 where that is unknown or has no moment."""
    unit, reference = run.judgement.unit, run.judgement.reference
    with np.errstate(invalid="ignore", divide="ignore"):
        come = (run.summaries[:, 0].mean(axis=0) - reference) / unit
    return np.where(run.momentless | ~np.isfinite(come) | (unit <= ROUNDING * np.abs(reference)), 0.0, come)


def _worst_of_quantity(run: Run, each: np.ndarray) -> np.ndarray:
    """For each quantity the largest of its rows' values."""
    worst = np.zeros(run.seen.snapshots[-1].quantities.shape[1])
    for group in run.questions.groups:
        mine = each[group.rows]
        np.maximum.at(worst, group.columns, mine if len(mine) == len(group.columns) else np.repeat(mine, 2))
    return worst


def still_moving(checks: Iterable[Check], row: int) -> bool:
    """Whether this check was made and says so of a row."""
    return any(check.name == Settled.name and not check.passed and (check.rows is None or row in check.rows) for check in checks)


def gained(score: np.ndarray, early: list[int], late: list[int]) -> np.ndarray:
    """By each chain, from its early states to its late ones: (N, k) of (N, W, k)."""
    return score[:, late].mean(axis=1) - score[:, early].mean(axis=1)


def _ends(count: int) -> tuple[list[int], list[int]]:
    """The snapshots to compare: the round's first quarter, with its beginning, and its last."""
    quarter = max(1, (count - 1) // 4)
    return list(range(min(quarter + 1, count - 1))), list(range(count - max(quarter, min(2, count - 1)), count))
