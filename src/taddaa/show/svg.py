"""The pictures of the page as SVG text: themed by the page's CSS classes, so that they follow light and dark."""

import html
import math
from collections.abc import Sequence

import numpy as np

from ..report.parts import Row
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, WITHIN
from . import series

CLASS = {ERROR: "error", UNTRUSTED: "untrusted", NO_ERROR: "fine", WITHIN: "within"}
MOST_POINTS = 400  # of a line; more are not seen
LETTER = 6.7  # pixels, about, of the 12-pixel font


def clean(text: str) -> str:
    """Text safe in HTML and SVG: escaped, without control characters or halves of surrogate pairs."""
    sound = text.encode("utf-8", "replace").decode("utf-8")
    return html.escape("".join(letter if letter.isprintable() else "�" for letter in sound), quote=True)


class Frame:
    """A plotting area inside a viewBox, with one scale for each axis."""

    def __init__(self, width: int, height: int, x: tuple[float, float], y: tuple[float, float], margins=(34, 8, 22, 8), log_y=False):
        self.width, self.height, self.log_y = width, height, log_y
        self.left, self.top, self.bottom, self.right = margins[0], margins[1], height - margins[2], width - margins[3]
        self.x_range, self.y_range = _wide(x), (math.log10(y[0]), math.log10(y[1])) if log_y else _wide(y)
        self.parts: list[str] = []

    def x(self, values) -> np.ndarray:
        low, high = self.x_range
        return self.left + (np.clip(values, low, high) - low) / (high - low) * (self.right - self.left)

    def y(self, values) -> np.ndarray:
        low, high = self.y_range
        values = np.log10(np.maximum(values, 10.0**low)) if self.log_y else np.asarray(values, float)
        return self.bottom - (np.clip(values, low, high) - low) / (high - low) * (self.bottom - self.top)

    def line(self, xs, ys, kind: str) -> None:
        keep = np.unique(np.linspace(0, len(xs) - 1, min(len(xs), MOST_POINTS)).astype(int))
        xs, ys = np.asarray(xs, float)[keep], np.asarray(ys, float)[keep]
        good = np.isfinite(xs) & np.isfinite(ys)
        self.parts.append(f'<polyline class="line {kind}" points="{_points(self.x(xs[good]), self.y(ys[good]))}"/>')

    def area(self, xs, low, high, kind: str) -> None:
        good = np.isfinite(low) & np.isfinite(high)
        xs, low, high = np.asarray(xs, float)[good], np.asarray(low)[good], np.asarray(high)[good]
        there, back = (self.x(xs), self.y(high)), (self.x(xs[::-1]), self.y(low[::-1]))
        self.parts.append(f'<polygon class="area {kind}" points="{_points(*there)} {_points(*back)}"/>')

    def segment(self, x1, y1, x2, y2, kind: str) -> None:
        """In pixels."""
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def text(self, x: float, y: float, words: str, anchor: str = "middle", kind: str = "tick") -> None:
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{clean(words)}</text>')

    def axes(self, x_label: str = "", y_ticks: bool = True) -> None:
        self.segment(self.left, self.bottom, self.right, self.bottom, "axis")
        for value in ticks(*self.x_range):
            self.text(float(self.x(value)), self.bottom + 14, f"{value:g}")
        if y_ticks and self.log_y:
            for power in range(math.ceil(self.y_range[0]), math.floor(self.y_range[1]) + 1):
                self.text(self.left - 4, float(self.y(10.0**power)) + 4, f"{10.0**power:g}", "end")
        elif y_ticks:
            for value in ticks(*self.y_range, most=4):
                self.text(self.left - 4, float(self.y(value)) + 4, f"{value:g}", "end")
        if x_label:
            self.text((self.left + self.right) / 2, self.height - 5, x_label, kind="label")

    def svg(self, label: str) -> str:
        body = "".join(self.parts)
        return f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{clean(label)}">{body}</svg>'


def forest(shown: series.Forest, width: int = 760, longest: int = 44) -> str:
    """Intervals, worst first, with thick bars from zero to each bound, on a pale band of errors that do not matter."""
    names = [series.name(row, longest) for row in shown.rows]
    left = int(max(len(name) for name in names) * LETTER) + 14
    values = np.concatenate([shown.lower, shown.upper, shown.estimate, shown.tolerance, -shown.tolerance])
    finite = values[np.isfinite(values)]
    span = _wide((float(finite.min()), float(finite.max())))
    pad = 0.03 * (span[1] - span[0])
    height = 20 * len(names) + 46
    frame = Frame(width, height, (span[0] - pad, span[1] + pad), (0, 1), (left, 6, 40, 12))
    zero = float(frame.x(0.0))
    for i, allowed in enumerate(shown.tolerance):
        edge, other = float(frame.x(-allowed)), float(frame.x(allowed))
        frame.parts.append(f'<rect class="band" x="{edge:.1f}" y="{frame.top + 20 * i}" width="{other - edge:.1f}" height="20"/>')
    frame.segment(zero, frame.top, zero, frame.bottom, "zero")
    for i, (row, name) in enumerate(zip(shown.rows, names, strict=True)):
        y, kind = frame.top + 20 * i + 10, CLASS[row.verdict]
        low, high, middle, reach = (float(frame.x(v)) for v in (shown.lower[i], shown.upper[i], shown.estimate[i], shown.bound[i]))
        frame.text(left - 8, y + 4, name, "end", "name")
        if row.verdict == ERROR:
            frame.segment(zero, y, reach, y, f"bar {kind}")
        frame.segment(low, y, high, y, f"line {kind}")
        frame.parts.append(_mark(middle, y, kind))
    frame.axes("movement away from the approximation", y_ticks=False)
    return frame.svg(f"Movement intervals of the {len(names)} worst quantities")


