"""Starts → moved: the one file that batches, loops and compiles.

One compiled program carries all chains through a block of iterations. Random numbers come to it as an argument (on CPU
drawing them on the host is several times faster than on the device, and the next block's are drawn while this one runs),
so progress, settle tests and checkpoints have a natural place between blocks.
"""

import contextlib
import ctypes
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .adapt import adapt_step
from .errors import InputError
from .kernel import Kernel, Noise, Point, metropolis
from .meter import Meter, watch_compiling
from .noise import DeviceNoise, HostNoise
from .placement import Placement
from .precondition import Metric
from .target import Target, call_with_data, first_line, flat_values

BLOCK_ITERATIONS = 40
BLOCK_BYTES = 2**25  # of random numbers, so that memory stays O(N d) in high dimension
LARGE_ARRAYS = 10**6  # numbers, from which freed memory is given back at once
OBSERVE_ROWS = 4096  # draws pushed through the user's functions at a time


class Chains(NamedTuple):
    """All that is carried from one iteration to the next."""

    point: Point  # batched: (N, d), (N,), (N, d), (N, d)
    log_step: Any
    clock: Any  # iterations since the metric last changed
    accepted: Any  # (N,) moves in the latest round
    nonfinite: Any  # (N,) non-finite proposals, ever


class Anchor(NamedTuple):
    """The starts' centre, and the standardised starts, whose product with the states gives their correlation."""

    centre: Any
    starts: Any


class Trace(NamedTuple):
    """What is reported of each iteration, (T,) each; ρ² is the largest over the flat coordinates."""

    rho2: np.ndarray
    acceptance: np.ndarray
    log_step: np.ndarray

    @staticmethod
    def joined(traces: list["Trace"]) -> "Trace":
        return Trace(*(np.concatenate(parts) for parts in zip(*traces, strict=True)))


