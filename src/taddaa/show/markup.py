"""The small parts of a page: rows of the table, numbers, lists, figures. Names are only ever text."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from urllib.parse import quote

from ..report.answer import how_far, moving
from ..report.parts import Row
from ..report.report import Report
from ..report.right_value import q_says, right_value
from ..report.sentences import would_see
from ..report.tolerance import SLIGHT
from ..verdict.checks.check import Check, plain
from ..verdict.checks.registry import question
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, VERDICTS, WITHIN
from . import series
from .svg import CLASS, clean

SYMBOL = {ERROR: "●", UNTRUSTED: "□", NO_ERROR: "◆", WITHIN: "▲"}
COLUMNS = (
    ("parameter", "word", "the parameter, or the function of the parameters"),
    ("functional", "word", "what about it"),
    ("wrong by at least", "word", "the lower bound on the approximation's error, in words"),
    ("verdict", "word", "what may be said about this quantity"),
    ("q says", "less", "the approximation's own value"),
    (
        "right value",
        "",
        "the posterior's own value with its interval; in brackets, where it is not known: where the chains were at the end",
    ),
    ("relative", "less", "the bound in standard deviations of the moved draws; for variances in log variance"),
    ("would see", "less", "the smallest error that would have been found (19 times in 20)"),
    ("ρ²", "less", "how much the chains still remember of their start; below 0.1 is good"),
)


def heads(report: Report) -> str:
    """The table's headings; where a check failed that has a value for each row, that too."""
    failed = told_by(report)
    extra = [] if failed is None else [(failed.name, "less", f"{question(failed)} The check failed; it should be {failed.should_be}")]
    return "".join(f'<th scope="col"{class_of(kind)} title="{clean(about)}">{clean(name)}</th>' for name, kind, about in (*COLUMNS, *extra))


def cells_of(report: Report, rows: Sequence[Row]) -> list[str]:
    """The table's rows."""
    failed, still, place = told_by(report), moving(report), {id(row): i for i, row in enumerate(report.rows)}
    found = []
    for row in rows:
        value = None if failed is None or failed.each is None else failed.each[place[id(row)]]
        extra = "" if value is None else number(value, clean(plain(value)), "less")
        found.append(row_of(row, report.tolerance.severity(row), row.verdict == UNTRUSTED and still(row), extra))
    return found


def told_by(report: Report) -> Check | None:
    """The first failed check that has a value of its own for each row."""
    return next((check for check in report.checks if not check.passed and check.each is not None), None)


def csv_of(rows: Sequence[Row]) -> str:
    """All columns of these rows as the address of a CSV file; a name that a spreadsheet would run is quoted."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([field.name for field in fields(Row)])
    for row in rows:
        cells = [getattr(row, field.name) for field in fields(Row)]
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell for cell in cells])
    return "data:text/csv;charset=utf-8," + quote(text.getvalue().encode("utf-8", "replace"))


def wrong_by(row: Row, still: bool = False) -> str:
    if row.verdict == UNTRUSTED:
        return f'<span class="soft">{clean(how_far(row, still)) or "—"}</span>'
    if row.verdict != ERROR:
        return "—"
    low = row.lower > 0
    if row.functional == "variance":
        return f"factor {digits(math.exp(min(row.bound, 700)))} too {'small' if low else 'large'}"
    return f"{digits(row.bound)} too {'low' if low else 'high'}"


def number(value: float, shown: str | None = None, kind: str = "") -> str:
    sortable = f"{value:.6g}".replace("inf", "Infinity").replace("nan", "NaN")
    return f'<td{class_of(kind)} data-v="{sortable}">{digits(value) if shown is None else shown}</td>'


def right(row: Row) -> str:
    """The right value; where it is not known, in brackets and softly, where the chains were."""
    shown = right_value(row)
    if shown:
        return number(row.corrected, minus(shown))
    return number(row.moved, f'<span class="soft">({digits(row.moved)})</span>' if math.isfinite(row.moved) else None)


def minus(text: str) -> str:
    return text.replace("-", "−")


def digits(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "—" if math.isnan(value) else minus(f"{value:.3g}")


def counts(report: Report) -> dict[str, int]:
    return {verdict: sum(row.verdict == verdict for row in report.rows) for verdict in VERDICTS}


def plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def plural_kind(functional: str) -> str:
    return f"{functional}s" if series.quantile_level(functional) is None else f"{functional[1:]} quantiles"


def plural_verdict(verdict: str, count: int) -> str:
    return plural(count, "error", "errors") if verdict == ERROR else f"with {verdict}" if verdict == NO_ERROR else verdict


def bullets(items: Iterable[str]) -> str:
    entries = "".join(f"<li>{item}</li>" for item in items)
    return f"<ul>{entries}</ul>" if entries else ""


def options(every: str, values: Iterable[str]) -> str:
    return f'<option value="">{every}</option>' + "".join(f"<option>{clean(value)}</option>" for value in values)


def class_of(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def figure(picture: str, caption: str, kind: str = "") -> str:
    inside = f'<div class="scroll" tabindex="0">{picture}</div>' if kind == "wide" else picture
    return f"<figure{class_of(kind)}>{inside}<figcaption>{clean(caption)}</figcaption></figure>"


def grid(pictures: Iterable[tuple[str, str]]) -> str:
    return f'<div class="grid">{"".join(figure(picture, caption) for picture, caption in pictures)}</div>'


def rest_of(path: series.Movement) -> str:
    return " (still moving)" * path.moving


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""


def row_of(row: Row, severity: str = "", still: bool = False, extra: str = "") -> str:
    called = f"{severity} {row.verdict}".strip()
    kind = "slight" if severity == SLIGHT else CLASS[row.verdict]
    why = f' title="{clean(row.reason)}"' if row.reason else ""
    full = f' title="{clean(row.parameter)}"' if len(row.parameter) > 60 else ""
    bound = row.relative_bound if row.verdict == ERROR else 0.0
    return (
        f'<tr data-verdict="{row.verdict}"><td class="word name" data-kind="{clean(row.functional)}">'
        f"<bdi{full}>{clean(row.parameter)}</bdi></td>"
        f'<td class="word kind">{clean(row.functional)}</td><td class="word said" data-v="{bound:.6g}">{wrong_by(row, still)}</td>'
        f'<td class="word {kind}-ink"{why}>{SYMBOL[row.verdict]} {called}</td>'
        f"{number(row.approximation, minus(q_says(row)) if math.isfinite(row.approximation) else None, 'less')}{right(row)}"
        f"{number(row.relative_bound, kind='less') if row.verdict == ERROR else number(0.0, '—', 'less')}"
        f"{number(row.detectable, would_see(row), 'less')}{number(row.rho2, f'{row.rho2:.2f}', 'less')}{extra}</tr>"
    )
