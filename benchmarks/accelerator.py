"""A diagnosis on an accelerator beside the same one on the CPU: time, and whether the reports say the same.

    pip install 'jax[cuda12]'                # or what JAX's installation page names for your device
    python benchmarks/accelerator.py         # prints a table; minutes
    python benchmarks/accelerator.py --page  # also writes it to docs/performance.md

It has not been run on a GPU or TPU yet: whoever has one is asked to send its output. Each line is a process of its own, in single and in
double precision, so that a device without double precision only loses the second. The first time includes compiling, the second does not.
Without an accelerator it says so, and does nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from section import write_section

import taddaa

SIZES = {"logistic regression, 10⁴ rows, d = 20": (10_000, 20), "logistic regression, 10⁶ rows, d = 100": (1_000_000, 100)}


def problem(rows: int, dim: int) -> tuple[taddaa.Target, taddaa.Gaussian]:
    """A mean-field fit that is right about the means and too narrow."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, dim)) + rng.standard_normal((rows, 1))
    coefficients = rng.normal(0, 0.3, dim)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ coefficients))).astype(float)

    def logdensity(beta, data):
        logit = data["x"] @ beta
        return data["y"] @ logit - jnp.sum(jnp.logaddexp(0.0, logit)) - 0.5 * jnp.sum(beta**2)

    chance = 1 / (1 + np.exp(-x @ coefficients))
    precision = (x * (chance * (1 - chance))[:, None]).T @ x + np.eye(dim)
    mode = coefficients + np.linalg.solve(precision, x.T @ (y - chance) - coefficients)  # one Newton step from the truth
    return taddaa.Target(logdensity, dim, data={"x": x, "y": y}), taddaa.Gaussian(mode, 1 / np.sqrt(np.diag(precision)))


def measure(name: str, precision: str) -> dict:
    """What one process finds on whatever device it has."""
    target, approximation = problem(*SIZES[name])
    seconds = []
    for _ in range(2):
        begun = time.monotonic()
        report = taddaa.diagnose(target, approximation, settings=taddaa.Settings(precision=precision), seed=0)
        seconds.append(time.monotonic() - begun)
    device = jax.devices()[0]
    return {
        "device": f"{jax.device_count()} × {device.device_kind}",
        "platform": device.platform,
        "seconds": seconds,
        "gradients": report.cost.gradients,
        "verdicts": [row.verdict for row in report.rows],
        "bounds": [row.relative_bound for row in report.rows],
    }


def in_a_process(name: str, precision: str, platform: str) -> dict | str:
    environment = {**os.environ, "JAX_PLATFORMS": platform} if platform else dict(os.environ)
    command = [sys.executable, __file__, "--measure", name, precision]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]


def line(name: str, precision: str, found: dict | str, cpu: dict | str) -> str:
    if isinstance(found, str):
        return f"| {name} | {precision} | – | {found[:100]} | | | |"
    first, second = found["seconds"]
    shown = f"| {name} | {precision} | {found['device']} | {first:.1f} | {second:.1f} | {second / found['gradients'] * 1e6:.1f} |"
    if isinstance(cpu, str) or cpu is found:
        return f"{shown} |"
    same = np.mean([a == b for a, b in zip(found["verdicts"], cpu["verdicts"], strict=True)])
    apart = np.max(np.abs(np.array(found["bounds"]) - np.array(cpu["bounds"])))
    return f"{shown} {same:.0%}, {apart:.2g} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write the table to docs/performance.md")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "PRECISION"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(*chosen.measure)))
        return 0
    if jax.default_backend() == "cpu":
        print("JAX finds no accelerator here: install its build for your device, and try jax.devices()", file=sys.stderr)
        return 2
    lines = [
        "| model | precision | device | first, s | second, s | µs a gradient | same verdicts as the CPU, bounds apart |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SIZES:
        for precision in ("float32", "float64"):
            cpu = in_a_process(name, precision, "cpu")
            for found in (cpu, in_a_process(name, precision, "")):
                lines.append(line(name, precision, found, cpu))
                print(lines[-1], flush=True)
    if chosen.page:
        write_section(
            "accelerator", "\n".join(["## On an accelerator", "", f"JAX {jax.__version__}, taddaa {taddaa.__version__}.", "", *lines])
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
