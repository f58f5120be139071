"""Study 7, its part on real data: the bounds on the horseshoe's λ₆₁ against the number of iterations (appendix)."""

import numpy as np

from ..plan import iterations_for
from ..settings import Settings
from . import data, models, posteriors, truth, vi
from .leukemia import BETA0, LAMBDA, STANDARDISED
from .picture import GREY, LABEL, STYLE, grid
from .posteriors import GENE, LEUKEMIA, POSTERIORS
from .real import CUTOFF, SEEDS, Findings
from .study import METHODS, PAPER, Cell, Claim, Study, Table

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4)  # of the planned T
QUICK_SHARES = (1 / 32, 1 / 16)
SHOWN = [STANDARDISED[0], STANDARDISED[1], *LAMBDA, BETA0[1]]
STEADY = {"mean": 0.1, "variance": 0.065}  # the planned half-widths: standard deviations, and 0.15 in the log variance as log₁₀
UNDERESTIMATED = 0.5  # of the bound at the planned T


class LeukemiaAblation(Study):
    name, title, place = "ablation-leukemia", "Bounds on λ₆₁ against the number of iterations", "appendix C.1, figure 12"
    sources = (posteriors, models, data, truth, vi)
    about = (
        "The horseshoe of the leukemia study, Barker, with T from a sixteenth of the plan's 293 iterations to four times as many; our "
        "defaults without running on; medians of three seeds. λ₆₁ is read as log λ₆₁ and as z₆₁ (see the leukemia study)."
    )

    def cells(self, quick):
        planned, about = iterations_for(Settings().kernel, LEUKEMIA.target.dim), {"posterior": LEUKEMIA.name, "quick": quick}
        wanted = [max(1, round(share * planned)) for share in (QUICK_SHARES if quick else SHARES)]
        truths = [Cell(f"truth {r}", {"kind": "truth", "run": r, **about}) for r in range(1 if quick else LEUKEMIA.runs)]
        kind = {"kind": "diagnosis", "kernel": "barker", "every": False, "planned": planned, **about}
        return truths + [
            Cell(f"T={t} {method} seed {seed}", {"method": method, "iterations": t, "seed": seed, **kind})
            for method in METHODS
            for t in wanted
            for seed in ((0,) if quick else (0, *SEEDS))
        ]

    def run(self, cell, store):
        wanted = cell.parameters
        posterior, quick = POSTERIORS[wanted["posterior"]], wanted["quick"]
        if wanted["kind"] == "truth":
            return posterior.truth_run(store, wanted["run"], quick)
        changes = {"iterations": wanted["iterations"], "budget": 1}
        return posterior.diagnosis(store, wanted["method"], "barker", quick=quick, seed=wanted["seed"], **changes)

    def claims(self, results):
        bounds = {quantity.row: _medians(results, PAPER, quantity) for quantity in SHOWN}
        rho2 = _largest_rho2(results, PAPER)
        planned = next(r["planned"] for r in results if r["kind"] == "diagnosis")
        z, variance = bounds[STANDARDISED[0].row], bounds[BETA0[1].row]
        if planned not in rho2:
            return []  # the quick version stops before the plan's T
        early = [t for t in rho2 if t < planned and rho2[t] > CUTOFF]
        if not z[planned]:
            return []  # nothing was found that could be underestimated
        shares, of_variance = ([each[t] / each[planned] for t in early] for each in (z, variance))
        changes = {
            quantity.row: max(abs(bound - bounds[quantity.row][planned]) for t, bound in bounds[quantity.row].items() if t > planned)
            for quantity in SHOWN
        }
        steady = [change <= STEADY[row.rpartition(" ")[2]] for row, change in changes.items() if not row.startswith("beta0")]
        return [
            Claim.judged(
                "appendix C.1, figure 12",
                "“when ρ is large (greater than 0.1), the proposed lower bounds are quite underestimated”",
                {
                    "T with ρ²_max > 0.1, the largest": max(early, default=0),
                    f"bound at such T / bound at the planned T, at most: z{GENE} mean": max(shares, default=0.0),
                    "the same, β₀ variance": max(of_variance, default=0.0),
                },
                f"wherever ρ²_max > 0.1, the bound on the mean of z{GENE} is at most half of that at the planned T",
                bool(early) and max(shares) <= UNDERESTIMATED,
                partly=bool(early) and min(shares) <= UNDERESTIMATED,
            ),
            Claim.judged(
                "appendix C.1, figure 12",
                "“the lower bounds become nearly stationary at our proposed number of iterations T”",
                {f"largest change after T, {row}": change for row, change in changes.items()},
                f"no bound of log λ{GENE} and z{GENE} changes by more than the planned half-width (0.1 sd, 0.065 in log₁₀) up to 4T",
                all(steady),
                partly=sum(steady) >= 2,
                reason="β₀'s variance, which the figure does not show, still grows after T: for it the plan's T is too short.",
            ),
        ]

    def figures(self, results):
        figure, panels = grid(len(SHOWN) + 1, 3, width=2.9, height=2.3)
        planned = next(r["planned"] for r in results if r["kind"] == "diagnosis")
        findings = Findings(results)
        for axes, quantity in zip(panels, SHOWN, strict=False):
            for method in METHODS:
                bounds = _bounds(results, method, quantity)
                axes.plot(list(bounds), [np.median(each) for each in bounds.values()], label=LABEL[method], **STYLE[method])
                lowest, highest = ([pick(each) for each in bounds.values()] for pick in (min, max))
                axes.fill_between(list(bounds), lowest, highest, color=STYLE[method]["color"], alpha=0.15, lw=0)
            error = abs(findings.express(findings.chosen("diagnosis")[0], LEUKEMIA, quantity).before)
            axes.axhline(error, color="black", lw=1, ls="-.", label="true error")
            axes.set(xscale="log", title=quantity.label.replace("error", "bound"), ylim=(-0.05 * error, None))
        for method in METHODS:
            rho2 = _largest_rho2(results, method)
            panels[-1].plot(list(rho2), list(rho2.values()), **STYLE[method])
        panels[-1].axhline(CUTOFF, color="black", lw=0.8, ls=":")
        panels[-1].set(xscale="log", title="$\\rho^2_{\\max}$", xlabel="iterations T")
        for axes in panels:
            axes.axvline(planned, color=GREY, lw=0.8, ls=":")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        caption = "Bounds against T (median and range of three seeds), and ρ²_max; dotted vertical line: the plan's T."
        return {"bounds": (figure, caption)}

    def table(self, results):
        rows = [
            [LABEL[method], t, rho2, *(_medians(results, method, quantity)[t] for quantity in SHOWN)]
            for method in METHODS
            for t, rho2 in _largest_rho2(results, method).items()
        ]
        return Table(["settings", "T", "ρ²_max", *(f"bound: {q.label}" for q in SHOWN)], rows)


def _bounds(results, method, quantity):
    """The bounds of all seeds at each T, in the quantity's unit."""
    findings = Findings(results)
    found: dict[int, list[float]] = {}
    for r in findings.chosen("diagnosis", method=method):
        found.setdefault(r["iterations"], []).append(findings.express(r, LEUKEMIA, quantity).bound)
    return found


def _medians(results, method, quantity):
    return {t: float(np.median(each)) for t, each in _bounds(results, method, quantity).items()}


def _largest_rho2(results, method):
    """ρ²_max at each T, the median of the seeds."""
    mine = Findings(results).chosen("diagnosis", method=method)
    return {
        t: float(np.median([r["rho2_max"] for r in mine if r["iterations"] == t])) for t in dict.fromkeys(r["iterations"] for r in mine)
    }
