"""Study 8: gradient evaluations of a diagnosis against those of the VI fit (sections 4.3 to 4.5)."""

import numpy as np

from . import data, models, posteriors, truth, vi
from .picture import BLUE, GREY, ORANGE, VERMILION, grid
from .posteriors import CANDY, LEUKEMIA, NETWORK, POSTERIORS
from .study import METHODS, OURS, PAPER, Cell, Claim, Study, Table

STATED = {"candy": (4.3e4, 2e6), "leukemia": (1.1e5, 4e5), "network": (8.4e4, 6.8e5)}  # gradients of the diagnosis and of VI
TOLERANCES = (0.1, 0.01)  # of our VI's convergence; the smaller asks for a hundredfold more gradients
FEWER = "Our VI starts close to its optimum and stops when its averages agree: far fewer gradients than VIABEL's. "
LONGER = "Against the VI that is asked for a tenth of the tolerance, the share is the stated one or less"
NEITHER = "Even against the VI that is asked for a tenth of the tolerance, the share is above the stated one"
AT_THE_LIMIT = "; that VI stopped at its limit of steps, not converged"
TITLE = {"candy": "candy, d = 11", "leukemia": "horseshoe, d = 203", "network": "network, d = 85"}


class Cost(Study):
    name, title, place = "cost", "Cost of the diagnosis and of the fit", "sections 4.3 to 4.5"
    sources = (posteriors, models, data, truth, vi)
    about = (
        "Gradient evaluations, with Barker, as the text counts them. The paper's VI is VIABEL's; ours is `taddaa.fit.meanfield`, which "
        "starts at a Gaussian on the path of L-BFGS and so needs far fewer steps. Both take 10 draws a step and up to 200,000 steps, and "
        "stop when converged. Ours is run to its usual tolerance (two successive averages differ by less than 0.1 standard deviations) "
        "and to a tenth of it."
    )

    def cells(self, quick):
        chosen = (CANDY,) if quick else (CANDY, LEUKEMIA, NETWORK)
        fits = [
            Cell(f"{p.name} fit {t:g}", {"kind": "fit", "posterior": p.name, "tolerance": t, "quick": quick})
            for p in chosen
            for t in TOLERANCES
        ]
        runs = [
            Cell(f"{p.name} {m}", {"kind": "diagnosis", "posterior": p.name, "method": m, "quick": quick}) for p in chosen for m in METHODS
        ]
        return fits + runs

    def run(self, cell, store):
        posterior, quick = POSTERIORS[cell.parameters["posterior"]], cell.parameters["quick"]
        if cell.parameters["kind"] == "fit":
            fitted = vi.mean_field(store, posterior.key(), posterior.target, quick=quick, tolerance=cell.parameters["tolerance"])
            return {"gradients": fitted.gradients, "converged": fitted.converged}
        found = posterior.diagnosis(store, cell.parameters["method"], "barker", quick=quick)
        return {"gradients": found["gradients"], "iterations_run": found["iterations_run"], "chains": found["chains"]}

    def claims(self, results):
        made = []
        for name, (diagnosis, fit) in STATED.items():
            counts = _counts(results, name)
            if counts is None:
                continue
            paper, ours, usual, tight = counts
            stated = diagnosis / fit
            converged = next(r["converged"] for r in results if (r["posterior"], r.get("tolerance")) == (name, TOLERANCES[-1]))
            holds, holds_longer = paper / usual <= stated, paper / tight <= stated
            made.append(
                Claim.judged(
                    f"{TITLE[name]}, the diagnosis",
                    f"The diagnosis takes {diagnosis:.2g} gradients",
                    {"gradients": paper},
                    "within 5 % of the stated number",
                    abs(paper / diagnosis - 1) <= 0.05,
                )
            )
            made.append(
                Claim.judged(
                    f"{TITLE[name]}, against VI",
                    f"The diagnosis takes {100 * stated:.0f} % of the gradients of VI ({fit:.2g})",
                    {
                        "VI's gradients": usual,
                        "to a tenth of the tolerance": tight,
                        "stated share": stated,
                        "diagnosis / VI": paper / usual,
                        "diagnosis / longer VI": paper / tight,
                    },
                    "diagnosis / VI is at most the stated share; different if only diagnosis / longer VI is",
                    holds,
                    partly=holds_longer,
                    reason="" if holds else FEWER + (LONGER if holds_longer else NEITHER) + AT_THE_LIMIT * (not converged) + ".",
                )
            )
            made.append(
                Claim.judged(
                    f"{TITLE[name]}, our defaults",
                    "Running on while quantities move stays within its budget of eight times the plan",
                    {"gradients": ours, "times the paper preset's": ours / paper},
                    "at most 9 times the paper preset's gradients (the pilot draws included)",
                    ours <= 9 * paper,
                    method=OURS,
                )
            )
        return made

    def figures(self, results):
        names = [name for name in STATED if _counts(results, name) is not None]
        figure, (axes,) = grid(1, width=6.5, height=2.8)
        labels = ("diagnosis, paper preset", "diagnosis, our defaults", "our VI", "our VI, a tenth of the tolerance")
        style = ((BLUE, ""), (VERMILION, "//"), (GREY, ""), (ORANGE, ".."))
        for number, (label, (colour, hatch)) in enumerate(zip(labels, style, strict=True)):
            heights = [_counts(results, name)[number] for name in names]
            axes.bar(
                np.arange(len(names)) + 0.19 * (number - 1.5), heights, 0.18, color=colour, hatch=hatch, edgecolor="white", label=label
            )
        for place, name in enumerate(names):
            for value, line, label in ((STATED[name][0], "-", "stated: diagnosis"), (STATED[name][1], "--", "stated: VI")):
                axes.hlines(value, place - 0.42, place + 0.42, color="black", linestyle=line, lw=1.2, label=label if place == 0 else "_")
        axes.set_xticks(range(len(names)), [TITLE[name] for name in names])
        axes.set(yscale="log", ylabel="gradient evaluations")
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
        return {"gradients": (figure, "Gradient evaluations of the diagnosis (Barker) and of VI; black lines: what the paper states.")}

    def table(self, results):
        rows = [[TITLE[name], *STATED[name], *counts] for name in STATED if (counts := _counts(results, name)) is not None]
        heads = ("stated: diagnosis", "stated: VI", "paper preset", "our defaults", "our VI", "our VI, a tenth of the tolerance")
        return Table(["posterior", *heads], rows)


def _counts(results, name):
    """Gradients of the paper preset, of ours, and of VI to each tolerance; None if that posterior was not run."""
    mine = [r for r in results if r["posterior"] == name]
    if not mine:
        return None
    one = lambda **wanted: next(r["gradients"] for r in mine if all(r.get(key) == value for key, value in wanted.items()))  # noqa: E731
    return one(method=PAPER), one(method=OURS), *(one(kind="fit", tolerance=t) for t in TOLERANCES)
