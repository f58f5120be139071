"""A comparison as plain text: who is best for what, quantity by quantity."""

import math

from ..errors import visible
from ..report.parts import Row
from ..report.sentences import least_error
from ..report.text import short_name, table
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, WITHIN
from .comparators import COMPARATORS
from .compare import WHOLE, Comparison

SHOWN = 20


def comparison_text(comparison: Comparison) -> str:
    """A headline for each approximation, the quantities that differ most, the comparators, and how to read it."""
    names = comparison.names
    rows, ranks = comparison._rows(), comparison.ranks()
    order = sorted(range(len(rows)), key=lambda i: -max(row.relative_bound for row in rows[i]))
    cells = [_quantity(rows[i], ranks[i], names) for i in order[:SHOWN]]
    for field, label in COMPARATORS.items():
        values, places = comparison.comparator(field)
        first = [name for name in names if places[name] == 1]
        cells.append((WHOLE, label, *("n/a" if math.isnan(values[name]) else f"{values[name]:.3g}" for name in names), ", ".join(first)))
    lines = [_headline(name, comparison) for name in names] + [""]
    lines += table(cells, ("parameter", "functional", *names, "best"))
    if len(rows) > SHOWN:
        lines.append(f"… and {len(rows) - SHOWN} more quantities; see comparison.to_dataframe().")
    reasons = {name: found.reason for name, found in comparison.comparators.items() if found.reason}
    lines += ["", *(visible(f"n/a for {name}: {reason}.") for name, reason in reasons.items())]
    lines += [
        "How to read it: a number is how wrong the approximation at least is (×2: a factor of 2, for variances; '—': no error found).",
        "'within tolerance': surely too little wrong to matter, use it.",
        "'best' are those that no other surely beats. Below, numbers on each approximation as a whole: k-hat above 0.7 is bad, a larger",
        "ELBO is better, and the Wasserstein bounds say how wrong it is at most, in the flat coordinates' units.",
    ]
    return "\n".join(lines)


def _headline(name: str, comparison: Comparison) -> str:
    rows, ranks = comparison.reports[name].rows, comparison.ranks()
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in (ERROR, WITHIN, NO_ERROR, UNTRUSTED)}
    first = sum(rank[name] == 1 for rank in ranks)
    told = ", ".join(f"{number} {verdict}" for verdict, number in count.items() if number)
    return f"{visible(name)}: {told}; unbeaten in {first} of {len(rows)} quantities."


def _quantity(rows: tuple[Row, ...], ranks: dict[str, int | None], names: tuple[str, ...]) -> tuple[str, ...]:
    shown = [least_error(row) for row in rows]
    first = [name for name in names if ranks[name] == 1]
    best = "all" if len(first) == len(names) > 1 else ", ".join(first) or "cannot tell"
    return (short_name(rows[0].parameter), rows[0].functional, *shown, best)
