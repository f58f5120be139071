"""How often the first look is right, and whether it says so where it is not.

    python studies/glance.py            # some minutes; writes docs/first-look.md
    python studies/glance.py --quick    # one seed, for a look

Targets and approximations are those of calibrate.py; the truth is known.
"""

import argparse

import jax
import numpy as np
import pandas as pd
from calibrate import MATERIAL, SHOWN, STORE, percent, table
from fit_models import FIT_MODELS
from fits import ASKED, fitted, is_judged, label_of, truth_of
from problems import ROOT, Problem, problems

import taddaa
from taddaa.files import write_whole
from taddaa.report.glance import DOUBTFUL, SEEMS_WRONG, WITHIN

PAGE = ROOT / "docs" / "first-look.md"
SEEDS = 3
KINDS = ("exact", "mean-field", "shifted", "too wide", "too narrow")
DIAGNOSED = ("mean-field", "shifted")  # with one seed, to see whether the first look and the diagnosis agree
TOLERANCE = {"mean": taddaa.Settings().mean_tolerance, "variance": taddaa.Settings().variance_tolerance}
WORDS = """# The first look

`taddaa.glance(target, approximation)` costs 400 gradients (three a dimension from d = 134 on) and no chain. It estimates the right means,
variances and quantiles from gradients alone:

```python
import jax.numpy as jnp
import numpy as np

import taddaa

precision = np.array([[2.0, -1.6], [-1.6, 2.0]])
target = taddaa.Target(lambda x: -0.5 * x @ jnp.asarray(precision) @ x, dim=2, names=["a", "b"])
look = taddaa.glance(target, taddaa.Gaussian([0.3, 0.0], [0.7, 0.7]))
print(look)
look.to_dataframe()
```

`taddaa run --glance FILE.py` prints the same. The first line of every diagnosis' progress is the headline of a simpler one, at draws of
the fit alone: its gradients are those of the diagnosis' own pilots.

**It is never a bound.** A row is *doubtful* if its *give or take* is over the tolerance and over 30 % of the error seen, and all are if
the look says that it went astray. The cutoffs were chosen on the targets below and on nine other fits, so expect a little worse
elsewhere.

## How

**Nearly a quadratic.** Where the log density is nearly quadratic, a quantity is nearly a constant plus functions of the gradient whose
mean under the posterior is zero (Stein's identity), wherever the draws come from; the constant is the right value. Elsewhere the estimate
depends on where the draws are, and three things tell: the part of a quantity that those functions leave unexplained, the difference
between two halves of the draws (the larger is *give or take*), and how far the log density bends away from a quadratic between the draws
and the posterior's estimated centre. From 2.4 nats on the whole look is called astray; and wherever the identity does not hold, because
the support has an edge among the draws, or the density has no end along a coordinate. A quantile is where it would be if the posterior
were the fit, moved and stretched.

**Hierarchies.** Draws of a mean-field fit of a hierarchy, or of a volatility model, do not see where the posterior is. So where the log
density bends by more than 0.3 nats, only two fifths of the gradients are spent at draws of the fit. From them a stand-in for the log
density is learnt, of the form

    log π(x) = Σ_m exp(a_m x_k(m)) · (c_m + b_m·x + xᵀQ_m x/2 + Σ_i u_mi(x_i)),

with a few *drivers* x_k (logarithms of scales), sparse Q_m and smooth u. It is linear in what is to be learnt, and each gradient is d
equations: hierarchies of normal effects are in the family, and known exactly and everywhere once their terms are found, which often takes
no more than a hundred gradients near the fit.
Effects in units of their scale (*not centred*: exp(x_k) z_i, with z_i standard normal) are found by another regression without noise, ∂_k
log π = Σ_i z_i (∂_i log π + z_i) + a function of x_k, and are centred first: then their scale is known to be a driver. The stand-in is
cheap to draw from: given the few drivers, the rest is normal or nearly so (Laplace's approximation, with weights, as INLA does it: Rue,
Martino and Chopin 2009). Gradients at its draws teach the next, three times in all, each a fifth of the gradients. What the last batch's
log densities say of the stand-in that drew it is the *give or take*: if the last is off by as much, estimates are off by their covariance
with the weights that would mend it. Where it is off by more than one nat the look says so. Where it does not keep up with what it finds,
or there are no such drivers, the look is made as above, from all places that were asked on the way.

**When to use it:** when gradients are so dear that a diagnosis (tens of thousands) cannot be paid for, or to see at once whether a fit is
badly wrong. Learning takes seconds of its own in many dimensions ([Performance](performance.md) has them beside a diagnosis; up to a
minute at d = 300, beyond which it is not done), so with cheap gradients a diagnosis is as fast, and says more. **When not:** where scales
do not multiply normal effects or smooth functions of single parameters: horseshoes, whose every coefficient has a scale of its own, and
products of parameters (factors). Modes that no draw of the fit comes near, and signs that may be turned, are not seen. And a fit that is
several times too narrow, of a few parameters on which the log density bends in no simple way, may hide that from every draw: then a look
may be wrong and not say so (below).
"""
FITS = """Mean-field fits on made-up data, against NUTS: the models of [Calibration](calibration.md). Means, variances, 5 % and 95 %
quantiles of all parameters; of *factors*, which may be turned, of what does not change with it. Half-Cauchy scales, as those of
*horseshoe*, have no variance: an error of it is none that could be seen."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed a cell")
    seeds = 1 if parser.parse_args().quick else SEEDS
    STORE.mkdir(exist_ok=True)
    rows: list[dict] = []
    for problem in problems():
        for kind, make in problem.approximations().items():
            if kind in KINDS:
                rows += [row for seed in range(seeds) for row in looked(problem, kind, make(seed), seed)]
        jax.clear_caches()
        print(problem.name, flush=True)
    page(pd.DataFrame(rows), looked_at_fits(seeds), seeds)
    print(f"wrote {PAGE.relative_to(ROOT)}")


def looked(problem: Problem, kind: str, approximation, seed: int) -> list[dict]:
    """One first look against the truth: one record a row."""
    look = taddaa.glance(problem.target, approximation, seed=seed)
    verdicts = [""] * len(look.rows)
    if kind in DIAGNOSED and seed == 0:
        verdicts = [row.verdict for row in taddaa.diagnose(problem.target, approximation).rows]
    dim = len(problem.mean)
    truth = np.concatenate([problem.mean, np.log(problem.sd**2)])
    unit = np.concatenate([problem.sd, np.ones(dim)])
    found = []
    for i, (row, verdict) in enumerate(zip(look.rows, verdicts, strict=True)):
        if i % dim >= SHOWN:
            continue
        estimate, fit = (np.log(v) if i >= dim else v for v in (row.estimate, row.approximation))
        found.append(
            {
                "problem": problem.name,
                "family": problem.family,
                "kind": kind,
                "error": abs(fit - truth[i]) / unit[i],
                "off": abs(estimate - truth[i]) / unit[i] if np.isfinite(estimate) else np.inf,
                "tolerance": TOLERANCE[row.functional],
                "seems": row.seems,
                "verdict": verdict,
            }
        )
    return found


def looked_at_fits(seeds: int) -> pd.DataFrame:
    """The same of NumPyro fits, against NUTS, with their 5 % and 95 % quantiles too."""
    found: list[dict] = []
    for name, fit in FIT_MODELS.items():
        with jax.enable_x64(True):
            truth = truth_of(fit, STORE / f"nuts-{label_of(name)}.json")
            target, approximation = fitted(fit, 0)
            for seed in range(seeds):
                look = taddaa.glance(target, approximation, ASKED, seed=seed)
                for row in (row for row in look.rows if is_judged(row, fit, truth)):
                    right, unit = truth[row.parameter][row.functional][0], truth[row.parameter]["sd"][0]
                    estimate, own = row.estimate, row.approximation
                    if row.functional == "variance":
                        unit, estimate, own = 1.0, np.log(np.maximum(estimate, 1e-300)), np.log(np.maximum(own, 1e-300))
                    off, error = abs(estimate - right) / unit, abs(own - right) / unit
                    common = {"fit": name, "dim": target.dim, "gradients": look.gradients, "seems": row.seems}
                    tolerance = TOLERANCE["variance" if row.functional == "variance" else "mean"]
                    found.append(common | {"off": off if np.isfinite(off) else np.inf, "error": error, "tolerance": tolerance})
        jax.clear_caches()
        print(name, flush=True)
    return pd.DataFrame(found)


def judge(rows: pd.DataFrame) -> None:
    rows["wrong"] = rows.off > np.maximum(rows.tolerance, WITHIN * rows.error)
    rows["seen"] = rows.off <= WITHIN * rows.error
    rows["sure"] = rows.seems != DOUBTFUL


def of_fit(name: str, rows: pd.DataFrame) -> dict[str, str]:
    first = {"fit": name, "d": f"{rows.dim.iloc[0]}", "gradients": f"{rows.gradients.iloc[0]}"} if "all" not in name else {"fit": name}
    blank = {key: "" for key in ("d", "gradients") if key not in first}
    return first | blank | {key: value for key, value in characteristics(name, rows).items() if key != "approximation"}


def page(rows: pd.DataFrame, fits: pd.DataFrame, seeds: int) -> None:
    judge(rows)
    judge(fits)
    real = rows[rows.family == "posteriordb"]
    parts = [WORDS, "## How often it is right", f"Measured by `make calibrate`, which writes this page; seeds a cell: {seeds}."]
    for name, some in (("Real posteriors", real), ("Other targets", rows[rows.family != "posteriordb"])):
        if len(some):
            parts += [f"### {name}", table(pd.DataFrame([characteristics(kind, part) for kind, part in some.groupby("kind", sort=False)]))]
    by_fit = [of_fit(str(name), some) for name, some in fits.groupby("fit", sort=False)]
    parts += ["### Fits of NumPyro models", FITS, table(pd.DataFrame([*by_fit, of_fit("all", fits)]))]
    parts += [
        "- **seen**: errors over 0.3 (standard deviations, or log variance) that the estimate gives within 30 %; **of them sure**: those "
        "it does not call doubtful.\n"
        "- **wrong without a warning**: rows whose estimate is off by more than the tolerance and more than 30 % of the fit's error, and "
        "which are not doubtful.\n"
        "- For *exact* draws there is nothing to see: doubt there is the price of the warnings.",
        "## Where its warnings speak",
        "Targets on which an estimate is wrong:",
        table(pd.DataFrame([warned(key, part) for key, part in rows.groupby(["problem", "kind"], sort=False) if part.wrong.any()])),
        "## Beside the diagnosis",
        beside(rows[rows.verdict != ""]),
    ]
    write_whole(PAGE, "\n\n".join(parts) + "\n")


def characteristics(kind: str, rows: pd.DataFrame) -> dict[str, str]:
    material = rows[rows.error > MATERIAL]
    return {
        "approximation": kind,
        "rows": f"{len(rows):,}",
        "material errors": f"{len(material):,}",
        "seen": percent(material.seen.mean()) if len(material) else "—",
        "of them sure": percent((material.seen & material.sure).mean()) if len(material) else "—",
        "wrong": percent(rows.wrong.mean()),
        "doubtful": percent((~rows.sure).mean()),
        "wrong without a warning": percent((rows.wrong & rows.sure).mean()),
    }


def warned(key: tuple[str, str], rows: pd.DataFrame) -> dict[str, str]:
    return {
        "target": key[0],
        "approximation": key[1],
        "wrong": percent(rows.wrong.mean()),
        "doubtful": percent((~rows.sure).mean()),
        "wrong without a warning": percent((rows.wrong & rows.sure).mean()),
    }


def beside(rows: pd.DataFrame) -> str:
    """Of rows that both speak about: do they say the same?"""
    both = rows[rows.sure & rows.verdict.isin(["error", "within tolerance", "no error found"])]
    wrong, error = both.seems == SEEMS_WRONG, both.verdict == "error"
    return (
        f"Mean-field and shifted fits, one seed: of {len(rows):,} rows both speak about {len(both):,}. Where the first look says *seems "
        f"wrong*, the diagnosis finds an error in {percent(error[wrong].mean())}; where it says *seems right*, the diagnosis finds one in "
        f"{percent(error[~wrong].mean())} (errors below the tolerance too, as a diagnosis finds them), and a material one in "
        f"{percent((error & (both.error > MATERIAL))[~wrong].mean())}."
    )


if __name__ == "__main__":
    main()
