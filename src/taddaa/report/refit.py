"""Two reports of the same quantities, before and after a refit: which errors surely grew, and which surely shrank."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import visible
from ..verdict.outcome import ERROR, UNTRUSTED, WITHIN
from .parts import Row
from .report import Report
from .sentences import least_error
from .text import short_name, table

WORSE, NEW, BETTER, GONE, SAME, UNKNOWN, ADDED, REMOVED = (
    "worse",
    "new error",
    "better",
    "no longer found",
    "no clear change",
    "cannot tell",
    "only after",
    "only before",
)
ORDER = (WORSE, NEW, UNKNOWN, ADDED, REMOVED, SAME, GONE, BETTER)
SHOWN = 20


@dataclass(frozen=True)
class Change:
    """One quantity in both reports; `before` or `after` is None where it is in one only."""

    parameter: str
    functional: str
    before: Row | None
    after: Row | None
    change: str


def changes(before: Report, after: Report) -> tuple[Change, ...]:
    """Every quantity of either report.

    An error is *worse* only if its bound now exceeds the largest movement that the interval before allowed, and *better* in
    the same way: overlapping intervals are no evidence of a change. Changes within the tolerance are none; leaving it is a *new error*.
    """
    old = {(row.parameter, row.functional): row for row in before.rows}
    new = {(row.parameter, row.functional): row for row in after.rows}
    keys = [*old, *(key for key in new if key not in old)]
    found = [Change(*key, old.get(key), new.get(key), _change(old.get(key), new.get(key))) for key in keys]
    return tuple(sorted(found, key=lambda c: (ORDER.index(c.change), -(c.after.relative_bound if c.after else 0))))


def got_worse(found: Sequence[Change], threshold: float = 0.0) -> bool:
    """Whether an error above the threshold is new or surely larger."""
    return any(
        c.change in (WORSE, NEW, ADDED) and c.after and c.after.verdict == ERROR and c.after.relative_bound > threshold for c in found
    )


def changes_text(before: Report, after: Report, found: Sequence[Change], threshold: float = 0.0) -> str:
    """A headline and the quantities that changed."""
    count = {kind: sum(c.change == kind for c in found) for kind in ORDER}
    told = ", ".join(f"{count[kind]} {kind}" for kind in ORDER if count[kind])
    if not any(c.before and c.after for c in found):
        headline = "The two reports have no quantity in common, so nothing can be compared."
    elif got_worse(found, threshold):
        headline = "The refit got worse."
    elif count[UNKNOWN]:
        headline = "No error is surely larger than before, but some quantities cannot be judged."
    else:
        headline = "The refit did not get worse: no error is new or surely larger."
    changed = [c for c in found if c.change != SAME]
    sources = ("before:", before.provenance), ("after: ", after.provenance)
    lines = [f"{headline} {len(found)} quantities: {told}.", ""]
    if changed:
        header = ("parameter", "functional", "error ≥ before", "error ≥ after", "change")
        lines += [*table([_cells(c) for c in changed[:SHOWN]], header), ""]
        if len(changed) > SHOWN:
            lines += [f"… and {len(changed) - SHOWN} more.", ""]
    lines += [
        *(visible(f"{when} {about.date}, {about.approximation}, {about.chains} chains") for when, about in sources),
    ]
    return "\n".join(lines)


def _change(old: Row | None, new: Row | None) -> str:
    if old is None or new is None:
        return ADDED if old is None else REMOVED
    if UNTRUSTED in (old.verdict, new.verdict):
        return UNKNOWN
    if (old.verdict, new.verdict) == (WITHIN, ERROR):
        return NEW
    if new.verdict == ERROR and new.bound > _most(old):
        return WORSE
    if old.verdict == ERROR and old.bound > _most(new):
        return BETTER
    if (old.verdict == ERROR) != (new.verdict == ERROR):
        return NEW if new.verdict == ERROR else GONE
    return SAME


def _most(row: Row) -> float:
    """The largest movement inside the row's interval."""
    return max(abs(row.lower), abs(row.upper))


def _cells(change: Change) -> tuple[str, ...]:
    def bound(row: Row | None) -> str:
        return "" if row is None else least_error(row)

    return short_name(change.parameter), change.functional, bound(change.before), bound(change.after), change.change
