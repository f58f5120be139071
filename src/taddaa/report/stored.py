"""A report as JSON of a versioned schema (docs/json.md)."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..problem.axes import Axes, Coordinate, Variable
from ..verdict.checks.check import Check
from .certificate import Certificate
from .parts import Cost, Handover, Paths, Provenance, Row
from .schema import disagreement, misfit, report_schema, shown

if TYPE_CHECKING:
    from .report import Report

SCHEMA, SCHEMA_VERSION = "taddaa-report", 3
LARGEST_MASS = 500  # dimensions up to which the whole matrix is stored
READ_VERSIONS = (1, 2, 3)  # the first has no corrected values; the second says nothing about data, or of a check for each row


def as_json(report: "Report") -> str:
    """The report's text. Infinities become strings."""
    content = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "verdict": report.verdict,
        "headline": report.headline,
        "rows": [asdict(row) for row in report.rows],
        "checks": [asdict(check) for check in report.checks],
        "cost": asdict(report.cost),
        "provenance": asdict(report.provenance),
        "notes": list(report.notes),
        "paths": {key: np.asarray(value).tolist() for key, value in asdict(report.paths).items()},
        "labels": list(report.labels),
        "start_draws": report.start_draws.tolist(),
        "moved_draws": report.moved_draws.tolist(),
        "axes": asdict(report.axes),
        "handover": None if report.handover is None else _handover(report.handover),
        "certificate": None if report.certificate is None else asdict(report.certificate),
    }
    return json.dumps(_finite(content), allow_nan=False)


def from_json(source: str | Path) -> dict[str, Any]:
    """The arguments of a `Report` that `as_json` wrote, from its path or its text; refused if it does not fit the schema."""
    text, what = _text_of(source)
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{what} is damaged: no JSON at character {error.pos}") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, NaN, lists in lists in lists
        raise InputError(f"{what} is damaged: no JSON that can be read ({_first_words(error)})") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InputError(f"{what} is not a report of taddaa: its schema is not {SCHEMA!r}")
    if content.get("version") not in READ_VERSIONS or isinstance(content["version"], bool):
        raise InputError(
            f"{what} has schema version {shown(content.get('version'))}, and this taddaa reads {READ_VERSIONS[0]} to {READ_VERSIONS[-1]}; "
            "open it with the version that wrote it, or diagnose again"
        )
    wrong = misfit(content, report_schema(SCHEMA, content["version"])) or disagreement(content)
    if wrong:
        raise InputError(f"{what} is damaged: {wrong}")
    return {
        "rows": tuple(_made(Row, row) for row in content["rows"]),
        "checks": tuple(_check(check) for check in content["checks"]),
        "cost": _made(Cost, content["cost"]),
        "provenance": _made(Provenance, content["provenance"]),
        "notes": tuple(content["notes"]),
        "paths": Paths(**{key: _array(value) for key, value in content["paths"].items()}),
        "labels": tuple(content["labels"]),
        "start_draws": _array(content["start_draws"]),
        "moved_draws": _array(content["moved_draws"]),
        "certificate": _certificate(content.get("certificate")),
        "axes": _axes(content.get("axes") or {"variables": [], "coordinates": []}),
        "handover": _handed_over(content.get("handover")),
    }


def _certificate(stored: dict[str, Any] | None) -> Certificate | None:
    if stored is None:
        return None
    return replace(_made(Certificate, stored), meetings=tuple(float(_number(meeting)) for meeting in stored["meetings"]))


def _axes(stored: dict[str, Any]) -> Axes:
    return Axes(
        tuple(Variable(each["name"], tuple(each["dims"])) for each in stored["variables"]),
        tuple(Coordinate(each["dim"], tuple(each["ticks"])) for each in stored["coordinates"]),
    )


def _text_of(source: str | Path) -> tuple[str, str]:
    """The text, and what to call it in messages."""
    if not isinstance(source, (str, PathLike)):
        raise InputError(f"a report is read from a path or from its JSON text, got {type(source).__name__}")
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source, "this report"
    what = str(source) if len(str(source)) <= 200 else str(source)[:199] + "…"
    try:
        return Path(source).read_text(encoding="utf-8-sig"), what
    except (OSError, ValueError) as error:  # ValueError: no text, or a NUL in the name
        raise InputError(f"{what} cannot be read as a report: {getattr(error, 'strerror', None) or _first_words(error)}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _first_words(error: Exception) -> str:
    return str(error).partition(";")[0].partition("\n")[0][:100]


def _finite(value: Any) -> Any:
    """JSON has no infinities: they are written as the strings Infinity, -Infinity and NaN."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, np.generic):
        return value.item()
    return value


_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _number(value: Any) -> Any:
    return _NAMED.get(value, value) if isinstance(value, str) else value


def _made(kind: type, stored: dict[str, Any]) -> Any:
    """A dataclass, with infinities restored where it holds numbers; a parameter may be named NaN."""
    numbers = {field.name for field in fields(kind) if field.type in (float, "float")}
    return kind(**{name: float(_number(value)) if name in numbers else value for name, value in stored.items()})


def _check(stored: dict[str, Any]) -> Check:
    rows, each = (None if stored.get(name) is None else tuple(map(_number, stored[name])) for name in ("rows", "each"))
    check = replace(_made(Check, stored), rows=rows, each=each)
    if "least" in stored or check.passed == (check.value <= check.cutoff):
        return check
    return replace(check, least=check.cutoff, cutoff=math.inf)  # before version 3 a check's only limit could be its lower one


def _handover(handover: Handover) -> dict[str, Any]:
    """A large mass matrix is kept by its diagonal: as text it would take hundreds of megabytes."""
    mass = np.asarray(handover.inverse_mass)
    diagonal = np.diagonal(mass) if mass.ndim == 2 and len(mass) > LARGEST_MASS else mass
    return {"starts": np.asarray(handover.starts).tolist(), "inverse_mass": diagonal.tolist(), "step": float(handover.step)}


def _handed_over(stored: dict[str, Any] | None) -> Handover | None:
    if stored is None:
        return None
    return Handover(_array(stored["starts"]), _array(stored["inverse_mass"]), float(_number(stored["step"])))


def _array(value: Any) -> np.ndarray:
    replace: Callable = lambda item: [replace(part) for part in item] if isinstance(item, list) else _number(item)  # noqa: E731
    return np.array(replace(value), dtype=float)
