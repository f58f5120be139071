"""What a diagnosis costs beside what people would run instead: seconds, gradients, and how well posterior means are then known.

    python benchmarks/rivals.py                      # all models; an hour, stopped runs go on where they were
    python benchmarks/rivals.py ordinal logistic     # some of them
    python benchmarks/rivals.py --page               # also writes docs/performance.md, from what has been measured so far

Each time is that of a process of its own, from the start of Python to its end: import, compile, run; of a diagnosis and of NUTS the
median of three, in turns and each with a seed of its own, because machines are noisy and so are seeds. Run it on a quiet one all the same.
Every measurement is a cell in .rivals; those of the diagnosis are keyed by the package's source. nutpie is run if it is installed (in this
Python, or in that of --nutpie-python), and left out otherwise.
"""

import argparse
import compileall
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rival_models import MODELS
from section import write_section

import taddaa
from taddaa.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
STORE = ROOT / ".rivals"
OURS = ("diagnose", "diagnose-cached", "glance")
TURNS, IN_TURNS = 3, ("diagnose", "diagnose-cached", "nuts")  # processes of each
JOBS_SHOWN = {
    "diagnose": "diagnosis",
    "diagnose-cached": "the same, programs cached",
    "glance": "first look",
    "nuts": "NUTS (NumPyro)",
    "nutpie": "nutpie",
    "meads": "MEADS (BlackJAX)",
}
TRUTH_DRAWS = 10_000  # of each of 4 chains
MEADS_CHAINS = 128
INTRODUCTION = """## Beside what people would run instead

Seconds of a process of its own (import from bytecode, compile, run) and gradients, warm-up included, for the default diagnosis of a
mean-field fit; for NumPyro's NUTS as people run it (4 × (1,000 + 1,000), vectorised, diagonal mass); for nutpie (4 × (400 + 1,000),
low-rank adaptation) on the same JAX function called from Python; and for BlackJAX's MEADS (128 chains × (1,000 + 1,000)). *Error*: of
posterior means against a long run of NUTS (4 × 10,000), in posterior standard deviations, median and 90 % over quantities; for the
diagnosis that of its right values (of the moved draws where it gives none), for the first look that of its estimates, and in
brackets the fit's own. *Second*: another diagnosis in the same process. All numbers of the diagnosis and of NUTS are medians of three
processes with three seeds, in turns; the others are of one process.
"""
WHEN = """**When NUTS is the better choice.** A diagnosis says how wrong a fit is. If you would not use the fit anyway, and NUTS takes
seconds on your model, run NUTS: with cheap gradients in few dimensions both take a few seconds, most of which is loading JAX and
compiling. Run NUTS too where the diagnosis leaves many quantities untrusted (a fit in the wrong place, factors of a matrix, some
horseshoes): it has found that chains from this fit do not arrive within its budget. The diagnosis pays where the fit is what you will
use (it is refitted often, serves predictions, or the data are large), and where gradients are dear: then compare the columns of
gradients, not of seconds."""


def flat(name: str) -> tuple[taddaa.Target, Callable]:
    target = MODELS[name].make()
    values = jax.tree.map(jnp.asarray, target.data)
    return target, lambda x: target.logdensity(x, values)


def quantities(name: str, draws: np.ndarray) -> np.ndarray:
    of = MODELS[name].of
    return draws if of is None else np.asarray(jax.jit(jax.vmap(of))(draws))


def fitted(name: str) -> taddaa.Gaussian:
    with np.load(STORE / f"{name}-fit.npz") as found:
        return taddaa.Gaussian(found["mean"], found["sd"])


# Jobs, each in a process of its own; what they return is stored ---------------------------------------------------------


def fit(name: str) -> dict:
    found = taddaa.fit.meanfield(MODELS[name].make(), steps=MODELS[name].fit_steps).approximation
    mean, variance = found.mean(), found.covariance()
    assert mean is not None and variance is not None
    np.savez(STORE / f"{name}-fit.npz", mean=mean, sd=np.sqrt(variance))
    with jax.enable_x64(True):
        draws = mean + np.sqrt(variance) * np.random.default_rng(0).standard_normal((20_000, len(mean)))
        return {"means": quantities(name, draws).mean(axis=0).tolist()}


