"""Whole diagnoses as a user pays for them: fresh processes beside NUTS, memory, and growth with dimension and data.

    python benchmarks/whole.py                   # prints the tables; minutes
    python benchmarks/whole.py --page            # also writes them to docs/performance.md
    python benchmarks/whole.py --skip-horseshoe  # whose NUTS alone takes minutes

Each time is that of a process of its own, from the start of Python to its end: import, compile, run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from section import write_section

import taddaa
from taddaa.chains.machine.engine import Engine
from taddaa.chains.machine.meter import Meter
from taddaa.experiments import data, models
from taddaa.moves.kernel import Barker
from taddaa.moves.metric import Diagonal
from taddaa.plan import iterations_for

BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "img" / "growth.png"
CHAINS = 387
MODELS: dict[str, Callable[[], taddaa.Target]] = {
    "candy regression, d = 11": lambda: models.regression(data.candy()),
    "candy network, d = 85": lambda: models.network(data.candy()),
    "horseshoe, d = 203": lambda: models.horseshoe(data.leukemia()),
}


def diagnose_once(name: str, fit: str) -> None:
    with np.load(fit) as found:
        approximation = taddaa.Gaussian(found["mean"], found["sd"])
    taddaa.diagnose(MODELS[name](), approximation)


def nuts_once(name: str) -> None:
    """What a user would do instead: 4 chains of 1,000 + 1,000, with a full mass matrix."""
    from numpyro.infer import MCMC, NUTS

    target = MODELS[name]()
    with jax.enable_x64(True):
        values = jax.tree.map(jnp.asarray, target.data)
        kernel = NUTS(potential_fn=lambda x: -target.logdensity(x, values), dense_mass=True)
        sampler = MCMC(kernel, num_warmup=1000, num_samples=1000, num_chains=4, chain_method="sequential", progress_bar=False)
        key = jax.random.key(0)
        sampler.run(key, init_params=jax.random.uniform(key, (4, target.dim), minval=-2.0, maxval=2.0))
        jax.block_until_ready(sampler.get_samples())


def memory_once(dim: str) -> None:
    """Peak resident memory of a diagnosis over what the model's own batched gradient takes."""
    size = int(dim)
    scale = np.exp(np.linspace(-1, 1, size))
    target = taddaa.Target(lambda x, scale: -0.5 * jnp.sum((x / scale) ** 2), dim=size, data=scale)
    with jax.enable_x64(True):
        gradient = jax.jit(jax.vmap(jax.value_and_grad(lambda x: target.logdensity(x, scale))))
        jax.block_until_ready(gradient(np.ones((CHAINS, size))))
    before, highest, over = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            highest[0] = max(highest[0], resident())

    watching = threading.Thread(target=watch)
    watching.start()
    settings = taddaa.Settings(chains=CHAINS, iterations=16, budget=1)
    taddaa.diagnose(target, taddaa.Gaussian(np.zeros(size), 0.8 * scale), settings=settings)
    over.set()
    watching.join()
    print(highest[0] - before)


