"""Diagnoses that must not depend on how many devices there are. As a script: run them, store reports and facts in a folder.

`tests/test_placement.py` runs it on one device and on four, in processes of their own.
"""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import taddaa.chains.machine.engine
from known import gaussian_logdensity, paper_gaussian
from taddaa import HMC, RWMH, Barker, Gaussian, InputError, Mean, Settings, Target, Variance, diagnose
from taddaa.chains.machine.engine import Engine
from taddaa.chains.machine.groups import Groups
from taddaa.chains.machine.meter import Meter
from taddaa.chains.machine.noise import DeviceNoise
from taddaa.chains.machine.placement import Placement
from taddaa.cli.problem_file import load_problem
from taddaa.moves.metric import Dense

EXAMPLES = Path(__file__).parents[1] / "examples"
DIM, ROWS = 3, 400
_, PRECISION, SD = paper_gaussian(DIM)
APPROXIMATION = Gaussian(np.zeros(DIM), 0.5 * SD)
X = np.random.default_rng(0).standard_normal((ROWS, DIM))
Y = (np.random.default_rng(1).random(ROWS) < 0.7).astype(float)


def logistic(x, data):
    logit = data["x"] @ x
    return jnp.sum(data["y"] * logit - jnp.logaddexp(0.0, logit)) - 0.5 * x @ x


def positive(x):
    return {"scale": jnp.exp(x[0]), "rest": x[1:]}


def total(parameters):
    return parameters["scale"] + parameters["rest"].sum()


def settings(chains, **more):
    return Settings(**{"chains": chains, "iterations": 24, "budget": 2, **more})


def half_space(x):
    """Half of the starts are outside, and some proposals leave: counts must not see the padding."""
    return jnp.where(x[0] > 0, -0.5 * jnp.sum(x**2), -jnp.inf)


def host_gaussian(rows):
    return -0.5 * np.einsum("ni,ij,nj->n", rows, PRECISION, rows), -rows @ PRECISION


def plain(kernel):
    """121 chains, which no two devices share evenly."""
    return diagnose(Target(gaussian_logdensity, DIM, data=PRECISION), APPROXIMATION, settings=settings(121, kernel=kernel))


def resumed(checkpoint: Path):
    """One device walks the first round and saves it; four go on from there to what one would have come to."""
    target = Target(gaussian_logdensity, DIM, data=PRECISION)
    slow = settings(121, kernel=RWMH(), preconditioner="identity", iterations=8)
    if jax.device_count() == 1:
        diagnose(target, APPROXIMATION, settings=replace(slow, budget=1), checkpoint=checkpoint)
        return diagnose(target, APPROXIMATION, settings=slow)
    return diagnose(target, APPROXIMATION, settings=slow, checkpoint=checkpoint)


def with_the_noise_of_accelerators():
    host, taddaa.chains.machine.engine.HostNoise = taddaa.chains.machine.engine.HostNoise, DeviceNoise
    try:
        return plain(Barker())
    finally:
        taddaa.chains.machine.engine.HostNoise = host


def on_the_users_scale():
    target = Target(gaussian_logdensity, DIM, data=PRECISION, constrain=positive)
    asked = [Mean(), Variance(), Mean(of=total)]
    return diagnose(target, APPROXIMATION, asked, settings(64), seed=3, other_starts="inflated")


def outside():
    return diagnose(half_space, Gaussian(np.zeros(DIM), np.ones(DIM)), settings=settings(121))


def by_callback():
    target, approximation = taddaa.from_callback(host_gaussian, DIM, APPROXIMATION)
    return diagnose(target, approximation, settings=settings(121))


def regression(place=lambda x, y: (x, y)):
    x, y = place(X, Y)
    return diagnose(Target(logistic, DIM, data={"x": x, "y": y}), Gaussian(np.zeros(DIM), 0.2 * np.ones(DIM)), settings=settings(121))


def example():
    """Rows spread over devices and summed chunk by chunk, as docs/scaling.md shows it."""
    return diagnose(**load_problem(EXAMPLES / "regression_sharded.py"), settings=settings(121))


REPORTS = {
    "barker": lambda: plain(Barker()),
    "hmc": lambda: plain(HMC()),
    "noise": with_the_noise_of_accelerators,
    "scale": on_the_users_scale,
    "outside": outside,
    "callback": by_callback,
    "regression": regression,
    "example": example,
}
USUAL = ("barker", "noise", "outside", "regression")  # of every run; the others only where they are asked for


def over_rows(mesh):
    return lambda x, y: jax.device_put((x, y), NamedSharding(mesh, PartitionSpec("rows")))


