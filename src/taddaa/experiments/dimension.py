"""What the studies over the dimension share: one fit and one kernel at each d, and figures in the paper's layout."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..comparison.compare import compare
from ..diagnosis import diagnose
from ..errors import require
from ..problem.approximation import Approximation
from ..problem.functional import Functional
from ..problem.target import Target
from ..report.report import Report
from . import synthetic, vi
from .picture import BLUE, GREY, LABEL, ORANGE, PURPLE, STYLE, VERMILION, grid
from .study import METHODS, OURS, PAPER, Cell, Claim, Result, Store, Study, Table

LARGEST_RHO2, LARGEST_K = 0.1, 0.7  # the cut-offs of the paper
FALSE = 0.1  # a bound this far above the true error (in standard deviations or log variance) is false, beyond a chance interval's
LOSS = 0.05
OFTEN = 0.3  # of bounds above the truth, where 0.025 are meant to be
PATH_POINTS = 100
SYMBOL = {"X1": "X₁", "X2": "X₂", "mean": "mean", "variance": "log variance", "q0.5": "median", "q0.9": "90 % quantile"}


class DimensionStudy(Study):
    """Fit, diagnose with both settings, and compare with the truth, at each of `dims`."""

    dims: Sequence[int]
    quick_dims: Sequence[int]
    seeds: int = 5  # diagnoses of each fit
    rows: tuple[str, str]  # the two functionals
    functionals: Sequence[Functional] | None = None

    @abstractmethod
    def subject(self, d: int, store: Store, quick: bool) -> tuple[Target, vi.Fitted]:
        """The target and its fit."""

    @abstractmethod
    def covariance(self, d: int) -> np.ndarray:
        """The target's; its mean is 0."""

    def truth(self, d: int, q: Approximation) -> dict[str, tuple[float, float]]:
        """For each row such as "X1 mean": q's true error on the bound's scale, and the unit of relative errors."""
        variance, mean, own = np.diag(self.covariance(d)), np.asarray(q.mean()), np.asarray(q.covariance())
        errors = {}
        for i in (0, 1):
            errors[f"X{i + 1} mean"] = (abs(float(mean[i])), float(np.sqrt(variance[i])))
            errors[f"X{i + 1} variance"] = (abs(float(np.log(variance[i] / own[i]))), 1.0)
        return errors

    @property
    def sources(self):  # type: ignore[override]
        own = type(self)
        return (synthetic, vi, own.subject, own.covariance, own.truth, _rows, thinned)

    def cells(self, quick):
        dims, seeds = (self.quick_dims, 2) if quick else (self.dims, self.seeds)
        return [Cell(f"d={d} {method}", {"d": d, "method": method, "seeds": seeds, "quick": quick}) for d in dims for method in METHODS]

    def run(self, cell, store):
        d, settings = cell.parameters["d"], METHODS[cell.parameters["method"]]()
        target, fitted = self.subject(d, store, cell.parameters["quick"])
        found = [compare({"q": fitted.approximation}, target, self.functionals, settings, seed) for seed in range(cell.parameters["seeds"])]
        reports, others = [each.reports["q"] for each in found], [each.comparators["q"] for each in found]
        rows = _rows(reports, self.truth(d, fitted.approximation))
        if settings.simultaneous:  # each interval by itself too, for a fair comparison with the preset's
            alone = [
                diagnose(target, fitted.approximation, self.functionals, replace(settings, simultaneous=False), report.provenance.seed)
                for report in reports
            ]
            for name, row in _rows(alone, self.truth(d, fitted.approximation)).items():
                rows[name]["bound_alone"] = row["bound"]
        return {
            "rows": rows,
            "rho2_max": [report.rho2_max for report in reports],
            "path": thinned(reports[0].paths.rho2_max),
            "iterations": [report.cost.iterations for report in reports],
            "gradients": [report.cost.gradients for report in reports],
            "k_hat": [each.k_hat for each in others],
            "w_mean": [each.mean_error for each in others],
            "w_covariance": [each.covariance_error for each in others],
            "covariance_error": float(np.linalg.norm(self.covariance(d) - np.diag(np.asarray(fitted.approximation.covariance())), 2)),
            "vi_gradients": fitted.gradients,
            "vi_converged": fitted.converged,
        }

    def names(self) -> list[str]:
        return [f"{parameter} {functional}" for parameter in ("X1", "X2") for functional in self.rows]

    # Figures and table ------------------------------------------------------------------------------------------------

    def figures(self, results):
        return {
            "as-in-the-paper": (self._as_in_the_paper(results), self.paper_caption),
            "paths": (paths(results), "ρ²_max on the way (its last value is the reliability check); the line at 0.1 is the paper's limit."),
            "tightness": (
                self._tightness(results),
                "Bound over true error: 1 is perfect, above 1 (shaded) is false. Median and range over diagnoses; hollow: "
                "untrusted. Only rows with a true error above 0.1 are shown.",
            ),
        }

    paper_caption = (
        "In the paper's layout. Above, bounds (markers; median over diagnoses) and true errors (lines) in the units of the rows, "
        "with the Wasserstein upper bounds where k-hat allows them; below, the reliability check and k-hat."
    )

    def _as_in_the_paper(self, results):
        figure, panels = grid(4, columns=2, width=3.9, height=2.5)
        for axes, parameter in zip(panels, ("X1", "X2"), strict=False):
            for functional, colour in zip(self.rows, (BLUE, VERMILION), strict=True):
                row, what = f"{parameter} {functional}", SYMBOL[functional]
                chosen = of(results, PAPER)
                axes.plot(ds(chosen), [r["rows"][row]["error"] for r in chosen], color=colour, lw=1, label=f"true error, {what}")
                for method, marker, shift in ((PAPER, "o", 0.97), (OURS, "D", 1.03)):
                    some = of(results, method)
                    bound = [median(r["rows"][row]["bound"]) for r in some]
                    face = [colour if trusted(r, row) else "white" for r in some]
                    axes.scatter([shift * d for d in ds(some)], bound, s=16, marker=marker, c=face, edgecolors=colour, zorder=3)
            for field, colour, what in (("w_mean", BLUE, "mean"), ("w_covariance", VERMILION, "covariance")):
                there = [(r["d"], median(values)) for r in of(results, PAPER) if (values := available(r, field))]
                if there:
                    axes.plot(*zip(*there, strict=True), "*", color=colour, ms=8, mfc="none", label=f"Wasserstein ≥ {what} error")
            axes.scatter([], [], s=16, marker="o", c=GREY, label=f"bound, {LABEL[PAPER]}")
            axes.scatter([], [], s=16, marker="D", c=GREY, label=f"bound, {LABEL[OURS]} (hollow: untrusted)")
            axes.set_yscale("symlog", linthresh=0.1)
            axes.set_ylim(bottom=-0.015)
            axes.set_title(f"Diagnostics on {SYMBOL[parameter]}")
        for method in (PAPER, OURS):
            some = of(results, method)
            panels[2].plot(ds(some), [max(r["rho2_max"]) for r in some], label=LABEL[method], **STYLE[method])
        panels[2].axhline(LARGEST_RHO2, color=GREY, ls=":", lw=1)
        panels[2].set(ylabel="ρ²_max (largest)", ylim=(0, 1))
        panels[2].legend()
        chosen = of(results, PAPER)
        panels[3].plot(ds(chosen), [median(r["k_hat"]) for r in chosen], color=PURPLE, marker="s", ms=4)
        panels[3].vlines(ds(chosen), [min(r["k_hat"]) for r in chosen], [max(r["k_hat"]) for r in chosen], color=PURPLE, lw=1)
        panels[3].axhline(LARGEST_K, color=GREY, ls=":", lw=1)
        panels[3].set(ylabel="k-hat (median, range)")
        for axes in panels:
            over_dimension(axes, results)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=7)
        return figure

    def _tightness(self, results):
        shown = [name for name in self.names() if max(r["rows"][name]["error"] / r["rows"][name]["unit"] for r in results) > FALSE]
        figure, panels = grid(len(shown), width=3.2)
        for axes, name in zip(panels, shown, strict=True):
            for method, shift in ((PAPER, 0.96), (OURS, 1.04)):
                some = [r for r in of(results, method) if r["rows"][name]["error"] / r["rows"][name]["unit"] > FALSE]
                ratio = [np.asarray(r["rows"][name]["bound"]) / r["rows"][name]["error"] for r in some]
                at, colour = [shift * r["d"] for r in some], STYLE[method]["color"]
                axes.plot(at, [np.median(each) for each in ratio], label=LABEL[method], mfc="white", **STYLE[method])
                sure = [i for i, r in enumerate(some) if trusted(r, name)]
                axes.plot([at[i] for i in sure], [np.median(ratio[i]) for i in sure], STYLE[method]["marker"], color=colour, ms=4)
                axes.vlines(at, [each.min() for each in ratio], [each.max() for each in ratio], color=colour, lw=1)
            axes.axhline(1, color="black", lw=0.8)
            top = max(1.15, axes.get_ylim()[1])
            axes.axhspan(1, top, color=ORANGE, alpha=0.15, lw=0)
            axes.set_ylim(-0.03, top)
            axes.set_title(" ".join(SYMBOL[part] for part in name.split()))
            over_dimension(axes, results)
        panels[0].set_ylabel("bound / true error")
        panels[0].legend()
        return figure

    def table(self, results):
        columns = ["d", "settings", "iterations", "ρ²_max", "k-hat"]
        columns += [
            f"{' '.join(SYMBOL[part] for part in name.split())}: {what}" for name in self.names() for what in ("true error", "bound")
        ]
        rows = []
        for r in results:
            row = [r["d"], LABEL[r["method"]], int(median(r["iterations"])), max(r["rho2_max"]), median(r["k_hat"])]
            for name in self.names():
                doubt = "" if trusted(r, name) else " (untrusted)"
                row += [r["rows"][name]["error"], f"{median(r['rows'][name]['bound']):.3g}{doubt}"]
            rows.append(row)
        return Table(columns, rows)

    # Claims that the studies share ------------------------------------------------------------------------------------

    def claim_mixing(self, where: str, text: str, results: list[Result]) -> Claim:
        worst = max(max(r["rho2_max"]) for r in of(results, PAPER))
        return Claim.judged(where, text, {"largest ρ²_max": worst}, f"ρ²_max < {LARGEST_RHO2} at every d and seed", worst < LARGEST_RHO2)

    def claim_k_hat(self, where: str, text: str, results: list[Result]) -> Claim:
        over = np.mean([median(r["k_hat"]) > LARGEST_K for r in of(results, PAPER)])
        smallest = min(median(r["k_hat"]) for r in of(results, PAPER))
        return Claim.judged(
            where,
            text,
            {"share of d with k-hat > 0.7": over, "smallest median k-hat": smallest},
            "share ≥ 0.8",
            over >= 0.8,
            partly=over > 0.5,
        )

    def claim_wasserstein(self, where: str, text: str, factor: float, results: list[Result]) -> Claim:
        wide = {r["d"]: median(there) / r["covariance_error"] for r in of(results, PAPER) if (there := available(r, "w_covariance"))}
        reason = "There is no bound to compare: k-hat is above 0.7 at every d and seed."
        if wide:
            reason = "At the smallest d it is less." if min(wide.values()) < factor else ""
        return Claim.judged(
            where,
            text,
            {f"factor, d = {d}": value for d, value in wide.items()} or {"bounds available": 0},
            f"where available, the bound on the covariance's error is at least {factor:g} times that error (spectral norm)",
            bool(wide) and min(wide.values()) >= factor,
            partly=bool(wide) and max(wide.values()) >= factor,
            reason=reason,
        )

    def claim_never_looser(self, results: list[Result], names: list[str]) -> Claim:
        """Where both can be trusted, our bound, its interval by itself like the preset's, is not below the preset's."""
        both = [(p, o, name) for p, o in zip(of(results, PAPER), of(results, OURS), strict=True) for name in names if trusted(o, name)]
        gains = [
            (median(ours["rows"][name]["bound_alone"]) - median(paper["rows"][name]["bound"])) / ours["rows"][name]["unit"]
            for paper, ours, name in both
            if overshoots(paper, name) < OFTEN
        ]
        loss, gain, left_out = max(0.0, -min(gains, default=np.nan)), max(gains, default=np.nan), len(both) - len(gains)
        reason = (
            f"{left_out} of {len(both)} rows are left out, since the preset's bounds exceed the truth there too often." if left_out else ""
        )
        return Claim.judged(
            "our aim",
            "Our defaults are never looser than the paper's preset where both can be trusted",
            {"largest loss": loss, "largest gain": gain, "rows compared": len(gains), "rows where the preset's bounds are false": left_out},
            f"largest loss ≤ {LOSS}, the noise of a median of five, in rows that ours trusts and in which fewer than {OFTEN:.0%} of the "
            "preset's bounds exceed the truth; each of our intervals holds by itself for this, as the preset's do",
            loss <= LOSS,
            partly=not gains or np.mean(np.asarray(gains) >= -LOSS) > 0.9,
            reason=reason if gains else "There is nothing to compare: no row is trusted by both.",
            method=OURS,
        )

    def claim_untrusted_not_wrong(self, results: list[Result]) -> Claim:
        over = [false_by(r, name, trusted_only=True) for r in of(results, OURS) for name in self.names()]
        preset = [false_by(r, name) for r in of(results, PAPER) for name in self.names()]
        share = np.mean([not trusted(r, name) for r in of(results, OURS) for name in self.names()])
        return Claim.judged(
            "our aim",
            "Our defaults call a row untrusted rather than give a false bound",
            {
                "largest bound − true error, trusted": max(over),
                "share of trusted bounds above the true error": np.mean(
                    [overshoots(r, name, trusted_only=True) for r in of(results, OURS) for name in self.names()]
                ),
                "share of rows untrusted": share,
                "the preset's largest bound − true error": max(preset),
                "share of the preset's bounds above the true error": np.mean(
                    [overshoots(r, name) for r in of(results, PAPER) for name in self.names()]
                ),
            },
            f"no trusted bound is more than {FALSE} above the true error",
            max(over) <= FALSE,
            method=OURS,
        )


