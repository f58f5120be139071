"""Starts → moved: runs the programs, block after block.

One program carries chains through a block of iterations: by steps on the host where they are few, else in a compiled loop, of all of
them or on a CPU of each group in a thread of its own.
Random numbers come to it as an argument (on CPU drawing them on the host is several times faster than on the device, and the
next block's are drawn while this one runs), so progress, settle tests and checkpoints have a natural place between blocks.
"""

import contextlib
import ctypes
import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...moves.kernel import Kernel, Noise, Point
from ...moves.metric import Bent, Metric, entered_point, leave
from ...problem.target import Target
from .cache import cache_if_asked
from .groups import Groups
from .meter import Meter, watch_compiling
from .noise import DeviceNoise, HostNoise
from .placement import STEPWISE_NUMBERS, Placement
from .program import Anchor, Chains, Programs, Told, programs_of, slopes_under, stepwise_programs_of
from .threads import mapping, may_run_twice_at_once
from .viewer import Viewer

BLOCK_ITERATIONS = 40
# Numbers in the largest array of an evaluation, up to which steps on the host do: the C library asks the system for larger ones anew
# each time, which takes as long as the evaluation itself.
STEPWISE_ARRAY = 2 * 10**6
BLOCK_BYTES = 2**26  # of random numbers in a block, of which two are held: memory stays O(N d) in high dimension
LARGE_ARRAYS = 10**6  # numbers, from which freed memory is given back at once
THREADS_NUMBERS = 3 * 10**5  # in the chains' positions, up to which groups run in threads; larger programs fill all cores by themselves
THREADS_OPERATIONS = 10**5  # in the gradients of all chains, below which threads cost more than they save


class Trace(NamedTuple):
    """What is reported of each iteration, (T,) each; ρ² is the largest over the flat coordinates."""

    rho2: np.ndarray
    acceptance: np.ndarray
    log_step: np.ndarray

    @staticmethod
    def joined(traces: list["Trace"]) -> "Trace":
        return Trace(*(np.concatenate(parts) for parts in zip(*traces, strict=True)))


@dataclass
class _Lane:
    """Chains that go through one program, with what belongs to them."""

    chains: Chains
    anchor: Anchor
    membership: Any  # of its rows in its groups
    draw: Callable[[int], Noise]
    noise: Noise | None = None  # drawn ahead


