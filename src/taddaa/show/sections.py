"""The sections of the page, from the verdict to how to read it."""

import math
from collections.abc import Iterable

from ..report.advice import Advice
from ..report.answer import DO_NOT, MAYBE, UNJUDGED, USE, concerned
from ..report.parts import Row
from ..report.report import Report
from ..report.right_value import q_says, right_value
from ..report.sentences import title as first_sentence
from ..report.tolerance import in_words
from ..verdict.checks.check import Check, plain
from ..verdict.checks.registry import measured, question
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, WITHIN
from . import series, svg
from .markup import (
    SYMBOL,
    bullets,
    cells_of,
    counts,
    csv_of,
    figure,
    grid,
    heads,
    options,
    plural,
    plural_kind,
    plural_verdict,
    rest_of,
    sentence,
)
from .svg import CLASS, clean

PRINTED = 100  # rows on paper
MOST_CLOSER = 24  # quantities to look closer at
MOST_ROWS = 2000  # in the table; the worst, and a sentence says how many are left out
DECIDED = {DO_NOT: "error", UNJUDGED: "untrusted", MAYBE: "fine", USE: "within"}  # classes of colour
MARK = {DO_NOT: SYMBOL[ERROR], UNJUDGED: SYMBOL[UNTRUSTED], MAYBE: SYMBOL[NO_ERROR], USE: SYMBOL[WITHIN]}
NAMED = 8  # quantities that share a reason
TITLE = {ERROR: "Errors found", UNTRUSTED: "Could not be judged", NO_ERROR: "No error found", WITHIN: "Within tolerance"}


LINKS = (
    '<nav aria-label="sections"><a href="#answer">Answer</a><a href="#next">What next</a><a href="#every">Quantities</a>'
    '<a href="#pictures">Pictures</a><a href="#closer">Look closer</a><a href="#checks">Checks</a><a href="#settings">Settings</a>'
    '<a href="#read">How to read</a></nav>'
)


def title(report: Report) -> str:
    """A word or a few for the whole report: with how severe the worst error is."""
    if report.far:
        return "Far from the posterior"
    severity = report.tolerance.severity(report.worst(1)[0]) if report.verdict == ERROR else ""
    return f"{severity.capitalize()} {TITLE[ERROR].lower()}" if severity else TITLE[report.verdict]


def verdict(report: Report) -> str:
    count = counts(report)
    chips = "".join(f'<span class="{CLASS[v]}-ink">{SYMBOL[v]} {count[v]} {plural_verdict(v, count[v])}</span>' for v in count if count[v])
    return (
        f'<section id="answer" class="verdict {CLASS[report.verdict]}"><strong>{title(report)}</strong>'
        f'<p>{clean(first_sentence(report))}</p>{answer(report)}{_by_functional(report)}<div class="chips">{chips}</div></section>'
    )


def answer(report: Report) -> str:
    """What to use, what not to use, what could not be judged: a title and its sentences for each."""
    parts = []
    for one in report.answer:
        told = "".join(f"<p>{clean(line)}</p>" for line in one.sentences)
        parts.append(f'<dt class="{DECIDED[one.kind]}-ink">{MARK[one.kind]} {clean(one.title)}</dt><dd>{told}</dd>')
    return f'<dl class="answer">{"".join(parts)}</dl>'


def _by_functional(report: Report) -> str:
    """Where the errors are: 97 of 200 variances, 1 of 200 means."""
    kinds = dict.fromkeys(row.functional for row in report.rows)
    if report.verdict != ERROR or len(kinds) < 2:
        return ""
    parts = []
    for kind in kinds:
        verdicts = [row.verdict for row in report.rows if row.functional == kind]
        parts.append(f"{verdicts.count(ERROR)} of {len(verdicts)} {plural_kind(kind)}")
    return f"<p>Errors by kind: {clean(', '.join(parts))}.</p>"