def resident() -> float:
    """MB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


JOBS: dict[str, Callable[..., None]] = {"diagnose": diagnose_once, "nuts": nuts_once, "memory": memory_once}


def timed(*job: str, cache: str | None = None) -> tuple[float, str]:
    """Seconds and output of one job in a process of its own."""
    environment = dict(os.environ)
    if cache is not None:
        environment |= {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, __file__, "--job", *job], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - begun, done.stdout


def calls(names: list[str]) -> str:
    lines = ["| model | NUTS, s | first call, s | ratio | second process, cached, s | ratio |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(names):
            fitted = taddaa.fit.meanfield(MODELS[name](), steps=20_000).approximation
            fit, cache = f"{folder}/{number}.npz", f"{folder}/cache{number}"
            np.savez(fit, mean=fitted.mean(), sd=np.sqrt(fitted.covariance()))
            first, _ = timed("diagnose", name, fit)
            timed("diagnose", name, fit, cache=cache)
            second, _ = timed("diagnose", name, fit, cache=cache)
            nuts, _ = timed("nuts", name)
            lines.append(f"| {name} | {nuts:.1f} | {first:.1f} | {first / nuts:.2f} | {second:.1f} | {second / nuts:.2f} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def second_call() -> int:
    """Programs compiled by a second diagnosis of the same target, with another approximation and seed."""
    target = taddaa.Target(lambda x, scale: -0.5 * jnp.sum((x / scale) ** 2), dim=5, data=np.arange(1.0, 6.0))
    taddaa.diagnose(target, taddaa.Gaussian(np.zeros(5), np.ones(5)))
    return taddaa.diagnose(target, taddaa.Gaussian(np.ones(5), np.arange(1.0, 6.0)), seed=1).cost.programs


def per_iteration(target: taddaa.Target, chains: int, iterations: int) -> tuple[float, float]:
    """Seconds to compile, and of one iteration."""
    with jax.enable_x64(True):
        meter = Meter()
        engine = Engine(target, Barker(), chains, 0, "float64", meter, taddaa.Settings().groups)
        metric, starts = Diagonal(np.ones(target.dim)), np.random.default_rng(0).standard_normal((chains, target.dim))
        begun = engine.start(starts, metric, 0.01)
        engine.advance(begun, metric, starts, 1)
        times = []
        for _ in range(3):
            at = time.perf_counter()
            engine.advance(begun, metric, starts, iterations)[0].point.position.block_until_ready()
            times.append((time.perf_counter() - at) / iterations)
    return meter.compiling, min(times)


def growth_with_dimension(picture: bool) -> str:
    lines = ["| d | T | ms an iteration | ns a coordinate and chain | s for T iterations |", "|---|---|---|---|---|"]
    sizes, totals = [], []
    for dim in (10, 30, 100, 300, 1000, 3000, 10_000):
        target = taddaa.Target(lambda x: -0.5 * x @ x, dim=dim)
        _, seconds = per_iteration(target, CHAINS, max(3, 20_000 // dim))
        length = iterations_for(Barker(), dim)
        each = seconds / CHAINS / dim * 1e9
        lines.append(f"| {dim:,} | {length} | {seconds * 1e3:.2f} | {each:.0f} | {seconds * length:.2f} |")
        sizes.append(dim)
        totals.append(seconds * length)
    if picture:
        draw_growth(np.array(sizes), np.array(totals))
    return "\n".join(lines)


def draw_growth(dims: np.ndarray, seconds: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lengths = np.array([iterations_for(Barker(), int(dim)) for dim in dims])
    figure, axis = plt.subplots(figsize=(5, 3.4), layout="constrained")
    axis.loglog(dims, seconds, "o-", color="#0072B2", label="measured")
    middle = len(dims) // 2
    axis.loglog(dims, dims * lengths * seconds[middle] / (dims * lengths)[middle], "--", color="#666666", label="in proportion to d·T(d)")
    axis.set(xlabel="d", ylabel="seconds for T(d) iterations")
    axis.legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def growth_with_data() -> str:
    lines = ["| n | compiling, s | ms an iteration | ns a row and chain |", "|---|---|---|---|"]
    chains = 20
    for count in (10**3, 10**4, 10**5, 10**6, 10**7):
        y = np.random.default_rng(0).standard_normal(count)

        def logdensity(x, y):  # a mean and a log standard deviation
            return -jnp.sum(((y - x[0]) * jnp.exp(-x[1])) ** 2) / 2 - len(y) * x[1]

        compiling, seconds = per_iteration(taddaa.Target(logdensity, dim=2, data=y), chains, 3)
        lines.append(f"| {count:,} | {compiling:.2f} | {seconds * 1e3:.2f} | {seconds / count / chains * 1e9:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write to docs/performance.md")
    parser.add_argument("--skip-horseshoe", action="store_true")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if BESIDE.is_dir():
        os.environ.setdefault("TADDAA_DATA", str(BESIDE))
    if chosen.job:
        JOBS[chosen.job[0]](*chosen.job[1:])
        return
    names = [name for name in MODELS if not (chosen.skip_horseshoe and "horseshoe" in name)]
    memory = float(timed("memory", "10000")[1])
    text = "\n\n".join(
        [
            "## A whole diagnosis beside NUTS",
            "Seconds of a process of its own (import, compile, run), for a mean-field fit and the default settings, beside NumPyro's NUTS "
            "with 4 × (1,000 + 1,000) iterations and a full mass matrix. *Cached*: a second process with JAX's compilation cache "
            "(`JAX_COMPILATION_CACHE_DIR`, with `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0`).",
            calls(names) + ("" if len(names) == len(MODELS) else "\n\nThe horseshoe was left out of this run."),
            f"A second call on the same target, with another approximation and seed, compiles {second_call()} programs.",
            "## Memory",
            f"N = {CHAINS}, d = 10,000, a Gaussian target: the process peaks {memory:,.0f} MB above what the model's own batched gradient "
            "takes. Nothing of size N·T·d is kept: chains, six snapshots and two blocks of random numbers are.",
            "## Growth with dimension",
            "The loop alone, on a Gaussian target whose gradient costs nothing, with a diagonal metric: nearly in proportion to d·T(d), "
            "and above that where the chains no longer fit into the processor's caches. With the default metric, a full matrix up to "
            "d = 2,000, an iteration also multiplies by it, and it is factorised a few times in a diagnosis.",
            growth_with_dimension(picture=chosen.page),
            "![Seconds against dimension, beside a line in proportion to d·T(d)](img/growth.png)",
            "## Growth with the data",
            "A normal model of n numbers, 20 chains. The data is an argument of the compiled program, so that compiling does not grow.",
            growth_with_data(),
        ]
    )
    print(text)
    if chosen.page:
        write_section("whole", text)


if __name__ == "__main__":
    main()
