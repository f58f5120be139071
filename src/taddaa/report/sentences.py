"""A report in words: its headline, and the sizes of errors."""

import math
from typing import TYPE_CHECKING

from ..errors import visible
from ..verdict.checks.registry import condemning
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, VERDICTS, WITHIN
from .parts import Row
from .right_value import right_value_in_words
from .tolerance import SLIGHT, in_words

if TYPE_CHECKING:
    from .report import Report


def headline(report: "Report") -> str:
    """One or two sentences that a hurried reader may stop after."""
    return visible(_headline(report))


def title(report: "Report") -> str:
    """The first sentence of the headline, with the size of what was found."""
    return visible(_title(report))


def _title(report: "Report") -> str:
    count, total = _counts(report), len(report.rows)
    some = lambda verdict: "the one quantity" if total == 1 else f"{count[verdict]} of {quantities(total)}"  # noqa: E731
    far = condemning(report.checks)
    if far is not None:
        return f"The fit is far from the posterior: {far.message}."
    if count[ERROR]:
        worst, errors = report.tolerance.severity(report.worst(1)[0]), plural(count[ERROR], "error")
        if worst == SLIGHT:
            return f"Slight {errors} found in {some(ERROR)}: surely there, and perhaps too small to matter."
        if count[ERROR] == 1:
            return f"A {worst} error found in {some(ERROR)}."
        return f"Errors found in {some(ERROR)}, the worst {worst}."
    if count[UNTRUSTED]:
        return f"No error can be stated, and {some(UNTRUSTED)} could not be judged."
    if count[NO_ERROR]:
        found = quantities(total) if count[NO_ERROR] == total else some(NO_ERROR)
        return f"No error found in {found}. That is not proof of accuracy: an error below 'would see' can hide."
    if total == 1:
        return f"The one quantity is within tolerance: its error is surely below {in_words(report)}."
    return f"All {total} quantities are within tolerance: their errors are surely below {in_words(report)}."


def _headline(report: "Report") -> str:
    count, text = _counts(report), _title(report)
    if report.far:
        return text + f" Errors are stated for {count[ERROR]} of {quantities(len(report.rows))}." * bool(count[ERROR])
    if count[ERROR]:
        return f"{text} Worst: {sentence(report.worst(1)[0])}" + _others(count, WITHIN, NO_ERROR, UNTRUSTED)
    if count[UNTRUSTED]:
        return text + _others(count, WITHIN, NO_ERROR)
    return text + _others(count, WITHIN) * bool(count[NO_ERROR])


def _counts(report: "Report") -> dict[str, int]:
    return {verdict: sum(row.verdict == verdict for row in report.rows) for verdict in VERDICTS}


def plural(count: int, one: str) -> str:
    """`error` or `errors`; `quantity` or `quantities`."""
    return one if count == 1 else f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"


def quantities(count: int) -> str:
    return f"{count} {plural(count, 'quantity')}"


def _others(count: dict[str, int], *verdicts: str) -> str:
    """What is said of the quantities beside the first sentence: ` 6 are within tolerance, 1 could not be judged.`"""
    told = []
    for verdict in verdicts:
        some = count[verdict]
        words = {
            WITHIN: f"{some} {'is' if some == 1 else 'are'} within tolerance",
            NO_ERROR: f"in {some} no error was found",
            UNTRUSTED: f"{some} could not be judged",
        }
        told += [words[verdict]] if some else []
    text = ", ".join(told)
    return f" {text[0].upper()}{text[1:]}." if text else ""


def sentence(row: Row) -> str:
    """An error in words, with the right value where it is known."""
    parameter, functional = visible(row.parameter), visible(row.functional)
    if row.verdict != ERROR:
        return f"{functional} of {parameter}: {row.verdict}."
    right = right_value_in_words(row)
    if row.functional == "variance":
        side = "small" if row.lower > 0 else "large"
        wrong = f"the variance of {parameter} is too {side} by a factor of at least {math.exp(min(row.bound, 700)):.3g}"
        return f"{wrong} ({right})." if right else f"{wrong}."
    side = "low" if row.lower > 0 else "high"
    unit = (
        plural(1 if f"{row.relative_bound:.2g}" == "1" else 2, "standard deviation")
        if row.functional != "covariance"
        else "in units of both standard deviations"
    )
    about = "; ".join(filter(None, (f"{row.relative_bound:.2g} {unit}", right)))
    return f"the {functional} of {parameter} is too {side} by at least {row.bound:.3g} ({about})."


def size(row: Row, value: float) -> str:
    """A bound or detectable error as a reader takes it: for a variance the factor, otherwise the number."""
    if math.isinf(value):
        return "∞"
    if row.functional != "variance":
        return f"{value:.3g}"
    if 1e-5 < value < 0.01:  # ×1 would say nothing
        return f"×{math.exp(value):.{1 - math.floor(math.log10(value))}f}"
    return f"×{math.exp(min(value, 700)):.3g}"


def least_error(row: Row) -> str:
    """How wrong the approximation at least is, for a table; where that is not known or does not matter, the verdict."""
    return size(row, row.bound) if row.verdict == ERROR else "—" if row.verdict == NO_ERROR else row.verdict


def would_see(row: Row) -> str:
    """The smallest error that would have been found, for a table; an untrusted row claims nothing."""
    return "—" if row.verdict == UNTRUSTED else size(row, row.detectable)