def diagnose(name: str, seed: int = 0) -> dict:
    target, of = MODELS[name].make(), MODELS[name].of
    asked = [taddaa.Mean(), taddaa.Variance()] + ([] if of is None else [taddaa.Mean(of=of, name="of")])
    report = taddaa.diagnose(target, fitted(name), asked, seed=seed)
    begun = time.perf_counter()
    taddaa.diagnose(target, fitted(name), asked, seed=100 + seed)
    second = time.perf_counter() - begun
    rows = [row for row in report.rows if row.functional == "mean"][target.dim if of is not None else 0 :]
    means = [row.moved if np.isnan(row.corrected) else row.corrected for row in rows]
    counts = {verdict: sum(row.verdict == verdict for row in report.rows) / len(report.rows) for verdict in ("untrusted", "error")}
    return {"means": means, "gradients": report.cost.gradients, "second": second, "compiling": report.cost.seconds_compiling, **counts}


def glance(name: str) -> dict:
    target, of = MODELS[name].make(), MODELS[name].of
    look = taddaa.glance(target, fitted(name), [taddaa.Mean() if of is None else taddaa.Mean(of=of, name="of"), taddaa.Variance()])
    rows = [row for row in look.rows if row.functional == "mean"]
    doubtful = float(np.mean([row.seems == "doubtful" for row in look.rows]))
    return {"means": [row.estimate for row in rows], "gradients": look.gradients, "doubtful": doubtful}


def nuts(name: str, seed: int = 0, samples: int = 1000, warmup: int = 1000, count_warmup: bool = False) -> dict:
    """The gradients of the warm-up are counted in another process: keeping them would change the program that is timed."""
    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True):
        target, logdensity = flat(name)
        kernel = NUTS(potential_fn=lambda x: -logdensity(x))
        sampler = MCMC(kernel, num_warmup=warmup, num_samples=samples, num_chains=4, chain_method="vectorized", progress_bar=False)
        key = jax.random.key(seed)
        starts = jax.random.uniform(key, (4, target.dim), minval=-2.0, maxval=2.0)
        if count_warmup:
            sampler.warmup(key, init_params=starts, extra_fields=("num_steps",), collect_warmup=True)
            return {"gradients": int(np.sum(sampler.get_extra_fields()["num_steps"]))}
        sampler.run(key, init_params=starts, extra_fields=("num_steps",))
        draws = np.asarray(sampler.get_samples())
        if samples > 1000:
            np.savez_compressed(STORE / f"{name}-last.npz", draws=draws.astype(np.float32))
        means = quantities(name, draws).mean(axis=0)
        return {"means": means.tolist(), "gradients": int(np.sum(sampler.get_extra_fields()["num_steps"]))}


def warmup(name: str) -> dict:
    return nuts(name, count_warmup=True)


def truth(name: str) -> dict:
    """Means and standard deviations of a long run; of a centred hierarchy from its non-centred form, which NUTS can sample."""
    model = MODELS[name]
    source = model.truth_of or name
    nuts(source, samples=TRUTH_DRAWS, warmup=2000)
    with np.load(STORE / f"{source}-last.npz") as found, jax.enable_x64(True):
        draws = np.asarray(found["draws"], float)
        draws = draws if model.back is None else np.asarray(jax.jit(jax.vmap(model.back))(draws))
        values = quantities(name, draws)
    (STORE / f"{source}-last.npz").unlink()
    return {"means": values.mean(axis=0).tolist(), "sd": values.std(axis=0).tolist()}


