"""A report as plain text: headline, the worst quantities, checks, cost, and how to read it."""

import textwrap

from ..errors import visible
from ..verdict.outcome import ERROR
from .parts import Row
from .report import Report
from .sentences import size, would_see

SHOWN = 15
WIDTH = 120  # of lines of words
HEADER = ("parameter", "functional", "q says", "moved to", "error ≥", "relative", "would see", "ρ²", "verdict")


def report_text(report: Report) -> str:
    cost, about = report.cost, report.provenance
    together = "all intervals hold together" if about.simultaneous else "each interval by itself"
    lines = [
        report.headline,
        "",
        *table([_cells(row) for row in report.worst(SHOWN)]),
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
        "How to read it: short Markov chains started at draws of the approximation q and moved towards the target. What they moved,",
        "q had wrong by at least 'error ≥': ×2 is a variance twice or half as large as it should be. 'relative' counts in moved standard",
        "deviations, for a variance in its logarithm. 'no error found' is not proof of accuracy: an error of 'would see' would have",
        f"shown, given that the chains have arrived{', which the one check made here cannot tell' if len(report.checks) == 1 else ''}.",
    ]
    return "\n".join(lines)


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


def _cells(row: Row) -> tuple[str, ...]:
    wrong = row.verdict == ERROR
    return (
        short_name(row.parameter),
        row.functional,
        f"{row.approximation:.3g}",
        f"{row.moved:.3g}",
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
