"""A report as plain text: the answer, the worst quantities, checks, what next, cost, and how to read it; as wide as it may be."""

import math
import os
import re
import shutil
import sys
import textwrap

from ..errors import visible
from ..verdict.checks.check import Check, plain
from ..verdict.checks.registry import measured
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, VERDICTS, WITHIN
from .advice import Advice
from .answer import DO_NOT, MAYBE, UNJUDGED, USE, concerned, listed
from .parts import Row
from .report import Report
from .right_value import q_says, right_value
from .sentences import size, title, would_see
from .tolerance import in_words

SHOWN = 15
USUAL, NARROWEST, WIDEST = 120, 60, 200  # columns: where nothing else is known, and between what
NAME, CUT = 32, 18  # letters of a name, and of one that must be cut
# Columns in the order in which they stand, and how soon each must go where there is no room: the largest number first.
COLUMNS = {
    "parameter": 0,
    "functional": 0,
    "q says": 5,
    "right value": 3,
    "error ≥": 1,
    "error ≤": 2,
    "relative": 6,
    "would see": 4,
    "ρ²": 7,
    "failed": 2,
    "verdict": 0,
}
WORDS = {"parameter", "functional", "verdict", "quantity", "best", "change"}
INK = {DO_NOT: "31", UNJUDGED: "33", MAYBE: "36", USE: "32", ERROR: "31", UNTRUSTED: "33", NO_ERROR: "36", WITHIN: "32"}


def columns() -> int:
    """As wide as the terminal, or as `COLUMNS` says."""
    return min(max(shutil.get_terminal_size((USUAL, 24)).columns, NARROWEST), WIDEST)