class Engine:
    """Runs chains of one kernel on one target. Programs are compiled once for a target, kernel and number of chains."""

    def __init__(self, target: Target, kernel: Kernel, chains: int, seed: int, dtype: str, meter: Meter, groups: int):
        cache_if_asked()
        self.target, self.kernel, self.chains, self.meter = target, kernel, chains, meter
        self.dtype = jnp.dtype(dtype)
        self._place = Placement.of(chains, target.data)
        self._groups = Groups.of(chains, groups)
        source = HostNoise if jax.default_backend() == "cpu" else DeviceNoise
        self._noise = source(seed, self._groups, kernel, target.dim, self._place)
        self._data = self._place.data(target.data, self.dtype)
        alone = self._place.mesh is None and jax.default_backend() == "cpu"
        few = alone and chains * target.dim <= STEPWISE_NUMBERS
        self._short = kernel.stepwise and few and chains * target.check() <= STEPWISE_ARRAY
        self._step_if_possible()
        self.viewer = Viewer(target, chains, self._place, self._data, self.dtype, meter)
        self._programs = self._compiled(kernel)
        self._safe: dict[Any, bool] = {}  # by kind of metric, whether programs may run side by side
        self._anchored: tuple[np.ndarray, list[Anchor]] | None = None
        self._block = self._block_of(kernel)

    def under(self, kernel: Kernel) -> "Engine":
        """The same for chains that go over to another kernel."""
        other = copy(self)
        other.kernel = kernel
        other._step_if_possible()
        other._noise, other._block = self._noise.under(other.kernel), self._block_of(other.kernel)
        other._programs, other._safe = self._programs._replace(advance=other._compiled(other.kernel).advance), {}
        return other

    def _step_if_possible(self) -> None:
        self._stepwise = self._short and _can_step(self.kernel)
        self._place = replace(self._place, on_host=self._stepwise)

    def _compiled(self, kernel: Kernel) -> Programs:
        target, place = self.target, self._place
        if self._stepwise:
            return stepwise_programs_of(target, kernel)
        return target.compiled((kernel, place), lambda: programs_of(target, kernel, place))

    def _block_of(self, kernel: Kernel) -> int:
        """Iterations in a block."""
        numbers = self.chains * (self.target.dim + kernel.uniforms(self.target.dim))
        return int(np.clip(BLOCK_BYTES // (4 * numbers), 1, BLOCK_ITERATIONS))

    def evaluate(self, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities and gradients at the rows of `draws`, `chains` rows at a time (one compiled program)."""
        values, gradients = [], []
        for first in range(0, len(draws), self.chains):
            rows = draws[first : first + self.chains]
            padded = np.concatenate([rows, np.repeat(rows[-1:], self.chains - len(rows), axis=0)])
            with self._watch():
                value, gradient = self._programs.evaluate(self._place.across(padded, self.dtype), self._data)
                values.append(self._place.host(value, len(rows)))
                gradients.append(self._place.host(gradient, len(rows)))
        self.meter.gradients += len(draws)
        return np.concatenate(values), np.concatenate(gradients)

    def start(self, starts: np.ndarray, metric: Metric, step: float) -> Chains:
        """Chains at their starts; a non-finite gradient there is replaced by zero, so that the chain may still leave."""
        value, gradient = self.evaluate(starts)
        value = np.where(np.isnan(value), -np.inf, value)
        gradient = np.where(np.isfinite(gradient).all(axis=1, keepdims=True) & np.isfinite(value)[:, None], gradient, 0.0)
        zero = np.zeros(len(starts))
        chains = self.placed(Chains(Point(starts, value, gradient, gradient), zero + np.log(step), 0.0, zero, zero))
        return self.repoint(chains, None, metric)

    def repoint(self, chains: Chains, old: Metric | None, new: Metric) -> Chains:
        """The same chains under another metric; the step size's clock starts again."""
        point = chains.point if old is None else self._left(old, chains.point)
        if isinstance(new, Bent) or self._stepwise:
            point = self._on_host(entered_point, new, point)
        else:
            with self._watch():
                point = point._replace(slope=slopes_under(self._cast_metric(new), point.gradient))
            # While a program runs, JAX starts the next in another thread, where code of the user's on the host finds other settings.
            jax.block_until_ready(point)
        return chains._replace(point=point, clock=self._place.everywhere(0.0, self.dtype))

    def with_steps(self, chains: Chains, log_step: np.ndarray | float) -> Chains:
        """The same chains with these steps."""
        return chains._replace(log_step=self._place.across(np.full(self.chains, log_step), self.dtype))

    def counting_anew(self, chains: Chains) -> Chains:
        """The same chains at the beginning of a round."""
        return chains._replace(accepted=self._place.across(np.zeros(self.chains), self.dtype))

    def flat(self, chains: Chains, metric: Metric) -> Point:
        """Where the chains are in the user's flat space."""
        return self._left(metric, chains.point)

    def _left(self, metric: Metric, point: Point) -> Point:
        return self._on_host(leave, metric, point) if isinstance(metric, Bent) else point

    def _on_host(self, change: Callable[..., Sequence[np.ndarray]], metric: Metric, point: Point) -> Point:
        """All chains in other coordinates, by NumPy, and back on the devices; without a slope there, the gradient stands for it."""
        with np.errstate(all="ignore"):  # what is not finite stays so
            changed = change(metric, *(self.host(part).astype(float) for part in point[:3]))
            return Point(*(self._place.across(part, self.dtype) for part in (*changed, changed[2])[:4]))

    def fetched(self, chains: Chains) -> Chains:
        """The chains as NumPy arrays on the host."""
        return jax.tree.map(lambda part: np.asarray(part) if part.ndim == 0 else self.host(part), chains)

    def placed(self, chains: Chains) -> Chains:
        """Chains from the host, where the programs want them."""
        put = lambda part: (self._place.across if np.ndim(part) else self._place.everywhere)(part, self.dtype)  # noqa: E731
        return jax.tree.map(put, chains)

    def host(self, array: Any) -> np.ndarray:
        """An array with one row a chain, on the host."""
        return self._place.host(array)

    @property
    def place(self) -> Placement:
        """On which devices the chains live."""
        return self._place

    @property
    def data(self) -> Any:
        """The user's data there, in the run's precision."""
        return self._data

    @property
    def noise_state(self) -> Any:
        """Where the random numbers have come to, between two calls of `advance`."""
        return self._noise.state

    @noise_state.setter
    def noise_state(self, state: Any) -> None:
        self._noise.state = state

    @property
    def noise_source(self) -> str:
        """Two sources do not give the same numbers."""
        return "a device" if isinstance(self._noise, DeviceNoise) else "the host"

    def _cast_metric(self, metric: Metric) -> Metric:
        return self._place.everywhere(metric, self.dtype)

    def advance(
        self,
        chains: Chains,
        metric: Metric,
        starts: np.ndarray,
        iterations: int,
        on_block: Callable[[int, Trace], None] | None = None,
    ) -> tuple[Chains, Trace]:
        """Carry all chains through `iterations` iterations."""
        metric, lanes = self._cast_metric(metric), self._lanes(chains, starts)
        del chains  # not kept here as well
        program, threads = self._program(lanes, metric)
        lengths = [self._block] * (iterations // self._block) + [iterations % self._block] * (iterations % self._block > 0)
        traces: list[Trace] = []
        done = 0
        with mapping(threads) as each:
            for length, following in zip(lengths, [*lengths[1:], 0], strict=True):
                with self._watch():
                    told = each(lambda lane: self._run(program, lane, metric, length, following), lanes)
                traces.append(self._trace(told))
                self.meter.gradients += self.chains * length * self.kernel.gradients_per_iteration
                done += length
                if on_block is not None:
                    on_block(done, traces[-1])
        return self._joined(lanes), Trace.joined(traces)

    def _run(self, program: Callable, lane: _Lane, metric: Metric, length: int, following: int) -> Told:
        """One block of a lane."""
        noise = lane.draw(length) if lane.noise is None else lane.noise
        lane.chains, told = program(lane.chains, length, noise, metric, lane.anchor, lane.membership, self._data)
        lane.noise = lane.draw(following) if following else None  # while a compiled program runs
        return Told.read(np.asarray(told, float)[:length])

    @cached_property
    def _apart(self) -> bool:
        """Whether each group is a program of its own, and not one program does it all."""
        large = self.chains * self.target.dim > THREADS_NUMBERS
        if self._stepwise or self._groups.count == 1 or self._place.mesh is not None or isinstance(self._noise, DeviceNoise) or large:
            return False
        draws = jax.ShapeDtypeStruct((self.chains, self.target.dim), self.dtype)
        with self._watch():
            gradients = self._programs.evaluate.lower(draws, self._data)
        operations = (gradients.cost_analysis() or {}).get("flops", np.inf)
        return operations >= THREADS_OPERATIONS and may_run_twice_at_once(gradients.as_text())

    def _lanes(self, chains: Chains, starts: np.ndarray) -> list[_Lane]:
        """One for all chains, or one for each group."""
        groups, anchors = self._groups, self._anchors(starts)
        if not self._apart:
            membership = groups.membership(self.chains + self._place.padding).astype(self.dtype)
            return [_Lane(chains, anchors[0], self._place.across(membership, axis=1), partial(self._noise.block, self._block))]
        assert isinstance(self._noise, HostNoise)
        leaves, structure = jax.tree.flatten(self.fetched(chains))
        parts = zip(*(groups.split(rows) if rows.ndim else [rows] * groups.count for rows in leaves), strict=True)
        return [
            _Lane(
                jax.tree.unflatten(structure, part),
                anchors[group],
                Groups(groups.sizes[group], 1).membership(groups.size).astype(self.dtype),
                partial(self._noise.of_group, group, self._block),
            )
            for group, part in enumerate(parts)
        ]

    def _joined(self, lanes: list[_Lane]) -> Chains:
        if not self._apart:
            return lanes[0].chains
        join = lambda *parts: np.concatenate(parts)[: self.chains] if parts[0].ndim else parts[0]  # noqa: E731
        return self.placed(jax.tree.map(join, *(lane.chains for lane in lanes)))

    def _program(self, lanes: list[_Lane], metric: Metric) -> tuple[Callable, int]:
        """What carries a lane through a block, and in how many threads: it is compiled here and not in each."""
        if not self._apart:
            return self._programs.advance, 1
        assert isinstance(self._noise, HostNoise)
        lane, noise, kind = lanes[0], self._noise.shapes(self._block, self._groups.size), jax.tree.structure(metric)
        arguments = (lane.chains, self._block, noise, metric, lane.anchor, lane.membership, self._data)
        with self._watch():
            program = self._programs.advance.lower(*arguments).compile()
        if kind not in self._safe:  # a user's metric may call libraries too
            self._safe[kind] = may_run_twice_at_once(program.as_text())
        return program, len(lanes) if self._safe[kind] else 1

    def _trace(self, lanes: list[Told]) -> Trace:
        told = Told(*(np.sum(parts, axis=0) for parts in zip(*lanes, strict=True)))
        acceptance = told.probability / np.maximum(told.inside, 1)
        return Trace(_largest_rho2(told.moments, self.chains), acceptance, told.log_step / self.chains)

    def _anchors(self, starts: np.ndarray) -> list[Anchor]:
        """One a lane. Kept, as a walk asks for them often."""
        if self._anchored is None or self._anchored[0] is not starts:
            middle = starts.mean(axis=0)
            centred = starts - middle
            norm = np.linalg.norm(centred, axis=0)
            standardised = (centred / np.where(norm > 0, norm, 1.0)).astype(np.float32)
            # Rows that are no chains are zero, and so are in no sum.
            rows = self._groups.count * self._groups.size if self._apart else self.chains + self._place.padding
            padded = np.concatenate([standardised, np.zeros((rows - self.chains, starts.shape[1]), np.float32)])
            parts = np.split(padded, self._groups.count) if self._apart else [padded]
            centre = self._place.everywhere(middle, self.dtype)
            self._anchored = starts, [Anchor(centre, self._place.across(part)) for part in parts]
        return self._anchored[1]

    def _watch(self):
        return watch_compiling(self.meter)


def _can_step(kernel: Kernel) -> bool:
    """On the host: for all chains at once, and with gradients, which are evaluated there with every density."""
    return kernel.rowwise and kernel.uses_gradient


def _largest_rho2(moments: np.ndarray, chains: int) -> np.ndarray:
    """The largest squared correlation of a coordinate with its start over all chains, in each iteration."""
    total, squares, product = np.moveaxis(moments, 1, 0)
    squares = squares - total**2 / chains
    return np.max(np.where(squares > 0, product**2 / np.where(squares > 0, squares, 1.0), 0.0), axis=1)


def return_freed_memory(numbers: int) -> None:
    """Give the system back what large temporary arrays took: the C library keeps those under 32 MB, hundreds of MB in all."""
    if numbers > LARGE_ARRAYS and sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library has no such call
            ctypes.CDLL(None).malloc_trim(0)
