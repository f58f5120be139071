"""A report in words: its headline, what to do next, and the sizes of errors."""

import math
from typing import TYPE_CHECKING

from ..errors import visible
from ..verdict.checks.registry import condemning, remedies
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED
from .parts import Row

if TYPE_CHECKING:
    from .report import Report


def headline(report: "Report") -> str:
    """One or two sentences that a hurried reader may stop after."""
    count = {verdict: sum(row.verdict == verdict for row in report.rows) for verdict in (ERROR, UNTRUSTED, NO_ERROR)}
    total = len(report.rows)
    far = condemning(report.checks)
    if far is not None:
        text = f"The fit is far from the posterior: {far.message}."
        text += f" Errors are stated for {count[ERROR]} of {total} quantities." * bool(count[ERROR])
    elif count[ERROR]:
        text = f"Errors found in {count[ERROR]} of {total} quantities. Worst: {sentence(report.worst(1)[0])}"
    elif count[UNTRUSTED]:
        text = f"No error can be stated, and {count[UNTRUSTED]} of {total} quantities could not be judged."
    else:
        text = f"No error found in {total} quantities. That is not proof of accuracy: an error below 'would see' can hide."
    if count[ERROR] and count[UNTRUSTED]:
        text += f" {count[UNTRUSTED]} could not be judged."
    return visible(text)


def advice(report: "Report") -> tuple[str, ...]:
    """What to do next."""
    if report.usable:
        return (
            f"All checks passed: report.moved holds {len(report.moved_draws)} draws that behave like nearly independent draws of the "
            "posterior around the approximation. Use them for means, variances and intervals; not for far tails or rare events. "
            "A mode that no chain reached is not in them (other_starts= looks for one).",
        )
    full = "Or run full MCMC from report.handover: its starts are closer to the target, and its mass matrix fits it."
    return (*remedies(report.checks), full)


def sentence(row: Row) -> str:
    """An error in words."""
    parameter, functional = visible(row.parameter), visible(row.functional)
    if row.verdict != ERROR:
        return f"{functional} of {parameter}: {row.verdict}."
    if row.functional == "variance":
        side = "small" if row.lower > 0 else "large"
        return f"the variance of {parameter} is too {side} by a factor of at least {math.exp(min(row.bound, 700)):.3g}."
    side = "low" if row.lower > 0 else "high"
    unit = "moved standard deviations" if row.functional != "covariance" else "in units of both standard deviations"
    return f"the {functional} of {parameter} is too {side} by at least {row.bound:.3g} ({row.relative_bound:.2g} {unit})."


def size(row: Row, value: float) -> str:
    """A bound or detectable error as a reader takes it: for a variance the factor, otherwise the number."""
    if math.isinf(value):
        return "∞"
    return f"×{math.exp(min(value, 700)):.3g}" if row.functional == "variance" else f"{value:.3g}"


def least_error(row: Row) -> str:
    """How wrong the approximation at least is, for a table."""
    return size(row, row.bound) if row.verdict == ERROR else row.verdict if row.verdict == UNTRUSTED else "—"


def would_see(row: Row) -> str:
    """The smallest error that would have been found, for a table; an untrusted row claims nothing."""
    return "—" if row.verdict == UNTRUSTED else size(row, row.detectable)
