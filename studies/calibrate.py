"""Operating characteristics over targets with known truth, ours beside the paper's and k-hat.

    python studies/calibrate.py            # minutes; stopped runs go on where they were
    python studies/calibrate.py --quick    # one seed, for a look

Every cell (target × approximation × method) is stored under .calibration with a key of the package's source, so that a
changed package is measured anew. The page docs/calibration.md is written by this command and never edited.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from problems import ROOT, Problem, problems

import taddaa
from taddaa.files import write_whole

STORE = ROOT / ".calibration"
PAGE = ROOT / "docs" / "calibration.md"
PICTURE = ROOT / "docs" / "img" / "calibration.png"
METHODS = {"ours": taddaa.Settings(), "paper": taddaa.Settings.paper()}
SEEDS, EXACT_SEEDS = 5, 40  # a cell; exact approximations need many for a rate of false alarms
LARGE = 100  # dimensions, from which 5 seeds must do
SHOWN = 20  # parameters of each target that count, so that large targets do not drown small ones
MATERIAL, OVER = 0.3, 0.1  # an error worth finding; a bound this far above the truth is false
KHAT_LARGEST = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed a cell")
    quick = parser.parse_args().quick
    STORE.mkdir(exist_ok=True)
    begun, key = time.time(), source_key()
    rows: list[dict[str, Any]] = []
    for problem in problems():
        for kind, make in problem.approximations().items():
            seeds = 1 if quick else EXACT_SEEDS if kind == "exact" and problem.target.dim < LARGE else SEEDS
            for method, settings in METHODS.items():
                cell = STORE / f"{key}-{problem.name.replace(' ', '_')}-{kind.replace(' ', '_')}-{method}-{seeds}.json"
                if not cell.exists():
                    found = [row for seed in range(seeds) for row in judge(problem, kind, make(seed), method, settings, seed)]
                    write_whole(cell, json.dumps(found))
                rows += json.loads(cell.read_text())
        print(f"{time.time() - begun:6.0f} s  {problem.name}", flush=True)
    page(pd.DataFrame(rows))
    print(f"wrote {PAGE.relative_to(ROOT)}")


def judge(problem: Problem, kind: str, approximation, method: str, settings: taddaa.Settings, seed: int) -> list[dict[str, Any]]:
    """One diagnosis against the truth: one record a row."""
    report = taddaa.diagnose(problem.target, approximation, settings=settings, seed=seed)
    errors = np.concatenate(problem.errors(kind, approximation))
    unit = np.concatenate([problem.sd, np.ones(len(problem.sd))])
    spent = report.cost.gradients / (report.provenance.chains * report.cost.planned_iterations)
    common = {
        "problem": problem.name,
        "family": problem.family,
        "kind": kind,
        "method": method,
        "seed": seed,
        "spent": spent,
        "check": all(check.passed for check in report.checks),
        "khat": k_hat(problem, approximation, seed) if method == "ours" else None,
    }
    return [
        {**common, "functional": row.functional, "error": float(e), "bound": row.bound / float(u), "verdict": row.verdict}
        for i, (row, e, u) in enumerate(zip(report.rows, errors, unit, strict=True))
        if i % len(problem.sd) < SHOWN
    ]


def k_hat(problem: Problem, approximation, seed: int) -> float | None:
    """PSIS k-hat where q has a density; None where it has not."""
    draws = approximation.sample(np.random.default_rng(seed), 2000)
    density = approximation.logdensity(draws)
    if density is None or problem.target.dim > KHAT_LARGEST:
        return None
    import jax
    from arviz_stats.base import array_stats

    with jax.enable_x64(True):
        target = problem.target
        one = target.logdensity if target.data is None else lambda x: target.logdensity(x, target.data)
        weights = np.asarray(jax.jit(jax.vmap(one))(draws)) - density
    with np.errstate(all="ignore"):  # weights of wild approximations
        return float(array_stats.psislw(-weights[np.isfinite(weights)])[1])


# The page ---------------------------------------------------------------------------------------------------------------


def page(rows: pd.DataFrame) -> None:
    draw(rows)
    sections = [
        "# Calibration: how often it is right",
        "Written by `make calibrate`; do not edit. Every target here has a known truth (closed form, exact draws, or long reference "
        "runs). A *material* error is one over 0.3 posterior standard deviations (means) or 0.3 in log variance. *Ours* is "
        "`Settings()`, all intervals of a report holding together at 95 %; *paper* is `Settings.paper()`, each by itself. "
        f"Of each target the first {SHOWN} parameters count; {SEEDS} seeds a cell, {EXACT_SEEDS} for exact ones below d = {LARGE}.",
        "## All targets together",
        table(summary(rows, ["kind", "method"])),
        "- **false bounds**: rows with verdict *error* whose bound is over the true error by more than 0.1.\n"
        "- **tightness**: bound over true error for rows with material errors (variances; means where they are wrong), median and "
        "10 % quantile, over all rows whatever their verdict.\n"
        "- **detected**: material errors with verdict *error*; **silent**: material errors with a bound under a fifth of them and verdict "
        "*no error found*.\n"
        "- **alarmed**: reports with any *error* verdict (for exact approximations: false alarms).\n"
        "- **gradients**: in units of the paper's N·T.",
        "![Bounds against true errors](img/calibration.png)",
        "## By family of targets",
        table(summary(rows[rows.method == "ours"], ["family", "kind"])),
        "## Beside k-hat",
        "k-hat is one number for the whole approximation: over 0.7 means *do not trust importance sampling*. It does not say "
        "which quantity is wrong.",
        table(beside_khat(rows)),
        "## Where it still fails, and why",
        failures(rows),
    ]
    write_whole(PAGE, "\n\n".join(sections) + "\n")


def summary(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    return pd.DataFrame([{**dict(zip(by, key, strict=True)), **characteristics(group)} for key, group in rows.groupby(by, sort=False)])


def characteristics(rows: pd.DataFrame) -> dict[str, str]:
    material = rows[rows.error > MATERIAL]
    error = rows.verdict == "error"
    reports = rows.groupby(["problem", "seed"])
    missed = (material.bound < material.error / 5) & (material.verdict == "no error found")
    return {
        "rows": f"{len(rows):,}",
        "false bounds": percent((error & (rows.bound > rows.error + OVER)).mean()),
        "variance tightness": tightness(material[material.functional == "variance"]),
        "mean tightness": tightness(material[material.functional == "mean"]),
        "detected": percent((material.verdict == "error").mean()) if len(material) else "—",
        "silent": f"{missed.sum()} of {len(material):,}" if len(material) else "—",
        "untrusted": percent((rows.verdict == "untrusted").mean()),
        "alarmed": percent(reports.verdict.agg(lambda verdict: (verdict == "error").any()).mean()),
        "gradients": f"{reports.spent.first().mean():.2f}",
    }


def tightness(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "—"
    ratio = rows.bound / rows.error
    return f"{ratio.median():.2f}, {ratio.quantile(0.1):.2f}"


def beside_khat(rows: pd.DataFrame) -> pd.DataFrame:
    ours = rows[(rows.method == "ours") & rows.khat.notna()]
    table = []
    for (problem, kind), group in ours.groupby(["problem", "kind"], sort=False):
        right = group.error <= OVER
        table.append(
            {
                "target": problem,
                "approximation": kind,
                "k-hat": f"{group.groupby('seed').khat.first().median():.2f}",
                "rows right": percent(right.mean()),
                "of them called wrong": percent((group[right].verdict == "error").mean()) if right.any() else "—",
                "materially wrong rows found": percent((group[group.error > MATERIAL].verdict == "error").mean())
                if (group.error > MATERIAL).any()
                else "—",
            }
        )
    return pd.DataFrame(table)


def failures(rows: pd.DataFrame) -> str:
    ours = rows[rows.method == "ours"]
    lines = []
    for (problem, kind), group in ours.groupby(["problem", "kind"], sort=False):
        false = ((group.verdict == "error") & (group.bound > group.error + OVER)).mean()
        material = group[group.error > MATERIAL]
        silent = ((material.bound < material.error / 5) & (material.verdict == "no error found")).sum()
        untrusted = (group.verdict == "untrusted").mean()
        parts = []
        if false > 0:
            parts.append(f"{percent(false)} false bounds")
        if silent:
            parts.append(f"{silent} silent misses")
        if untrusted > 0.2:
            parts.append(f"{percent(untrusted)} of the rows untrusted")
        if parts:
            lines.append(f"- {problem}, {kind}: {', '.join(parts)}.")
    why = (
        "Untrusted rows come where chains cannot do their work: funnels' necks that one step size cannot enter (the centred eight "
        "schools, funnels from d = 10), starts so far out that the budget ends while chains are in transit, and tails so heavy that "
        "moments are not found. One of two separated modes cannot be seen from within it: `other_starts=` is the remedy."
    )
    return "\n".join(lines) + "\n\n" + why


def draw(rows: pd.DataFrame) -> None:
    """Bounds against true errors, ours beside the paper's; a point above the diagonal is a false bound."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharex=True, sharey=True, layout="constrained")
    colours = {"error": "#0072B2", "no error found": "#999999", "untrusted": "#D55E00"}
    for axis, method in zip(axes, METHODS, strict=True):
        some = rows[(rows.method == method) & (rows.kind != "exact")]
        for verdict, colour in colours.items():
            part = some[some.verdict == verdict].sample(frac=1, random_state=0)[:3000]
            axis.scatter(part.error + 0.01, part.bound + 0.01, s=5, alpha=0.4, color=colour, label=verdict, rasterized=True)
        axis.plot([0.01, 10], [0.01, 10], color="black", linewidth=0.8)
        axis.set(xscale="log", yscale="log", xlim=(0.009, 12), ylim=(0.009, 12), title=method, xlabel="true error + 0.01")
    axes[0].set_ylabel("bound + 0.01")
    axes[0].legend(markerscale=3, frameon=False, loc="upper left")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def table(frame: pd.DataFrame) -> str:
    head = "| " + " | ".join(frame.columns) + " |\n|" + "---|" * len(frame.columns)
    return head + "\n" + "\n".join("| " + " | ".join(str(value) for value in row) + " |" for row in frame.to_numpy())


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def source_key() -> str:
    """A hash of the package's and the problems' source: what was measured with other code is not used."""
    package = ROOT / "src" / "taddaa"
    rooms = [path for room in ("formulas", "problem", "moves", "chains", "verdict") for path in (package / room).rglob("*.py")]
    files = [package / "diagnosis.py", package / "plan.py", package / "settings.py", *sorted(rooms), Path(__file__).parent / "problems.py"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


if __name__ == "__main__":
    main()
