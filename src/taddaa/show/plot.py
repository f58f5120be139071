"""Pictures of a report for print and notebooks: each a function of a Report that returns a matplotlib Figure.

Colours are Okabe and Ito's, which colour-blind readers tell apart; shape or line style says the same again, for print in grey.
"""

import io
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, require
from ..report.report import Report
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, WITHIN
from . import series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, VERMILION, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#666666"
COLOUR = {ERROR: VERMILION, UNTRUSTED: ORANGE, NO_ERROR: BLUE, WITHIN: GREEN}
MARKER = {ERROR: "o", UNTRUSTED: "s", NO_ERROR: "D", WITHIN: "^"}
SERIES = [(BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, (0, (5, 1))), (GREY, (0, (1, 1)))]
SERIES_MARKERS = "oDs^vP"
Names = str | Sequence[str] | None
SCALE = "movement away from the approximation\n(means and quantiles: standard deviations; variances: log variance)"


def forest(report: Report, top: int = 20, tolerance: float | None = None, *, var_names: Names = None) -> "Figure":
    """Movement intervals, worst first; thick bars reach from zero to the bound. In the pale band errors do not matter.

    Its half-width is the report's own tolerance for each row, or `tolerance`, in relative units, for all.
    """
    shown = series.forest(_named(report, var_names), top)
    count = len(shown.rows)
    figure, (axes,) = _figure(1, width=7.5, height=1.5 + 0.3 * count)
    allowed = shown.tolerance if tolerance is None else np.full(count, tolerance)
    axes.barh(np.arange(count), 2 * allowed, left=-allowed, height=1.0, color=GREEN, alpha=0.13, lw=0, label="tolerance")
    axes.axvline(0, color="black", lw=0.8)
    low, high = _span(np.concatenate([shown.lower, shown.upper, shown.estimate, allowed, -allowed]))
    for y, row in enumerate(shown.rows):
        colour = COLOUR[row.verdict]
        axes.plot(np.clip([shown.lower[y], shown.upper[y]], low, high), [y, y], color=colour, lw=1.2)
        if row.verdict == ERROR:
            axes.plot(np.clip([0, shown.bound[y]], low, high), [y, y], color=colour, lw=5, alpha=0.45, solid_capstyle="butt")
        hollow = "white" if row.verdict == UNTRUSTED else colour
        axes.plot(np.clip(shown.estimate[y], low, high), y, MARKER[row.verdict], color=colour, mfc=hollow, ms=5)
    _name_rows(axes, [series.name(row) for row in shown.rows])
    axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    axes.set_ylim(count - 0.4, -0.6)
    figure.supxlabel(SCALE + (f"\n{shown.rest}" if shown.rest else ""), fontsize=10)
    for verdict in dict.fromkeys(row.verdict for row in shown.rows):
        label = "error of at least the thick bar" if verdict == ERROR else verdict
        hollow = "white" if verdict == UNTRUSTED else COLOUR[verdict]
        axes.plot([], [], MARKER[verdict] + "-", color=COLOUR[verdict], mfc=hollow, label=label)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def movement(report: Report, rows: Sequence[int] | None = None, top: int = 6, *, var_names: Names = None) -> "Figure":
    """How rows moved against iteration, with bands of two standard errors; a dotted line where each came to rest."""
    shown = series.movements(_named(report, var_names), rows, top)
    figure, panels = _grid(len(shown))
    for axes, path in zip(panels, shown, strict=True):
        colour = COLOUR[path.row.verdict]
        axes.axhline(0, color="black", lw=0.8)
        axes.fill_between(path.iteration, path.low, path.high, color=colour, alpha=0.2, lw=0)
        axes.plot(path.iteration, path.change, "-", color=colour, marker=MARKER[path.row.verdict], ms=3.5)
        if path.settled is not None:
            axes.axvline(path.settled, color=GREY, ls=":", lw=1.2)
        _title(axes, series.name(path.row) + " (still moving)" * path.moving)
        axes.set_xlabel("iteration")
    panels[0].set_ylabel("change from q")
    return figure


