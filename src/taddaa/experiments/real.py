"""What the studies on real posteriors share: their cells, errors beside the truth, and the paper's two kinds of figure."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..verdict.outcome import UNTRUSTED
from . import data, models, posteriors, truth, vi
from .picture import BLUE, GREY, KERNEL_STYLE, LABEL, STYLE, VERMILION, grid
from .posteriors import KERNELS, POSTERIORS, Posterior
from .study import METHODS, OURS, PAPER, Cell, Claim, Result, Study
from .truth import Truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GOLD = "#c79100"  # the paper's colour of bounds, dark enough on white
CUTOFF = 0.1  # of ρ²_max, the paper's
NOISE = 0.05  # half of the planned half-width of a mean: the standard error of one bound, in standard deviations
SEEDS = (1, 2)  # further ones, for Barker: near the planned half-width a bound is mostly noise
LEAST_SPAN = {"mean": 0.4, "variance": 0.3}  # of a panel, so that noise does not fill it
KERNEL_NAME = {"rwmh": "RWMH", "mala": "MALA", "barker": "Barker", "hmc": "HMC"}


@dataclass(frozen=True)
class Quantity:
    """A row of the report as the paper shows it: means in true standard deviations, variances in log₁₀; `plain` as it is."""

    row: str
    label: str
    plain: bool = False


@dataclass(frozen=True)
class Shown:
    """Errors before and after the chains moved and the bound, in a quantity's unit; signed as approximation − truth."""

    before: float
    after: float
    bound: float
    verdict: str

    @property
    def share(self) -> float:
        """The bound as a share of the true error."""
        return self.bound / abs(self.before)

    @property
    def trusted(self) -> bool:
        return self.verdict != UNTRUSTED


class Findings:
    """The results of a study, found by what they are about."""

    def __init__(self, results: list[Result]):
        self.results = results

    def chosen(self, kind: str, **wanted: Any) -> list[Result]:
        return [r for r in self.results if r["kind"] == kind and all(r.get(key) == value for key, value in wanted.items())]

    def diagnosis(self, posterior: Posterior, method: str, kernel: str = "barker", every: bool = False, seed: int = 0) -> Result | None:
        found = self.chosen("diagnosis", posterior=posterior.name, method=method, kernel=kernel, every=every, seed=seed)
        return found[0] if found else None

    def every_has(self, posterior: Posterior, row: str) -> bool:
        """Whether the diagnosis of every parameter was made and has this row."""
        found = self.diagnosis(posterior, PAPER, every=True)
        return found is not None and row in found["rows"]

    def has(self, posterior: Posterior) -> bool:
        return bool(self.chosen("fit", posterior=posterior.name))

    def fit(self, posterior: Posterior) -> Result:
        return self.chosen("fit", posterior=posterior.name)[0]

    @cached_property
    def _truths(self) -> dict[str, Truth]:
        return {}

    def truth(self, posterior: Posterior) -> Truth:
        runs = self.chosen("truth", posterior=posterior.name)
        return self._truths.setdefault(posterior.name, Truth(runs[0]["names"], runs))

    def shown(self, posterior: Posterior, quantity: Quantity, method: str, kernel: str = "barker", every=False, seed=0) -> Shown | None:
        found = self.diagnosis(posterior, method, kernel, every, seed)
        return None if found is None else self.express(found, posterior, quantity)

    def seeds(self, posterior: Posterior, quantity: Quantity, method: str, kernel: str = "barker") -> list[Shown]:
        """What the diagnosis from each seed shows."""
        found = self.chosen("diagnosis", posterior=posterior.name, method=method, kernel=kernel, every=False)
        return [self.express(each, posterior, quantity) for each in found]

    def typical(self, posterior: Posterior, quantity: Quantity, method: str) -> Shown:
        """Barker's error and bound, medians over the seeds."""
        shown = self.seeds(posterior, quantity, method)
        after, bound = (float(np.median(values)) for values in zip(*((each.after, each.bound) for each in shown), strict=True))
        return Shown(shown[0].before, after, bound, shown[0].verdict)

    def express(self, found: Result, posterior: Posterior, quantity: Quantity) -> Shown:
        """One row of a diagnosis beside the truth, in the quantity's unit."""
        name, _, functional = quantity.row.rpartition(" ")
        row, true = found["rows"][quantity.row], self.truth(posterior).of(name)
        if functional == "variance":
            log, unit = np.log([row["approximation"], row["moved"]]) - 2 * np.log(true["sd"]), np.log(10)
            return Shown(log[0] / unit, log[1] / unit, row["bound"] / unit, row["verdict"])
        centre, unit = true["mean"] if functional == "mean" else true["median"], 1.0 if quantity.plain else true["sd"]
        return Shown((row["approximation"] - centre) / unit, (row["moved"] - centre) / unit, row["bound"] / unit, row["verdict"])


