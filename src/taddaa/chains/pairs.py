"""Pairs of the moved chains, each run until it meets: what they say of the target needs no arrival.

Of all moved chains a random half are X and a random half Y, so that X₀ and Y₀ have the same law whatever the run was like, and whatever
metric and step it has learnt. X goes L iterations ahead; then both move together until they meet, at X_τ = Y_{τ−L}. For every f

    H = mean over k of [ f(X_k) + Σ_{j ≥ 1} f(X_{k+jL}) − f(Y_{k+(j−1)L}) ],    L ≤ k < 2L,

has E H = E_π f exactly (Jacob, O'Leary and Atchadé 2020; Biswas, Jacob and Vanetti 2019); the sum ends where they have met. With a few k
it is a sum over a few states with weights, some of them negative, which add up to one.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from ..formulas.distributions import normal_quantile
from ..moves.coupled import Pair
from ..moves.kernel import MALA, Point
from ..moves.precondition import unpulled, whitened
from .machine.pairing import Frame, PairEngine, Pairs, places
from .walk import Progress, Walk

AHEAD = 4  # X is so many times less ahead than the run was long
STATES = 4  # k at which H is taken,
WINDOW = 2  # in the first of so many parts of the L iterations
MOST_SHARE = 1.0  # of the run's own gradients that pairs may take
LANES = 8  # that pairs are moved in: those that have met make room
PROBES = 3


class Paired(NamedTuple):
    """What pairs saw: states with weights, in the chains' own coordinates and in the user's flat space."""

    positions: np.ndarray  # (P, S, d) where chains walk
    gradients: np.ndarray  # (P, S, d) of the log density there
    places: np.ndarray  # (P, S, d) in the user's flat space
    weights: np.ndarray  # (P, S); each pair's add up to 1
    meeting: np.ndarray  # (P,) iterations that both moved until they met; infinite where they did not
    lag: int  # L
    step: float
    gradients_taken: int


def run_pairs(walks: list[Walk], seed: int, on_progress: Callable[[Progress], None] | None = None) -> Paired:
    """Pairs of the chains of a finished walk; of two arms, if there are two, so that pairs show whether both came to the same place."""
    course = _Course(walks, seed, on_progress)
    course.go_ahead()
    course.take_down(corrects=False)
    while not course.met.all() and course.affordable:
        course.take_down(corrects=True)
    return course.paired()


class _Course:
    """Where the pairs stand, and what was noted of them."""

    def __init__(self, walks: list[Walk], seed: int, on_progress: Callable[[Progress], None] | None):
        walk = walks[0]
        self._walk, self._on_progress, self._meter = walk, on_progress, walk.engine.meter
        self._before = self._meter.gradients
        points = [_chain_points(each, walk) for each in walks]
        point = Point(*(np.concatenate(parts) for parts in zip(*points, strict=True)))
        centre = point.position.mean(axis=0)
        point = point._replace(position=whitened(walk.metric, point.position - centre))
        order = np.random.default_rng([seed, 6]).permutation(len(point.position))
        pairs = min(len(order), len(walk.starts)) // 2
        self._lane = -(-pairs // LANES)
        self.first, self.second = _some(point, order[:pairs]), _some(point, order[pairs : 2 * pairs])
        self.met, self.since = np.zeros(pairs, bool), np.zeros(pairs)
        self.spacing = max(walk.iteration // (AHEAD * STATES * WINDOW), 1)
        self._engine = PairEngine(walk.engine, Frame(walk.metric, centre), [seed, 7])
        self._notes: list[tuple[np.ndarray, float, Point]] = []  # which pairs, weight, states
        self._step = MALA().initial_step(point.position.shape[1])
        self._find_step()

    @property
    def lag(self) -> int:
        return self.spacing * STATES * WINDOW

    @property
    def affordable(self) -> bool:
        return self._meter.gradients - self._before < MOST_SHARE * self._before

    def _find_step(self) -> None:
        """With which trial moves are accepted as often as they should be; acceptance falls about as 2Φ(−c h^{3/2})."""
        wanted = normal_quantile(1 - MALA().target_acceptance / 2)
        self._step = min(self._walk.step_length**2, self._step)
        halves = np.arange(len(self.met)), np.zeros(len(self.met), bool)
        places = _filled(halves[0], self._lane).reshape(-1, self._lane)
        lanes = [Pair(_some(self.first, lane), _some(self.second, lane), halves[1][lane]) for lane in places]
        for _ in range(PROBES):
            acceptance = self._advance(lanes, [self.since[lane] for lane in places], 1, alone=True)[1]
            found = np.clip(normal_quantile(1 - np.clip(acceptance, 1e-6, 1 - 1e-6) / 2), wanted / 8, wanted * 8)
            self._step = float(self._step * (wanted / found) ** (2 / 3))

    def take_down(self, *, corrects: bool) -> None:
        """L iterations on, with notes at each k."""
        for i in range(STATES):
            self.note(corrects=corrects)
            last = i == STATES - 1
            self.go_on(self.spacing * (STATES * (WINDOW - 1) + 1) if last else self.spacing, needed=not (last or corrects))

    def go_ahead(self) -> None:
        """X by itself, L iterations."""
        self._alone(np.arange(len(self.met)), self.lag)

    def go_on(self, iterations: int, *, needed: bool) -> None:
        """X with Y, as far as they have not met; X by itself where it is still `needed`."""
        apart, met = np.flatnonzero(~self.met), np.flatnonzero(self.met)
        if apart.size:
            self._together(apart, iterations)
        if met.size and needed:
            self._alone(met, iterations)

    def _alone(self, which: np.ndarray, iterations: int) -> None:
        """Two X's in the place of each pair."""
        places = _filled(which, 2 * self._lane).reshape(-1, 2, self._lane)
        lanes = [Pair(_some(self.first, one), _some(self.first, other), np.zeros(self._lane, bool)) for one, other in places]
        moved, _ = self._advance(lanes, [np.zeros(self._lane)] * len(lanes), iterations, alone=True)
        for lane, now in zip(places, moved, strict=True):
            _put(self.first, lane[0], now.pair.first)
            _put(self.first, lane[1], now.pair.second)

    def _together(self, which: np.ndarray, iterations: int) -> None:
        places = _filled(which, self._lane).reshape(-1, self._lane)
        lanes = [Pair(_some(self.first, lane), _some(self.second, lane), self.met[lane]) for lane in places]
        moved, _ = self._advance(lanes, [self.since[lane] for lane in places], iterations, alone=False)
        for lane, now in zip(places, moved, strict=True):
            _put(self.first, lane, now.pair.first)
            _put(self.second, lane, now.pair.second)
            self.met[lane[::-1]], self.since[lane[::-1]] = now.pair.met[::-1], now.since[::-1]

    def _advance(self, lanes: list[Pair], since: list[np.ndarray], iterations: int, *, alone: bool) -> tuple[list[Pairs], float]:
        moved, acceptance = self._engine.advance(lanes, since, iterations, self._step, alone=alone)
        if self._on_progress is not None:
            self._on_progress(Progress("coupled pairs", int(np.sum(self.met)), len(self.met), acceptance, np.nan))
        return moved, acceptance

    def note(self, *, corrects: bool) -> None:
        """Take down the states that H is made of: X's, and once these are enough, X's and Y's of pairs that have not met."""
        which = np.flatnonzero(~self.met) if corrects else np.arange(len(self.met))
        self._notes.append((which, 1.0, _some(self.first, which)))
        if corrects:
            self._notes.append((which, -1.0, _some(self.second, which)))

    def paired(self) -> Paired:
        """All that was noted. Pairs with fewer states than others have their first again, with weight zero."""
        pairs, dim = self.first.position.shape
        most = int(np.bincount(np.concatenate([which for which, _, _ in self._notes])).max())
        filled = np.zeros(pairs, int)
        positions, slopes, weights = np.zeros((pairs, most, dim)), np.zeros((pairs, most, dim)), np.zeros((pairs, most))
        for number, (which, weight, states) in enumerate(self._notes):
            if number == 0:
                positions[:], slopes[:] = states.position[:, None], states.slope[:, None]
            place = filled[which]
            positions[which, place], slopes[which, place], weights[which, place] = states.position, states.slope, weight / STATES
            filled[which] += 1
        frame = self._engine.frame
        flat = lambda part: part.reshape(-1, dim)  # noqa: E731
        found = np.asarray(places(frame, flat(positions)), float)
        metric = jax.tree.map(np.asarray, frame.metric)
        walked = np.asarray(frame.centre) + np.asarray(metric.push(flat(positions)))
        gradients = unpulled(metric, flat(slopes))
        return Paired(
            walked.reshape(positions.shape),
            gradients.reshape(positions.shape),
            found.reshape(positions.shape),
            weights,
            np.where(self.met, self.since, np.inf),
            self.lag,
            self._step,
            self._meter.gradients - self._before,
        )


def _chain_points(walk: Walk, first: Walk) -> Point:
    """Chains that have arrived, in the coordinates that those of the first walk walk in; slopes are whitened."""
    last = walk.seen.snapshots[-1]
    return first.engine.entered_points(last.positions, last.logdensity, last.gradients, first.metric)


def _some(point: Point, which) -> Point:
    return Point(*(part[which].copy() for part in point))


def _put(point: Point, which: np.ndarray, new: Point) -> None:
    """Where a chain stands twice, the first counts."""
    for part, values in zip(point, new, strict=True):
        part[which[::-1]] = values[::-1]


def _filled(which: np.ndarray, size: int) -> np.ndarray:
    """To a multiple of `size`, with the first ones again."""
    return np.concatenate([which, np.resize(which, -len(which) % size)])