def movement(path: series.Movement) -> str:
    """One row's way from q, its band, and a dotted line where it came to rest."""
    kind = CLASS[path.row.verdict]
    spread = np.concatenate([path.low, path.high, [0.0]])
    spread = spread[np.isfinite(spread)]
    frame = Frame(260, 150, (0, float(path.iteration[-1])), (float(spread.min()), float(spread.max())), (44, 8, 32, 10))
    frame.segment(frame.left, float(frame.y(0.0)), frame.right, float(frame.y(0.0)), "zero")
    frame.area(path.iteration, path.low, path.high, kind)
    frame.line(path.iteration, path.change, kind)
    if path.settled is not None:
        x = float(frame.x(path.settled))
        frame.segment(x, frame.top, x, frame.bottom, "settled")
    frame.axes("iteration")
    return frame.svg(f"Movement of the {series.name(path.row)} against iteration")


def marginal(one: series.Marginal, row: Row | None = None) -> str:
    """Density before (dashed) and after (filled); for a row's own picture also what q says and the right value, as lines."""
    top = max(float(np.max([one.before, one.after])), 1e-300)
    frame = Frame(260, 130, (one.at[0], one.at[-1]), (0, top * 1.05), (10, 8, 22, 10))
    frame.area(one.at, np.zeros_like(one.at), one.after, "moved")
    frame.line(one.at, one.after, "moved")
    frame.line(one.at, one.before, "before")
    if row is not None and row.functional != "variance":
        for value, kind in ((row.approximation, "line before"), (row.corrected, "line moved")):
            if one.at[0] <= value <= one.at[-1]:
                frame.segment(float(frame.x(value)), frame.top, float(frame.x(value)), frame.bottom, kind)
    frame.axes(y_ticks=False)
    return frame.svg(f"Density of {series.shortened(one.parameter, 40)} before and after")


def statistic(one: series.Statistic) -> str:
    """A failed check's value for the rows where it is largest, as bars, with the cutoff."""
    names = [series.name(row, 26) for row in one.rows]
    left = int(max(len(name) for name in names) * 5.8) + 10
    finite = one.value[np.isfinite(one.value)]
    most = max(float(finite.max(initial=0.0)), one.check.cutoff if math.isfinite(one.check.cutoff) else 0.0)
    frame = Frame(300, 16 * len(names) + 30, (0, most * 1.05 or 1.0), (0, 1), (left, 4, 22, 10))
    for i, (name, value) in enumerate(zip(names, one.value, strict=True)):
        y, beyond = frame.top + 16 * i + 8, value >= one.check.cutoff
        frame.text(left - 6, y + 4, name, "end", "tick")
        frame.segment(left, y, float(frame.x(value)) if math.isfinite(value) else frame.right, y, f"bar {'error' if beyond else 'fine'}")
    cutoff = float(frame.x(one.check.cutoff))
    frame.segment(cutoff, frame.top, cutoff, frame.bottom, "cutoff")
    frame.axes(y_ticks=False)
    return frame.svg(f"{one.check.name}, quantity by quantity")


def memory(shown: series.Memory) -> str:
    """ρ² of start and state, on a log scale, with the cutoff."""
    end = float(max(shown.iteration[-1], shown.snapshots[-1]))
    frame = Frame(560, 220, (0, end), (1e-3, 1.0), (44, 8, 32, 10), log_y=True)
    cutoff = float(frame.y(shown.cutoff))
    for k in range(len(shown.rows)):
        frame.line(shown.snapshots, shown.rho2[:, k], "each")
    frame.line(shown.iteration, shown.largest, "largest")
    frame.segment(frame.left, cutoff, frame.right, cutoff, "cutoff")
    frame.text(frame.right, cutoff - 4, f"cutoff {shown.cutoff:g}", "end")
    frame.axes("iteration")
    return frame.svg("Squared correlation of start and state against iteration")


def path(values: np.ndarray, label: str, top: float | None = None) -> str:
    """One value an iteration."""
    frame = Frame(260, 150, (0, len(values)), (0, top or float(np.nanmax(values)) * 1.1), (44, 8, 32, 10))
    frame.line(np.arange(1, len(values) + 1), values, "fine")
    frame.axes("iteration")
    return frame.svg(f"{label} against iteration")


def ticks(low: float, high: float, most: int = 6) -> Sequence[float]:
    """At most about `most` round numbers inside the range."""
    rough = (high - low) / most
    if not math.isfinite(rough) or rough <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((m * power for m in (1, 2, 5) if m * power >= rough), 10 * power)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) + 0.0 if step > 1e-9 else k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _mark(x: float, y: float, kind: str) -> str:
    if kind == "error":
        return f'<circle class="mark {kind}" cx="{x:.1f}" cy="{y}" r="4"/>'
    if kind == "untrusted":
        return f'<rect class="mark {kind}" x="{x - 3.5:.1f}" y="{y - 3.5}" width="7" height="7"/>'
    if kind == "within":
        return f'<path class="mark {kind}" d="M{x:.1f} {y - 5}l5 9h-10z"/>'
    return f'<path class="mark {kind}" d="M{x:.1f} {y - 4.5}l4.5 4.5-4.5 4.5-4.5-4.5z"/>'


def _points(xs, ys) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def _wide(span: tuple[float, float]) -> tuple[float, float]:
    low, high = span
    return (low, high) if high > low else (low - 1.0, high + 1.0)