# Reading results ------------------------------------------------------------------------------------------------------


def of(results: list[Result], method: str) -> list[Result]:
    return [r for r in results if r["method"] == method]


def ds(results: list[Result]) -> list[int]:
    return [r["d"] for r in results]


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def trusted(result: Result, row: str) -> bool:
    """Whether most diagnoses trust the row (the preset has no verdict on a row but ρ²)."""
    verdicts = result["rows"][row]["verdict"]
    return verdicts.count("untrusted") * 2 <= len(verdicts)


def false_by(result: Result, row: str, trusted_only: bool = False) -> float:
    """By how much the median bound (of trusted diagnoses) exceeds the true error, in the row's units; negative if it does not."""
    found = result["rows"][row]
    bounds = [b for b, verdict in zip(found["bound"], found["verdict"], strict=True) if not (trusted_only and verdict == "untrusted")]
    return (median(bounds) - found["error"]) / found["unit"] if bounds else -np.inf


def overshoots(result: Result, row: str, trusted_only: bool = False) -> float:
    """The share of (trusted) bounds above the true error; an interval at 95 % means 0.025 of them to be."""
    found = result["rows"][row]
    over = [b > found["error"] for b, v in zip(found["bound"], found["verdict"], strict=True) if not (trusted_only and v == "untrusted")]
    return float(np.mean(over)) if over else 0.0