class RealStudy(Study):
    """Truth runs, a fit, and diagnoses of some posteriors; the subclass says which, and judges."""

    sources = (posteriors, models, data, truth, vi)
    posteriors: tuple[Posterior, ...]
    everything = True  # whether every parameter is also diagnosed, with Barker

    def cells(self, quick):
        made = []
        for posterior in self.posteriors[: 1 if quick else None]:
            about = {"posterior": posterior.name, "quick": quick}
            made += [
                Cell(f"{posterior.name} truth {r}", {"kind": "truth", "run": r, **about}) for r in range(1 if quick else posterior.runs)
            ]
            made.append(Cell(f"{posterior.name} fit", {"kind": "fit", **about}))
            for method in METHODS:
                diagnosed = {"kind": "diagnosis", "method": method, "seed": 0, **about}
                kernels = ("barker",) if quick and method == OURS else KERNELS
                made += [Cell(f"{posterior.name} {method} {k}", {"kernel": k, "every": False, **diagnosed}) for k in kernels]
                if not quick:
                    made += [
                        Cell(f"{posterior.name} {method} barker seed {s}", {"kernel": "barker", "every": False, **diagnosed, "seed": s})
                        for s in SEEDS
                    ]
                if self.everything and not quick:
                    made.append(Cell(f"{posterior.name} {method} every", {"kernel": "barker", "every": True, **diagnosed}))
        return made

    def run(self, cell, store):
        wanted = dict(cell.parameters)
        kind, posterior, quick = wanted.pop("kind"), POSTERIORS[wanted.pop("posterior")], wanted.pop("quick")
        if kind == "truth":
            return posterior.truth_run(store, wanted["run"], quick)
        if kind == "fit":
            fitted = posterior.fit(store, quick)
            return {"fit_gradients": fitted.gradients, "converged": fitted.converged, "elbo": fitted.elbo}
        return posterior.diagnosis(store, wanted.pop("method"), wanted.pop("kernel"), quick=quick, **wanted)


# Claims of our own, the same in every study ---------------------------------------------------------------------------------


def never_looser(findings: Findings, posterior: Posterior, quantities: list[Quantity], where: str) -> Claim:
    """Ours against the paper preset on the claims' quantities with Barker, over all seeds, where both are trusted and not wrong."""
    losses, made, trusted, compared = {}, 0, 0, 0
    for quantity in quantities:
        pairs = list(zip(*(findings.seeds(posterior, quantity, method) for method in (PAPER, OURS)), strict=True))
        both = [(p, o) for p, o in pairs if p.trusted and o.trusted]
        lost = [p.bound - o.bound for p, o in both if p.bound <= abs(p.before)]
        made, trusted, compared = made + len(pairs), trusted + len(both), compared + len(lost)
        if lost:
            losses[quantity.label] = float(np.median(lost))
    worst = max(losses, key=lambda each: losses[each], default="")
    return Claim.judged(
        where,
        "Our defaults are never looser than the paper preset where both are trusted",
        {
            f"largest loss ({worst})": losses.get(worst, 0.0),
            "quantities compared": len(losses),
            "pairs of diagnoses (a quantity, a seed)": made,
            "of which both trusted": trusted,
            "and the preset's not too large": compared,
        },
        "Barker, median over such seeds: the paper preset's bound, where it is not too large, exceeds ours by at most 0.05, a bound's own "
        "noise",
        bool(losses) and losses[worst] <= NOISE,
        partly=not losses,
        reason="" if losses else "There was nothing to compare: ours was trusted nowhere.",
        method=OURS,
    )


