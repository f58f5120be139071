"""Pairs of the moved chains, each run until it meets: what they say of the target needs no arrival.

X and Y are random picks of the moved chains, so that X₀ and Y₀ have the same law whatever the run was like, and whatever metric and step
it has learnt. X goes L iterations ahead; then both move together until they meet, at X_τ = Y_{τ−L}. For every f

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
from ..moves.metric import unpulled
from .frozen import Frozen, some
from .machine.meter import Meter
from .walk import Progress, Walk

STATES = 6  # k at which H is taken, at least a segment of the run apart (of 32): X is as many segments ahead
PILOTS = 32  # pairs that tell how long the lag must be,
LAG_LEVEL = 0.9  # so that such a share meets before corrections begin
PILOT_SHARE, MOST_SHARE = 0.25, 2.0  # of the run's own gradients that pilots and pairs may take
LAG_SHARE = 1.25  # of them that may be gone before corrections begin
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


def run_pairs(walks: list[Walk], seed: int, pairs: int, on_progress: Callable[[Progress], None] | None = None) -> Paired:
    """Pairs of the chains of a finished walk; of two arms, if there are two, so that pairs show whether both came to the same place.

    Where most meet late, H is mostly corrections and says little: a few pilots tell how long L must be before any pair is run.
    """
    spent = _Spent(walks[0].engine.meter)
    frozen = Frozen(walks, seed, 7, spent.told_to(on_progress))
    points, chains = frozen.points, len(frozen.points.position)
    pilots = _Course(frozen, spent, points, partners(chains, min(PILOTS, pairs), seed), frozen.spacing)
    course = _Course(frozen, spent, points, partners(chains, pairs, seed), min(pilots.spacing_needed(), spent.longest_spacing(pairs)))
    course.run()
    return course.paired()


class _Spent:
    """Gradients of the run before, and of pairs; and what is told of these."""

    def __init__(self, meter: Meter):
        self._meter, self._before = meter, meter.gradients
        self.met = np.zeros(0, bool)

    @property
    def gradients(self) -> int:
        return self._meter.gradients - self._before

    @property
    def share(self) -> float:
        """Of the gradients of the run before."""
        return self.gradients / max(self._before, 1)

    def pays_for(self, gradients: int) -> bool:
        """Whether so many more may be taken."""
        return self.gradients + gradients <= MOST_SHARE * self._before

    def longest_spacing(self, pairs: int) -> int:
        """Between states, with which X goes ahead and both go as far again: three chains' steps for each pair."""
        return max(1, int((LAG_SHARE * self._before - self.gradients) / (3 * STATES * pairs)))

    def told_to(self, on_progress: Callable[[Progress], None] | None) -> Callable[[float], None]:
        def tell(acceptance: float) -> None:
            if on_progress is not None:
                on_progress(Progress("coupled pairs", int(np.sum(self.met)), len(self.met), acceptance, np.nan))

        return tell


class _Course:
    """Where the pairs stand, and what was noted of them."""

    def __init__(self, frozen: Frozen, spent: _Spent, points: Point, who: tuple[np.ndarray, np.ndarray], spacing: int):
        self._frozen, self._spent, self._spacing = frozen, spent, spacing
        self.first, self.second = (some(points, chains) for chains in who)
        self.met, self.since = np.zeros(len(who[0]), bool), np.zeros(len(who[0]))
        self._notes: list[tuple[np.ndarray, float, Point]] = []  # which pairs, weight, states
        spent.met = self.met

    def run(self) -> None:
        self.first = self._frozen.alone(self.first, self.lag)  # X by itself, L iterations
        self.take_down(corrects=False)
        while not self.met.all() and self.affordable:
            self.take_down(corrects=True)

    def spacing_needed(self) -> int:
        """With which most pairs meet before corrections begin, as far as that can be afforded."""
        while np.mean(self.met) < LAG_LEVEL and self._spent.share < PILOT_SHARE:
            self._go_on(self._spacing, needed=False)
        return max(self._spacing, int(np.ceil(np.quantile(self.since, LAG_LEVEL) / STATES)))

    @property
    def lag(self) -> int:
        return self._spacing * STATES

    @property
    def affordable(self) -> bool:
        noted = sum(len(which) for which, _, _ in self._notes) + len(self.met) * len(self._notes)
        enough_memory = noted * self.first.position.shape[1] < MOST_NUMBERS
        return enough_memory and self._spent.pays_for(self._frozen.gradients_together(int(np.sum(~self.met)), self.lag))

    def take_down(self, *, corrects: bool) -> None:
        """L iterations on, with notes at each k."""
        for i in range(STATES):
            self._note(corrects=corrects)
            self._go_on(self._spacing, needed=not (corrects or i == STATES - 1))

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
            self.met[apart] = moved.met  # in place: progress tells of it

    def _note(self, *, corrects: bool) -> None:
        """Take down the states that H is made of: X's, and once these are enough, X's and Y's of pairs that have not met."""
        which = np.flatnonzero(~self.met) if corrects else np.arange(len(self.met))
        self._notes.append((which, 1.0, some(self.first, which)))
        if corrects:
            self._notes.append((which, -1.0, some(self.second, which)))

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
        noted = np.arange(most) < filled[:, None]
        places = np.tile(self._frozen.places(positions[:, 0])[:, None], (1, most, 1))
        places[noted] = self._frozen.places(positions[noted])
        return Paired(
            walked.reshape(positions.shape),
            gradients.reshape(positions.shape),
            places,
            weights,
            np.where(self.met, self.since, np.inf),
            self.lag,
            self._frozen.step,
            self._spent.gradients,
        )


def partners(chains: int, pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which chains are X and which are Y, in a random order; no chain is both in one pair, and no two pairs are alike."""
    order, turn = np.random.default_rng([seed, 6]).permutation(chains), np.arange(pairs)
    return order[turn % chains], order[(turn + chains // 2 + turn // chains) % chains]


def _put(point: Point, which: np.ndarray, new: Point) -> None:
    for part, values in zip(point, new, strict=True):
        part[which] = values
