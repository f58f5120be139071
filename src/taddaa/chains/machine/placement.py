"""Where chains and data live: on one device, on all local ones, or on those of several processes.

Chains lie along the mesh axis `chains`. Data that the user has sharded stays as it is, and its mesh is taken over: chains are
spread over its axis `chains` if it has one, and otherwise every device carries them all (for its own part of the data).
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ...errors import InputError, LostProcess
from ...problem.constants import passing
from .threads import one_blas_thread

AXIS = "chains"
STEPWISE_NUMBERS = 4 * 10**4  # in the chains' positions, up to which steps on the host cost less than compiling a loop for them
PYMC_DEVICES = 100  # what PyMC divides a CPU into
# How JAX, its coordination service and the libraries below it (gloo, NCCL, MPI) say that another process is gone.
LOST = re.compile(r"gloo|nccl|\bmpi\b|coordination|heartbeat|connection|peer|unavailable|deadline", re.IGNORECASE)


@dataclass(frozen=True)
class Placement:
    """Puts arrays on devices and brings them back. Without a mesh all is left to JAX's default device.

    Chains that step on the host stay there: compiled functions take NumPy arrays as they are, and putting each away costs more.
    """

    chains: int
    mesh: Mesh | None
    on_host: bool = False

    @classmethod
    def of(cls, chains: int, data: Any) -> "Placement":
        return cls(chains, _mesh_of(data))

    @property
    def shards(self) -> int:
        return 1 if self.mesh is None else self.mesh.shape.get(AXIS, 1)

    @property
    def padding(self) -> int:
        """Rows that begin as copies of the last chain and fill the last devices; they have no weight anywhere."""
        return -self.chains % self.shards

    def across(self, array: Any, dtype: Any = None, axis: int = 0) -> Any:
        """One row a chain along `axis`, spread over the devices; the last row is repeated where devices would be left over."""
        if self.on_host:
            return np.asarray(array, dtype)
        if self.mesh is None:
            return _on_device(array, dtype)
        array = np.asarray(array)
        count = array.shape[axis]
        shape = (*array.shape[:axis], count + -count % self.shards, *array.shape[axis + 1 :])
        return self._put(array, dtype, shape, self._over_chains(axis), axis)

    def everywhere(self, tree: Any, dtype: Any = None) -> Any:
        """The same on every device."""
        if self.on_host:
            return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), tree)
        if self.mesh is None:
            return jax.tree.map(lambda leaf: _on_device(leaf, dtype), tree)
        whole = NamedSharding(self.mesh, PartitionSpec())
        return jax.tree.map(lambda leaf: self._put(np.asarray(leaf), dtype, np.shape(leaf), whole, 0), tree)

    def host(self, array: jax.Array | np.ndarray, count: int | None = None) -> np.ndarray:
        """The first `count` rows (those of the chains) on this host, whichever devices and processes they are on."""
        if isinstance(array, jax.Array) and not array.is_fully_addressable and not array.is_fully_replicated:
            array = multihost_utils.process_allgather(array, tiled=True)
        return np.asarray(array)[: self.chains if count is None else count]

    def data(self, tree: Any, dtype: Any) -> Any:
        """The user's data in the run's precision. What is sharded stays so; the rest goes to every device."""

        def place(leaf):
            kind = dtype if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else None
            if self.mesh is None:
                return _on_device(leaf, kind)
            if _is_sharded(leaf):
                array, mine = jnp.asarray(leaf, kind), NamedSharding(self.mesh, leaf.sharding.spec)
                return array if array.sharding == mine else jax.device_put(array, mine)
            return self.everywhere(leaf, kind)

        return jax.tree.map(place, tree)

    # Inside compiled programs -----------------------------------------------------------------------------------------

    def spread(self, tree: Any, axis: int = 0) -> Any:
        """Tell the compiler that these have one row a chain along `axis`."""
        return tree if self.mesh is None else jax.lax.with_sharding_constraint(tree, self._over_chains(axis))

    def whole(self, tree: Any) -> Any:
        """Tell the compiler that every device needs these."""
        return tree if self.mesh is None else jax.lax.with_sharding_constraint(tree, NamedSharding(self.mesh, PartitionSpec()))

    def _over_chains(self, axis: int) -> NamedSharding:
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, AXIS) if AXIS in self.mesh.shape else PartitionSpec())

    @staticmethod
    def _put(array: np.ndarray, dtype: Any, shape: tuple[int, ...], sharding: NamedSharding, axis: int) -> jax.Array:
        kind = jax.dtypes.canonicalize_dtype(array.dtype if dtype is None else dtype)

        def part(index):
            found = array[index].astype(kind, copy=False)
            if not shape:
                return found
            first, last, _ = index[axis].indices(shape[axis])
            missing = last - first - found.shape[axis]
            if missing:
                filling = np.repeat(array.take([-1], axis).astype(kind), missing, axis)
                found = np.concatenate([found, filling], axis)
            return found

        return jax.make_array_from_callback(shape, sharding, part)


# Several processes --------------------------------------------------------------------------------------------------------


def agreed(tree: Any) -> Any:
    """The first process's numbers: hosts of different makes round differently, and must not part ways over it."""
    return tree if jax.process_count() == 1 else jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(tree))


def refuse_disagreement(inputs: dict[str, Any]) -> None:
    """All processes must be given the same; each learns what differs, before they wait for each other."""
    if jax.process_count() == 1:
        return
    mine = np.array([list(hashlib.sha256(_as_bytes(value)).digest()[:8]) for value in inputs.values()], np.uint8)
    everyone = np.asarray(multihost_utils.process_allgather(mine))
    for number, name in enumerate(inputs):
        others = np.flatnonzero((everyone[:, number] != everyone[0, number]).any(axis=-1))
        if others.size:
            raise InputError(
                f"{name} must be the same in all {len(everyone)} processes, but process {others[0]} has another than process 0; "
                "run the same script with the same seed and files in each"
            )