def never_wrong(findings: Findings, posterior: Posterior, method: str, where: str) -> Claim:
    """How many trusted bounds exceed the true error of the parameter, by more than the truth's own uncertainty."""
    found, true = findings.diagnosis(posterior, method, every=True), findings.truth(posterior)
    assert found is not None
    worst, wrong, trusted = 0.0, 0, 0
    for row in found["rows"]:
        name, _, functional = row.rpartition(" ")
        i = true.names.index(name)
        shown = findings.shown(posterior, Quantity(row, row), method, every=True)
        assert shown is not None
        unsure = 3 * (1 if functional == "mean" else np.sqrt(2) / np.log(10)) / np.sqrt(true.ess[i])
        excess = shown.bound - abs(shown.before) - unsure
        trusted += shown.trusted and shown.bound > 0
        if shown.trusted and shown.bound > 0:
            worst, wrong = max(worst, excess), wrong + (excess > 0)
    return Claim.judged(
        where,
        "Bounds stay below the true errors",
        {"parameters' bounds above zero and trusted": trusted, "of which too large": wrong, "largest excess": worst},
        "no more than 5 % of the bounds exceed the true error, by more than three standard errors of the truth",
        wrong <= 0.05 * max(trusted, 1),
        partly=worst < 0.1,
        method=method,
    )


# Figures --------------------------------------------------------------------------------------------------------------------


def error_figure(
    findings: Findings, chosen: list[tuple[Posterior, list[Quantity]]], columns: int = 4, prefix: dict[str, str] | None = None
) -> "Figure":
    """The paper's layout: one panel a quantity, one place a kernel; bounds are gold lines that start at the approximation's error."""
    flat = [(posterior, quantity) for posterior, quantities in chosen for quantity in quantities]
    figure, panels = grid(len(flat), columns, width=2.7 if columns > 2 else 3.4, height=2.5)
    for axes, (posterior, quantity) in zip(panels, flat, strict=True):
        _errors_of_kernels(axes, findings, posterior, quantity)
        axes.set_title((prefix or {}).get(posterior.name, "") + quantity.label)
    unique = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=5 if columns > 2 else 3, frameon=False)
    return figure


def _errors_of_kernels(axes: "Axes", findings: Findings, posterior: Posterior, quantity: Quantity) -> None:
    for place, kernel in enumerate(KERNELS):
        for method, offset in ((PAPER, -0.16), (OURS, 0.16)):
            shown = findings.shown(posterior, quantity, method, kernel)
            if shown is None:
                continue
            x, style = place + offset, STYLE[method]
            end = shown.before + np.sign(shown.after - shown.before) * shown.bound
            axes.plot([x, x], [shown.before, end], color=GOLD, lw=5, solid_capstyle="butt", label="bound", zorder=1)
            axes.hlines(shown.before, x - 0.13, x + 0.13, color="black", lw=1.5, label="error of VI", zorder=2)
            face = style["color"] if shown.trusted else "white"
            label = f"moved draws, {LABEL[method]}"
            axes.plot(
                x, shown.after, style["marker"], color=style["color"], mfc=face, ms=5, label=label if shown.trusted else None, zorder=3
            )
            if not shown.trusted:
                axes.plot([], [], "o", color=GREY, mfc="white", ms=5, label="untrusted (hollow)")
    axes.axhline(0, color=GREY, lw=0.8, ls=":")
    axes.set_xticks(range(len(KERNELS)), [KERNEL_NAME[k] for k in KERNELS], fontsize=8)
    axes.set_xlim(-0.5, len(KERNELS) - 0.5)
    low, high = axes.get_ylim()
    missing = 0.0 if quantity.plain else max(LEAST_SPAN[quantity.row.rpartition(" ")[2]] - (high - low), 0) / 2
    axes.set_ylim(low - missing, high + missing)


