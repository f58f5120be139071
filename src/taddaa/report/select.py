"""A report on some of its quantities, as if only they had been asked for: rows, draws, paths and checks of these."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..problem.selection import as_names, chosen
from ..verdict.checks.check import Check

if TYPE_CHECKING:
    from .report import Report

BY_ROW = ("estimate", "error", "rho2", "reference", "unit")  # of `Paths`


def selected(report: "Report", var_names) -> "Report":
    """Rows and draws whose parameter is named. Intervals stay as they are: they hold together with all others of the full report."""
    names = as_names(var_names)
    everything = list(dict.fromkeys([*(row.parameter for row in report.rows), *report.labels]))
    wanted = {everything[i] for i in chosen(everything, names)}
    rows = [i for i, row in enumerate(report.rows) if row.parameter in wanted]
    columns = [i for i, label in enumerate(report.labels) if label in wanted] or list(range(len(report.labels)))
    if not rows:
        asked = ", ".join(sorted(wanted)[:5])
        raise InputError(f"the report has no rows of {asked}; diagnose(..., var_names={list(names)!r}) judges them")
    return replace(
        report,
        rows=tuple(report.rows[i] for i in rows),
        checks=tuple(_of_rows(check, rows) for check in report.checks),
        paths=replace(report.paths, **{name: getattr(report.paths, name)[..., rows] for name in BY_ROW}),
        labels=tuple(report.labels[i] for i in columns),
        start_draws=report.start_draws[:, columns],
        moved_draws=report.moved_draws[:, columns],
    )


def _of_rows(check: Check, rows: list[int]) -> Check:
    mine = None if check.rows is None else tuple(int(i) for i in np.flatnonzero(np.isin(rows, check.rows)))
    return replace(check, rows=mine, each=None if check.each is None else tuple(check.each[i] for i in rows))
