"""A report as JSON of a versioned schema (docs/json.md)."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..verdict.checks.check import Check
from .parts import Cost, Paths, Provenance, Row

if TYPE_CHECKING:
    from .report import Report

SCHEMA, SCHEMA_VERSION = "taddaa-report", 1


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
    }
    return json.dumps(_finite(content), allow_nan=False)


def from_json(source: str | Path) -> dict[str, Any]:
    """The arguments of a `Report` that `as_json` wrote, from its path or its text."""
    text, what = str(source), "this report"
    if not text.lstrip().startswith("{"):
        what = text
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{source} cannot be read as a report: {getattr(error, 'strerror', None) or error}") from error
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{what} is damaged: no JSON at character {error.pos}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InputError(f"{what} is not a report of taddaa: its schema is not {SCHEMA!r}")
    if content.get("version") != SCHEMA_VERSION:
        raise InputError(
            f"{what} has schema version {content.get('version')!r}, and this taddaa reads {SCHEMA_VERSION}; "
            "open it with the version that wrote it, or diagnose again"
        )
    try:
        return {
            "rows": tuple(Row(**{**row, **_numbers(row, Row)}) for row in content["rows"]),
            "checks": tuple(
                Check(**{**check, **_numbers(check, Check), "rows": None if check["rows"] is None else tuple(check["rows"])})
                for check in content["checks"]
            ),
            "cost": Cost(**content["cost"]),
            "provenance": Provenance(**content["provenance"]),
            "notes": tuple(content["notes"]),
            "paths": Paths(**{key: _array(value) for key, value in content["paths"].items()}),
            "labels": tuple(content["labels"]),
            "start_draws": _array(content["start_draws"]),
            "moved_draws": _array(content["moved_draws"]),
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{what} is damaged: {type(error).__name__} at {error}") from error


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


def _numbers(stored: dict[str, Any], kind: type) -> dict[str, Any]:
    """The fields of a dataclass that hold numbers, with infinities restored; a parameter may be named NaN."""
    return {field.name: _number(stored[field.name]) for field in fields(kind) if field.type in (float, "float")}


def _array(value: Any) -> np.ndarray:
    replace: Callable = lambda item: [replace(part) for part in item] if isinstance(item, list) else _number(item)  # noqa: E731
    return np.array(replace(value), dtype=float)
