"""A report as one self-contained HTML page: nothing is fetched, reading needs no JavaScript, names are only ever text."""

import base64
import hashlib
from importlib import resources

import numpy as np

from ..report.report import Report
from ..report.sentences import title as first_sentence
from . import sections
from .certified import certificate
from .markup import bullets, cells_of, heads
from .svg import clean

SHORT = 15  # in a notebook
NOTEBOOK_INK = {"error": "#d0561b", "slight": "#a8763e", "untrusted": "#a87a00", "fine": "#2a86c8", "within": "#0f9468"}
NOTEBOOK_STYLE = (
    ".taddaa-report dt,.taddaa-report dd{float:none;width:auto}"  # Jupyter lays them side by side
    ".taddaa-report dt{font-weight:600}.taddaa-report dd{margin:0 0 .4em 1.2em}.taddaa-report dd p{margin:0}"
    ".taddaa-report td,.taddaa-report th{text-align:right;padding:.15em .5em}"
    ".taddaa-report td.word,.taddaa-report th.word{text-align:left}.taddaa-report td.said{font-weight:600}"
    ".taddaa-report pre{margin:.1em 0;white-space:pre-wrap;background:none}"
)


def report_to_html(report: Report) -> str:
    """The whole page."""
    style, script = _resource("page.css"), _resource("page.js")
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )
    with np.errstate(all="ignore"):  # a stored report may hold any numbers, and a picture of 10³⁰⁸ is not worth a warning
        body = [
            sections.LINKS,
            sections.verdict(report),
            sections.what_next(report),
            sections.table(report),
            certificate(report),
            sections.conclusions(report),
            sections.pictures(report),
            sections.closer(report),
            sections.checks(report),
            sections.provenance(report),
            sections.HOW_TO_READ,
        ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>TADDAA: {sections.title(report).lower()}</title><style>{style}</style></head>\n'
        "<body><main><h1>TADDAA report: how wrong is this approximate posterior, at least?</h1>\n"
        + "\n".join(body)
        + f"\n</main><script>{script}</script></body></html>\n"
    )


def report_to_fragment(report: Report) -> str:
    """For a notebook: the answer, the worst rows and what next, in colours that its own themes can bear; without script."""
    hidden = len(report.rows) - SHORT
    more = f"<p>… and {hidden} more quantities; report.to_html(path) shows all.</p>" if hidden > 0 else ""
    failed = [check for check in report.checks if not check.passed]
    checks = "Failed checks: " + "; ".join(f"{c.name}: {c.message}" for c in failed) + ". " if failed else ""  # else the advice says so
    # Rules of one class, so that nothing else in the notebook changes; colours that are legible on white and on black.
    rules = "".join(f".taddaa-report .{kind}-ink{{color:{colour}}}" for kind, colour in NOTEBOOK_INK.items())
    return (
        f'<div class="taddaa-report"><style>{rules}{NOTEBOOK_STYLE}</style>'
        f"<p><b>{clean(first_sentence(report))}</b></p>{sections.answer(report)}"
        f"<table><thead><tr>{heads(report)}</tr></thead><tbody>{''.join(cells_of(report, report.worst(SHORT)))}</tbody></table>{more}"
        f"<p>{clean(checks)}A bound says how wrong at least; 'no error found' is not proof of accuracy.</p>"
        f"<p><b>What next</b></p>{bullets(map(sections.advice, report.advice))}</div>"
    )


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
