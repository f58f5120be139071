"""Posterior draws by repair, beside NUTS: seconds of a whole first call (fit given), gradients, and how far the means are from a long run.

    python benchmarks/repair.py                      # all models that NUTS can sample; stopped runs go on where they were
    python benchmarks/repair.py ordinal logistic     # some of them

Repair is a diagnosis with pairs and 4,000 draws after it; NUTS is 4 × (1,000 + 1,000), vectorised. Each is timed in a process of its
own, from the start of Python to its end. Run it on a quiet machine. Fits, truths and NUTS are those of rivals.py, kept in .rivals.
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np
from rival_models import MODELS
from rivals import STORE, fitted, measured, source_key

import taddaa
from taddaa.errors import InputError
from taddaa.files import write_whole

DRAWS = 4000
WITHIN = 3.0  # Monte Carlo standard errors


def repair(name: str) -> dict:
    """Means of the draws and their Monte Carlo errors, or why there are none."""
    report = taddaa.diagnose(MODELS[name].make(), fitted(name), certify=True)
    certificate = report.certificate
    assert certificate is not None
    about = {"certified": certificate.rows / len(report.rows), "gradients": report.cost.gradients}
    try:
        tree = report.repair(draws=DRAWS)
    except InputError as reason:
        return {**about, "refused": str(reason)}
    summary = tree["summary"].to_dataset()
    flat = {part: np.asarray(summary[part], float) for part in ("mean", "mcse_mean")}
    gradients = int(tree["posterior"].attrs["gradients_in_all"])
    return {**about, "means": flat["mean"].tolist(), "mcse": flat["mcse_mean"].tolist(), "gradients": gradients}


def timed(name: str) -> dict | None:
    """The same from its cell, or in a process of its own; with its seconds."""
    path = STORE / f"{name}-repair-{source_key()}.json"
    if not path.exists():
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, __file__, "--job", name], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begun
        if done.returncode:
            print(f"{name}, repair: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", flush=True)
            return None
        write_whole(path, json.dumps({"seconds": seconds, **json.loads(done.stdout.strip().splitlines()[-1])}))
    return json.loads(path.read_text())


def line_of(name: str) -> str | None:
    fit, right, nuts = (measured(name, job, sys.executable) for job in ("fit", "truth", "nuts"))
    own = timed(name)
    if fit is None or right is None or nuts is None or own is None:
        return None
    head = f"| {name} | {own['seconds']:.1f} | {nuts['seconds']:.1f} | {own['seconds'] / nuts['seconds']:.2f} | {own['gradients']:,} "
    head += f"| {own['certified']:.0%} |"
    if "refused" in own:
        return f"{head} refused | | {own['refused']} |"
    sd, truth = np.array(right["sd"]), np.array(right["means"])
    away, error = np.abs(np.array(own["means"]) - truth), np.hypot(np.array(own["mcse"]), sd / np.sqrt(DRAWS))  # the truth has errors too
    rival = np.abs(np.array(nuts["means"]) - truth)
    return f"{head} {np.mean(away <= WITHIN * error):.1%} | {np.median(away / sd):.4f} | {np.median(rival / sd):.4f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--job", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    STORE.mkdir(exist_ok=True)
    if chosen.job:  # the last line is the result
        print(json.dumps(repair(chosen.job)))
        return
    if unknown := [name for name in chosen.names if name not in MODELS]:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}")
    print("| model | repair, s | NUTS, s | ratio | gradients | rows certified | means within 3 errors | means off by, sd | NUTS's |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in chosen.names or [name for name, model in MODELS.items() if model.of is None]:
        line = line_of(name)
        if line is not None:
            print(line, flush=True)


if __name__ == "__main__":
    main()
