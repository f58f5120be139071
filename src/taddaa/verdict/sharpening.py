"""Plain intervals → sharper ones, where the chains' gradients narrow them: which coordinates, directions and states are used."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..formulas.crossfit import Kernel
from ..formulas.interval import Interval, joined, narrower
from ..formulas.pieces import PIECE, THREADS, in_threads
from ..moves.metric import Bent, Dense, Metric, enter, on_host
from ..problem.functional import Covariance, Mean, Quantile, Variance
from . import lines, stein
from .questions import Questions, RowGroup

if TYPE_CHECKING:
    from ..chains.machine.engine import Engine
    from ..chains.walk import Snapshot, Walk

MOST_NUMBERS = 4 * 10**6  # in the positions used: fewer states of each chain in high dimension
SLOPES_AT, MOST_SLOPES = 16, 4 * 10**6  # states at which quantities' gradients are averaged; numbers in them
MOST_CURVES = 10**8  # numbers in the drivers' slopes at all states
FEWEST_COMMON = 20  # dimensions, from which all quantities share features
MOST_UNBALANCED = 0.05  # of the quantities, from which the forces as a whole are not to be believed


class Evidence:
    """Late states in the coordinates that the chains walk in, each quantity's direction there, and its curve where it has one."""

    def __init__(
        self,
        positions: np.ndarray,
        gradients: np.ndarray,
        metric: Metric,
        coordinates: int,
        directions: np.ndarray,
        weights: np.ndarray | None = None,
        curve: lines.Projection | None = None,
    ):
        self.positions, self.gradients, self.metric = positions, gradients, metric
        self.weights = weights  # of the states (N, W), where they do not count alike
        self.coordinates = coordinates  # so many first quantities are the chains' coordinates themselves
        self.directions = directions  # of the others, (k − coordinates, d)
        self.curve = curve  # of all

    @cached_property
    def kernel(self) -> Kernel | None:
        return stein.kernel_of(self.positions, self.gradients, self.metric, self.weights)

    @cached_property
    def _projection(self) -> lines.Projection:
        # Where states count alike, and no curves gain more; in few dimensions the kernel knows as much.
        common = self.weights is None and self.curve is None and self.positions.shape[2] >= FEWEST_COMMON
        parts = []
        for needed, directions in ((self.coordinates, None), (len(self.directions), self.directions)):
            if needed:
                part = lines.project(self.positions, self.gradients, self.metric, directions)
                parts.append(lines.with_common(part, self.positions, self.gradients, self.metric, directions) if common else part)
        joint = parts[0] if len(parts) == 1 else lines.side_by_side(*parts)
        return joint._replace(curve=self.curve)

    def projection(self, columns: np.ndarray) -> lines.Projection:
        """Of some quantities."""
        return self._projection.of(columns)

    def alignment(self, columns: np.ndarray) -> float:
        """Of two quantities' directions."""
        unit = np.eye(self.positions.shape[2])
        pair = [unit[i] if i < self.coordinates else self.directions[i - self.coordinates] for i in columns]
        return lines.alignment(self.metric, np.stack(pair))

    def prepare(self) -> None:
        """What threads share is made before they begin."""
        _ = self.kernel, self.balanced

    @property
    def believed(self) -> bool:
        """Whether the forces as a whole may be."""
        return bool(np.mean(~self.balanced) <= MOST_UNBALANCED)

    @cached_property
    def balanced(self) -> np.ndarray:
        """Quantities whose features may have mean zero."""
        return stein.balanced(self._projection, self.weights)


