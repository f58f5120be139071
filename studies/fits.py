"""NumPyro fits (mean-field, 10,000 steps) judged against long runs of NUTS, quantity by quantity: a section of docs/calibration.md.

python studies/fits.py [NAME …]    # prints the table; what was measured is kept in .calibration
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
import pandas as pd
from fit_models import FIT_MODELS, FitModel
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide

import taddaa
from taddaa.files import write_whole
from taddaa.formulas.distributions import normal_quantile

DRAWS, BATCHES = 5000, 10  # of each of 4 chains of NUTS; for the truth's own standard errors
USUAL_DRAWS = 1000
MATERIAL, OVER = 0.3, 0.1  # posterior standard deviations, or in log variance
LEVELS = (0.05, 0.95)
ASKED = [taddaa.Mean(), taddaa.Variance(), *(taddaa.Quantile(p) for p in LEVELS)]
SURELY = 3.0  # standard errors of the truth
INTRODUCTION = (
    "Mean-field fits by NumPyro (`AutoNormal`, 10,000 steps of Adam) on made-up data, against NUTS (4 × 5,000 draws): means, variances, "
    "5 % and 95 % quantiles of all quantities; of *factors*, which may be turned, those that do not change with it. **found**: material "
    "errors with verdict *error*; **tightness**: bound over true error of these, median and 10 %; **NUTS's**: what it would be of bounds "
    "from NUTS with 4 × 1,000 draws, at the same level of all rows together (normal, with its own standard errors); **silent**: material "
    "errors *within tolerance*, or *no error found* and over twice `detectable`; **false**: bounds over the true error by 0.1 and "
    "twice its own standard error; **undecided**: *no error found*; **off by**: right values, in posterior standard deviations or log "
    "variance, median and 90 %; "
    "**outside**: right values whose interval misses NUTS's by over three of its standard errors."
)


def truth_of(fit: FitModel, path: Path) -> dict[str, Any]:
    """Quantity → functional → (value, standard error), from NUTS; a variance by its logarithm."""
    if not path.exists():
        sampler = MCMC(
            NUTS(fit.sampled or fit.model, target_accept_prob=0.9),
            num_warmup=1500,
            num_samples=DRAWS,
            num_chains=4,
            chain_method="vectorized",
            progress_bar=False,
        )
        sampler.run(jax.random.key(7), *fit.arguments)
        found = {}
        for site, draws in sampler.get_samples(group_by_chain=True).items():
            if fit.judged and site not in fit.judged:
                continue
            for place in np.ndindex(*draws.shape[2:]):
                label = f"{site}[{','.join(map(str, place))}]" if place else site
                found[label] = functionals(np.asarray(draws[(slice(None), slice(None), *place)], float))
        write_whole(path, json.dumps(found))
    return json.loads(path.read_text())


def functionals(x: np.ndarray) -> dict[str, tuple[float, float]]:
    """Of draws (chains, draws), with standard errors by batch means."""

    def error(score: np.ndarray) -> float:
        means = score.reshape(len(score) * BATCHES, -1).mean(axis=1)
        return float(means.std(ddof=1) / np.sqrt(len(means)))

    found = {"sd": (float(x.std()), 0.0), "mean": (float(x.mean()), error(x))}
    found["variance"] = (float(np.log(x.var())), error((x - x.mean()) ** 2) / float(x.var()))
    for p in LEVELS:
        low, value, high = np.quantile(x, [p - 0.02, p, p + 0.02])
        found[f"q{p:g}"] = (float(value), error((x <= value).astype(float)) * float(high - low) / 0.04)
    return found


def fitted(fit: FitModel, seed: int) -> tuple[taddaa.Target, taddaa.Approximation]:
    guide = autoguide.AutoNormal(fit.model)
    result = SVI(fit.model, guide, numpyro.optim.Adam(0.005), Trace_ELBO()).run(
        jax.random.key(seed + 1), 10_000, *fit.arguments, progress_bar=False
    )
    return taddaa.from_numpyro(fit.model, guide, result.params, *fit.arguments)


def diagnosed(fit: FitModel, truth: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """One record a row whose truth is known."""
    target, approximation = fitted(fit, seed)
    report = taddaa.diagnose(target, approximation, ASKED, seed=seed)
    common = {"dim": target.dim, "gradients": report.cost.gradients}
    return [{**common, **judged_row(row, truth[row.parameter])} for row in report.rows if is_judged(row, fit, truth)]


def is_judged(row, fit: FitModel, truth: dict[str, Any]) -> bool:
    return row.parameter in truth and (not fit.judged or row.parameter.split("[")[0] in fit.judged)


def judged_row(row, truth: dict[str, tuple[float, float]]) -> dict[str, Any]:
    variance = row.functional == "variance"
    unit = 1.0 if variance else truth["sd"][0]
    scale = (lambda value: float(np.log(np.maximum(value, 1e-300)))) if variance else float
    right, doubt = truth[row.functional]
    away = abs(scale(row.corrected) - right) / unit
    beyond = max(scale(row.corrected_lower) - right, right - scale(row.corrected_upper))  # not where they are NaN
    return {
        "parameter": row.parameter,
        "functional": row.functional,
        "verdict": row.verdict,
        "error": abs(scale(row.approximation) - right) / unit,
        "bound": row.bound / unit,
        "detectable": row.detectable / unit,
        "doubt": doubt / unit,
        "away": away if np.isfinite(away) else None,
        "outside": bool(beyond > SURELY * doubt),
    }


def line(name: str, rows: pd.DataFrame) -> dict[str, str]:
    material, error = rows[rows.error > MATERIAL], rows.verdict == "error"
    found = material[material.verdict == "error"]
    silent = (material.verdict == "within tolerance") | (
        (material.verdict == "no error found") & (material.error > 2 * material.detectable)
    )
    ratio, away = found.bound / found.error, rows.away.dropna().astype(float)
    # As many draws as people take are fewer than the truth's, and its standard errors so much larger.
    half = normal_quantile(1 - (1 - taddaa.Settings().level) / 2 / len(rows)) * np.sqrt(DRAWS / USUAL_DRAWS) * found.doubt
    rival = (1 - half / found.error).clip(lower=0.0)
    percent = lambda share: f"{100 * share:.0f} %"  # noqa: E731
    return {
        "fit": name,
        "d": str(rows.dim.iloc[0]),
        "rows": str(len(rows)),
        "material": str(len(material)),
        "found": percent(len(found) / len(material)) if len(material) else "—",
        "tightness": f"{ratio.median():.2f}, {ratio.quantile(0.1):.2f}" if len(found) else "—",
        "NUTS's": f"{rival.median():.2f}, {rival.quantile(0.1):.2f}" if len(found) else "—",
        "silent": str(silent.sum()),
        "false": str((error & (rows.bound > rows.error + OVER + 2 * rows.doubt)).sum()),
        "untrusted": percent((rows.verdict == "untrusted").mean()),
        "within tolerance": percent((rows.verdict == "within tolerance").mean()),
        "undecided": percent((rows.verdict == "no error found").mean()),
        "off by": f"{away.median():.3f}, {away.quantile(0.9):.3f}" if len(away) else "—",
        "outside": str(rows.outside.sum()),
        "gradients": f"{rows.gradients.iloc[0] / 1000:,.0f}k",
    }


def label_of(name: str) -> str:
    """Of a fit's cells: what was measured with other models is not used."""
    models = hashlib.sha256(Path(__file__).with_name("fit_models.py").read_bytes()).hexdigest()[:8]
    return f"{models}-{name.replace(', ', '_')}"


def measured(store: Path, key: str, names: list[str]) -> pd.DataFrame:
    """One line a fit, from its cells in `store` or from now on; `key` is that of the package's source."""
    lines = []
    for name in names:
        path = store / f"{key}-fit-{label_of(name)}.json"
        with jax.enable_x64(True):
            if not path.exists():
                truth = truth_of(FIT_MODELS[name], store / f"nuts-{label_of(name)}.json")
                write_whole(path, json.dumps(diagnosed(FIT_MODELS[name], truth, seed=0)))
        lines.append(line(name, pd.DataFrame(json.loads(path.read_text()))))
        print("  ".join(lines[-1].values()), flush=True)
        jax.clear_caches()
    return pd.DataFrame(lines)


if __name__ == "__main__":
    from calibrate import STORE, source_key

    STORE.mkdir(exist_ok=True)
    measured(STORE, source_key(), sys.argv[1:] or list(FIT_MODELS))