def nutpie(name: str) -> dict:
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    jax.config.update("jax_enable_x64", True)  # in nutpie's threads too
    target, logdensity = flat(name)
    gradient = jax.jit(jax.value_and_grad(logdensity))
    gradient(np.zeros(target.dim))

    def make_logp():
        def logp(x):
            value, slope = gradient(x)
            return float(value), np.asarray(slope)

        return logp

    model = from_pyfunc(target.dim, make_logp, lambda *_: lambda x: {"x": np.asarray(x)}, [np.dtype("float64")], [(target.dim,)], ["x"])
    found = nutpie.sample(model, draws=1000, tune=400, chains=4, cores=2, seed=0, progress_bar=False, low_rank_modified_mass_matrix=True)
    draws = np.asarray(found.posterior["x"]).reshape(-1, target.dim)
    steps = sum(int(np.sum(part["n_steps"])) for part in (found.sample_stats, found.warmup_sample_stats))
    return {"means": quantities(name, draws).mean(axis=0).tolist(), "gradients": steps}


def meads(name: str) -> dict:
    import blackjax

    with jax.enable_x64(True):
        target, logdensity = flat(name)
        key, warm, run = jax.random.split(jax.random.key(0), 3)
        starts = jax.random.uniform(key, (MEADS_CHAINS, target.dim), minval=-2.0, maxval=2.0)
        adaptation = blackjax.meads_adaptation(logdensity, MEADS_CHAINS)
        (states, parameters), _ = jax.jit(adaptation.run, static_argnums=2)(warm, starts, 1000)
        kernel, of = blackjax.ghmc(logdensity, **parameters), MODELS[name].of or (lambda x: x)

        def step(carried, key):
            states, total = carried
            states, _ = jax.vmap(kernel.step)(jax.random.split(key, MEADS_CHAINS), states)
            return (states, total + jax.vmap(of)(states.position).mean(axis=0)), None

        size = quantities(name, np.zeros((1, target.dim))).shape[1]
        (_, total), _ = jax.jit(lambda states: jax.lax.scan(step, (states, jnp.zeros(size)), jax.random.split(run, 1000)))(states)
        return {"means": (np.asarray(total) / 1000).tolist(), "gradients": 2000 * MEADS_CHAINS}


JOBS: dict[str, Callable[..., dict]] = {
    **{"fit": fit, "truth": truth, "diagnose": diagnose, "diagnose-cached": diagnose, "glance": glance},
    **{"nuts": nuts, "warmup": warmup, "nutpie": nutpie, "meads": meads},
}


# Cells ------------------------------------------------------------------------------------------------------------------


def cell(name: str, job: str) -> Path:
    return STORE / (f"{name}-{job}-{source_key()}.json" if job in OURS else f"{name}-{job}.json")


def measured(name: str, job: str, python: str, turn: int = 1) -> dict | None:
    """What a job gave in each of so many processes, with its seconds, from its cell; None if it cannot run here."""
    path = cell(name, job)
    known = json.loads(path.read_text()) if path.exists() else {"turns": []}
    if len(known["turns"]) < turn:
        environment = dict(os.environ)
        if job == "diagnose-cached":
            environment |= {
                "JAX_COMPILATION_CACHE_DIR": str(STORE / f"cache-{source_key()}"),
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            }
            if turn == 1:
                _run(name, job, turn, sys.executable, environment)  # fills the cache
        begun = time.perf_counter()
        done = _run(name, job, turn, python if job == "nutpie" else sys.executable, environment)
        seconds = time.perf_counter() - begun
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["failed"])[-1]
            print(f"{name}, {job}: {last}", flush=True)
            return None
        given = json.loads(done.stdout.strip().splitlines()[-1])
        known["turns"].append({**given, "seconds": seconds - given.get("second", 0.0)})
        write_whole(path, json.dumps(known))
        print(f"{name}, {job}: {seconds:.1f} s", flush=True)
    return known


