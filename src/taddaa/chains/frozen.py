"""Chains that go on after a run has ended, under the metric it has learnt and a step found once: nothing adapts any more.

They move by MALA in whitened coordinates, singly or in pairs, a lane of pairs at a time through one compiled program.
"""

from collections.abc import Callable

import numpy as np

from ..formulas.distributions import normal_quantile
from ..moves.coupled import Pair
from ..moves.kernel import MALA, Point
from ..moves.metric import entered_point, whitened
from .machine.pairing import Frame, PairEngine, Pairs, places
from .walk import Walk

LANES = 8  # that pairs are moved in, so that those that have met make room
PROBES = 3
SEGMENTS = 32  # of the run, one of which states are taken apart


class Frozen:
    """The moved chains of one or more walks, as points in whitened coordinates, and what carries them on."""

    def __init__(self, walks: list[Walk], seed: int, stream: int, tell: Callable[[float], None]):
        walk = walks[0]
        self.walk, self._tell = walk, tell
        points = [_chain_points(each, walk) for each in walks]
        point = Point(*(np.concatenate(parts) for parts in zip(*points, strict=True)))
        centre = point.position.mean(axis=0)
        self.points = point._replace(position=whitened(walk.metric, point.position - centre))
        self._lane = -(-(len(walk.starts) // 2) // LANES)
        self._engine = PairEngine(walk.engine, Frame(walk.metric, centre), [seed, stream])
        self.step = min(walk.step_length**2, MALA().initial_step(point.position.shape[1]))
        self._find_step()

    @property
    def frame(self) -> Frame:
        return self._engine.frame

    @property
    def spacing(self) -> int:
        """Iterations between states that are kept."""
        return max(self.walk.iteration, self.walk.plan.iterations) // SEGMENTS or 1

    def places(self, positions: np.ndarray) -> np.ndarray:
        """Rows in the user's flat space."""
        return places(self.frame, positions)

    def _find_step(self) -> None:
        """With which trial moves are accepted as often as they should be; acceptance falls about as 2Φ(−c h^{3/2})."""
        wanted = normal_quantile(1 - MALA().target_acceptance / 2)
        lanes = self._singles(some(self.points, slice(0, len(self.walk.starts) // 2)))
        for _ in range(PROBES):
            acceptance = self._engine.advance(lanes, [np.zeros(self._lane)] * len(lanes), 1, self.step, alone=True)[1]
            found = np.clip(normal_quantile(1 - np.clip(acceptance, 1e-6, 1 - 1e-6) / 2), wanted / 8, wanted * 8)
            self.step = float(self.step * (wanted / found) ** (2 / 3))

    def alone(self, points: Point, iterations: int) -> Point:
        """Chains by themselves."""
        lanes = self._singles(points)
        moved = self._advance(lanes, [np.zeros(self._lane)] * len(lanes), iterations, alone=True)
        both = [part for now in moved for part in (now.pair.first, now.pair.second)]
        return Point(*(np.concatenate(parts)[: len(points.position)] for parts in zip(*both, strict=True)))

    def gradients_together(self, pairs: int, iterations: int) -> int:
        """What `together` takes for so many pairs: lanes are full."""
        return 2 * iterations * -(-pairs // self._lane) * self._lane

    def together(self, pair: Pair, since: np.ndarray, iterations: int) -> tuple[Pair, np.ndarray]:
        """Pairs, and for how long each has not met."""
        rows = _filled(len(since), self._lane).reshape(-1, self._lane)
        lanes = [Pair(some(pair.first, row), some(pair.second, row), pair.met[row]) for row in rows]
        moved = self._advance(lanes, [since[row] for row in rows], iterations, alone=False)
        cut = lambda parts: np.concatenate(parts)[: len(since)]  # noqa: E731
        first, second = (Point(*map(cut, zip(*(now.pair[which] for now in moved), strict=True))) for which in (0, 1))
        return Pair(first, second, cut([now.pair.met for now in moved])), cut([now.since for now in moved])

    def _singles(self, points: Point) -> list[Pair]:
        """Two single chains in the place of each pair."""
        rows = _filled(len(points.position), 2 * self._lane).reshape(-1, 2, self._lane)
        return [Pair(some(points, one), some(points, other), np.zeros(self._lane, bool)) for one, other in rows]

    def _advance(self, lanes: list[Pair], since: list[np.ndarray], iterations: int, *, alone: bool) -> list[Pairs]:
        moved, acceptance = self._engine.advance(lanes, since, iterations, self.step, alone=alone)
        self._tell(acceptance)
        return moved


def some(point: Point, which) -> Point:
    """Some of the rows."""
    return Point(*(part[which].copy() for part in point))


def _chain_points(walk: Walk, first: Walk) -> Point:
    """Chains that have arrived, in the coordinates that those of the first walk walk in; slopes are whitened."""
    last = walk.seen.snapshots[-1]
    return entered_point(first.metric, last.positions, last.logdensity, np.asarray(last.gradients, float))


def _filled(count: int, size: int) -> np.ndarray:
    """Numbers of rows to a multiple of `size`, the first ones again at the end."""
    return np.arange(count + -count % size) % count
