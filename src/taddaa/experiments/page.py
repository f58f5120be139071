"""The page of all claims, from the JSON and figures of the studies that have been run."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import write_whole
from . import STUDIES
from .study import DIFFERENT, NOT_REPRODUCED, OURS, PAPER, REPRODUCED

PICTURES = "img/paper"  # beside the page
LARGEST = 200_000  # bytes of a picture
MARK = {REPRODUCED: "✓ reproduced", DIFFERENT: "≈ different", NOT_REPRODUCED: "✗ not reproduced"}
HEAD = """\
# The paper, reproduced

*Written by `{command}`; never edited by hand.*

The studies of Wang, Kasprzak and Huggins (AISTATS 2023), run again on this package's public interface: with `Settings.paper()`,
the paper's method, and with our defaults, so that you see what the differences buy. Each claim is judged by a condition on
measured numbers, in code. *Different* means that it holds in part, or under another reading of the text, as the reason says.
A claim of *our defaults* is one of our own: what we aim at, held to the same standard.
[The method](method.md) lists the misprints that the preset corrects. Every number is in the JSON that the command writes.
What is measured is stored in the folder that `--out` names, and used again until the study's own code or the package's version
changes, even if the engine below it has; a fresh folder measures everything anew.
"""


def write_page(out: Path, page: Path, quick: bool = False) -> None:
    """Write `page`, and the figures it shows to `img/paper` beside it, from whatever results `out` holds."""
    found = [content for name in STUDIES if (content := _read(Path(out) / f"{name}{'-quick' * quick}.json")) is not None]
    if not found:
        raise InputError(f"--page needs the results of at least one study, and {out} holds none; run taddaa reproduce all --out {out}")
    missing = [name for name in STUDIES if name not in {content["study"] for content in found}]
    pictures = Path(page).parent / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    command = "taddaa reproduce all" + " --quick" * quick + " --page docs/paper.md"
    parts = [HEAD.format(command=command)]
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.\n")
    parts += [_summary(found), *(_section(content, Path(out), pictures) for content in found)]
    write_whole(Path(page), "\n".join(parts))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _summary(found: list[dict[str, Any]]) -> str:
    """How many claims came out how, study by study, and which did not simply come out."""
    lines = [
        "## In short\n",
        "| study | in the paper | reproduced | different | not reproduced | our defaults' own claims that hold | minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for content in found:
        name = f"[{content['study']}](#{content['study']})"
        lines.append(f"| {name} | {content['place']} | {_counts([content])} | {content['seconds'] / 60:.1f} |")
    lines.append(f"| **all** | | {_counts(found)} | {sum(content['seconds'] for content in found) / 60:.0f} |\n")
    apart = [(content["study"], claim) for content in found for claim in content["claims"] if claim["verdict"] != REPRODUCED]
    if apart:
        lines.append("What did not simply come out; the reasons are in the sections below:\n")
    for study, claim in apart:
        whose = "" if claim["method"] == PAPER else ", our defaults"
        lines.append(f"- [{study}](#{study}){whose}, **{claim['verdict']}**: {claim['text']}")
    return "\n".join(lines) + "\n"


def _counts(found: list[dict[str, Any]]) -> str:
    claims = [claim for content in found for claim in content["claims"]]
    count = Counter(claim["verdict"] for claim in claims if claim["method"] == PAPER)
    own = [claim["verdict"] == REPRODUCED for claim in claims if claim["method"] == OURS]
    return " | ".join([*(str(count[verdict]) for verdict in (REPRODUCED, DIFFERENT, NOT_REPRODUCED)), f"{sum(own)} of {len(own)}"])


def _section(content: dict[str, Any], out: Path, pictures: Path) -> str:
    lines = [f"## {content['study']}\n", f"**{content['title']}**, {content['place']} of the paper.\n"]
    if content["about"]:
        lines.append(content["about"] + "\n")
    lines += [_figure(each, out, pictures) for each in content["figures"]]
    for method, head in ((PAPER, "The paper's claims, with its settings"), (OURS, "Our defaults")):
        lines += _claims([claim for claim in content["claims"] if claim["method"] == method], head)
    if content["table"] is not None:
        columns, rows = content["table"]["columns"], content["table"]["rows"]
        lines += ['<details markdown="1"><summary>Numbers</summary>\n', f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        lines += [f"| {' | '.join(_number(value) for value in row)} |" for row in rows]
        lines.append("\n</details>\n")
    return "\n".join(lines)


def _claims(claims: list[dict[str, Any]], head: str) -> list[str]:
    """A table of claims; the reasons below it, numbered."""
    if not claims:
        return []
    lines, reasons = [f"| {head} | condition | measured | verdict |", "|---|---|---|---|"], []
    for claim in claims:
        measured = "; ".join(f"{name} {_number(value)}" for name, value in claim["numbers"].items())
        note = ""
        if claim["reason"]:
            if claim["reason"] not in reasons:
                reasons.append(claim["reason"])
            note = f" [{reasons.index(claim['reason']) + 1}]"
        cells = (f"{claim['text']} ({claim['where']})", claim["condition"], measured, f"**{MARK[claim['verdict']]}**{note}")
        lines.append(f"| {' | '.join(_cell(text) for text in cells)} |")
    return [*lines, "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, start=1)), ""]


def _figure(figure: dict[str, str], out: Path, pictures: Path) -> str:
    """SVG or PNG, whichever is smaller; a stale file of the other kind is taken away."""
    files = [out / f"{figure['name']}.{kind}" for kind in ("svg", "png")]
    there = sorted((file for file in files if file.exists()), key=lambda file: file.stat().st_size)
    if not there or there[0].stat().st_size >= LARGEST:
        raise InputError(f"--page needs {files[0]} or {files[1]}, of less than {LARGEST:,} bytes; run the study again")
    chosen = there[0]
    for file in files:
        (pictures / file.name).unlink(missing_ok=True)
    shutil.copyfile(chosen, pictures / chosen.name)
    return f"![{_cell(figure['caption'])}]({PICTURES}/{chosen.name})\n\n*{figure['caption']}*\n"


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else _cell(str(value))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
