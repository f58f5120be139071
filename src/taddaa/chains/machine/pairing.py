"""Pairs of chains through compiled blocks of iterations, like `engine` for single ones. Metric and step are frozen."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...moves.coupled import Pair, PairNoise, move_together
from ...moves.kernel import Point
from ...moves.metric import Metric, on_host, places_of
from ...problem.target import Target
from .engine import BLOCK_BYTES, Engine
from .meter import watch_compiling
from .placement import Placement
from .program import evaluated
from .threads import mapping, may_run_twice_at_once

BLOCK_ITERATIONS = 20
# Some iterations have a shorter step: a chain in a narrow part of the target would not leave it with the step that suits the rest.
SHORT, SHORTEST = 0.25, 0.03


class Pairs(NamedTuple):
    """Pairs side by side: (M, d) positions in whitened coordinates, and for how many iterations each has not met."""

    pair: Pair
    since: Any  # (M,)


class Frame(NamedTuple):
    """Whitened coordinates v: a chain's own are centre + C v."""

    metric: Metric
    centre: Any


def places(frame: Frame, positions: np.ndarray) -> np.ndarray:
    """Where chains that stand at the rows of an array are in the user's flat space; on the host."""
    metric = on_host(frame.metric)
    return places_of(metric, np.asarray(frame.centre, float) + metric.push(positions))


def pair_program(target: Target) -> Callable:
    """A block of iterations of pairs, for one log density; it also tells the mean acceptance probability of each iteration."""

    density = target.density

    @jax.jit
    def advance(pairs: Pairs, length, noise: PairNoise, frame: Frame, step, alone, data):
        def evaluate_one(v) -> Point:
            w = frame.centre + frame.metric.push(v)
            point = evaluated(lambda x: jax.value_and_grad(density)(x, data), frame.metric, w)
            return point._replace(position=v, gradient=point.slope)

        def iterate(i, carried):
            pairs, told = carried
            now = jax.tree.map(lambda block: block[i], noise)
            one = lambda pair, noise: move_together(pair, noise, step, alone, jax.vmap(evaluate_one))  # noqa: E731
            moved = jax.vmap(one)(pairs.pair, now)
            since = pairs.since + ~(pairs.pair.met | alone)
            return Pairs(moved.pair, since), told.at[i].set(jnp.mean(moved.probability))

        room = noise.uniform.shape[0]
        return jax.lax.fori_loop(0, length, iterate, (pairs, jnp.zeros(room, pairs.since.dtype)))

    return advance


class PairEngine:
    """Runs lanes of equally many pairs; as many lanes as wanted, in threads where that is safe."""

    def __init__(self, engine: Engine, frame: Frame, seed: Sequence[int]):
        self._engine, self._random = engine, np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
        self.frame: Frame = engine.place.everywhere(frame, engine.dtype)
        self._program = engine.target.compiled("pairs", lambda: pair_program(engine.target))
        self._compiled: dict[int, tuple[Callable, bool]] = {}  # by the number of pairs in a lane

    def advance(
        self, lanes: list[Pair], since: list[np.ndarray], iterations: int, step: float, *, alone: bool
    ) -> tuple[list[Pairs], float]:
        """Carry lanes of pairs (on the host, and back there) through so many iterations; with the mean acceptance probability."""
        place = Placement(len(since[0]), self._engine.place.mesh)
        put = lambda part: place.across(part, None if np.asarray(part).dtype == bool else self._engine.dtype)  # noqa: E731
        carried = [jax.tree.map(put, Pairs(lane, count)) for lane, count in zip(lanes, since, strict=True)]
        acceptance, dim = [], np.shape(lanes[0].first.position)[1]
        room = int(np.clip(BLOCK_BYTES // (16 * place.chains * dim), 1, BLOCK_ITERATIONS))
        for first in range(0, iterations, room):
            length = min(room, iterations - first)
            noise = [self._noise(place, room, length, dim, alone) for _ in lanes]
            with watch_compiling(self._engine.meter):
                moved = self._run(place, carried, length, noise, step, alone)
            carried = [pairs for pairs, _ in moved]
            acceptance.append(np.mean([np.asarray(told)[:length] for _, told in moved]))
            self._engine.meter.gradients += 2 * place.chains * len(lanes) * length
        back = [jax.tree.map(place.host, pairs) for pairs in carried]
        return back, float(np.mean(acceptance))

    def _run(self, place: Placement, carried: list[Pairs], length: int, noise: list[PairNoise], step: float, alone: bool) -> list:
        fixed = (self.frame, jnp.asarray(step, self._engine.dtype), jnp.asarray(alone), self._engine.data)
        if place.mesh is not None:
            return [self._program(pairs, length, now, *fixed) for pairs, now in zip(carried, noise, strict=True)]
        if place.chains not in self._compiled:
            program = self._program.lower(carried[0], length, noise[0], *fixed).compile()
            self._compiled[place.chains] = program, may_run_twice_at_once(program.as_text())
        program, safe = self._compiled[place.chains]
        with mapping(len(carried) if safe else 1) as each:
            return each(
                lambda lane: jax.block_until_ready(program(lane[0], length, lane[1], *fixed)), list(zip(carried, noise, strict=True))
            )

    def _noise(self, place: Placement, room: int, length: int, dim: int, alone: bool) -> PairNoise:
        """Normal numbers in double precision: the proposals' density is used. What is the second's own is drawn where it walks alone."""
        used = 2 if alone else 1
        normal, accept = np.zeros((room, place.chains, 2, dim), self._engine.dtype), np.ones((room, place.chains, 2), self._engine.dtype)
        normal[:length, :, :used] = self._random.standard_normal((length, place.chains, used, dim))
        accept[:length, :, :used] = self._random.random((length, place.chains, used))
        uniform = np.ones((room, place.chains), self._engine.dtype)
        uniform[:length] = 1 - self._random.random((length, place.chains))  # its logarithm is taken
        scale = np.ones((room, place.chains), self._engine.dtype)
        short = self._random.random((length, place.chains)) < SHORT
        scale[:length] = np.where(short, SHORTEST ** self._random.random((length, place.chains)), 1.0)
        return PairNoise(*(place.across(part, axis=1) for part in (normal, uniform, scale, accept)))