def _run(name: str, job: str, turn: int, python: str, environment: dict[str, str]) -> subprocess.CompletedProcess:
    command = [python, __file__, "--job", name, job, *([str(turn - 1)] if job in IN_TURNS else [])]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def source_key() -> str:
    """A hash of the package's source and the models: what was measured with other code is not used."""
    files = [*sorted((ROOT / "src" / "taddaa").rglob("*.py")), Path(__file__).with_name("rival_models.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


# The page ---------------------------------------------------------------------------------------------------------------


def lines_of(name: str, found: dict[str, dict]) -> list[str]:
    """One line a method; nothing if the truth is not there yet."""
    if "truth" not in found:
        return []
    right, sd = (np.array(found["truth"]["turns"][0][part]) for part in ("means", "sd"))
    own = np.abs(np.array(found["fit"]["turns"][0]["means"]) - right) / sd
    nuts_seconds = middle(found["nuts"], "seconds") if "nuts" in found else np.nan
    nuts_gradients = (
        middle(found["nuts"], "gradients") + middle(found["warmup"], "gradients") if {"nuts", "warmup"} <= set(found) else np.nan
    )
    lines: list[str] = []
    for job, words in JOBS_SHOWN.items():
        if job not in found:
            continue
        one = found[job]
        gradients = nuts_gradients if job == "nuts" else middle(one, "gradients")
        off = [np.abs(np.array(turn["means"], float) - right) / sd for turn in one["turns"]]
        error = f"{np.median([np.nanmedian(each) for each in off]):.3f}, {np.median([np.nanquantile(each, 0.9) for each in off]):.2f}"
        if job == "glance":
            error += f" ({np.median(own):.3f}, {np.quantile(own, 0.9):.2f}); {middle(one, 'doubtful'):.0%} doubtful"
        if job == "diagnose":
            error += f"; {middle(one, 'untrusted'):.0%} untrusted"
        second = f"{middle(one, 'second'):.1f}" if "second" in one["turns"][0] else ""
        label = f"{name}, d = {MODELS[name].make().dim}" if not lines else ""
        seconds = middle(one, "seconds")
        ratio, share = seconds / nuts_seconds, gradients / nuts_gradients
        lines.append(f"| {label} | {words} | {seconds:.1f} | {ratio:.2f} | {second} | {gradients:,.0f} | {share:.2f} | {error} |")
    return lines


def middle(one: dict, part: str) -> float:
    """The median over processes."""
    return float(np.median([turn[part] for turn in one["turns"]]))


def page(found: dict[str, dict[str, dict]]) -> str:
    head = "| model | method | s | / NUTS | second, s | gradients | / NUTS | error of means |\n|---|---|---|---|---|---|---|---|"
    lines = [line for name, some in found.items() for line in lines_of(name, some)]
    without = [name for name, some in found.items() if lines_of(name, some) and "nutpie" not in some]
    missing = f"\n\nnutpie was not run on {', '.join(without)}: it was not installed, or would have taken long." if without else ""
    return "\n\n".join([INTRODUCTION.strip(), head + "\n" + "\n".join(lines) + missing, WHEN])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--methods", default=",".join(JOBS_SHOWN), help="some of them, with commas (default all)")
    parser.add_argument("--page", action="store_true", help="write to docs/performance.md what has been measured so far")
    parser.add_argument("--nutpie-python", default=sys.executable, help="the Python that has nutpie")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    STORE.mkdir(exist_ok=True)
    if chosen.job:  # the last line is the result
        name, job, *seed = chosen.job
        print(json.dumps(JOBS[job](name, *map(int, seed))))
        return
    for folder in ("src", "benchmarks"):  # to bytecode, as pip leaves every package, the rivals' too
        compileall.compile_dir(ROOT / folder, quiet=1)
    if unknown := [name for name in chosen.names if name not in MODELS]:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}")
    jobs = ["fit", "truth", *chosen.methods.split(","), *["warmup"] * ("nuts" in chosen.methods)]
    found: dict[str, dict[str, dict]] = {}
    for name in MODELS:
        if chosen.names and name not in chosen.names:  # only what is there already
            some = {
                job: json.loads(cell(name, job).read_text()) for job in ("fit", "truth", "warmup", *JOBS_SHOWN) if cell(name, job).exists()
            }
        else:
            some = {}
            for turn in range(1, TURNS + 1):
                for job in jobs if turn == 1 else [job for job in jobs if job in IN_TURNS]:
                    if (one := measured(name, job, chosen.nutpie_python, turn)) is not None:
                        some[job] = one
        found[name] = some
    text = page(found)
    print(text)
    if chosen.page:
        write_section("rivals", text)


if __name__ == "__main__":
    main()
