"""Memory, traffic and time at sizes that fit here, and of the plan that does not: 10⁹ rows and d = 10⁶ on 64 devices.

    python benchmarks/scale.py           # prints predicted against found
    python benchmarks/scale.py --page    # also writes them into docs/scaling.md

The plan is compiled, by the engine's own program, for 64 devices that are only pretended, and never run: the compiler says how
many bytes each device needs and what devices send each other in one iteration. Time and peak memory are measured on runs that
fit. Nothing here was run on GPU or TPU, whose compilers fuse differently.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scipy.optimize import nnls

from taddaa.chains.machine.engine import Engine
from taddaa.chains.machine.meter import Meter
from taddaa.chains.machine.placement import AXIS, Placement
from taddaa.chains.machine.program import Anchor, Chains, programs_of
from taddaa.moves.kernel import Barker, Noise, Point
from taddaa.moves.metric import Diagonal, DiagonalLowRank
from taddaa.problem.target import Target
from taddaa.settings import Settings

DEVICES = 64
CHAINS, GROUPS, RANK, WORD = 387, Settings().groups, 20, 4  # single precision
PAGE = Path(__file__).resolve().parent.parent / "docs" / "scaling.md"
BEGIN, END = "<!-- printed by benchmarks/scale.py -->\n", "<!-- end -->\n"


# Log densities ------------------------------------------------------------------------------------------------------------


def at_once(x, data):
    """Logistic regression, all rows at once: every chain has a number for every row."""
    rows, y = data
    logits = rows @ x
    return jnp.sum(y * logits - jnp.logaddexp(0.0, logits)) - 0.5 * x @ x


def in_chunks(likelihood: Callable, sharded: bool = True) -> Callable:
    """A sum over (chunks, rows, …) data: chunk by chunk on each device, and once over the devices."""

    def summed(x, zero, data):
        return jax.lax.scan(jax.checkpoint(lambda total, part: (total + likelihood(x, part), None)), zero, data)[0]

    def mine(x, data):
        x, zero = (jax.lax.pcast(value, "rows", to="varying") for value in (x, jnp.zeros((), x.dtype)))
        return jax.lax.psum(summed(x, zero, data), "rows")

    def logdensity(x, data):
        if not sharded:
            return summed(x, jnp.zeros((), x.dtype), data) - 0.5 * x @ x
        specs = jax.tree.map(lambda _: PartitionSpec(None, "rows"), data)
        over_rows = jax.shard_map(mine, in_specs=(PartitionSpec(), specs), out_specs=PartitionSpec(), axis_names={"rows"})
        return over_rows(x, data) - 0.5 * x @ x

    return logdensity


def dense_rows(x, part):
    rows, y = part
    logits = rows @ x
    return jnp.sum(y * logits - jnp.logaddexp(0.0, logits))


def sparse_rows(x, part):
    columns, values, y = part
    logits = jnp.sum(values * x[columns], axis=-1)
    return jnp.sum(y * logits - jnp.logaddexp(0.0, logits))


# The plan, compiled -------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A problem, and how it is laid out: chain shards × row shards."""

    name: str
    logdensity: Callable
    dim: int
    rows: int
    entries: int  # numbers in a row
    chunks: int  # 0: all rows at once
    shape: tuple[int, int]
    block: int

    @property
    def sparse(self) -> bool:
        return self.entries < self.dim