def correlation(report: Report, rows: Sequence[int] | None = None, top: int = 5, *, var_names: Names = None) -> "Figure":
    """ρ² of start and state against iteration: the largest over coordinates, and the quantities that remember most."""
    shown = series.memory(_named(report, var_names), rows, top)
    figure, (axes,) = _figure(1, width=7, height=4)
    floor = 1e-3  # below the noise of a few hundred chains
    axes.plot(shown.iteration, np.maximum(shown.largest, floor), color="black", lw=1, alpha=0.6, label="largest over coordinates")
    for k, row in enumerate(shown.rows):
        colour, style = SERIES[k % len(SERIES)]
        marker = SERIES_MARKERS[k % len(SERIES_MARKERS)]
        label = _plain(series.shortened(row.parameter, 40))
        axes.plot(shown.snapshots, np.maximum(shown.rho2[:, k], floor), ls=style, color=colour, marker=marker, ms=4, label=label)
    axes.axhline(shown.cutoff, color=VERMILION, ls="--", lw=1.2, label=f"cutoff {shown.cutoff:g}")
    axes.set(yscale="log", ylim=(floor, 1.3), xlabel="iteration", ylabel="ρ² with the start")
    legend = axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def marginals(report: Report, parameters: Sequence[str] | None = None, top: int = 6, *, var_names: Names = None) -> "Figure":
    """Densities of the starts (the approximation) and of the moved draws, for chosen parameters or the worst."""
    shown = series.marginals(_named(report, var_names), parameters, top)
    figure, panels = _grid(len(shown))
    for axes, one in zip(panels, shown, strict=True):
        axes.plot(one.at, one.before, color=BLUE, lw=1.5, ls="--", label="approximation")
        axes.plot(one.at, one.after, color=VERMILION, lw=1.5, label="moved")
        axes.fill_between(one.at, one.after, color=VERMILION, alpha=0.2, lw=0)
        axes.set_ylim(bottom=0)
        _title(axes, series.shortened(one.parameter, 40))
        axes.set_yticks([])
    panels[0].legend(frameon=False, fontsize=9)
    return figure


def kernel(report: Report) -> "Figure":
    """Mean acceptance and the step size (the geometric mean over groups) at each iteration."""
    figure, (above, below) = _figure(2, width=7, height=4.5)
    iteration = np.arange(1, len(report.paths.acceptance) + 1)
    above.plot(iteration, report.paths.acceptance, color=BLUE, lw=1.2)
    above.set(ylim=(0, 1), ylabel="acceptance")
    below.plot(iteration, report.paths.step, color=VERMILION, lw=1.2)
    wide = report.paths.step.max() > 10 * report.paths.step.min()
    below.set(yscale="log" if wide else "linear", ylabel="step size", xlabel="iteration")
    if not wide:
        below.set_ylim(bottom=0)
    above.sharex(below)
    above.tick_params(labelbottom=False)
    return figure


