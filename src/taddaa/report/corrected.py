"""The posterior's own values, ready to be used instead of the fit's."""

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..verdict.outcome import UNTRUSTED

if TYPE_CHECKING:
    from .report import Report

PARTS = ("corrected", "corrected_lower", "corrected_upper")


def corrected_values(report: "Report"):
    """A DataFrame: one row a parameter; mean, sd and quantiles, as far as they were asked, each with its interval."""
    import pandas

    if all(np.isnan(row.corrected) for row in report.rows):
        reasons = list(dict.fromkeys(row.reason for row in report.rows if row.verdict == UNTRUSTED and row.reason))
        silent = "the checks do not say that the chains came to rest (Settings.paper() makes only one), or the report is an older version's"
        why = reasons[0] if reasons else silent
        raise InputError(f"corrected has nothing to give: {why}")
    found: dict[str, dict[str, float]] = {}
    for row in report.rows:
        name, scale = ("sd", np.sqrt) if row.functional == "variance" else (row.functional, float)
        for part, end in zip(PARTS, ("", "_lower", "_upper"), strict=True):
            found.setdefault(row.parameter, {})[name + end] = float(scale(getattr(row, part)))
    return pandas.DataFrame.from_dict(found, orient="index").rename_axis("parameter").reset_index()
