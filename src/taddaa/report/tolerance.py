"""The errors that do not matter, as a report keeps them: in the words of its settings."""

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .report import Report


class Tolerances(NamedTuple):
    """In standard deviations for means, quantiles and covariances; in log variance for variances. The paper's, by default."""

    mean: float = 0.1
    variance: float = 0.15

    def of(self, functional: str) -> float:
        """In the units of a relative bound."""
        return self.variance if functional == "variance" else self.mean


def tolerances(settings: str) -> Tolerances:
    """From `provenance.settings`; the defaults where it does not name them."""
    named = {name: re.search(rf"(?:^|\s){name}_tolerance=([0-9.eE+-]+)(?:,|$)", settings) for name in Tolerances._fields}
    return Tolerances(**{name: float(match[1]) for name, match in named.items() if match})


def in_words(report: "Report") -> str:
    """Below what an error must lie to be within tolerance: `0.1 standard deviations (0.15 in log variance)`."""
    allowed = tolerances(report.provenance.settings)
    kinds = {row.functional == "variance" for row in report.rows}
    if kinds == {True}:
        return f"{allowed.variance:g} in log variance"
    return f"{allowed.mean:g} standard deviations" + f" ({allowed.variance:g} in log variance)" * (True in kinds)
