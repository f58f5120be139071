"""The errors that do not matter, as a report keeps them: in the words of its settings; and how large others are beside them."""

import re
from typing import TYPE_CHECKING, NamedTuple

from ..verdict.outcome import ERROR

if TYPE_CHECKING:
    from .parts import Row
    from .report import Report

SLIGHT, MODERATE, LARGE, SEVERE = "slight", "moderate", "large", "severe"
# An error of at least so many tolerances: under one it is surely there, and perhaps too small to matter.
SEVERITIES = ((0.0, SLIGHT), (1.0, MODERATE), (3.0, LARGE), (10.0, SEVERE))


class Tolerances(NamedTuple):
    """In standard deviations for means, quantiles and covariances; in log variance for variances. The paper's, by default."""

    mean: float = 0.1
    variance: float = 0.15

    def of(self, functional: str) -> float:
        """In the units of a relative bound."""
        return self.variance if functional == "variance" else self.mean

    def times(self, row: "Row") -> float:
        """How many tolerances a row's bound is."""
        return row.relative_bound / self.of(row.functional)

    def severity(self, row: "Row") -> str:
        """A word for the size of a row's error; '' where none is stated."""
        if row.verdict != ERROR:
            return ""
        return next(word for least, word in reversed(SEVERITIES) if self.times(row) >= least)


def tolerances(settings: str) -> Tolerances:
    """From `provenance.settings`; the defaults where it does not name them."""
    named = {name: re.search(rf"(?:^|\s){name}_tolerance=([0-9.eE+-]+)(?:,|$)", settings) for name in Tolerances._fields}
    return Tolerances(**{name: float(match[1]) for name, match in named.items() if match})


def in_words(report: "Report", rows: "tuple[Row, ...] | None" = None) -> str:
    """Below what an error must lie to be within tolerance: `0.1 standard deviations (0.15 in log variance)`."""
    allowed = report.tolerance
    kinds = {row.functional == "variance" for row in (report.rows if rows is None else rows)}
    if kinds == {True}:
        return f"{allowed.variance:g} in log variance"
    return f"{allowed.mean:g} standard deviations" + f" ({allowed.variance:g} in log variance)" * (True in kinds)
