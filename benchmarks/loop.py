"""Time of the loop as a ratio to the same number of plain batched gradients, in one run (machines are noisy, ratios less).

    python benchmarks/loop.py            # prints the table
    python benchmarks/loop.py --quick    # fewer repeats
    python benchmarks/loop.py --page     # also writes docs/performance.md

The plain loop is `vmap(value_and_grad)` in a `scan` at moving points: the price of N·T gradients that no diagnosis can
beat. The diagnosis' loop is the engine's own `advance`, random numbers and per-iteration summaries included.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from section import write_section

from taddaa.chains.machine.engine import Engine
from taddaa.chains.machine.meter import Meter
from taddaa.experiments import models
from taddaa.experiments.data import Dataset
from taddaa.moves.kernel import HMC, KERNELS, Kernel
from taddaa.moves.metric import Dense
from taddaa.plan import iterations_for
from taddaa.problem.target import Target
from taddaa.settings import Settings

CHAINS = 387
INTRODUCTION = """## The loop

The least that a diagnosis can cost is its N·T batched gradients in one program. The table compares the
whole loop (random numbers, proposals, acceptance, adaptation and per-iteration summaries included) with the same number of
plain batched gradients, N = 387 chains, float64, full preconditioner, two cores, in one run. Chains
run in two groups, each in a thread of its own, which use two cores better than one program does: so ratios can come near 1
or below it. Random walk proposals need no gradients. The funnel's gradients cost nothing: what is left is the loop's own price.

| problem | kernel | T | plain gradients, s | loop, s | ratio |
|---|---|---|---|---|---|
"""


def regression(n: int, d: int) -> Target:
    """Logistic regression with a standard normal prior, of made-up data."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    y = (rng.random(n) < 1 / (1 + np.exp(-x @ rng.standard_normal(d) / np.sqrt(d)))).astype(float)
    return models.regression(Dataset(x, y, tuple(map(str, range(d)))))


def network(n: int = 85, inputs: int = 11, hidden: int = 6) -> Target:
    """A small two-layer network, d = 11·6 + 6 + 6 + 6 + 1 = 85, with N(0, 2²) weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, inputs))
    data = {"x": x, "y": (rng.random(n) < 0.5).astype(float)}
    shapes = [(inputs, hidden), (hidden,), (hidden,), (hidden,), ()]
    sizes = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def logdensity(w, data):
        first, bias, scale, last, offset = (part.reshape(s) for part, s in zip(jnp.split(w, sizes[:-1]), shapes, strict=True))
        logits = (jnp.tanh(data["x"] @ first + bias) * scale) @ last + offset
        return data["y"] @ logits - jnp.sum(jax.nn.softplus(logits)) - 0.125 * w @ w

    return Target(logdensity, dim=int(sizes[-1]), data=data)


def funnel(d: int = 30) -> Target:
    """Gradients that cost nothing: what is left is the loop's own price."""

    def logdensity(x):
        return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (d - 1) * x[0]

    return Target(logdensity, dim=d)


PROBLEMS: dict[str, Callable[[], Target]] = {
    "network, d = 85": network,
    "regression, n = 85, d = 11": lambda: regression(85, 11),
    "regression, n = 20,000, d = 50": lambda: regression(20_000, 50),
    "funnel, d = 30": funnel,
}


def plain_gradients(target: Target, iterations: int) -> Callable[[], None]:
    """The same number of batched gradients, with points that depend on the last ones so that none is optimised away."""

    @jax.jit
    def run(points, data):
        density = target.logdensity if target.data is None else lambda x: target.logdensity(x, data)

        def body(x, _):
            value, gradient = jax.vmap(jax.value_and_grad(density))(x)
            return x + 1e-9 * gradient + 1e-12 * value[:, None], None

        return jax.lax.scan(body, points, None, length=iterations)[0]

    points = jnp.asarray(np.random.default_rng(1).standard_normal((CHAINS, target.dim)) * 0.1)
    data = jax.tree.map(jnp.asarray, target.data)
    return lambda: run(points, data).block_until_ready()


def diagnosis_loop(target: Target, kernel: Kernel, iterations: int) -> Callable[[], None]:
    engine = Engine(target, kernel, CHAINS, 0, "float64", Meter(), Settings().groups)
    starts = np.random.default_rng(1).standard_normal((CHAINS, target.dim)) * 0.1
    metric = Dense(jnp.eye(target.dim))
    chains = engine.start(starts, metric, 0.01)

    def run():
        engine.advance(chains, metric, starts, iterations)[0].point.position.block_until_ready()

    return run


def best(run: Callable[[], None], repeats: int) -> float:
    run()  # compile
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two repeats instead of five")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    chosen = parser.parse_args()
    repeats = 2 if chosen.quick else 5
    rows = []
    print(f"{CHAINS} chains, float64; seconds of the loop / seconds of as many plain batched gradients, best of {repeats}\n")
    print(f"{'problem':32s} {'kernel':8s} {'T':>5s} {'plain s':>9s} {'loop s':>9s} {'ratio':>7s}")
    with jax.enable_x64(True):
        for name, make in PROBLEMS.items():
            target = make()
            for kernel in KERNELS.values():
                iterations = min(iterations_for(kernel, target.dim), 60 if "20,000" in name else 10_000)
                gradients = iterations * (kernel.leapfrog if isinstance(kernel, HMC) else 1)
                plain = best(plain_gradients(target, gradients), repeats)
                loop = best(diagnosis_loop(target, kernel, iterations), repeats)
                rows.append(f"| {name} | {kernel.label} | {iterations} | {plain:.3f} | {loop:.3f} | {loop / plain:.2f} |")
                print(f"{name:32s} {kernel.label:8s} {iterations:5d} {plain:9.3f} {loop:9.3f} {loop / plain:7.2f}", flush=True)
    if chosen.page:
        write_section("loop", INTRODUCTION + "\n".join(rows))


if __name__ == "__main__":
    main()