def side_by_side(reports: Mapping[str, Report], top: int = 20) -> "Figure":
    """How far the same quantities moved in several reports of one target, with intervals, worst first; hollow where untrusted.

    An interval that does not reach zero is an error. Reports of different targets are refused.
    """
    shown = series.bounds(reports, top)
    low, high = _span(np.concatenate([shown.lower, shown.upper]))
    count = len(shown.quantities)
    figure, (axes,) = _figure(1, width=7.5, height=1.5 + 0.3 * count)
    spread = np.linspace(-0.2, 0.2, len(shown.names)) if len(shown.names) > 1 else np.zeros(1)
    for k, name in enumerate(shown.names):
        colour, marker = SERIES[k % len(SERIES)][0], SERIES_MARKERS[k % len(SERIES_MARKERS)]
        y = np.arange(count) + spread[k]
        middle = np.clip((shown.lower[:, k] + shown.upper[:, k]) / 2, low, high)
        for at, left, right in zip(y, np.clip(shown.lower[:, k], low, high), np.clip(shown.upper[:, k], low, high), strict=True):
            axes.plot([left, right], [at, at], color=colour, lw=1.2)
        axes.plot(middle, y, marker, color=colour, ms=5, label=_plain(name))
        hollow = shown.untrusted[:, k]
        axes.plot(middle[hollow], y[hollow], marker, color=colour, mfc="white", ms=5)
    for y in range(count):
        axes.axhline(y, color=GREY, alpha=0.25, lw=0.6, zorder=0)
    axes.axvline(0, color="black", lw=0.8)
    _name_rows(axes, [series.shortened(f"{functional} of {parameter}", 40) for functional, parameter in shown.quantities])
    axes.set_ylim(count - 0.4, -0.6)
    figure.supxlabel(SCALE + (f"\n{shown.rest}" if shown.rest else ""), fontsize=10)
    legend = figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def pairs(report: Report, parameters: Sequence[str] | None = None, top: int = 3) -> "Figure":
    """Pairs of chosen parameters, or of those with the worst rows, before (crosses) and after moving (dots); densities on the diagonal."""
    names, before, after = series.pairs(report, parameters, top)
    densities = series.marginals(report, names)
    count = len(names)
    figure, panels = _figure(count, 2.3 * count + 0.6, 2.3 * count + 0.3, count)
    for place, axes in enumerate(panels):
        i, j = divmod(place, count)
        if i < j:
            axes.remove()
            continue
        if i == j:
            axes.plot(densities[i].at, densities[i].before, color=BLUE, lw=1.5, ls="--", label="approximation")
            axes.plot(densities[i].at, densities[i].after, color=VERMILION, lw=1.5, label="moved")
            axes.set_yticks([])
        else:
            axes.plot(before[:, j], before[:, i], "x", color=BLUE, ms=3, alpha=0.5)
            axes.plot(after[:, j], after[:, i], "o", color=VERMILION, ms=2.5, alpha=0.5)
            axes.set_ylim(densities[i].at[0], densities[i].at[-1])
        axes.set_xlim(densities[j].at[0], densities[j].at[-1])
        if i == count - 1:
            axes.set_xlabel(_plain(series.shortened(names[j], 24)), fontsize=9).set_parse_math(False)
        if j == 0 and i > 0:
            axes.set_ylabel(_plain(series.shortened(names[i], 24)), fontsize=9).set_parse_math(False)
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def checks(report: Report, top: int = 12) -> "Figure":
    """What the failed checks measured, quantity by quantity, with their cutoffs; refused where none failed that has such values."""
    shown = series.statistics(report, top)
    if not shown:
        raise InputError("checks draws what failed checks measured of each quantity, and this report has no such check")
    figure, panels = _grid(len(shown))
    for axes, one in zip(panels, shown, strict=True):
        colours = [VERMILION if value >= one.check.cutoff else BLUE for value in one.value]
        axes.barh(range(len(one.rows)), np.nan_to_num(one.value, posinf=0.0), color=colours, alpha=0.6)
        axes.axvline(one.check.cutoff, color="black", ls="--", lw=1)
        _name_rows(axes, [series.name(row, 24) for row in one.rows])
        axes.invert_yaxis()
        _title(axes, one.check.name)
        axes.set_xlabel(f"should be {one.check.should_be}", fontsize=9)
    return figure


# Drawing --------------------------------------------------------------------------------------------------------------


def _named(report: Report, var_names: Names) -> Report:
    """All of a report, or what is named, as in `report.select`."""
    return report if var_names is None else report.select(var_names)


def _figure(rows: int, width: float, height: float, columns: int = 1) -> "tuple[Figure, list[Any]]":
    """A figure of its own, unknown to pyplot, so that no window opens and nothing stays in memory."""
    figure = _shown_by_itself()(figsize=(width, height), layout="constrained")
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(panels)


@cache
def _shown_by_itself() -> Any:
    """matplotlib's Figure that a notebook draws without being asked to."""

    class Figure(require("matplotlib.figure", "plot").Figure):  # type: ignore[misc]
        def _repr_png_(self) -> bytes:
            stored = io.BytesIO()
            self.savefig(stored, format="png", dpi=100)
            return stored.getvalue()

    return Figure


def _grid(count: int) -> "tuple[Figure, list[Any]]":
    columns = min(count, 3)
    rows = -(-count // columns)
    figure, panels = _figure(rows, 3.2 * columns + 0.4, 2.4 * rows + 0.2, columns)
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def _span(values: np.ndarray) -> tuple[float, float]:
    """The axis: all finite values and zero; what is infinite is drawn to the edge."""
    finite = np.concatenate([values[np.isfinite(values)], [0.0]])
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high > low else (low - 1, high + 1)


def _name_rows(axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [_plain(name) for name in names])
    for text in axes.get_yticklabels():
        text.set_parse_math(False)


def _title(axes, name: str) -> None:
    axes.set_title(_plain(name), fontsize=9).set_parse_math(False)


def _plain(text: str) -> str:
    """Characters that matplotlib's font lacks become squares here, instead of a warning at each drawing."""
    manager = require("matplotlib.font_manager", "plot")
    font = manager.get_font(manager.findfont(manager.FontProperties()))
    return "".join(letter if font.get_char_index(ord(letter)) else "□" for letter in text)