def arguments(case: Case, mesh: Mesh) -> tuple:
    """The arguments of the engine's program, as shapes with a place."""

    def array(shape, *axes, dtype=jnp.float32):
        spec = PartitionSpec(*(axis if axis in mesh.shape else None for axis in axes))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    count, dim = CHAINS + -CHAINS % case.shape[0], case.dim
    each, wide = array((count,), AXIS), array((count, dim), AXIS)
    chains = Chains(Point(wide, each, wide, wide), each, array(()), each, each)
    drawn = array((case.block, count, dim), None, AXIS)
    noise = Noise(drawn, drawn, array((case.block, count), None, AXIS))
    metric = DiagonalLowRank(array((dim,)), array((dim, RANK)), array((RANK,)))
    rows = (case.chunks, case.rows // case.chunks) if case.chunks else (case.rows,)
    axes = (None, "rows") if case.chunks else ("rows",)
    data = (array((*rows, case.entries), *axes), array(rows, *axes))
    if case.sparse:
        data = (array((*rows, case.entries), *axes, dtype=jnp.int32), *data)
    return chains, array((), dtype=jnp.int32), noise, metric, Anchor(array((dim,)), wide), array((GROUPS, count), None, AXIS), data


def compiled(case: Case):
    axes = {name: size for name, size in zip((AXIS, "rows"), case.shape, strict=True) if size > 1}
    mesh = Mesh(np.array(jax.devices()[: np.prod(case.shape)]).reshape(*axes.values()), tuple(axes))
    program = programs_of(Target(case.logdensity, case.dim, data=()), Barker(), Placement(CHAINS, mesh)).advance
    with jax.set_mesh(mesh):
        return program.lower(*arguments(case, mesh)).compile()


def sent(text: str) -> int:
    """Numbers that take part in all-reduces in one iteration, from the compiled program; another collective is an error."""
    bodies: dict[str, list[str]] = {}
    for line in text.splitlines():
        opened = re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line)
        if opened:
            inside = bodies.setdefault(opened.group(1), [])
        elif bodies:
            inside.append(line)

    def within(name: str) -> int:
        total = 0
        for line in bodies[name]:
            assert not re.search(r" (all-gather|all-to-all|collective-permute|reduce-scatter)(-start)?\(", line), line
            reduced = re.search(r"= (\S+|\([^)]*\)) all-reduce(?:-start)?\(", line)
            if reduced:
                shapes = re.findall(r"\w\[([\d,]*)\]", reduced.group(1))
                total += sum(int(np.prod([int(n) for n in shape.split(",") if n])) for shape in shapes)
            loop = re.search(r" while\(.*body=%?([\w.\-]+)", line)
            if loop:
                often = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
                total += within(loop.group(1)) * (int(often.group(1)) if often else 1)
            called = re.search(r" call\(.*to_apply=%?([\w.\-]+)", line)
            total += within(called.group(1)) if called else 0
        return total

    return within(re.search(r"ENTRY %?([\w.\-]+)", text).group(1))


