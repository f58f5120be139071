"""A report as one self-contained HTML page: nothing is fetched, reading needs no JavaScript, names are only ever text."""

import base64
import hashlib
import math
from collections.abc import Iterable
from importlib import resources

from ..report.report import Report, Row, would_see
from ..verdict.checks.registry import question
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED
from . import series, svg
from .svg import CLASS, clean

MOST_ROWS = 2000  # in the table; the worst, and a sentence says how many are left out
SHORT = 15  # in a notebook
NAMED = 8  # quantities that share a reason
SYMBOL = {ERROR: "●", UNTRUSTED: "□", NO_ERROR: "◆"}
TITLE = {ERROR: "Errors found", UNTRUSTED: "Could not be judged", NO_ERROR: "No error found"}
COLUMNS = (
    ("parameter", "word", "the parameter, or the function of the parameters"),
    ("functional", "word", "what about it"),
    ("wrong by at least", "word", "the lower bound on the approximation's error, in words"),
    ("verdict", "word", "what may be said about this quantity"),
    ("q says", "", "the approximation's own value"),
    ("moved to", "", "the value after the chains moved towards the target"),
    ("relative", "", "the bound in moved standard deviations; for variances in log variance"),
    ("would see", "", "the smallest error that would have been found (19 times in 20)"),
    ("ρ²", "", "how much the chains still remember of their start; below 0.1 is good"),
)


def report_to_html(report: Report) -> str:
    """The whole page."""
    style, script = _resource("page.css"), _resource("page.js")
    policy = f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    sections = [
        _verdict(report),
        _conclusions(report),
        _table(report),
        _pictures(report),
        _checks(report),
        _next(report),
        _provenance(report),
        HOW_TO_READ,
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>TADDAA: {TITLE[report.verdict].lower()}</title><style>{style}</style></head>\n'
        "<body><main><h1>TADDAA report: how wrong is this approximate posterior, at least?</h1>\n"
        + "\n".join(sections)
        + f"\n</main><script>{script}</script></body></html>\n"
    )


def report_to_fragment(report: Report) -> str:
    """Headline and worst rows for a notebook, without style or script of its own."""
    head = "".join(f'<th title="{clean(about)}">{clean(name)}</th>' for name, _, about in COLUMNS)
    rows = "".join(_row(row) for row in report.worst(SHORT))
    hidden = len(report.rows) - SHORT
    more = f"<p>… and {hidden} more quantities; report.to_html(path) shows all.</p>" if hidden > 0 else ""
    failed = [check for check in report.checks if not check.passed]
    checks = "All checks passed." if not failed else "Failed checks: " + "; ".join(f"{c.name}: {c.message}" for c in failed) + "."
    return (
        f"<div><p><b>{clean(report.headline)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
        f"<p>{clean(checks)} A bound says how wrong at least; 'no error found' is not proof of accuracy.</p></div>"
    )


# Sections -------------------------------------------------------------------------------------------------------------


def _verdict(report: Report) -> str:
    count = _counts(report)
    chips = "".join(f'<span class="{CLASS[v]}-ink">{SYMBOL[v]} {count[v]} {_plural_verdict(v, count[v])}</span>' for v in count if count[v])
    return (
        f'<section class="verdict {CLASS[report.verdict]}"><strong>{TITLE[report.verdict]}</strong>'
        f'<p>{clean(report.headline)}</p>{_by_functional(report)}<div class="chips">{chips}</div></section>'
    )


def _by_functional(report: Report) -> str:
    """Where the errors are: 97 of 200 variances, 1 of 200 means."""
    kinds = dict.fromkeys(row.functional for row in report.rows)
    if report.verdict != ERROR or len(kinds) < 2:
        return ""
    parts = []
    for kind in kinds:
        verdicts = [row.verdict for row in report.rows if row.functional == kind]
        parts.append(f"{verdicts.count(ERROR)} of {len(verdicts)} {_kinds(kind)}")
    return f"<p>Errors by kind: {clean(', '.join(parts))}.</p>"


def _conclusions(report: Report) -> str:
    count, about = _counts(report), report.provenance
    together = "all of them together" if about.simultaneous else "each by itself"
    may, not_may = [], []
    if count[ERROR]:
        may.append(
            f"The approximation is wrong about the {count[ERROR]} {_plural(count[ERROR], 'quantity', 'quantities')} marked "
            f"<b>error</b>, each by at least the amount in its row ({about.level:.0%} confidence, {together})."
        )
        not_may.append("That an error is no larger than that. It is a least, not an estimate.")
    if count[NO_ERROR]:
        may.append(
            f"For the {count[NO_ERROR]} {_plural(count[NO_ERROR], 'quantity', 'quantities')} marked <b>no error found</b>, "
            "an error larger than <i>would see</i> would very likely have shown."
        )
        not_may.append("That a quantity with no error found is right: it may be wrong by less than <i>would see</i>.")
    if report.usable:
        may.append(f"The {len(report.moved_draws)} moved draws pass every check and may stand in for posterior draws.")
    if count[UNTRUSTED]:
        not_may.append(
            f"Anything about the {count[UNTRUSTED]} {_plural(count[UNTRUSTED], 'quantity', 'quantities')} marked <b>untrusted</b>; "
            "the reasons are below the table."
        )
    not_may.append("Anything about quantities that are not listed, or about modes that no chain came near.")
    return (
        '<section class="pair"><div><h3>What you may conclude</h3>'
        f"{_list(may) or '<p>Nothing yet: see what to do next.</p>'}</div>"
        f"<div><h3>What you may not conclude</h3>{_list(not_may)}</div></section>"
    )