def collectives(target: Target, chains: int) -> list[list]:
    """The kind and sizes of each collective operation of the compiled loop, by JAX's own text of it."""
    engine = Engine(target, Barker(), chains, 0, "float64", Meter(), 2)
    starts = np.random.default_rng(0).standard_normal((chains, target.dim))
    metric = Dense(np.eye(target.dim))
    begun = engine.start(starts, metric, 0.1)
    (lane,) = engine._lanes(begun, starts)
    arguments = (begun, 5, lane.draw(5), engine._cast_metric(metric), lane.anchor, lane.membership, engine._data)
    text = engine._programs.advance.lower(*arguments).compile().as_text()
    kinds = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|collective-broadcast"
    found = re.findall(rf"= (\S+|\([^)]*\)) ({kinds})(?:-start)?\(", text)
    size = lambda dims: int(np.prod([int(n) for n in dims.split(",") if n]))  # noqa: E731
    return [[kind, [size(dims) for dims in re.findall(r"\w\[([\d,]*)\]", shape)]] for shape, kind in found]


def buffers(array) -> list[int]:
    return [shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards]


def refusal(x, y) -> str:
    try:
        diagnose(Target(logistic, DIM, data={"x": x, "y": y}), APPROXIMATION, settings=settings(20))
    except InputError as error:
        return str(error)
    return ""


def facts() -> dict:
    """What only several devices can show."""
    devices = np.array(jax.devices())
    rows, both = Mesh(devices, ("rows",)), Mesh(devices.reshape(2, 2), ("chains", "rows"))
    target = Target(gaussian_logdensity, DIM, data=PRECISION)
    placed = {"rows": over_rows(rows)(X, Y), "both": over_rows(both)(X, Y)}
    sharded = {name: Target(logistic, DIM, data=dict(zip("xy", data, strict=True))) for name, data in placed.items()}
    again = Target(gaussian_logdensity, DIM, data=PRECISION)
    diagnose(again, APPROXIMATION, settings=settings(121))
    engine = Engine(sharded["rows"], Barker(), 121, 0, "float64", Meter(), 2)
    with jax.enable_x64(False):
        narrow = Engine(sharded["rows"], Barker(), 121, 0, "float32", Meter(), 2)
    noise = [
        DeviceNoise(5, Groups.of(121, 2), Barker(), DIM, place).block(2, 2) for place in (Placement(121, None), Placement.of(121, None))
    ]
    with jax.default_device(devices[2]):
        chosen = Engine(target, Barker(), 121, 0, "float64", Meter(), 2)
    elsewhere = Target(gaussian_logdensity, DIM, data=jax.device_put(PRECISION, devices[1]))
    committed = Engine(elsewhere, Barker(), 60, 0, "float64", Meter(), 1)  # between the programs of groups all is on the host
    starts, metric = np.zeros((60, DIM)), Dense(np.eye(DIM))
    moved, _ = committed.advance(committed.start(starts, metric, 0.1), metric, starts, 1)
    return {
        "devices": len(devices),
        "programs of a second diagnosis": diagnose(again, APPROXIMATION, settings=settings(121), seed=1).cost.programs,
        "collectives": {
            "chains": collectives(target, 121),
            "chunks": collectives(load_problem(EXAMPLES / "regression_sharded.py")["target"], 121),
            **{name: collectives(made, 121) for name, made in sharded.items()},
        },
        "data stays": [[str(leaf.dtype), str(leaf.sharding.spec)] for made in (engine, narrow) for leaf in jax.tree.leaves(made._data)],
        "data is not copied": buffers(engine._data["x"]) == buffers(sharded["rows"].data["x"]),
        "noise": all(np.array_equal(np.asarray(a), np.asarray(b)[:, :121]) for a, b in zip(*noise, strict=True)),
        "padded noise": [list(part.shape) for part in noise[1]],
        "chosen device": chosen._place.mesh is None,
        "committed data": sorted(device.id for device in moved.point.position.devices()),
        "refused": refusal(over_rows(rows)(X, Y)[0], over_rows(both)(X, Y)[1]),
    }


def main(folder: Path, checkpoint: Path, names: list[str]) -> None:
    for name in names or USUAL:
        REPORTS[name]().to_json(folder / f"{name}.json")
    if names:
        return
    resumed(checkpoint).to_json(folder / "resumed.json")
    if jax.device_count() == 1:
        return
    devices = np.array(jax.devices())
    regression(over_rows(Mesh(devices, ("rows",)))).to_json(folder / "rows.json")
    regression(over_rows(Mesh(devices.reshape(2, 2), ("chains", "rows")))).to_json(folder / "both.json")
    (folder / "facts.json").write_text(json.dumps(facts()))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)  # JAX mixes the precisions up when one array is placed both with and without it
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
