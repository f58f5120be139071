"""Several approximations of one target side by side: this package's bounds, and the comparators that others use."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..chains.walk import Progress
from ..diagnosis import diagnose
from ..errors import InputError
from ..problem.approximation import Approximation
from ..problem.functional import Functional
from ..problem.target import Target
from ..report.parts import Row
from ..report.report import Report
from ..settings import Settings
from ..verdict.outcome import ERROR, UNTRUSTED
from .comparators import COMPARATORS, Comparators, comparators_of
from .weights import WEIGHT_DRAWS, elbo_of, matched, weights_of

WHOLE = "whole approximation"


def compare(
    approximations: Mapping[str, Approximation | Any],
    target: Target | Callable,
    functionals: Sequence[Functional] | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> "Comparison":
    """Judge several approximations of one target on common random numbers, and rank them for each quantity.

    Args:
        approximations: names and what `diagnose` takes as an approximation.
        target, functionals, settings, seed, progress: as in `diagnose`; the same for all.
    """
    if not isinstance(approximations, Mapping) or not approximations:
        raise InputError(f"approximations must be a dict {{name: approximation}} with at least one, got {approximations!r}")
    pairs = {str(name): matched(target, each) for name, each in approximations.items()}
    first = next(iter(pairs.values()))[1]  # one Target, so that everything is compiled once
    reports = {name: diagnose(first, q, functionals, settings, seed, progress=progress) for name, (q, _) in pairs.items()}
    weights = {name: weights_of(first, q, settings or Settings(), seed, WEIGHT_DRAWS) for name, (q, _) in pairs.items()}
    elbos = [elbo_of(found.log_weights) for found in weights.values() if found is not None]
    evidence = max((elbo for elbo in elbos if np.isfinite(elbo)), default=-math.inf)
    comparators = {name: comparators_of(q, weights[name], evidence) for name, (q, _) in pairs.items()}
    return Comparison(reports, comparators)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `taddaa.compare`: a report and comparators for each name. Print it, or take `to_dataframe()`."""

    reports: dict[str, Report]
    comparators: dict[str, Comparators]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.reports)

    def ranks(self) -> list[dict[str, int | None]]:
        """For each row of the reports, 1 + how many approximations have a surely smaller error; None where untrusted.

        Surely smaller: the largest error that its interval allows is below the other's bound. Ties share a rank.
        """
        return [_ranks(dict(zip(self.names, rows, strict=True))) for rows in self._rows()]

    def best(self, parameter: str, functional: str) -> tuple[str, ...]:
        """The names that no other surely beats for this quantity."""
        for rows, ranks in zip(self._rows(), self.ranks(), strict=True):
            if (rows[0].parameter, rows[0].functional) == (parameter, functional):
                return tuple(name for name, rank in ranks.items() if rank == 1)
        raise InputError(f"there is no row {functional!r} of {parameter!r} in this comparison")

    def comparator(self, field: str) -> tuple[dict[str, float], dict[str, int | None]]:
        """One comparator (a field of `Comparators`) of every approximation, and their ranks by it."""
        values = {name: getattr(found, field) for name, found in self.comparators.items()}
        return values, _order(field, values)

    def to_dataframe(self):
        """Quantities, then comparators, by approximation: `bound`, `relative_bound`, `verdict`, `rank` below each name.

        A comparator's number stands in the column `bound`; where it is not available, `verdict` holds the reason.
        """
        import pandas

        columns = ("bound", "relative_bound", "verdict", "rank")
        index, cells = [], []
        for rows, ranks in zip(self._rows(), self.ranks(), strict=True):
            index.append((rows[0].parameter, rows[0].functional))
            cells.append([v for n, r in zip(self.names, rows, strict=True) for v in (r.bound, r.relative_bound, r.verdict, ranks[n])])
        for field, label in COMPARATORS.items():
            index.append((WHOLE, label))
            values, order = self.comparator(field)
            told = {name: "" if not math.isnan(value) else self.comparators[name].reason for name, value in values.items()}
            cells.append([v for name in self.names for v in (values[name], math.nan, told[name], order[name])])
        header = pandas.MultiIndex.from_product([self.names, columns], names=["approximation", None])
        table = pandas.DataFrame(cells, index=pandas.MultiIndex.from_tuples(index, names=["parameter", "functional"]), columns=header)
        return table.astype({(name, "rank"): "Int64" for name in self.names})

    def _rows(self) -> list[tuple[Row, ...]]:
        return list(zip(*(report.rows for report in self.reports.values()), strict=True))

    def __str__(self) -> str:
        from .text import comparison_text

        return comparison_text(self)

    __repr__ = __str__


def _ranks(rows: dict[str, Row]) -> dict[str, int | None]:
    trusted = {name: row for name, row in rows.items() if row.verdict != UNTRUSTED}
    most = {name: max(abs(row.lower), abs(row.upper)) for name, row in trusted.items()}
    found: dict[str, int | None] = {}
    for name, row in rows.items():
        beaten_by = sum(most[other] < row.bound for other in trusted if other != name) if row.verdict == ERROR else 0
        found[name] = 1 + beaten_by if name in trusted else None
    return found


def _order(field: str, values: dict[str, float]) -> dict[str, int | None]:
    """Comparators by size: a large ELBO is good, everything else is good when small."""
    sign = -1 if field == "elbo" else 1
    return {
        name: None if math.isnan(value) else 1 + sum(sign * other < sign * value for other in values.values() if not math.isnan(other))
        for name, value in values.items()
    }
