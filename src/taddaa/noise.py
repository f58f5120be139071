"""Where the chains' random numbers come from: the host or the devices, in blocks; where they have come to is `state`."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .kernel import Noise
from .placement import Placement


class HostNoise:
    """Random numbers drawn by NumPy in single precision; the fast source for CPUs."""

    def __init__(self, seed: int, place: Placement):
        self._place = place
        self._rng = np.random.Generator(np.random.SFC64(seed))

    @property
    def state(self) -> dict[str, Any]:
        return self._rng.bit_generator.state  # type: ignore[return-value]

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._rng.bit_generator.state = state

    def block(self, length: int, room: int, chains: int, dim: int, uniforms: int) -> Noise:
        """For `length` iterations, in arrays with room for more, so that one compiled program serves all lengths."""
        normal, uniform = np.zeros((room, chains, dim), np.float32), np.zeros((room, chains, uniforms), np.float32)
        accept = np.zeros((room, chains))  # in double precision: a zero would accept anything
        self._rng.standard_normal(dtype=np.float32, out=normal[:length])
        self._rng.random(dtype=np.float32, out=uniform[:length])
        self._rng.random(out=accept[:length])
        noise = Noise(normal, uniform, accept)
        return noise if self._place.mesh is None else Noise(*(self._place.across(part, axis=1) for part in noise))


class DeviceNoise:
    """The same from JAX, for accelerators, where copying from the host would cost more than drawing."""

    def __init__(self, seed: int, place: Placement):
        self._place = place
        self._key = np.asarray(jax.random.key_data(jax.random.key(seed)))  # from the host it goes to all devices of all processes
        self.state = 0  # blocks drawn

    def block(self, length: int, room: int, chains: int, dim: int, uniforms: int) -> Noise:
        self.state += 1
        shapes = (room, chains, dim), (room, chains, uniforms), (room, chains)
        return _device_noise(self._key, np.uint32(self.state), self._place, *shapes)


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _device_noise(key, number, place: Placement, normal, uniform, accept) -> Noise:
    keys = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(key), number), 3)
    noise = Noise(
        jax.random.normal(keys[0], normal, jnp.float32),
        jax.random.uniform(keys[1], uniform, jnp.float32),
        jax.random.uniform(keys[2], accept),
    )
    if not place.padding:
        return place.spread(noise, axis=1)
    last = [(0, 0), (0, place.padding), (0, 0)]
    return place.spread(jax.tree.map(lambda part: jnp.pad(part, last[: part.ndim], mode="edge"), noise), axis=1)