def predicted(case: Case) -> tuple[float, float, float]:
    """Bytes of arguments and of workspace on a device, and of all-reduces in an iteration: the formulas of docs/scaling.md."""
    chain_shards, row_shards = case.shape
    chains = -(-CHAINS // chain_shards)
    data = case.rows * (case.entries * (2 if case.sparse else 1) + 1) / row_shards
    held = data + (4 + 2 * case.block) * chains * case.dim + (RANK + 3) * case.dim
    at_a_time = case.rows / row_shards / max(case.chunks, 1)
    per_row = 2 * case.entries if case.sparse else 4  # x[columns] and its product; logits and what their gradient needs
    work = 7 * chains * case.dim + per_row * chains * at_a_time
    traffic = (3 * case.dim + 2 * GROUPS + 1) * (chain_shards > 1) + chains * (case.dim + 1) * (row_shards > 1)
    return held * WORD, work * WORD, traffic * WORD


def plan_table() -> str:
    cases = [
        Case("10⁹ rows, d = 10³, all rows at once", at_once, 10**3, 10**9, 10**3, 0, (1, 64), 20),
        Case("the same in 250 chunks", in_chunks(dense_rows), 10**3, 10**9, 10**3, 250, (1, 64), 20),
        Case("10⁶ rows, d = 10⁶, 100 entries a row, 20 chunks", in_chunks(sparse_rows, sharded=False), 10**6, 10**6, 100, 20, (64, 1), 1),
        Case("10⁹ rows, d = 10⁶, 100 entries a row, 5,000 chunks", in_chunks(sparse_rows), 10**6, 10**9, 100, 5000, (1, 64), 1),
        Case("the same", in_chunks(sparse_rows), 10**6, 10**9, 100, 5000, (4, 16), 1),
        Case("10⁴ rows, d = 10²", at_once, 10**2, 10**4, 10**2, 0, (1, 4), 20),
        Case("10⁵ rows, d = 10³", at_once, 10**3, 10**5, 10**3, 0, (2, 2), 20),
        Case("10² rows, d = 10⁴", at_once, 10**4, 10**2, 10**4, 0, (4, 1), 2),
    ]
    lines = [
        "| problem | chains × rows over devices | held, GB | workspace, GB | all-reduced in an iteration, MB |",
        "|---|---|---|---|---|",
    ]
    for case in cases:
        program = compiled(case)
        memory = program.memory_analysis()
        found = (memory.argument_size_in_bytes, memory.temp_size_in_bytes, sent(program.as_text()) * WORD)
        units = (1e9, 1e9, 1e6)
        pairs = [f"{_digits(p / u)} / {_digits(f / u)}" for p, f, u in zip(predicted(case), found, units, strict=True)]
        lines.append(f"| {case.name} | {case.shape[0]} × {case.shape[1]} | " + " | ".join(pairs) + " |")
    return "\n".join(lines)


# Measured -----------------------------------------------------------------------------------------------------------------


def seconds_of_an_iteration(rows: int, dim: int) -> float:
    rng = np.random.default_rng(0)
    data = (rng.standard_normal((rows, dim), np.float32), np.float32(rng.random(rows) < 0.5))
    with jax.default_device(jax.devices()[0]):
        engine = Engine(Target(at_once, dim, data=data), Barker(), CHAINS, 0, "float32", Meter(), GROUPS)
        starts, metric = 0.01 * rng.standard_normal((CHAINS, dim)), Diagonal(np.ones(dim))
        chains, _ = engine.advance(engine.start(starts, metric, 1e-4), metric, starts, 2)
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            chains, _ = engine.advance(chains, metric, starts, 5)
            times.append((time.perf_counter() - begun) / 5)
    return min(times)


def time_table() -> str:
    """Costs of N n d, N n and N d from the three smallest runs; the others follow."""
    sizes = [(5_000, 20), (5_000, 200), (100, 1_000), (50_000, 20), (20_000, 200), (100, 10_000)]
    found = [seconds_of_an_iteration(*size) for size in sizes]
    work = np.array([[CHAINS * rows * dim, CHAINS * rows, CHAINS * dim] for rows, dim in sizes], float)
    known = [0, 1, 2]
    rates = nnls(work[known] / np.array(found)[known, None], np.ones(3))[0]
    lines = ["| rows | d | predicted, ms | measured, ms |", "|---|---|---|---|"]
    for number, (size, seconds) in enumerate(zip(sizes, found, strict=True)):
        guess = "(used to calibrate)" if number in known else _digits(1000 * float(work[number] @ rates))
        lines.append(f"| {size[0]:,} | {size[1]:,} | {guess} | {_digits(1000 * seconds)} |")
    return "\n".join(lines)


def diagnose_once(dim: int) -> None:
    """A whole diagnosis; prints the megabytes of its peak over what the imports and a tiny diagnosis take."""
    import taddaa

    settings = taddaa.Settings(chains=CHAINS, iterations=8, budget=1)
    for size in (10, dim):
        taddaa.diagnose(lambda x: -0.5 * x @ x, taddaa.Gaussian(np.zeros(size), np.ones(size)), settings=settings)
        if size == 10:
            before = _peak()
    print(_peak() - before)


def _peak() -> float:
    """Megabytes that this process has held at most, as Linux counts them."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text()).group(1)) / 1024


def memory_table() -> str:
    """Peak memory of whole diagnoses on one CPU, float64, in arrays of N d numbers."""
    lines = ["| d | peak, MB | of which one N·d array in float64, MB | arrays |", "|---|---|---|---|"]
    for dim in (2_500, 5_000, 10_000):
        done = subprocess.run([sys.executable, __file__, "--once", str(dim)], capture_output=True, text=True, check=True)
        peak, one = float(done.stdout), CHAINS * dim * 8 / 2**20
        lines.append(f"| {dim:,} | {peak:.0f} | {one:.0f} | {peak / one:.0f} |")
    return "\n".join(lines)


def _digits(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write the tables into docs/scaling.md")
    parser.add_argument("--once", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.once:
        diagnose_once(chosen.once)
        return
    jax.config.update("jax_num_cpu_devices", DEVICES)
    text = (
        f"Predicted / compiled, single precision, N = {CHAINS}, Barker, for each device:\n\n{plan_table()}\n\n"
        f"Time of one iteration, measured on two cores, single precision:\n\n{time_table()}\n\n"
        f"Peak memory of a whole diagnosis, measured:\n\n{memory_table()}\n"
    )
    print(text)
    if chosen.page:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
