"""The decision, in a few lines: what to use, what not to use and what instead, what could not be judged and what to do about it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import visible
from ..verdict.checks.check import Check
from ..verdict.checks.registry import condemning
from ..verdict.checks.settled import still_moving
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, WITHIN
from .advice import KNOWN
from .parts import Row
from .right_value import right_value
from .tolerance import SLIGHT, in_words

if TYPE_CHECKING:
    from .report import Report

USE, MAYBE, DO_NOT, UNJUDGED = "use", "perhaps", "do not use", "could not be judged"
TITLE = {USE: "Use", MAYBE: "Use with care", DO_NOT: "Do not use", UNJUDGED: "Could not be judged"}
LONGEST = 40  # letters of a name
SHOWN = 3  # quantities by name in a line
SHORT_LINE = 50  # letters
REASONS = 2  # told in the answer; the rest below it


@dataclass(frozen=True)
class Answer:
    """One decision: `kind` (use, perhaps, do not use, could not be judged), the rows it is about, and sentences to say it."""

    kind: str
    rows: tuple[Row, ...]
    sentences: tuple[str, ...]

    @property
    def title(self) -> str:
        """`Do not use (5)`."""
        return f"{TITLE[self.kind]} ({len(self.rows)})"

    def __str__(self) -> str:
        return f"{self.title}: {' '.join(self.sentences)}"


def answer(report: "Report") -> tuple[Answer, ...]:
    """The decisions, the most urgent first; every row is in exactly one."""
    rows = report.worst()
    severity = report.tolerance.severity
    wrong = [row for row in rows if row.verdict == ERROR and severity(row) != SLIGHT]
    slight = [row for row in rows if row.verdict == ERROR and severity(row) == SLIGHT]
    doubted = [row for row in rows if row.verdict == UNTRUSTED]
    unseen = [row for row in rows if row.verdict == NO_ERROR]
    fine = [row for row in rows if row.verdict == WITHIN]
    far = condemning(report.checks)
    if far is not None:
        told = [
            "None of it, before it is fitted again: the fit lies where the posterior has next to no mass.",
            *_errors(report, wrong + slight),
        ]
        return (Answer(DO_NOT, tuple(rows), tuple(map(visible, told))),)
    groups = (
        (DO_NOT, wrong, _errors(report, wrong)),
        (UNJUDGED, doubted, _doubts(report, doubted)),
        (MAYBE, slight + unseen, [*_slight(report, slight), *_unseen(report, unseen)]),
        (USE, fine, _fine(report, fine)),
    )
    return tuple(Answer(kind, tuple(group), tuple(map(visible, told))) for kind, group, told in groups if group)


def listed(report: "Report", rows: Sequence[Row]) -> str:
    """Rows by name, the first few: `all 8 means, the variance of a and 2 other variances`."""
    parts = []
    for kind in dict.fromkeys(row.functional for row in rows):
        ours = [short(row.parameter) for row in rows if row.functional == kind]
        every = sum(row.functional == kind for row in report.rows)
        if len(ours) == every > SHOWN:
            parts.append(f"all {every} {kinds(kind)}")
        elif len(ours) == 1:
            parts.append(f"the {kind} of {ours[0]}")
        elif len(ours) <= SHOWN:
            parts.append(f"the {kinds(kind)} of {joined(ours)}")
        else:
            parts.append(f"{len(ours)} of {every} {kinds(kind)} ({', '.join(ours[:SHOWN])}, …)")
    return joined(parts)


def concerned(report: "Report", check: Check) -> str:
    """Which quantities a check is about: `the mean of a`; '' where it is about all of them, or about the run."""
    named = [row for i, row in enumerate(report.rows) if i in (check.rows or ())]
    return listed(report, named) if 0 < len(named) < len(report.rows) else ""


def short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def kinds(functional: str) -> str:
    """Several of them: means, variances, 0.9 quantiles."""
    return f"{functional[1:]} quantiles" if functional[:1] == "q" and functional[1:2].isdigit() else f"{functional}s"


def joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def how_wrong(row: Row) -> str:
    """`too small by a factor of 3.2 or more`, `too high by 0.4 or more`."""
    if row.functional == "variance":
        return f"too {'small' if row.lower > 0 else 'large'} by a factor of {math.exp(min(row.bound, 700)):.3g} or more"
    return f"too {'low' if row.lower > 0 else 'high'} by {row.bound:.3g} or more"


def how_far(row: Row, moving: bool) -> str:
    """Of a row that cannot be trusted and that moved: a movement is no bound on the error, but it is something. '' if it did not."""
    if not row.bound > 0 or not math.isfinite(row.bound):
        return ""
    by = f"a factor of {math.exp(min(row.bound, 700)):.3g}" if row.functional == "variance" else f"{row.bound:.3g}"
    return f"moved by at least {by}" + " and was still moving" * moving


def moving(report: "Report") -> Callable[[Row], bool]:
    """Whether a row was still moving when the chains stopped."""
    place = {id(row): i for i, row in enumerate(report.rows)}
    return lambda row: still_moving(report.checks, place[id(row)])


def _errors(report: "Report", rows: Sequence[Row]) -> list[str]:
    told = [
        f"The {row.functional} of {short(row.parameter)} is {how_wrong(row)} ({report.tolerance.severity(row)}){_instead(row)}."
        for row in rows
    ]
    if len(rows) <= SHOWN:
        return told
    right = sum(not math.isnan(row.corrected) for row in rows[SHOWN:])
    known = "" if not right else "; the right values are in report.corrected"
    return [*told[:SHOWN], f"And {len(rows) - SHOWN} more: {listed(report, rows[SHOWN:])}{known}."]


def _instead(row: Row) -> str:
    right = right_value(row)
    return f"; use {right} instead" if right else ""


def _doubts(report: "Report", rows: Sequence[Row]) -> list[str]:
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        reasons.setdefault(row.reason.partition("; ")[0], []).append(row)
    told = [f"{_capital(listed(report, some))}: {reason}." for reason, some in reasons.items()][:REASONS]
    told += [f"And {len(reasons) - REASONS} more reasons, below."] if len(reasons) > REASONS else []
    still = moving(report)
    moved = [(row, how_far(row, still(row))) for row in rows]
    told += [f"The {row.functional} of {short(row.parameter)} {words}." for row, words in moved if words][:1]
    advice = [one for one in report.advice if one.kind != KNOWN]
    return [*told, *([f"What to do: {advice[0].words}{_line(advice[0].python)}"] if advice else [])]


def _line(code: str) -> str:
    """A line to paste, if it is short; longer ones stand with the advice."""
    return f" ({code})" if 0 < len(code) <= SHORT_LINE else ""


def _slight(report: "Report", rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    most = max(rows, key=report.tolerance.times)
    example = f"{most.functional} of {short(most.parameter)}: {how_wrong(most)}{_instead(most)}"
    told = f"{_capital(listed(report, rows))}: surely not exact ({example})"
    return [f"{told}, but perhaps within the tolerance of {in_words(report, tuple(rows))}."]


def _unseen(report: "Report", rows: Sequence[Row]) -> list[str]:
    return [f"{_capital(listed(report, rows))}: no error found; {_ruled_out(report, rows)}."] if rows else []


def _ruled_out(report: "Report", rows: Sequence[Row]) -> str:
    """What would have shown, the largest of each kind: `an error above 0.4 standard deviations or a factor of 1.5 would have shown`."""
    units = {id(row): unit for row, unit in zip(report.rows, report.paths.unit.tolist(), strict=False)}
    largest: dict[bool, float] = {}
    for row in rows:
        unit, variance = units[id(row)], row.functional == "variance"
        relative = row.detectable / unit if unit > 0 else math.inf
        largest[variance] = max(largest.get(variance, 0.0), relative)
    if not all(math.isfinite(value) for value in largest.values()):
        return "how large an error could hide differs, see 'would see'"
    words = [
        f"a factor of {math.exp(min(value, 700)):.3g}" if variance else f"{value:.2g} standard deviations"
        for variance, value in sorted(largest.items())
    ]
    return f"an error above {' or '.join(words)} would have shown"


def _fine(report: "Report", rows: Sequence[Row]) -> list[str]:
    return [f"{_capital(listed(report, rows))}: surely wrong by less than {in_words(report, tuple(rows))}."] if rows else []


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