def _table(report: Report) -> str:
    rows = report.worst(MOST_ROWS)
    head = "".join(f'<th scope="col"{_class(kind)} title="{clean(about)}">{clean(name)}</th>' for name, kind, about in COLUMNS)
    body = "\n".join(_row(row) for row in rows)
    verdicts = _options("all verdicts", dict.fromkeys(row.verdict for row in rows))
    functionals = _options("all functionals", dict.fromkeys(row.functional for row in rows))
    left_out = f"<p>The worst {len(rows)} of {len(report.rows)} quantities.</p>" if len(rows) < len(report.rows) else ""
    return (
        "<section><h2>Every quantity, worst first</h2>"
        '<div class="tools"><input id="search" type="search" placeholder="filter by name" aria-label="filter by name">'
        f'<select id="verdict" aria-label="verdict">{verdicts}</select>'
        f'<select id="functional" aria-label="functional">{functionals}</select><span id="shown" class="soft" role="status"></span></div>'
        f'{left_out}<div class="scroll tall" tabindex="0"><table id="quantities"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>{_reasons(rows)}</section>"
    )


def _reasons(rows: Iterable[Row]) -> str:
    """Why rows are untrusted, each reason once with the rows it concerns."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(series.name(row, 60))
    listed = [
        f"<b>{clean(', '.join(names[:NAMED]))}{f' and {len(names) - NAMED} more' if len(names) > NAMED else ''}</b>: {clean(reason)}."
        for reason, names in reasons.items()
    ]
    return f"<h3>Why untrusted</h3>{_list(listed)}" if listed else ""


def _row(row: Row) -> str:
    why = f' title="{clean(row.reason)}"' if row.reason else ""
    full = f' title="{clean(row.parameter)}"' if len(row.parameter) > 60 else ""
    bound = row.relative_bound if row.verdict == ERROR else 0.0
    return (
        f'<tr data-verdict="{row.verdict}"><td class="word name"><bdi{full}>{clean(row.parameter)}</bdi></td>'
        f'<td class="word">{clean(row.functional)}</td><td class="word said" data-v="{bound:.6g}">{_wrong_by(row)}</td>'
        f'<td class="word {CLASS[row.verdict]}-ink"{why}>{SYMBOL[row.verdict]} {row.verdict}</td>'
        f"{_number(row.approximation)}{_number(row.moved)}"
        f"{_number(row.relative_bound) if row.verdict == ERROR else _number(0.0, '—')}"
        f"{_number(row.detectable, would_see(row))}{_number(row.rho2, f'{row.rho2:.2f}')}</tr>"
    )


def _pictures(report: Report) -> str:
    shown = series.forest(report)
    parts = [
        "<section><h2>Pictures</h2>",
        _figure(
            svg.forest(shown),
            "How far each of the worst quantities moved, with its confidence interval; a thick bar reaches from zero to the bound. "
            f"Means and quantiles in moved standard deviations, variances in log variance. {_sentence(shown.rest)}",
            "wide",
        ),
        "<h3>Before and after</h3><p class='soft'>Dashed: the approximation. Filled: after moving towards the target.</p>".replace(
            "'", '"'
        ),
        _grid((svg.marginal(one), series.shortened(one.parameter, 60)) for one in series.marginals(report)),
        "<h3>On the way</h3>",
        '<p class="soft">Change from the approximation against iteration, with bands of two standard errors. '
        "The dotted line is where it came to rest.</p>",
        _grid((svg.movement(path), series.name(path.row, 60) + _rest(path)) for path in series.movements(report)),
        "<h3>Memory of the start</h3>",
        _figure(
            svg.memory(series.memory(report)),
            "ρ² between start and state: the largest over all coordinates (the jagged line), and the quantities that remember most.",
            "middle",
        ),
        "<h3>The kernel</h3>",
        _grid(
            [(svg.path(report.paths.acceptance, "Acceptance", 1.0), "acceptance"), (svg.path(report.paths.step, "Step size"), "step size")]
        ),
        "</section>",
    ]
    return "\n".join(parts)


def _checks(report: Report) -> str:
    rows = []
    for check in report.checks:
        mark = '<td class="word fine-ink">◆ passed</td>' if check.passed else '<td class="word error-ink">● failed</td>'
        rows.append(
            f'<tr>{mark}<td class="word"><b>{clean(check.name)}</b></td>'
            f'<td class="why">{clean(question(check))}{"" if check.passed else f" <b>{clean(check.message)}.</b>"}</td>'
            f"<td>{_digits(check.value)}</td><td>{_digits(check.cutoff)}</td></tr>"
        )
    notes = "".join(f"<p>Note: {clean(note)}.</p>" for note in report.notes)
    return (
        '<section><h2>Checks: can the table be believed?</h2><div class="scroll"><table><thead><tr><th class="word">result</th>'
        '<th class="word">check</th><th class="word">what it asks</th><th>value</th><th>cutoff</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{notes}</section>"
    )


def _next(report: Report) -> str:
    return f"<section><h2>What to do next</h2>{_list(clean(line) for line in report.advice)}</section>"


def _provenance(report: Report) -> str:
    cost, about = report.cost, report.provenance
    together = "all intervals hold together" if about.simultaneous else "each interval by itself"
    ran_on = " (ran on while quantities moved)" if cost.iterations > cost.planned_iterations else ""
    entries = {
        "approximation": about.approximation,
        "chains": f"{about.chains}, of {about.kernel} with the {about.preconditioner} preconditioner",
        "iterations": f"{cost.iterations}, planned {cost.planned_iterations}{ran_on}",
        "confidence": f"{about.level:g}, {together}",
        "cost": f"{cost.gradients:,} gradients; {cost.seconds_running:.1f} s running, {cost.seconds_compiling:.1f} s compiling",
        "seed": str(about.seed),
        "date": about.date,
        "versions": about.versions,
        "settings": about.settings,
    }
    pairs = "".join(f"<dt>{key}</dt><dd>{clean(value)}</dd>" for key, value in entries.items())
    return f"<section><h2>Settings and provenance</h2><dl>{pairs}</dl></section>"


HOW_TO_READ = """<section><h2>How to read this page</h2>
<p>Many short Markov chains were started at draws of the approximation <i>q</i> and moved towards the true posterior (the target).
If <i>q</i> were right, nothing would change on average. What did change, <i>q</i> had wrong, by at least as much as it surely changed.</p>
<ul>
<li><b>wrong by at least</b> is a lower bound. The true error may be larger, because the chains are short.</li>
<li>A <b>variance</b> is compared on the log scale: a relative bound of 0.69 is a factor of 2. Means and quantiles count in standard
deviations of the moved draws.</li>
<li><b>no error found</b> is not proof of accuracy. It says that an error of <i>would see</i> (×2: a factor of 2, for
variances) would have shown.</li>
<li><b>untrusted</b> means that a check of the run failed for this quantity, so neither of the two can be said.</li>
</ul></section>"""


# Small parts ----------------------------------------------------------------------------------------------------------


def _wrong_by(row: Row) -> str:
    if row.verdict != ERROR:
        return "—"
    low = row.lower > 0
    if row.functional == "variance":
        return f"factor {_digits(math.exp(min(row.bound, 700)))} too {'small' if low else 'large'}"
    return f"{_digits(row.bound)} too {'low' if low else 'high'}"


def _number(value: float, shown: str | None = None) -> str:
    sortable = f"{value:.6g}".replace("inf", "Infinity")
    return f'<td data-v="{sortable}">{_digits(value) if shown is None else shown}</td>'


def _digits(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "—" if math.isnan(value) else f"{value:.3g}".replace("-", "−")


def _counts(report: Report) -> dict[str, int]:
    return {verdict: sum(row.verdict == verdict for row in report.rows) for verdict in (ERROR, UNTRUSTED, NO_ERROR)}


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def _kinds(functional: str) -> str:
    return f"{functional}s" if series.quantile_level(functional) is None else f"{functional[1:]} quantiles"


def _plural_verdict(verdict: str, count: int) -> str:
    return _plural(count, "error", "errors") if verdict == ERROR else f"with {verdict}" if verdict == NO_ERROR else verdict


def _list(items: Iterable[str]) -> str:
    entries = "".join(f"<li>{item}</li>" for item in items)
    return f"<ul>{entries}</ul>" if entries else ""


def _options(every: str, values: Iterable[str]) -> str:
    return f'<option value="">{every}</option>' + "".join(f"<option>{clean(value)}</option>" for value in values)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _figure(picture: str, caption: str, kind: str = "") -> str:
    inside = f'<div class="scroll" tabindex="0">{picture}</div>' if kind == "wide" else picture
    return f"<figure{_class(kind)}>{inside}<figcaption>{clean(caption)}</figcaption></figure>"


def _grid(pictures: Iterable[tuple[str, str]]) -> str:
    return f'<div class="grid">{"".join(_figure(picture, caption) for picture, caption in pictures)}</div>'


def _rest(path: series.Movement) -> str:
    return " (still moving)" * path.moving


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