class Engine:
    """Runs chains of one kernel on one target. Programs are compiled once for a target, kernel and number of chains."""

    def __init__(self, target: Target, kernel: Kernel, chains: int, seed: int, dtype: str, meter: Meter):
        self.target, self.kernel, self.chains, self.meter = target, kernel, chains, meter
        self.dtype = jnp.dtype(dtype)
        self._place = Placement.of(chains, target.data)
        self._noise = HostNoise(seed, self._place) if jax.default_backend() == "cpu" else DeviceNoise(seed, self._place)
        self._data = self._place.data(target.data, self.dtype)
        what = (kernel, self._place)
        self._programs = target.compiled(what, lambda: _programs(target.logdensity, kernel, target.data is not None, self._place))
        self._anchored: tuple[np.ndarray, Anchor] | None = None
        self._block = int(np.clip(BLOCK_BYTES // (4 * chains * (target.dim + kernel.uniforms(target.dim))), 1, BLOCK_ITERATIONS))

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
        chains = self.placed(Chains(Point(starts, value, gradient, gradient), np.log(step), 0.0, zero, zero))
        return self.repoint(chains, metric)

    def repoint(self, chains: Chains, metric: Metric) -> Chains:
        """The same chains under another metric; the step size's clock starts again."""
        with self._watch():
            slope = _pull_all(self._cast_metric(metric), chains.point.gradient)
        return chains._replace(point=chains.point._replace(slope=slope), clock=chains.clock * 0)

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
    def noise_state(self) -> Any:
        """Where the random numbers have come to, between two calls of `advance`."""
        return self._noise.state

    @noise_state.setter
    def noise_state(self, state: Any) -> None:
        self._noise.state = state

    def force(self, gradients: np.ndarray, metric: Metric) -> np.ndarray:
        """The log norm of the whitened gradient of each chain."""
        slope = self.host(_pull_all(self._cast_metric(metric), self._place.across(gradients, self.dtype))).astype(float)
        return np.log(np.maximum(np.linalg.norm(slope, axis=1), np.finfo(float).tiny))

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
        metric, anchor = self._cast_metric(metric), self._anchor(starts)
        traces: list[Trace] = []
        lengths = [self._block] * (iterations // self._block) + [iterations % self._block] * (iterations % self._block > 0)
        noise, done = self._draw(lengths[0]), 0
        for number, length in enumerate(lengths):
            with self._watch():
                chains, trace = self._programs.advance(chains, length, noise, metric, anchor, self._data)
                # The program runs while the next block's random numbers are drawn here.
                noise = self._draw(lengths[number + 1]) if number + 1 < len(lengths) else noise
                traces.append(Trace(*(np.asarray(part, float)[:length] for part in trace)))
            self.meter.gradients += self.chains * length * self.kernel.gradients_per_iteration
            done += length
            if on_block is not None:
                on_block(done, traces[-1])
        return chains, Trace.joined(traces)

    def _draw(self, length: int) -> Noise:
        return self._noise.block(length, self._block, self.chains, self.target.dim, self.kernel.uniforms(self.target.dim))

    def _anchor(self, starts: np.ndarray) -> Anchor:
        """Kept, as a walk asks for it often."""
        if self._anchored is None or self._anchored[0] is not starts:
            centre = starts.mean(axis=0)
            centred = starts - centre
            norm = np.linalg.norm(centred, axis=0)
            standardised = self._place.across(centred / np.where(norm > 0, norm, 1.0), np.float32)
            self._anchored = starts, Anchor(self._place.everywhere(centre, self.dtype), standardised)
        return self._anchored[1]

    def shape_of(self, function: Callable, name: str) -> tuple[int, ...]:
        """The shape of a user's function of the parameters; refused if it cannot be traced or returns nothing."""
        point = jax.ShapeDtypeStruct((self.target.dim,), self.dtype)

        def value(x, data):
            return jnp.asarray(call_with_data(function, self.target.parameters(x, data), data))

        try:
            shape = jax.eval_shape(value, point, self._data).shape
        except Exception as error:
            raise InputError(f"of={name} failed on the parameters: {first_line(error)}; it must be a JAX function of them") from error
        if 0 in shape:
            raise InputError(f"of={name} must return at least one number, got an array of shape {shape}")
        return shape

    def observe(self, draws, functions: tuple[Callable, ...] = ()) -> np.ndarray:
        """The user's parameters, and then the values of `functions` of them, at the rows of `draws`: (n, k)."""
        target = self.target
        if target.constrain is None and not functions:
            return np.asarray(draws, float)
        program = target.compiled(functions, lambda: _observer(target, functions))
        rows = self.chains if len(draws) <= self.chains else OBSERVE_ROWS  # two compiled shapes
        parts = []
        for first in range(0, len(draws), rows):
            part = np.asarray(draws[first : first + rows])
            padded = np.concatenate([part, np.repeat(part[-1:], rows - len(part), axis=0)])
            with self._watch():
                values = program(self._place.across(padded, self.dtype), self._data)
                parts.append(self._place.host(values, len(part)).astype(float))
        return np.concatenate(parts)

    def _watch(self):
        return watch_compiling(self.meter)


@jax.jit
def _pull_all(metric: Metric, gradients):
    return jax.vmap(metric.pull)(gradients)


class _Programs(NamedTuple):
    evaluate: Callable
    advance: Callable


def _programs(logdensity: Callable, kernel: Kernel, has_data: bool, place: Placement) -> _Programs:
    """The compiled programs of a log density and a kernel. The Target keeps them: its second diagnosis compiles nothing."""

    def density(x, data):
        return jnp.asarray(logdensity(x, data) if has_data else logdensity(x), x.dtype)

    @jax.jit
    def evaluate(draws, data):
        return jax.vmap(lambda x: jax.value_and_grad(density)(x, data))(draws)

    @jax.jit
    def advance(chains: Chains, length, noise: Noise, metric: Metric, anchor: Anchor, data):
        dtype = chains.log_step.dtype

        def evaluate_one(x) -> Point:
            if not kernel.uses_gradient:
                return Point(x, density(x, data), jnp.zeros_like(x), jnp.zeros_like(x))
            value, gradient = jax.value_and_grad(density)(x, data)
            return Point(x, value, gradient, metric.pull(gradient))

        def iterate(i, carried):
            chains, trace = carried
            now = jax.tree.map(lambda block: block[i], noise)
            step = jnp.exp(chains.log_step)
            push = lambda z: metric.push(z.astype(dtype))  # noqa: E731
            one = lambda point, noise: metropolis(kernel, point, noise, step, push, evaluate_one)  # noqa: E731
            outcome = jax.vmap(one)(chains.point, now)
            # Chains that started outside the support and have not found it yet say nothing about the step.
            inside = place.weighted(jnp.isfinite(chains.point.logdensity))
            acceptance = jnp.sum(jnp.where(inside, outcome.probability, 0.0)) / jnp.maximum(jnp.sum(inside, dtype=dtype), 1)
            moved = Chains(
                outcome.point,
                adapt_step(chains.log_step, acceptance, chains.clock, kernel.target_acceptance),
                chains.clock + 1,
                chains.accepted + outcome.accepted,
                chains.nonfinite + outcome.nonfinite,
            )
            rho2 = _largest_rho2(moved.point.position, anchor, place)
            told = (rho2, acceptance, chains.log_step)
            return moved, tuple(path.at[i].set(value) for path, value in zip(trace, told, strict=True))

        empty = tuple(jnp.zeros(noise.accept.shape[0], dtype) for _ in Trace._fields)
        chains, trace = jax.lax.fori_loop(0, length, iterate, (chains, place.whole(empty)))
        return chains, place.whole(trace)

    return _Programs(evaluate, advance)


def _largest_rho2(position, anchor: Anchor, place: Placement):
    """The largest squared correlation of a coordinate with its start over the chains, in one pass."""
    shifted = place.weighted(position - anchor.centre)  # near zero, so that the sums below lose no digits that matter
    squares = jnp.sum(shifted**2, axis=0) - jnp.sum(shifted, axis=0) ** 2 / place.chains
    product = jnp.sum(anchor.starts * shifted, axis=0)
    return jnp.max(jnp.where(squares > 0, product**2 / jnp.where(squares > 0, squares, 1.0), 0.0))


def _observer(target: Target, functions: tuple[Callable, ...]) -> Callable:
    @jax.jit
    def observe(draws, data):
        def one(x):
            parameters = target.parameters(x, data)
            values = [jnp.ravel(jnp.asarray(call_with_data(function, parameters, data))) for function in functions]
            return jnp.concatenate([flat_values(parameters), *values])

        return jax.vmap(one)(draws)

    return observe


def return_freed_memory(numbers: int) -> None:
    """Give the system back what large temporary arrays took: the C library keeps those under 32 MB, hundreds of MB in all."""
    if numbers > LARGE_ARRAYS and sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library has no such call
            ctypes.CDLL(None).malloc_trim(0)