def description(leaf: Any) -> bytes:
    """What two processes must have in common in a leaf of the data: all of it, or the layout if they share one array."""
    if _is_sharded(leaf):
        return f"{leaf.shape} {leaf.dtype} {leaf.sharding}".encode()
    array = np.asarray(leaf)
    return f"{array.shape} {array.dtype} ".encode() + np.ascontiguousarray(array).tobytes()


def program_text(function: Any, *arguments: Any) -> bytes:
    """What a function computes, as JAX writes it down, and the arrays it closes over."""
    traced = jax.make_jaxpr(passing(function))(*arguments)
    return b" ".join([re.sub(r"0x[0-9a-f]+", "", str(traced.jaxpr)).encode(), *(description(const) for const in traced.consts)])


@contextmanager
def clear_loss() -> Iterator[None]:
    """While open, the many errors by which a lost process shows become one that says so."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if jax.process_count() == 1 or isinstance(error, InputError) or not LOST.search(str(error)):
            raise
        reason = str(error).strip().splitlines()[0][:200]
        raise LostProcess(
            f"process {jax.process_index()} of {jax.process_count()} lost contact with another, which has died or failed ({reason}); "
            "see what that one said, then start all of them again: with checkpoint= they go on where they were"
        ) from error


@contextmanager
def clear_failure() -> Iterator[None]:
    """While open, a program that fails while it runs becomes one sentence: the user's code on the host raised, or memory ran out."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        if "allback" in str(error):
            raise InputError(f"a host callback of logdensity, constrain or a function failed while running: {lines[-1][:200]}") from error
        if "RESOURCE_EXHAUSTED" in str(error):
            raise InputError(f"the device has too little memory: {lines[0][:200]}; ask for fewer chains") from error
        raise


@contextmanager
def computing(precision: str, numbers: int) -> Iterator[None]:
    """JAX as a diagnosis needs it, whatever it is told elsewhere: proposals without a finite density are rejected, not stopped at.

    `numbers` are in the chains' positions.
    """
    blas = one_blas_thread() if numbers <= STEPWISE_NUMBERS else nullcontext()
    with jax.enable_x64(precision == "float64"), jax.debug_nans(False), jax.debug_infs(False), clear_loss(), clear_failure(), blas:
        yield


# The threads of JAX's devices do not live on in a forked process, where programs would wait for them for ever.
_forked_in_use: list[int] = []


def _note_fork() -> None:
    from jax._src import xla_bridge  # there is no public way to ask whether devices are in use without taking them into use

    if getattr(xla_bridge, "backends_are_initialized", lambda: False)():
        _forked_in_use.append(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def refuse_forked() -> None:
    """Say so where JAX would hang."""
    if os.getpid() in _forked_in_use:
        raise InputError(
            "this process was forked from one that had used JAX, whose threads are not here, and would wait for ever; start it anew: "
            "multiprocessing.get_context('spawn'), or 'forkserver' before JAX is used"
        )


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, (list, tuple)):
        return b"|".join(_as_bytes(part) for part in value)
    return description(value) if isinstance(value, np.ndarray) else repr(value).encode()


def _on_device(values: Any, dtype: Any = None) -> jax.Array:
    """On the default one, as a copy. JAX's own `asarray` compiles a program for every new shape of a NumPy array."""
    if isinstance(values, jax.Array) or (dtype is None and not isinstance(values, np.ndarray | np.generic)):
        return jnp.asarray(values, dtype)
    kind = jax.dtypes.canonicalize_dtype(np.asarray(values).dtype if dtype is None else dtype)
    return jax.device_put(np.array(values, kind))  # which may go on using the very memory that it is given


def _is_sharded(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and leaf.committed and len(leaf.sharding.device_set) > 1


def _only_pretended() -> bool:
    """Whether these are PyMC's: where it uses JAX it divides a CPU into 100 devices, for chains of its own.

    They share the cores, and spend their time waiting for each other; a host callback may wait for ever.
    """
    devices = jax.devices()
    return "pymc.sampling.jax" in sys.modules and len(devices) == PYMC_DEVICES and devices[0].platform == "cpu"


def _mesh_of(data: Any) -> Mesh | None:
    """The mesh of the user's sharded data, or one of all devices; None where one device does it all."""
    leaves = [leaf for leaf in jax.tree.leaves(data) if isinstance(leaf, jax.Array) and leaf.committed]
    sharded = [leaf.sharding for leaf in leaves if _is_sharded(leaf)]
    if not sharded:
        # A device that the user has chosen is the only one used.
        chosen = bool(leaves) or jax.config.jax_default_device is not None or _only_pretended()  # type: ignore[attr-defined]
        return None if chosen or jax.device_count() == 1 else Mesh(np.array(jax.devices()), (AXIS,))
    meshes = set()
    for sharding in sharded:
        if not isinstance(sharding, NamedSharding):
            what = type(sharding).__name__
            raise InputError(f"data must be sharded by a jax.sharding.NamedSharding, got a {what}; place it with jax.device_put")
        meshes.add(Mesh(sharding.mesh.devices, sharding.mesh.axis_names))  # of plain axes, whatever kind the user's are
    if len(meshes) > 1:
        raise InputError(f"data must be sharded over one mesh, got arrays on {len(meshes)}; place them on the same one")
    return meshes.pop()
