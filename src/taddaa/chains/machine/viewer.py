"""What the user sees of states: parameters on their own scale and functions of them, their shapes and their derivatives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError
from ...moves.generator import of_places
from ...moves.metric import Bent, Metric, places_of
from ...problem.constants import afresh, with_own_constants
from ...problem.target import Target, call_with_data, first_line
from .meter import Meter, watch_compiling
from .placement import Placement
from .program import observer

SLOPE_NUMBERS = 10**6  # that slopes are taken from, and at a time
SWAPS = 2  # times that states are mixed, to see what parameters depend on


@dataclass(frozen=True, eq=False)
class Viewer:
    """Evaluates the user's functions where the chains are. Programs are compiled once for a target and its functions."""

    target: Target
    chains: int
    place: Placement
    data: Any
    dtype: Any
    meter: Meter

    def shape_of(self, function: Callable, name: str) -> tuple[int, ...]:
        """The shape of a user's function of the parameters; refused if it cannot be traced or returns nothing."""
        point = jax.ShapeDtypeStruct((self.target.dim,), self.dtype)

        def value(x, data):
            return with_own_constants(lambda x, data: call_with_data(function, self.target.parameters(x, data), data))(x, data)

        try:
            found = afresh(lambda: jax.eval_shape(value, point, self.data))
        except (Exception, SystemExit) as error:
            raise InputError(f"of={name} failed on the parameters: {first_line(error)}; it must be a JAX function of them") from error
        if 0 in found.shape:
            raise InputError(f"of={name} must return at least one number, got an array of shape {found.shape}")
        if jnp.issubdtype(found.dtype, jnp.complexfloating):
            raise InputError(f"of={name} must return real numbers, got {found.dtype}; take jnp.real, jnp.imag or jnp.abs of it")
        return found.shape

    def observe(self, draws, functions: tuple[Callable, ...] = ()) -> np.ndarray:
        """The user's parameters, and then the values of `functions` of them, at the rows of `draws`: (n, k)."""
        target = self.target
        if target.constrain is None and not functions:
            return np.asarray(draws, float)
        program = target.compiled(functions, lambda: observer(target, functions))
        rows = self.chains  # at a time, as many as the chains are: one compiled shape
        parts = []
        for first in range(0, len(draws), rows):
            part = np.asarray(draws[first : first + rows])
            padded = np.concatenate([part, np.repeat(part[-1:], rows - len(part), axis=0)])
            with watch_compiling(self.meter):
                values = program(self.place.across(padded, self.dtype), self.data)
                parts.append(self.place.host(values, len(part)).astype(float))
        return np.concatenate(parts)

    def slopes(self, positions: np.ndarray, functions: tuple[Callable, ...], metric: Metric, spread: np.ndarray) -> np.ndarray:
        """The mean gradient (k, d) of the user's parameters, and then of `functions` of them, over the rows of `positions`.

        Both are in the coordinates that the chains walk in, over which they are `spread` (d,). By central differences, to half the
        digits: nothing is compiled for them, and code on the host has them too.
        """
        dim = positions.shape[1]
        step = np.finfo(self.dtype).eps ** (1 / 3) * np.where(spread > 0, spread, 1.0)
        width = self.observe(places_of(metric, positions[:1]), functions).shape[1]
        states = positions[: max(1, SLOPE_NUMBERS // (dim * max(dim, width)))]  # fewer where each costs much
        at_once = max(1, SLOPE_NUMBERS // max(dim, width))  # coordinates
        total = np.zeros((dim, width))
        with np.errstate(all="ignore"):  # slopes that are not finite are not used
            for state in states:
                for first in range(0, dim, at_once):
                    part = np.arange(first, min(first + at_once, dim))
                    way = np.zeros((len(part), dim))
                    way[np.arange(len(part)), part] = step[part]
                    seen = self.observe(places_of(metric, np.concatenate([state + way, state - way])), functions)
                    total[part] += (seen[: len(part)] - seen[len(part) :]) / (2 * step[part, None])
        return total.T / len(states)

    def generator(self, w: np.ndarray, gradients: np.ndarray, metric: Bent, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∇·(G∇f) + ∇f·G∇log π and ∇f·G∇f (n, k) of the user's parameters, whose values are known, where chains stand at `w`.

        NaN for a parameter that is a function of several of the flat coordinates. Of a function of one, derivatives are differences.
        """
        drift, square = of_places(metric.bend, np.asarray(metric.factor, float), w, gradients)
        if self.target.constrain is None:
            return drift, square
        x = places_of(metric, w)
        own, alone = self._own_coordinates(x, values)
        step = np.finfo(self.dtype).eps ** (1 / 4) * x.std(axis=0)
        low, high, h = self.observe(x - step), self.observe(x + step), step[own]
        with np.errstate(all="ignore"):
            slope, bend, known = (high - low) / (2 * h), (high - 2 * values + low) / h**2, np.where(alone, 1.0, np.nan)
            return known * (slope * drift[:, own] + bend * square[:, own]), known * slope**2 * square[:, own]

    def _own_coordinates(self, x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each of the user's parameters, with these values at the states `x`, a flat coordinate, and whether it depends on no other."""
        at = self.observe(np.concatenate([x[:1], x[0] + np.diag(x.std(axis=0))]))
        own = np.abs(at[1:] - at[0]).argmax(axis=0)
        alone, rng, size = np.ones(values.shape[1], bool), np.random.default_rng(0), np.ptp(values, axis=0)
        for _ in range(SWAPS):  # states made of coordinates of two others: a parameter has the value of the one that has its own
            order, first = rng.permutation(len(x)), rng.random(x.shape) < 0.5
            mixed = self.observe(np.where(first, x, x[order]))
            expected = np.where(np.take_along_axis(first, np.broadcast_to(own, values.shape), axis=1), values, values[order])
            alone &= np.all(np.abs(mixed - expected) <= self._alike * size, axis=0)
        return own, alone

    @property
    def _alike(self) -> float:
        """Values that differ by less, as a part of their range, differ by rounding."""
        return float(np.finfo(self.dtype).eps ** 0.6)