def conclusions(report: Report) -> str:
    count, about = counts(report), report.provenance
    together = "all of them together" if about.simultaneous else "each by itself"
    may, not_may = [], []
    if count[ERROR]:
        may.append(
            f"The approximation is wrong about the {count[ERROR]} {plural(count[ERROR], 'quantity', 'quantities')} marked "
            f"<b>error</b>, each by at least the amount in its row ({about.level:.0%} confidence, {together})."
        )
        not_may.append(
            "That an error is no larger than its bound: the bound says how large it is at least. The right value says where the truth lies."
        )
    if count[WITHIN]:
        may.append(
            f"The approximation's own {plural(count[WITHIN], 'value', 'values')} of the {count[WITHIN]} "
            f"{plural(count[WITHIN], 'quantity', 'quantities')} marked <b>within tolerance</b> can be used: surely wrong by less than "
            f"{clean(in_words(report))}."
        )
    if count[NO_ERROR]:
        may.append(
            f"For the {count[NO_ERROR]} {plural(count[NO_ERROR], 'quantity', 'quantities')} marked <b>no error found</b>, "
            "an error larger than <i>would see</i> would very likely have shown."
        )
        not_may.append("That a quantity with no error found is right: it may be wrong by less than <i>would see</i>.")
    if not all(math.isnan(row.corrected) for row in report.rows):
        may.append("<b>Right values</b> can be used in place of the approximation's, with their intervals (<code>report.corrected</code>).")
        not_may.append(
            "That a right value is known better than the checks can tell: it needs chains that came to rest, and tails that they reached."
        )
    if report.usable:
        may.append(f"The {len(report.moved_draws)} moved draws pass every check and may stand in for posterior draws.")
    if count[UNTRUSTED]:
        not_may.append(
            f"Anything about the {count[UNTRUSTED]} {plural(count[UNTRUSTED], 'quantity', 'quantities')} marked <b>untrusted</b>; "
            "the reasons are below the table."
        )
    not_may.append("Anything about quantities that are not listed, or about modes that no chain came near.")
    return (
        '<section class="pair"><div><h3>What you may conclude</h3>'
        f"{bullets(may) or '<p>Nothing yet: see what to do next.</p>'}</div>"
        f"<div><h3>What you may not conclude</h3>{bullets(not_may)}</div></section>"
    )