def reliability_figure(findings: Findings, chosen: list[tuple[Posterior, str]]) -> "Figure":
    """ρ²_max against the iteration, a line a kernel, for the paper preset and ours."""
    figure, panels = grid(2 * len(chosen), 2 * len(chosen) if len(chosen) == 1 else 4, width=2.9, height=2.5)
    for number, (posterior, title) in enumerate(chosen):
        for axes, method in zip(panels[2 * number : 2 * number + 2], (PAPER, OURS), strict=True):
            for kernel in KERNELS:
                found = findings.diagnosis(posterior, method, kernel)
                if found is not None:
                    path = found["path"]
                    axes.plot(range(1, len(path) + 1), path, label=KERNEL_NAME[kernel], **KERNEL_STYLE[kernel])
                    axes.plot(len(path), path[-1], "o", ms=3, color=KERNEL_STYLE[kernel]["color"])
            axes.axhline(CUTOFF, color="black", lw=0.8, ls=":")
            axes.set(xscale="log", ylim=(-0.02, 1.02), xlabel="iteration", title=f"{title}{LABEL[method]}")
        panels[2 * number].set_ylabel("$\\rho^2_{\\max}$")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def tightness_figure(findings: Findings, chosen: list[tuple[Posterior, str]]) -> "Figure":
    """Every parameter's bound against its true error: on the diagonal is perfect, above it wrong."""
    figure, panels = grid(2 * len(chosen), 4 if len(chosen) > 1 else 2, width=2.7, height=2.6)
    for number, (posterior, title) in enumerate(chosen):
        for axes, functional in zip(panels[2 * number : 2 * number + 2], ("mean", "variance"), strict=True):
            largest = 0.0
            for method, colour in ((PAPER, BLUE), (OURS, VERMILION)):
                found = findings.diagnosis(posterior, method, every=True)
                rows = [row for row in (found["rows"] if found else []) if row.endswith(functional)]
                points = [findings.shown(posterior, Quantity(row, row), method, every=True) for row in rows]
                for trusted in (True, False):
                    some = [p for p in points if p is not None and p.trusted == trusted]
                    face = colour if trusted else "none"
                    where, bounds = [abs(p.before) for p in some], [p.bound for p in some]
                    axes.plot(
                        where,
                        bounds,
                        STYLE[method]["marker"],
                        color=colour,
                        mfc=face,
                        ms=3.5,
                        alpha=0.7,
                        label=LABEL[method] * trusted or None,
                    )
                    largest = max([largest, *where, *bounds])
            axes.plot([0, largest], [0, largest], color=GREY, lw=0.8)
            unit = "sd" if functional == "mean" else "$\\log_{10}$"
            axes.set(xlabel=f"true error, {unit}", title=f"{title}{functional}s")
        panels[2 * number].set_ylabel("bound")
    panels[0].legend(frameon=False, fontsize=8)
    return figure


# Tables ---------------------------------------------------------------------------------------------------------------------


def truth_and_bounds(findings: Findings, posterior: Posterior, quantities: list[Quantity]) -> list[list[Any]]:
    """A row a quantity: the truth and how far it is known, the approximation's error, bounds of both presets with Barker.

    Quantities that were diagnosed among all parameters are shown as they came out there, from one seed; others, as in the claims, by
    the median over all seeds, with each verdict and how many seeds gave it.
    """
    rows = []
    for quantity in quantities:
        every = findings.every_has(posterior, quantity.row)
        known = findings.truth(posterior).of(quantity.row.rpartition(" ")[0])
        paper, ours = (
            [shown]
            if every and (shown := findings.shown(posterior, quantity, method, every=True))
            else findings.seeds(posterior, quantity, method)
            for method in (PAPER, OURS)
        )
        if paper and ours:
            bounds = [value for shown in (paper, ours) for value in (float(np.median([each.bound for each in shown])), _verdicts(shown))]
            rows.append(
                [posterior.name, quantity.label, paper[0].before, *bounds, known["rhat"], round(known["ess"]), known["disagreement"]]
            )
    return rows


def _verdicts(shown: list[Shown]) -> str:
    """The verdict; where seeds disagree, each one and how many gave it."""
    count = Counter(each.verdict for each in shown)
    return next(iter(count)) if len(count) == 1 else ", ".join(f"{verdict} ({number} of {len(shown)})" for verdict, number in count.items())


TABLE_COLUMNS = (
    *("posterior", "quantity", "error of VI", "bound, paper preset", "verdict", "bound, our defaults", "verdict"),
    *("R-hat of the truth", "effective draws", "runs' disagreement, sd"),
)


def parameter_quantities(findings: Findings, posterior: Posterior) -> list[Quantity]:
    """Every parameter's mean and variance."""
    found = findings.diagnosis(posterior, PAPER, every=True)
    return [Quantity(row, row) for row in found["rows"]] if found else []