def on_colours() -> bool:
    """Whether standard output is a terminal, and nobody asked for none."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def report_text(report: Report, width: int | None = None, colour: bool = False) -> str:
    """All of it, in lines of at most `width` columns (60 to 200); with colours, for a terminal, if told so."""
    width = columns() if width is None else min(max(width, NARROWEST), WIDEST)
    lines = [
        *_painted(_wrapped(title(report), width, "", ""), "1", colour),
        "",
        *_answer(report, width, colour),
        "",
        *_quantities(report, width, colour),
        "",
        *_reasons(report, width),
        *_certificate(report, width),
        "Checks",
        *(part for check in report.checks for part in _check(report, check, width)),
        *(part for note in report.notes for part in _wrapped(f"note    {note}", width, "  ", " " * 10)),
        "",
        "What next",
        *(part for one in report.advice for part in _advice(one, width)),
        "",
        *_cost(report, width),
        "",
        *_wrapped(
            "How to read it: short Markov chains started at draws of the approximation q and moved towards the posterior.", width, ""
        ),
        *_legend(report, width),
    ]
    return "\n".join(lines)


def _answer(report: Report, width: int, colour: bool) -> list[str]:
    """A line or a few for each decision, its title in front."""
    answers = report.answer
    indent = max(len(answer.title) for answer in answers) + 2 if width >= 80 else 2
    lines = []
    for answer in answers:
        head, *rest = answer.sentences
        if width >= 80:
            told = _wrapped(f"{answer.title.ljust(indent)}{head}", width, "", " " * indent)
            told += [part for line in rest for part in _wrapped(line, width, " " * indent, " " * indent)]
        else:
            told = [answer.title, *(part for line in answer.sentences for part in _wrapped(line, width, "  ", "  "))]
        painted = _painted([answer.title], f"1;{INK[answer.kind]}", colour)[0]
        lines += [told[0].replace(answer.title, painted, 1), *told[1:]]
    return lines


def _quantities(report: Report, width: int, colour: bool) -> list[str]:
    known = not all(math.isnan(row.corrected) for row in report.rows)
    told = _told_by_failed(report)
    rows = [_cells(report, row, known, told) for row in report.worst(SHOWN)]
    missing = {"failed": told is None, "error ≤": all(math.isinf(row.at_most) for row in report.rows)}
    header = [name for name in COLUMNS if not missing.get(name)]
    renamed = {"right value": "right value" if known else "moved to", "failed": told.name if told is not None else ""}
    names = tuple(renamed.get(name, name) for name in header)
    lines = fitted([tuple(row[name] for name in header) for row in rows], names, [COLUMNS[name] for name in header], width)
    if colour:
        inks = [INK[row.verdict] for row in report.worst(SHOWN)]
        lines = [*lines[:2], *(_inked(line, ink) for line, ink in zip(lines[2:], inks, strict=True))]
    if len(report.rows) > SHOWN:
        hidden = report.worst()[SHOWN:]
        errors = sum(row.verdict == ERROR for row in hidden)
        more = f"… and {len(hidden)} more quantities, {errors} of them with errors; see report.to_dataframe()."
        lines += _wrapped(more, width, "", "  ")
    return lines


def _told_by_failed(report: Report) -> Check | None:
    """The first failed check that has a value of its own for each row: its column says why rows are doubted."""
    return next((check for check in report.checks if not check.passed and check.each is not None), None)


def fitted(rows: list[tuple[str, ...]], header: tuple[str, ...], importance: list[int], width: int) -> list[str]:
    """A table that fits: columns go by importance, then names are cut."""
    kept, names = list(range(len(header))), max((len(row[0]) for row in rows), default=0)
    for i in sorted(kept, key=lambda i: -importance[i]):
        for longest in (names, CUT) if importance[i] <= 3 else (names,):  # a name's end is worth less than what is right
            shown = [(short_name(row[0], longest), *row[1:]) for row in rows]
            lines = table([tuple(row[k] for k in kept) for row in shown], tuple(header[k] for k in kept))
            if max(map(len, lines)) <= width:
                return lines
        if importance[i] <= 1:
            break
        kept.remove(i)
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines]


def table(rows: list[tuple[str, ...]], header: tuple[str, ...]) -> list[str]:
    """Aligned columns: words to the left, numbers to the right."""
    header, *rows = (tuple(map(visible, cells)) for cells in (header, *rows))
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    words = {i for i, name in enumerate(header) if name in WORDS}

    def line(cells):
        return "  ".join(c.ljust(w) if i in words else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))).rstrip()

    return [line(header), "  ".join("─" * width for width in widths), *map(line, rows)]


def short_name(name: str, longest: int = NAME) -> str:
    name = visible(name)
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _cells(report: Report, row: Row, known: bool, told: Check | None) -> dict[str, str]:
    wrong, moved = row.verdict == ERROR, f"{row.moved:.3g}"
    doubted = row.verdict == UNTRUSTED and row.bound > 0 and math.isfinite(row.bound)
    place = next(i for i, other in enumerate(report.rows) if other is row)
    severity = report.tolerance.severity(row)
    return {
        "parameter": short_name(row.parameter),
        "functional": row.functional,
        "q says": q_says(row),
        "right value": (right_value(row) or f"({moved})") if known else moved,
        "error ≥": size(row, row.bound) if wrong else f"({size(row, row.bound)})" if doubted else "—",
        "error ≤": size(row, row.at_most) if math.isfinite(row.at_most) else "—",
        "relative": f"{row.relative_bound:.2f}" if wrong else "—",
        "would see": would_see(row),
        "ρ²": f"{row.rho2:.2f}",
        "failed": plain(told.each[place]) if told is not None and told.each and place < len(told.each) else "",
        "verdict": f"{severity} {row.verdict}" if wrong else row.verdict,
    }


def _reasons(report: Report, width: int) -> list[str]:
    """Why rows are untrusted, each reason once with the rows it concerns."""
    reasons: dict[str, list[Row]] = {}
    for row in report.rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row)
    lines = ["Why untrusted"] if reasons else []
    for reason, rows in reasons.items():
        lines += _wrapped(f"{listed(report, rows)}: {reason}.", width)
    return [*lines, ""] if lines else []


def _certificate(report: Report, width: int) -> list[str]:
    """What coupled pairs of chains say."""
    return [] if report.certificate is None else ["Certificate", *_wrapped(report.certificate.sentence, width, "  ", "  "), ""]


def _check(report: Report, check: Check, width: int) -> list[str]:
    text = f"{'passed' if check.passed else 'FAILED'}  {check.name}: {measured(check)}"
    if not check.passed:
        named = concerned(report, check)
        text += f"; it concerns {named}" * bool(named)
        text += f". {check.message[:1].upper()}{check.message[1:]}."
    return _wrapped(text, width, "  ", " " * 10)


def _advice(one: Advice, width: int) -> list[str]:
    """Words, and below them lines to paste; where such a line is broken, it can still be pasted."""
    lines = _wrapped(one.words, width)
    for name, code, end in (("Python", one.python, ""), ("shell", one.shell, " \\")):
        parts = textwrap.wrap(visible(code), width - 16, break_long_words=False, break_on_hyphens=False) if code else []
        lines += [f"    {(name if i == 0 else '').ljust(8)}{part}{end * (i < len(parts) - 1)}" for i, part in enumerate(parts)]
    return lines


def _cost(report: Report, width: int) -> list[str]:
    cost, about = report.cost, report.provenance
    together = "all intervals hold together" if about.simultaneous else "each interval by itself"
    beside = f" (planned {cost.planned_iterations}, {cost.beside_the_plan})" if cost.beside_the_plan else ""
    ran = (
        f"{about.chains} chains × {cost.iterations} iterations{beside} of {about.kernel}, "
        f"{about.preconditioner} preconditioner; level {about.level:g}, {together}."
    )
    took = (
        f"Cost: {cost.gradients:,} gradients, {cost.seconds_running:.1f} s running, {cost.seconds_compiling:.1f} s compiling. "
        f"Seed {about.seed}."
    )
    return [*_wrapped(ran, width, "", "  "), *_wrapped(took, width, "", "  ")]


def _legend(report: Report, width: int) -> list[str]:
    """The words of the table that occur in it."""
    about = {
        ERROR: "q is wrong by at least 'error ≥': what the chains surely moved (×2: a variance twice or half as large as it should be). "
        "'relative' counts in standard deviations of the posterior, for a variance in its logarithm. An error is slight below the "
        "tolerance, moderate up to three times it, large up to ten times, and severe beyond.",
        UNTRUSTED: "a check failed, so that nothing can be said. 'error ≥' in brackets: it moved at least so far, which is no bound.",
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
    if any(not math.isnan(row.corrected) for row in report.rows):
        bare = any(math.isnan(row.corrected) for row in report.rows)
        words = "the posterior's own, with its interval (without ±: known to all digits shown). "
        words += "It holds if the chains have come to rest at the posterior, which the checks ask."
        entries.append(("right value", words + " In brackets: not known, only where the chains were at the end." * bare))
    if any(math.isfinite(row.at_most) for row in report.rows):
        entries.append(("error ≤", "q is wrong by at most so much: certified by coupled pairs of chains, which need no check of ours."))
    return [line for word, text in entries for line in _wrapped(f"{word}: {text}", width)]


def _wrapped(text: str, width: int = USUAL, first: str = "  ", rest: str = "    ") -> list[str]:
    return textwrap.wrap(visible(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _painted(lines: list[str], ink: str, colour: bool) -> list[str]:
    return [f"\033[{ink}m{line}\033[0m" for line in lines] if colour else lines


def _inked(line: str, ink: str) -> str:
    """A row of the table with its last words, the verdict, in colour."""
    start = re.search(r"(?:(?:slight|moderate|large|severe) )?(?:" + "|".join(VERDICTS) + r")$", line)
    return line if start is None else f"{line[: start.start()]}\033[{ink}m{start[0]}\033[0m"
