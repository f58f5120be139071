"""A report as plain text: headline, the worst quantities, checks, cost, and how to read it."""

import math
import textwrap

from ..errors import visible
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, VERDICTS, WITHIN
from .parts import Row
from .report import Report
from .right_value import q_says, right_value
from .sentences import size, would_see
from .tolerance import in_words

SHOWN = 15
WIDTH = 120  # of lines of words
HEADER = ("parameter", "functional", "q says", "right value", "error ≥", "relative", "would see", "ρ²", "verdict")
HEADER_WITHOUT_RIGHT = tuple("moved to" if name == "right value" else name for name in HEADER)


def report_text(report: Report) -> str:
    cost, about = report.cost, report.provenance
    together = "all intervals hold together" if about.simultaneous else "each interval by itself"
    known = not all(math.isnan(row.corrected) for row in report.rows)
    lines = [
        report.headline,
        "",
        *table([_cells(row, known) for row in report.worst(SHOWN)], HEADER if known else HEADER_WITHOUT_RIGHT),
    ]
    if len(report.rows) > SHOWN:
        hidden = report.worst()[SHOWN:]
        errors = sum(row.verdict == ERROR for row in hidden)
        lines.append(f"… and {len(hidden)} more quantities, {errors} of them with errors; see report.to_dataframe().")
    lines += ["", *_reasons(report), "Checks"]
    checks = [f"{'passed' if check.passed else 'FAILED'}  {check.name}: {_value(check)}" for check in report.checks]
    lines += [part for check in checks for part in _wrapped(check, indent=10)]
    lines += [part for note in report.notes for part in _wrapped(f"note    {note}", indent=10)]
    lines += ["", "What next", *(part for line in report.advice for part in _wrapped(line))]
    run_on = f" (planned {cost.planned_iterations}, ran on while quantities moved)" if cost.iterations > cost.planned_iterations else ""
    lines += [
        "",
        f"{about.chains} chains × {cost.iterations} iterations{run_on} of "
        f"{visible(about.kernel)}, {visible(about.preconditioner)} preconditioner; level {about.level:g}, {together}.",
        f"Cost: {cost.gradients:,} gradients, {cost.seconds_running:.1f} s running, {cost.seconds_compiling:.1f} s compiling. "
        f"Seed {about.seed}.",
        "",
        "How to read it: short Markov chains started at draws of the approximation q and moved towards the posterior.",
        *_legend(report, known),
    ]
    return "\n".join(lines)


def _legend(report: Report, known: bool) -> list[str]:
    """The words of the table that occur in it."""
    about = {
        ERROR: "q is wrong by at least 'error ≥': what the chains surely moved (×2: a variance twice or half as large as it should be). "
        "'relative' counts in moved standard deviations, for a variance in its logarithm.",
        UNTRUSTED: "a check failed, so that nothing can be said.",
        NO_ERROR: "not proof of accuracy. An error of 'would see' would have shown, "
        + (
            "unless the chains are slow, which the one check made here cannot tell."
            if len(report.checks) == 1
            else "a smaller one may hide."
        ),
        WITHIN: f"surely wrong by less than {in_words(report)}: use it.",
    }
    found = {row.verdict for row in report.rows}
    entries = [(verdict, about[verdict]) for verdict in VERDICTS if verdict in found]
    if known:
        bare = any(math.isnan(row.corrected) for row in report.rows)
        words = "the posterior's own, with its interval (without ±: known to all digits shown). "
        words += "It rests on the chains having come to rest, which the checks ask."
        entries.append(("right value", words + " In brackets: not known, only where the chains were at the end." * bare))
    return [line for word, text in entries for line in _wrapped(f"{word}: {text}")]


def table(rows: list[tuple[str, ...]], header: tuple[str, ...] = HEADER) -> list[str]:
    """Aligned columns: words to the left, numbers to the right."""
    header, *rows = (tuple(map(visible, cells)) for cells in (header, *rows))
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    words = {0, 1, len(header) - 1}

    def line(cells):
        return "  ".join(c.ljust(w) if i in words else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))).rstrip()

    return [line(header), "  ".join("─" * width for width in widths), *map(line, rows)]


def short_name(name: str) -> str:
    name = visible(name)
    return name if len(name) <= 32 else name[:31] + "…"


def _cells(row: Row, known: bool) -> tuple[str, ...]:
    wrong, moved = row.verdict == ERROR, f"{row.moved:.3g}"
    return (
        short_name(row.parameter),
        row.functional,
        q_says(row),
        (right_value(row) or f"({moved})") if known else moved,
        size(row, row.bound) if wrong else "—",
        f"{row.relative_bound:.2f}" if wrong else "—",
        would_see(row),
        f"{row.rho2:.2f}",
        row.verdict,
    )


def _reasons(report: Report) -> list[str]:
    """Why rows are untrusted, each reason once with the rows it concerns."""
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(f"{row.functional} of {row.parameter}")
    lines = ["Why untrusted"] if reasons else []
    for reason, rows in reasons.items():
        listed = ", ".join(rows[:3]) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")
        lines += _wrapped(f"{listed}: {reason}.")
    return [*lines, ""] if lines else []


def _wrapped(text: str, indent: int = 4) -> list[str]:
    return textwrap.wrap(visible(text), WIDTH, initial_indent="  ", subsequent_indent=" " * indent, break_on_hyphens=False)


def _value(check) -> str:
    text = f"{check.value:.2g} (cutoff {check.cutoff:.2g})"
    return text if check.passed else f"{text}: {check.message}"
