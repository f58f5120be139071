"""Rows of data spread over all devices, of one process or of several, and summed chunk by chunk.

python regression_sharded.py                                # all devices of this machine
python regression_sharded.py HOST:PORT PROCESSES NUMBER     # in each of several processes, numbered from 0
python regression_sharded.py auto                           # under SLURM, Open MPI or on Cloud TPU, where JAX finds out
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import taddaa

CHUNKS, ROWS = 4, 400  # chunks that each device goes through, and rows of a chunk over all devices


def placed(mesh: Mesh, array: np.ndarray) -> jax.Array:
    """(chunks, rows, …), each device holding its part of every chunk. Read only `index` here if no host can hold it all."""
    sharding = NamedSharding(mesh, PartitionSpec(None, "rows"))
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def problem():
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((CHUNKS, ROWS))
    y = (rng.random((CHUNKS, ROWS)) < 1 / (1 + np.exp(-0.5 - x))).astype(float)

    rows = PartitionSpec(None, "rows")

    @partial(jax.shard_map, mesh=mesh, in_specs=(PartitionSpec(), rows), out_specs=PartitionSpec())
    def loglikelihood(beta, data):
        # What differs between devices must be said to: then their sums are added up once, not after every chunk.
        beta, zero = (jax.lax.pcast(value, "rows", to="varying") for value in (beta, jnp.zeros((), beta.dtype)))

        @jax.checkpoint  # so that gradients keep nothing of a chunk but its sum
        def add(total, chunk):
            logits = beta[0] + beta[1] * chunk["x"]
            return total + jnp.sum(chunk["y"] * logits - jax.nn.softplus(logits)), None

        return jax.lax.psum(jax.lax.scan(add, zero, data)[0], "rows")

    def logdensity(beta, data):
        return loglikelihood(beta, data) - 0.5 * beta @ beta

    data = {"x": placed(mesh, x), "y": placed(mesh, y)}
    target = taddaa.Target(logdensity, dim=2, names=["intercept", "slope"], data=data)
    return target, taddaa.Gaussian([0.6, 0.9], [0.03, 0.065])  # the spread of the intercept is too small


if __name__ == "__main__":
    several = sys.argv[1:]
    if several == ["auto"]:
        jax.distributed.initialize(heartbeat_timeout_seconds=30)
    elif several:
        jax.distributed.initialize(several[0], int(several[1]), int(several[2]), heartbeat_timeout_seconds=30)
    report = taddaa.diagnose(*problem(), checkpoint="run.ckpt" if several else None)
    if several:
        report.to_json("report.json")  # written by the first process only
    if jax.process_index() == 0:
        print(report)