def table(report: Report) -> str:
    rows = report.worst(MOST_ROWS)
    head, body = heads(report), "\n".join(cells_of(report, rows))
    verdicts = options("all verdicts", dict.fromkeys(row.verdict for row in rows))
    functionals = options("all functionals", dict.fromkeys(row.functional for row in rows))
    left_out = f"The worst {len(rows)} of {len(report.rows)} quantities. " if len(rows) < len(report.rows) else ""
    cut = len(rows) > PRINTED
    printed = f'<p class="printed soft">Printed: the first {PRINTED} of {len(rows)}, the worst first.</p>' if cut else ""
    return (
        '<section id="every"><h2>Every quantity, worst first</h2>'
        '<div class="tools"><input id="search" type="search" placeholder="filter by name" aria-label="filter by name">'
        f'<select id="verdict" aria-label="verdict">{verdicts}</select>'
        f'<select id="functional" aria-label="functional">{functionals}</select><span id="shown" class="soft" role="status"></span></div>'
        f'<p class="soft">{left_out}<a download="taddaa-report.csv" href="{csv_of(rows)}">Download as CSV</a></p>'
        f'{printed}<div class="scroll tall" tabindex="0"><table id="quantities"><thead><tr>{head}</tr></thead>'
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
    return f"<h3>Why untrusted</h3>{bullets(listed)}" if listed else ""


def pictures(report: Report) -> str:
    shown = series.forest(report)
    parts = [
        '<section id="pictures"><h2>Pictures</h2>',
        figure(
            f'<div class="roomy">{svg.forest(shown)}</div><div class="narrow">{svg.forest(shown, 380, 22)}</div>',
            "How far each of the worst quantities moved, with its confidence interval; a thick bar reaches from zero to the bound. "
            "In the pale band errors do not matter. "
            f"Means and quantiles in standard deviations, variances in log variance. {sentence(shown.rest)}",
            "wide",
        ),
        *_failed_pictures(report),
        "<h3>Before and after</h3><p class='soft'>Dashed: the approximation. Filled: after moving towards the target.</p>".replace(
            "'", '"'
        ),
        grid((svg.marginal(one), series.shortened(one.parameter, 60)) for one in series.marginals(report)),
        "<h3>On the way</h3>",
        '<p class="soft">Change from the approximation against iteration, with bands of two standard errors. '
        "The dotted line is where it came to rest.</p>",
        grid((svg.movement(path), series.name(path.row, 60) + rest_of(path)) for path in series.movements(report)),
        "<h3>Memory of the start</h3>",
        figure(
            svg.memory(series.memory(report)),
            "ρ² between start and state: the largest over all coordinates (the jagged line), and the quantities that remember most.",
            "middle",
        ),
        "<h3>The kernel</h3>",
        grid(
            [(svg.path(report.paths.acceptance, "Acceptance", 1.0), "acceptance"), (svg.path(report.paths.step, "Step size"), "step size")]
        ),
        "</section>",
    ]
    return "\n".join(parts)


def _failed_pictures(report: Report) -> list[str]:
    """What the failed checks measured, quantity by quantity."""
    found = series.statistics(report)
    if not found:
        return []
    told = ((svg.statistic(one), f"{one.check.name}: should be {one.check.should_be}") for one in found)
    return ["<h3>What failed checks measured</h3>", grid(told)]


def closer(report: Report) -> str:
    """Of each of the worst quantities: the fit and the corrected values, the way there, and the checks that name it."""
    parts = []
    for one in series.closer(report, MOST_CLOSER):
        row = one.path.row
        marginal = "" if one.marginal is None else figure(svg.marginal(one.marginal, row), "the fit (dashed) and the moved draws (filled)")
        path = figure(svg.movement(one.path), f"change from the approximation on the way{rest_of(one.path)}")
        failed = [f"{check.name}: {clean(measured(check))}" for check in one.failed] or ["every check of it passed"]
        called = f"{report.tolerance.severity(row)} {row.verdict}".strip()
        parts.append(
            f'<details><summary><b>{clean(series.name(row, 60))}</b> <span class="{CLASS[row.verdict]}-ink">{SYMBOL[row.verdict]} '
            f'{called}</span></summary><div class="grid">{marginal}{path}<div>{bullets(clean(line) for line in failed)}'
            f"<p>q says {clean(q_says(row))}; right value {clean(right_value(row) or 'not known')}.</p></div></div></details>"
        )
    return f'<section id="closer"><h2>Look closer</h2>{"".join(parts)}</section>'


def checks(report: Report) -> str:
    rows = []
    for check in report.checks:
        mark = '<td class="word fine-ink">◆ passed</td>' if check.passed else '<td class="word error-ink">● failed</td>'
        rows.append(
            f'<tr>{mark}<td class="word"><b>{clean(check.name)}</b></td>'
            f'<td class="why">{clean(question(check))}{"" if check.passed else f" <b>{clean(_failure(report, check))}</b>"}</td>'
            f"<td>{clean(plain(check.value))}</td><td>{clean(check.should_be)}</td></tr>"
        )
    notes = "".join(f"<p>Note: {clean(note)}.</p>" for note in report.notes)
    return (
        '<section id="checks"><h2>Checks: can the table be believed?</h2><div class="scroll"><table><thead><tr><th class="word">result</th>'
        '<th class="word">check</th><th class="word">what it asks</th><th>value</th><th>should be</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{notes}</section>"
    )


def _failure(report: Report, check: Check) -> str:
    named = concerned(report, check)
    return f"{check.message[:1].upper()}{check.message[1:]}.{f' It concerns {named}.' * bool(named)}"


def what_next(report: Report) -> str:
    return f'<section id="next"><h2>What to do next</h2>{bullets(map(advice, report.advice))}</section>'


def advice(one: Advice) -> str:
    """Words, and lines to paste."""
    lines = [
        f"<pre><b>{name}</b> <code>{clean(code)}</code></pre>" for name, code in (("Python", one.python), ("shell", one.shell)) if code
    ]
    return clean(one.words) + "".join(lines)


def provenance(report: Report) -> str:
    cost, about = report.cost, report.provenance
    together = "all intervals hold together" if about.simultaneous else "each interval by itself"
    beside = f" ({cost.beside_the_plan})" if cost.beside_the_plan else ""
    entries = {
        "approximation": about.approximation,
        "chains": f"{about.chains}, of {about.kernel} with the {about.preconditioner} preconditioner",
        "iterations": f"{cost.iterations}, planned {cost.planned_iterations}{beside}",
        "confidence": f"{about.level:g}, {together}",
        "cost": f"{cost.gradients:,} gradients; {cost.seconds_running:.1f} s running, {cost.seconds_compiling:.1f} s compiling",
        "seed": str(about.seed),
        "date": about.date,
        "versions": about.versions,
        "settings": about.settings,
    }
    pairs = "".join(f"<dt>{key}</dt><dd>{clean(value)}</dd>" for key, value in entries.items())
    return f'<section id="settings"><h2>Settings and provenance</h2><dl>{pairs}</dl></section>'


HOW_TO_READ = """<section id="read"><h2>How to read this page</h2>
<p>Many short Markov chains were started at draws of the approximation <i>q</i> and moved towards the true posterior (the target).
If <i>q</i> were right, nothing would change on average. What did change, <i>q</i> had wrong, by at least as much as it surely changed.</p>
<ul>
<li><b>error</b>: <i>q</i> is wrong by at least the amount under <i>wrong by at least</i>. The true error may be larger, because the
chains are short.</li>
<li><b>within tolerance</b>: the error is surely too small to matter, whether or not it is zero. Use it.</li>
<li><b>no error found</b> is not proof of accuracy. It says that an error of <i>would see</i> (×2: a factor of 2, for
variances) would have shown.</li>
<li><b>untrusted</b> means that a check of the run failed for this quantity, so none of these can be said.</li>
<li>The <b>right value</b> is the posterior's own, with its interval. A bound needs only that the chains moved; the right value needs that
they came to rest, which the checks ask. Where they doubt it, the value in brackets is only where the chains were at the end.</li>
<li>A <b>variance</b> is compared on the log scale: a relative bound of 0.69 is a factor of 2. Means and quantiles count in standard
deviations of the moved draws.</li>
</ul></section>"""
