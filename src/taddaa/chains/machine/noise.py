"""Where the chains' random numbers come from: the host or the devices, in blocks; where they have come to is `state`."""

from copy import copy
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...formulas.distributions import normal_quantile
from ...moves.kernel import Kernel, Noise
from .groups import Groups
from .placement import Placement

# Normal quantiles, symmetric about 0: a random one is drawn four times as fast as a normal number, and for kernels whose
# proposals are only signs and symmetric increments as good: they leave π invariant with any symmetric noise.
QUANTILES = normal_quantile((np.arange(2**16) + 0.5) / 2**16).astype(np.float32)


class HostNoise:
    """Random numbers drawn by NumPy in single precision, from a source for each group; the fast way for CPUs."""

    def __init__(self, seed: int, groups: Groups, kernel: Kernel, dim: int, place: Placement):
        self._groups, self._kernel, self._dim, self._place = groups, kernel, dim, place
        self._uniforms = kernel.uniforms(dim)
        self._sources = [np.random.Generator(np.random.SFC64(seed)) for seed in np.random.SeedSequence(seed).spawn(groups.count)]

    def under(self, kernel: Kernel) -> "HostNoise":
        """The same numbers onward, as another kernel wants them."""
        other = copy(self)
        other._kernel, other._uniforms = kernel, kernel.uniforms(self._dim)
        return other

    @property
    def state(self) -> list[Any]:
        return [source.bit_generator.state for source in self._sources]

    @state.setter
    def state(self, states: list[Any]) -> None:
        for source, state in zip(self._sources, states, strict=True):
            source.bit_generator.state = state

    def shapes(self, room: int, rows: int) -> Noise:
        """Of a block for `rows` chains. The number for acceptance is in double precision: a zero would accept anything."""
        single = lambda last: jax.ShapeDtypeStruct((room, rows, last), np.dtype(np.float32))  # noqa: E731
        return Noise(single(self._dim), single(self._uniforms), jax.ShapeDtypeStruct((room, rows), np.dtype(np.float64)))

    def of_group(self, group: int, room: int, length: int) -> Noise:
        """For `length` iterations, in arrays with room for more, so that one compiled program serves all lengths."""
        return self._filled(room, length, self._groups.size, {group: slice(0, self._groups.sizes[group])})

    def block(self, room: int, length: int) -> Noise:
        """The same for all chains, where the programs want it."""
        size, chains = self._groups.size, self._groups.chains
        columns = {group: slice(group * size, min((group + 1) * size, chains)) for group in range(self._groups.count)}
        whole = self._filled(room, length, chains, columns)
        return whole if self._place.mesh is None else Noise(*(self._place.across(part, axis=1) for part in whole))

    def _filled(self, room: int, length: int, rows: int, columns: dict[int, slice]) -> Noise:
        noise = Noise(*(np.zeros(part.shape, part.dtype) for part in self.shapes(room, rows)))
        for group, chains in columns.items():
            source = self._sources[group]
            draw_normal = _draw_quantiles if self._kernel.any_symmetric_noise else np.random.Generator.standard_normal
            draws = draw_normal, np.random.Generator.random, np.random.Generator.random
            for draw, array in zip(draws, noise, strict=True):
                part = array[:length, chains]
                drawn = part if part.flags.c_contiguous else np.empty(part.shape, part.dtype)
                draw(source, dtype=drawn.dtype, out=drawn)
                if drawn is not part:
                    part[...] = drawn
        return noise


def _draw_quantiles(source: np.random.Generator, dtype: Any, out: np.ndarray) -> None:
    """In pieces, because NumPy makes wide numbers of the indices."""
    flat = out.reshape(-1)
    for first in range(0, flat.size, 2**18):
        piece = flat[first : first + 2**18]
        np.take(QUANTILES, source.integers(len(QUANTILES), size=piece.size, dtype=np.uint16), out=piece, mode="clip")


class DeviceNoise:
    """The same from JAX, for accelerators, where copying from the host would cost more than drawing."""

    def __init__(self, seed: int, groups: Groups, kernel: Kernel, dim: int, place: Placement):
        self._chains, self._dim, self._uniforms, self._place = groups.chains, dim, kernel.uniforms(dim), place
        self._key = np.asarray(jax.random.key_data(jax.random.key(seed)))  # from the host it goes to all devices of all processes
        self.state = 0  # blocks drawn

    def under(self, kernel: Kernel) -> "DeviceNoise":
        other = copy(self)
        other._uniforms = kernel.uniforms(self._dim)
        return other

    def block(self, room: int, length: int) -> Noise:
        self.state += 1
        shapes = (room, self._chains, self._dim), (room, self._chains, self._uniforms), (room, self._chains)
        return _device_noise(self._key, np.uint32(self.state), self._place, *shapes)


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _device_noise(key, number, place: Placement, normal, uniform, accept) -> Noise:
    keys = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(key), number), 3)
    noise = Noise(
        jax.random.normal(keys[0], normal, jnp.float32),
        jax.random.uniform(keys[1], uniform, jnp.float32),
        jnp.maximum(jax.random.uniform(keys[2], accept), 2.0**-24),  # in single precision a zero is not rare, and accepts anything
    )
    if not place.padding:
        return place.spread(noise, axis=1)
    last = [(0, 0), (0, place.padding), (0, 0)]
    return place.spread(jax.tree.map(lambda part: jnp.pad(part, last[: part.ndim], mode="edge"), noise), axis=1)
