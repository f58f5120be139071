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

from ..moves.coupled import Pair
from ..moves.kernel import Point
from ..moves.precondition import unpulled
from .frozen import Frozen, some
from .walk import Progress, Walk

# X is a quarter of the run ahead: STATES · WINDOW of its 32 segments.
STATES = 4  # k at which H is taken,
WINDOW = 2  # in the first of so many parts of the L iterations
MOST_SHARE = 1.0  # of the run's own gradients that pairs may take
MOST_NUMBERS = 2 * 10**7  # in the states that are kept


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
        self._meter, self._on_progress = walks[0].engine.meter, on_progress
        self._before = self._meter.gradients
        self.met = np.zeros(0, bool)
        self._frozen = Frozen(walks, seed, 7, self._tell)
        points = self._frozen.points
        order = np.random.default_rng([seed, 6]).permutation(len(points.position))
        pairs = min(len(order), len(walks[0].starts)) // 2
        self.first, self.second = some(points, order[:pairs]), some(points, order[pairs : 2 * pairs])
        self.met, self.since = np.zeros(pairs, bool), np.zeros(pairs)
        self._notes: list[tuple[np.ndarray, float, Point]] = []  # which pairs, weight, states

    @property
    def lag(self) -> int:
        return self._frozen.spacing * STATES * WINDOW

    @property
    def affordable(self) -> bool:
        noted = sum(len(which) for which, _, _ in self._notes) + len(self.met) * len(self._notes)
        enough_memory = noted * self.first.position.shape[1] < MOST_NUMBERS
        return self._meter.gradients - self._before < MOST_SHARE * self._before and enough_memory

    def go_ahead(self) -> None:
        """X by itself, L iterations."""
        self.first = self._frozen.alone(self.first, self.lag)

    def take_down(self, *, corrects: bool) -> None:
        """L iterations on, with notes at each k."""
        spacing = self._frozen.spacing
        for i in range(STATES):
            self._note(corrects=corrects)
            last = i == STATES - 1
            self._go_on(spacing * (STATES * (WINDOW - 1) + 1) if last else spacing, needed=not (last or corrects))

    def _go_on(self, iterations: int, *, needed: bool) -> None:
        """X with Y, as far as they have not met; X by itself where it is still `needed`."""
        apart, met = np.flatnonzero(~self.met), np.flatnonzero(self.met)
        if met.size and needed:
            _put(self.first, met, self._frozen.alone(some(self.first, met), iterations))
        if apart.size:
            pair = Pair(some(self.first, apart), some(self.second, apart), self.met[apart])
            moved, self.since[apart] = self._frozen.together(pair, self.since[apart], iterations)
            _put(self.first, apart, moved.first)
            _put(self.second, apart, moved.second)
            self.met[apart] = moved.met

    def _note(self, *, corrects: bool) -> None:
        """Take down the states that H is made of: X's, and once these are enough, X's and Y's of pairs that have not met."""
        which = np.flatnonzero(~self.met) if corrects else np.arange(len(self.met))
        self._notes.append((which, 1.0, some(self.first, which)))
        if corrects:
            self._notes.append((which, -1.0, some(self.second, which)))

    def _tell(self, acceptance: float) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress("coupled pairs", int(np.sum(self.met)), len(self.met), acceptance, np.nan))

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
        flat = lambda part: part.reshape(-1, dim)  # noqa: E731
        metric, centre = jax.tree.map(np.asarray, self._frozen.frame)
        walked, gradients = centre + np.asarray(metric.push(flat(positions))), unpulled(metric, flat(slopes))
        return Paired(
            walked.reshape(positions.shape),
            gradients.reshape(positions.shape),
            self._frozen.places(flat(positions)).reshape(positions.shape),
            weights,
            np.where(self.met, self.since, np.inf),
            self.lag,
            self._frozen.step,
            self._meter.gradients - self._before,
        )


def _put(point: Point, which: np.ndarray, new: Point) -> None:
    for part, values in zip(point, new, strict=True):
        part[which] = values
