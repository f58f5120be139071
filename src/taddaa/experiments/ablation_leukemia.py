"""Study 7, its part on real data: the bounds on the horseshoe's λ₆₁ against the number of iterations (appendix)."""

from ..plan import iterations_for
from ..settings import Settings
from . import data, models, posteriors, truth, vi
from .leukemia import BETA0, LAMBDA, STANDARDISED
from .picture import GREY, LABEL, STYLE, grid
from .posteriors import GENE, LEUKEMIA, POSTERIORS
from .real import CUTOFF, Findings
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
        "defaults without running on, so that T is what it says. λ₆₁ is read as log λ₆₁ and as z₆₁ (see the leukemia study)."
    )

    def cells(self, quick):
        planned, about = iterations_for(Settings().kernel, LEUKEMIA.target.dim), {"posterior": LEUKEMIA.name, "quick": quick}
        wanted = [max(1, round(share * planned)) for share in (QUICK_SHARES if quick else SHARES)]
        truths = [Cell(f"truth {r}", {"kind": "truth", "run": r, **about}) for r in range(1 if quick else LEUKEMIA.runs)]
        kind = {"kind": "diagnosis", "kernel": "barker", "every": False, "seed": 0, **about}
        return truths + [Cell(f"T={t} {m}", {"method": m, "iterations": t, "planned": planned, **kind}) for m in METHODS for t in wanted]

    def run(self, cell, store):
        wanted = cell.parameters
        posterior, quick = POSTERIORS[wanted["posterior"]], wanted["quick"]
        if wanted["kind"] == "truth":
            return posterior.truth_run(store, wanted["run"], quick)
        return posterior.diagnosis(store, wanted["method"], "barker", quick=quick, iterations=wanted["iterations"], budget=1)

    def claims(self, results):
        bounds = {quantity.row: _by_iterations(results, PAPER, quantity) for quantity in SHOWN}
        rho2 = {r["iterations"]: r["rho2_max"] for r in results if r["kind"] == "diagnosis" and r["method"] == PAPER}
        planned = next(r["planned"] for r in results if r["kind"] == "diagnosis")
        z, variance = bounds[STANDARDISED[0].row], bounds[BETA0[1].row]
        if planned not in rho2:
            return []  # the quick version stops before the plan's T
        early = [t for t in rho2 if t < planned and rho2[t] > CUTOFF]
        shares = {t: max(z[t] / z[planned], variance[t] / variance[planned]) for t in early}
        changes = {
            quantity.row: max(abs(bound - bounds[quantity.row][planned]) for t, bound in bounds[quantity.row].items() if t > planned)
            for quantity in SHOWN
        }
        of_gene = {row: change for row, change in changes.items() if not row.startswith("beta0")}
        return [
            Claim.judged(
                "appendix, ablation study",
                "“when ρ is large (greater than 0.1), the proposed lower bounds are quite underestimated”",
                {
                    "T with ρ²_max > 0.1, the largest": max(early, default=0),
                    f"share of the planned T's bound, at most (z{GENE} mean, β₀ variance)": max(shares.values(), default=0.0),
                },
                "wherever ρ²_max > 0.1, the bounds are at most half of those at the planned T",
                bool(early) and max(shares.values()) <= UNDERESTIMATED,
                partly=bool(early) and min(shares.values()) <= UNDERESTIMATED,
            ),
            Claim.judged(
                "appendix, ablation study",
                "“the lower bounds become nearly stationary at our proposed number of iterations T”",
                {f"largest change after T, {row}": change for row, change in changes.items()},
                f"no bound of log λ{GENE} and z{GENE} changes by more than the planned half-width (0.1 sd, 0.065 in log₁₀) up to 4T",
                all(change <= STEADY[row.rpartition(" ")[2]] for row, change in of_gene.items()),
                partly=True,
                reason="β₀'s variance, which the figure does not show, still grows after T: for it the plan's T is too short.",
            ),
        ]

    def figures(self, results):
        figure, panels = grid(len(SHOWN) + 1, 3, width=2.9, height=2.3)
        planned = next(r["planned"] for r in results if r["kind"] == "diagnosis")
        findings = Findings(results)
        for axes, quantity in zip(panels, SHOWN, strict=False):
            for method in METHODS:
                bounds = _by_iterations(results, method, quantity)
                axes.plot(list(bounds), list(bounds.values()), label=LABEL[method], **STYLE[method])
            error = abs(findings.express(findings.chosen("diagnosis")[0], LEUKEMIA, quantity).before)
            axes.axhline(error, color="black", lw=1, ls="-.", label="true error")
            axes.set(xscale="log", title=quantity.label.replace("error", "bound"), ylim=(-0.05 * error, None))
        for method in METHODS:
            chosen = [r for r in results if r["kind"] == "diagnosis" and r["method"] == method]
            panels[-1].plot([r["iterations"] for r in chosen], [r["rho2_max"] for r in chosen], **STYLE[method])
        panels[-1].axhline(CUTOFF, color="black", lw=0.8, ls=":")
        panels[-1].set(xscale="log", title="$\\rho^2_{\\max}$", xlabel="iterations T")
        for axes in panels:
            axes.axvline(planned, color=GREY, lw=0.8, ls=":")
        panels[0].legend(frameon=False, fontsize=8)
        caption = "Bounds against T, and the largest squared correlation with the starts; dotted vertical line: the plan's T."
        return {"bounds": (figure, caption)}

    def table(self, results):
        rows = [
            [LABEL[r["method"]], r["iterations"], r["rho2_max"], *(_by_iterations(results, r["method"], q)[r["iterations"]] for q in SHOWN)]
            for r in results
            if r["kind"] == "diagnosis"
        ]
        return Table(["settings", "T", "ρ²_max", *(f"bound: {q.label}" for q in SHOWN)], rows)


def _by_iterations(results, method, quantity):
    """The bound at each T, in the quantity's unit."""
    findings = Findings(results)
    return {r["iterations"]: findings.express(r, LEUKEMIA, quantity).bound for r in findings.chosen("diagnosis", method=method)}
