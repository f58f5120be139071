"""A report as one self-contained HTML page: nothing is fetched, reading needs no JavaScript, names are only ever text."""

import base64
import hashlib
from importlib import resources

import numpy as np

from ..report.report import Report
from . import sections
from .markup import cells_of, heads
from .svg import clean

SHORT = 15  # in a notebook


def report_to_html(report: Report) -> str:
    """The whole page."""
    style, script = _resource("page.css"), _resource("page.js")
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )
    with np.errstate(all="ignore"):  # a stored report may hold any numbers, and a picture of 10³⁰⁸ is not worth a warning
        body = [
            sections.verdict(report),
            sections.conclusions(report),
            sections.table(report),
            sections.pictures(report),
            sections.checks(report),
            sections.what_next(report),
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
    """Headline and worst rows for a notebook, without style or script of its own."""
    head, rows = heads(report), "".join(cells_of(report, report.worst(SHORT)))
    hidden = len(report.rows) - SHORT
    more = f"<p>… and {hidden} more quantities; report.to_html(path) shows all.</p>" if hidden > 0 else ""
    failed = [check for check in report.checks if not check.passed]
    checks = "All checks passed." if not failed else "Failed checks: " + "; ".join(f"{c.name}: {c.message}" for c in failed) + "."
    return (
        f"<div><p><b>{clean(report.headline)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
        f"<p>{clean(checks)} A bound says how wrong at least; 'no error found' is not proof of accuracy.</p></div>"
    )


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