def available(result: Result, field: str) -> list[float]:
    return [value for value in result[field] if value is not None and np.isfinite(value)]


def tightness(result: Result, row: str) -> float:
    return median(result["rows"][row]["bound"]) / result["rows"][row]["error"]


def thinned(values: np.ndarray) -> dict[str, list]:
    """A path at no more than `PATH_POINTS` iterations, evenly in the logarithm."""
    at = np.unique(np.geomspace(1, len(values), PATH_POINTS).round().astype(int))
    return {"iteration": at.tolist(), "value": np.asarray(values, float)[at - 1].tolist()}


def _rows(reports: list[Report], truth: dict[str, tuple[float, float]]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, (error, unit) in truth.items():
        same = [row for report in reports for row in report.rows if f"{row.parameter} {row.functional}" == name]
        found[name] = {
            "error": error,
            "unit": unit,
            "bound": [row.bound for row in same],
            "lower": [row.lower for row in same],
            "upper": [row.upper for row in same],
            "verdict": [row.verdict for row in same],
            "reason": same[0].reason,
        }
    return found


# Drawing --------------------------------------------------------------------------------------------------------------


def over_dimension(axes, results: list[Result]) -> None:
    some = ds(of(results, PAPER))
    axes.set_xscale("log")
    axes.set_xticks(some, [str(d) for d in some], fontsize=7)
    axes.minorticks_off()
    axes.set_xlabel("dimension d")


def paths(results: list[Result]):
    """ρ²_max against the iteration, a panel for each setting."""
    figure, panels = grid(2, width=3.9)
    colours: Callable[[float], Any] = require("matplotlib", "plot").colormaps["viridis"]
    for axes, method in zip(panels, (PAPER, OURS), strict=True):
        some = of(results, method)
        chosen = some if len(some) <= 4 else [some[i] for i in np.linspace(0, len(some) - 1, 4).round().astype(int)]
        for i, r in enumerate(chosen):
            colour = colours(0.85 * i / max(len(chosen) - 1, 1))
            axes.plot(r["path"]["iteration"], r["path"]["value"], color=colour, ls=("-", "--", "-.", ":")[i], label=f"d = {r['d']}")
        axes.axhline(LARGEST_RHO2, color=GREY, ls=":", lw=1)
        axes.set(title=LABEL[method], xlabel="iteration", xscale="log", ylim=(0, 1))
        axes.legend()
    panels[0].set_ylabel("ρ²_max")
    return figure