def gather(walk: "Walk", questions: Questions) -> Evidence | None:
    """What the latest round offers; None where the forces cannot be believed."""
    seen = walk.seen
    if walk.meets_an_edge:
        return None
    count, dim = seen.origin.positions.shape
    states = int(np.clip(MOST_NUMBERS // (count * dim), 1, questions.states))
    begun, late = seen.snapshots[0], seen.snapshots[1:][-states:]
    first, *rest = [enter(walk.metric, snap.positions, snap.logdensity, np.asarray(snap.gradients, float)) for snap in (begun, *late)]
    positions, gradients = (np.stack([point[part] for point in rest], axis=1) for part in (0, 2))
    if not (np.all(np.isfinite(positions)) and np.all(np.isfinite(gradients))):
        return None
    metric = on_host(Dense(walk.metric.factor) if isinstance(walk.metric, Bent) else walk.metric)
    plain = walk.engine.target.constrain is None and not isinstance(walk.metric, Bent)
    coordinates = dim if plain else 0
    # At the round's beginning, whose states are not judged.
    directions = directions_of(walk.engine, first[0], questions, walk.metric, begun.quantities.shape[1], coordinates)
    # Of straightened coordinates all quantities are curved functions; elsewhere most are straight, and curves gain less than they cost.
    curve = _curve(walk, walk.metric, late, positions, gradients) if isinstance(walk.metric, Bent) else None
    evidence = Evidence(positions, gradients, metric, coordinates, directions, curve=curve)
    return evidence if evidence.believed else None


def directions_of(
    engine: "Engine", positions: np.ndarray, questions: Questions, metric: Metric, count: int, coordinates: int
) -> np.ndarray:
    """The mean gradients of all `count` quantities but the first, which are the coordinates themselves; zero gains nothing."""
    dim = positions.shape[1]
    directions = np.zeros((count - coordinates, dim))
    if count > coordinates and count * dim <= MOST_SLOPES:
        slopes = engine.viewer.slopes(positions[:SLOPES_AT], questions.functions, metric, positions.std(axis=0))
        directions = slopes[coordinates:]
    return np.where(np.isfinite(directions).all(axis=1, keepdims=True), directions, 0.0)


def _curve(walk: "Walk", metric: Bent, late: "Sequence[Snapshot]", positions: np.ndarray, gradients: np.ndarray) -> lines.Projection | None:
    """Of all quantities; zero where there is none, and None where it costs too much.

    Only parameters have one: a user's function may have kinks, at which second derivatives do not tell all.
    """
    values, parameters = np.stack([snapshot.quantities for snapshot in late], axis=1), len(walk.engine.target.labels)
    if positions.size * np.any(metric.bend.select, axis=0).sum() > MOST_CURVES:
        return None
    x, g = (part.reshape(-1, part.shape[2]) for part in (positions, gradients))
    drift, square = np.zeros_like(values), np.zeros_like(values)
    found = walk.engine.viewer.generator(x, g, metric, values[..., :parameters].reshape(len(x), parameters))
    for whole, part in zip((drift, square), found, strict=True):
        whole[..., :parameters] = part.reshape(*values.shape[:2], parameters)
    with np.errstate(all="ignore"):
        curve = lines.project_on_curves(values, drift, square)
        known = np.all(np.isfinite(np.stack(curve[:3])), axis=(0, 1, 2))
        known[known] = stein.balanced(curve.of(known))
    if not known.any():
        return None
    along, force, square = (np.where(known, part, 0.0) for part in curve[:3])
    return lines.Projection(along, force, square)


def sharpened(questions: Questions, late: Sequence[np.ndarray], level: float, plain: list[Interval], evidence: Evidence) -> list[Interval]:
    """For each group the plain interval or, where it is narrower, the sharper one."""
    states = evidence.positions.shape[1]
    evidence.prepare()

    def of_group(known: tuple[RowGroup, Interval]) -> Interval:
        group, plain = known
        with np.errstate(all="ignore"):  # what is not finite falls back to the plain interval
            parts = [interval_of(piece, piece.window(late[-states:]), level, evidence) for piece in group.pieces(PIECE // THREADS)]
        return narrowed(group, plain, joined(parts), evidence)

    return in_threads(of_group, zip(questions.groups, plain, strict=True))


def narrowed(group: RowGroup, plain: Interval, sharp: Interval, evidence: Evidence) -> Interval:
    """The sharper interval of the group's rows whose forces balance and that gain by it, the plain one of the others."""
    usable = group.per_row(~evidence.balanced) == 0
    return narrower(plain, sharp._replace(estimate=np.where(usable, sharp.estimate, np.nan)))


def interval_of(
    group: RowGroup, window: np.ndarray, level: float, evidence: Evidence | None, weights: np.ndarray | None = None
) -> Interval:
    """Of windows (N, W, k) of states with weights; not sharpened where there is no evidence."""
    projection, kernel = (None, None) if evidence is None else (evidence.projection(group.columns), evidence.kernel)
    functional, aligned = group.functional, 0.0
    if isinstance(functional, Mean):
        return stein.mean(window, projection, kernel, level, weights)
    if isinstance(functional, Variance):
        return stein.log_variance(window, projection, kernel, level, weights)
    if isinstance(functional, Quantile):
        return stein.quantile(window, functional.p, projection, kernel, level, weights)
    if isinstance(functional, Covariance):
        aligned = aligned if evidence is None else evidence.alignment(group.columns)
        return stein.covariance(window, projection, kernel, level, aligned, weights)
    return Interval(*np.full((3, len(group.labels)), np.nan))  # a functional of the user's own
