"""The certificate on the page: what is certified and by what, errors from both sides, and when pairs of chains met."""

import math

import numpy as np

from ..report.certificate import Certificate
from ..report.parts import Row
from ..report.report import Report
from ..report.sentences import size
from . import series
from .markup import figure
from .svg import Frame, clean

SHOWN = 25  # quantities with bars


def certificate(report: Report) -> str:
    """A section, or nothing where no pairs were run."""
    found = report.certificate
    if found is None:
        return ""
    pictures = [figure(_meetings(found), _caption(found))]
    rows = sorted((row for row in report.rows if math.isfinite(row.at_most)), key=lambda row: -_relative(report, row, row.at_most))
    if rows:
        left_out = f" The largest {SHOWN} of {len(rows)}." if len(rows) > SHOWN else ""
        caption = (
            "Errors from both sides: at least the left end, at most the right end of each bar, in standard deviations (of a variance, "
        )
        pictures.append(figure(_brackets(report, rows[:SHOWN]), f"{caption}in its logarithm).{left_out}", "wide"))
    return f'<section id="certificate"><h2>What is certified, and by what</h2><p>{clean(found.sentence)}</p>{"".join(pictures)}</section>'


def _caption(found: Certificate) -> str:
    return (
        "Share of the pairs that had not met, against iterations that both chains of a pair moved, in planned iterations T. "
        "Once met, a pair never parts. "
        f"Chains that go on for {found.lag} iterations are within {found.distance:.2g} of the posterior in total variation."
    )


def _meetings(found: Certificate) -> str:
    """One minus the distribution function of the meetings."""
    times = np.sort(np.array([each for each in found.meetings if math.isfinite(each)]))
    apart = 1 - np.arange(len(times) + 1) / found.pairs
    end = float(times[-1]) * 1.05 if len(times) else 1.0
    frame = Frame(300, 150, (0, end), (0, 1), (44, 8, 32, 10))
    frame.line(np.repeat(np.r_[0.0, times, end], 2)[1:-1], np.repeat(apart, 2), "fine")
    frame.axes("T")
    return frame.svg("Share of pairs that had not met, against planned iterations")


def _brackets(report: Report, rows: list[Row]) -> str:
    """A bar from the least to the most error of each row."""
    names = [f"{series.name(row, 30)}: {size(row, row.bound)} to {size(row, row.at_most)}" for row in rows]
    left = int(max(map(len, names)) * 5.8) + 12
    ends = [(_relative(report, row, row.bound), _relative(report, row, row.at_most)) for row in rows]
    frame = Frame(left + 360, 16 * len(rows) + 30, (0, max(high for _, high in ends) * 1.05 or 1.0), (0, 1), (left, 4, 22, 10))
    for i, (name, (low, high)) in enumerate(zip(names, ends, strict=True)):
        y = frame.top + 16 * i + 8
        frame.text(left - 6, y + 4, name, "end", "tick")
        begin, end = float(frame.x(low)), float(frame.x(high))
        frame.segment(begin, y, max(end, begin + 2), y, "bar error" if low > 0 else "bar fine")  # never too narrow to be seen
    frame.axes(y_ticks=False)
    return frame.svg("How large errors are at least and at most")


def _relative(report: Report, row: Row, value: float) -> float:
    place = next(i for i, other in enumerate(report.rows) if other is row)
    unit = float(report.paths.unit[place])
    return value / unit if unit > 0 and math.isfinite(value / unit) else 0.0
