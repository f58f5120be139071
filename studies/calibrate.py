"""Operating characteristics over targets with known truth, ours beside the paper's and k-hat.

    python studies/calibrate.py            # minutes; stopped runs go on where they were
    python studies/calibrate.py --quick    # one seed, for a look
    python studies/calibrate.py --quick --only blr,funnel --page look.md    # of some targets, and elsewhere

Every cell (target × approximation × method) is stored under .calibration with a key of the package's source, so that a
changed package is measured anew. The page docs/calibration.md is written by this command and never edited.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from calibration_pictures import draw_bounds, draw_widths
from fit_models import FIT_MODELS
from fits import INTRODUCTION, measured
from problems import ROOT, Problem, problems

import taddaa
from taddaa.files import write_whole

STORE = ROOT / ".calibration"
PAGE = ROOT / "docs" / "calibration.md"
METHODS = {"ours": taddaa.Settings(), "paper": taddaa.Settings.paper()}
SEEDS, EXACT_SEEDS = 3, 10  # a cell; exact approximations need many for a rate of false alarms
LARGE = 100  # dimensions, from which 5 seeds must do
SHOWN = 20  # parameters of each target that count, so that large targets do not drown small ones
MATERIAL, OVER = 0.3, 0.1  # an error worth finding; a bound this far above the truth is false
KHAT_LARGEST = 256
REFERENCE_DRAWS = 10_000  # behind the truth of the reference posteriors, which is not known better than they tell it
TOLERANCE = {"mean": taddaa.Settings().mean_tolerance, "variance": taddaa.Settings().variance_tolerance}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed a cell")
    parser.add_argument("--only", default="", help="targets and fits whose names hold one of these, separated by commas")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the page goes, its pictures beside it in img/")
    given = parser.parse_args()
    quick = given.quick
    STORE.mkdir(exist_ok=True)
    begun, key = time.time(), source_key()
    rows: list[dict[str, Any]] = []
    for problem in (problem for problem in problems() if any(part in problem.name for part in given.only.split(","))):
        for kind, make in problem.approximations().items():
            seeds = 1 if quick else EXACT_SEEDS if kind == "exact" and problem.target.dim < LARGE else SEEDS
            for method, settings in methods_for(kind).items():
                cell = STORE / f"{key}-{problem.name.replace(' ', '_')}-{kind.replace(' ', '_')}-{method}-{seeds}.json"
                if not cell.exists():
                    found = [row for seed in range(seeds) for row in judge(problem, kind, make(seed), method, settings, seed)]
                    write_whole(cell, json.dumps(found))
                rows += json.loads(cell.read_text())
        print(f"{time.time() - begun:6.0f} s  {problem.name}", flush=True)
    fits = measured(STORE, key, [name for name in FIT_MODELS if any(part in name for part in given.only.split(","))])
    page(pd.DataFrame(rows), fits, given.page)
    print(f"wrote {given.page}")


def methods_for(kind: str) -> dict[str, taddaa.Settings]:
    """What is compared: for mean-field fits also plain intervals, for the picture of widths."""
    return {**METHODS, "plain": taddaa.Settings(interval="plain")} if kind == "mean-field" else METHODS


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
    truth = np.concatenate([problem.mean, problem.sd**2])
    return [
        {
            **common,
            "functional": row.functional,
            "error": float(e),
            "bound": row.bound / float(u),
            "verdict": row.verdict,
            "detectable": row.detectable / float(u),
            **right_value(row, float(right), float(u), problem.truth_known),
        }
        for i, (row, e, u, right) in enumerate(zip(report.rows, errors, unit, truth, strict=True))
        if i % len(problem.sd) < SHOWN
    ]


def right_value(row, truth: float, unit: float, known: bool) -> dict[str, Any]:
    """How far the corrected value is from the truth, and whether its interval holds; three standard errors of the truth are allowed."""
    scale = (lambda value: np.log(np.maximum(value, 1e-300))) if row.functional == "variance" else lambda value: value / unit
    low, value, high = (float(scale(part)) for part in (row.corrected_lower, row.corrected, row.corrected_upper))
    slack = 0.0 if known else 3 * np.sqrt((2.0 if row.functional == "variance" else 1.0) / REFERENCE_DRAWS)
    away, right = abs(value - float(scale(truth))), float(scale(truth))
    return {"away": away, "holds": bool(low - slack <= right <= high + slack)} if np.isfinite(away) else {"away": None, "holds": None}


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


def page(everything: pd.DataFrame, fits: pd.DataFrame, to: Path) -> None:
    rows = everything[everything.method != "plain"]
    pictures = to.parent / "img"
    pictures.mkdir(exist_ok=True)
    draw_bounds(rows, pictures / "calibration.png", list(METHODS))
    draw_widths(everything, pictures / "widths.png", TOLERANCE)
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
        "Brackets of coupled pairs, and how often they hold: [measured](certificate.md#measured). How often the first look is right:\n"
        "[measured](first-look.md#how-often-it-is-right).",
        "## Right values",
        "Of *ours*. **detectable**: median, of means in posterior standard deviations and of log variances. **off by**: how far the "
        "right values are from the truth, median and 90 % quantile, where they were trusted. **all hold**: reports all of whose right "
        "values have intervals that contain the truth (nominal 95 %; the truth of reference posteriors is itself known to 0.01). "
        "**wrongly within**: rows *within tolerance* whose true error is over it. **undecided**: rows that end in *no error found*.",
        table(summary(rows[rows.method == "ours"], ["kind"], right_values)),
        table(summary(rows[rows.method == "ours"], ["family", "kind"], right_values)),
        "![Detectable errors of mean-field fits with plain intervals and with sharper ones](img/widths.png)",
        "## Real fits",
        INTRODUCTION,
        table(fits),
        "## By family of targets",
        table(summary(rows[rows.method == "ours"], ["family", "kind"])),
        "## Beside k-hat",
        "k-hat is one number for the whole approximation: over 0.7 means *do not trust importance sampling*. It does not say "
        "which quantity is wrong.",
        table(beside_khat(rows)),
        "## Where it still fails, and why",
        failures(rows),
    ]
    write_whole(to, "\n\n".join(sections) + "\n")


def summary(rows: pd.DataFrame, by: list[str], of: Callable[[pd.DataFrame], dict[str, str]] | None = None) -> pd.DataFrame:
    of = characteristics if of is None else of
    return pd.DataFrame([{**dict(zip(by, key, strict=True)), **of(group)} for key, group in rows.groupby(by, sort=False)])


def right_values(rows: pd.DataFrame) -> dict[str, str]:
    trusted = rows[rows.away.notna() & (rows.verdict != "untrusted")]
    means, variances = (trusted[trusted.functional == name] for name in ("mean", "variance"))
    holds = trusted.groupby(["problem", "kind", "seed"]).holds.agg(lambda held: bool(held.astype(bool).all()))
    within = rows[rows.verdict == "within tolerance"]
    wrongly = within.error > within.functional.map(TOLERANCE).astype(float) * (1 + 1e-9)
    off = lambda part: f"{part.away.median():.4f}, {part.away.quantile(0.9):.4f}" if len(part) else "—"  # noqa: E731
    return {
        "detectable mean": f"{means.detectable.median():.3f}" if len(means) else "—",
        "log variance": f"{variances.detectable.median():.3f}" if len(variances) else "—",
        "means off by": off(means),
        "log variances off by": off(variances),
        "all hold": percent(holds.mean()) if len(holds) else "—",
        "wrongly within": f"{wrongly.sum()} of {len(within):,}",
        "undecided": percent((rows.verdict == "no error found").mean()),
    }


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
