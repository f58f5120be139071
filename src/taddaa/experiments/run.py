"""Run a study cell by cell, then write its claims, numbers and figures."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import InputError, require
from ..files import write_whole
from ..version import own_version
from .study import Result, Store, Study, as_dict, finite

SCHEMA, SCHEMA_VERSION = "taddaa-study", 1
LOOK = {"svg.hashsalt": "taddaa", "font.size": 8, "axes.titlesize": 9, "legend.frameon": False, "legend.fontsize": 8}


def reproduce(study: Study, out: Path, quick: bool = False, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Measure what is not yet in `out/cells`, write `NAME.json` and figures into `out`, and return what the JSON holds.

    Args:
        study: one of `taddaa.experiments.load`.
        out: a folder; what a stopped run measured is found there again.
        quick: the small version, `NAME-quick.json`.
        tell: called with a line after each cell.
    """
    require("matplotlib", "plot")
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out} cannot be made a folder: {error.strerror or error}") from error
    results, seconds = _measure(study, Path(out), quick, tell)
    table, title = study.table(results), study.name + "-quick" * quick
    content = finite(
        {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "study": study.name,
            "title": study.title,
            "place": study.place,
            "about": study.about,
            "quick": quick,
            "taddaa": own_version(),
            "seconds": seconds,
            "claims": [as_dict(claim) for claim in study.claims(results)],
            "table": None if table is None else {"columns": list(table.columns), "rows": [list(row) for row in table.rows]},
            "figures": _draw(study, results, Path(out), title),
            "results": results,
        }
    )
    write_whole(Path(out) / f"{title}.json", json.dumps(content, indent=1, ensure_ascii=False))
    return content


def _measure(study: Study, out: Path, quick: bool, tell: Callable[[str], None]) -> tuple[list[Result], float]:
    """All results, and the seconds that measuring them took, now or in earlier runs."""
    cells, store, shared = study.cells(quick), Store(out / "cells" / study.name), Store(out / "shared")
    stamp = {"quick": quick, "taddaa": own_version(), "source": study.stamp()}
    results, total = [], 0.0
    for number, cell in enumerate(cells, start=1):
        key = {"cell": cell.name, "parameters": cell.parameters, **stamp}
        kept = store.get(cell.name, key)
        if kept is None:
            begun = time.monotonic()
            found = study.run(cell, shared)
            kept = store.put(cell.name, key, {"found": found, "seconds": time.monotonic() - begun})
            tell(f"{study.name} {number}/{len(cells)}  {cell.name}  {kept['seconds']:.1f} s")
        results.append({"cell": cell.name, **cell.parameters, **kept["found"]})
        total += kept["seconds"]
    return results, total


def _draw(study: Study, results: list[Result], out: Path, title: str) -> list[dict[str, str]]:
    """Each figure as PNG and SVG; where they are, and their captions."""
    import matplotlib

    drawn = []
    with matplotlib.rc_context(LOOK):
        for name, (figure, caption) in study.figures(results).items():
            file = f"{title}-{name}"
            figure.savefig(out / f"{file}.png", dpi=110)
            figure.savefig(out / f"{file}.svg", metadata={"Date": None})
            drawn.append({"name": file, "caption": caption})
    return drawn


def claims_text(content: dict[str, Any]) -> str:
    """A study's claims for a terminal: one line each, with the numbers that decided below it."""
    lines = [f"{content['title']} ({content['place']}), {content['seconds']:.0f} s of measuring" + ", quick" * content["quick"]]
    for claim in content["claims"]:
        lines.append(f"  {claim['verdict']:<15} {claim['text']} [{claim['where']}; {claim['method']}]")
        numbers = ", ".join(f"{name} {'–' if value is None else format(value, '.3g')}" for name, value in claim["numbers"].items())
        lines.append(f"  {'':<15} {claim['condition']}: {numbers}" + f". {claim['reason']}" * bool(claim["reason"]))
    return "\n".join(lines)
