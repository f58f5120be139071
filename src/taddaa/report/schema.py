"""What a stored report must look like: a JSON schema made from the dataclasses, and one sentence about what does not fit it.

The same schema is published (docs/report.schema.json) and used on reading. It needs only a few of JSON Schema's words.
"""

from dataclasses import MISSING, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np

from ..problem.axes import Coordinate, Variable
from ..verdict.checks.check import Check
from ..verdict.outcome import VERDICTS
from .certificate import Certificate
from .parts import Cost, Paths, Provenance, Row

LARGEST = float(np.finfo(float).max)
NUMBER: dict[str, Any] = {
    "anyOf": [{"type": "number", "minimum": -LARGEST, "maximum": LARGEST}, {"enum": ["Infinity", "-Infinity", "NaN"]}],
    "description": "a number; JSON has no infinities, so they are strings",
}
WHOLE = {"type": "integer", "minimum": 0, "maximum": 1e300}
PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: WHOLE,
    float: NUMBER,
    NoneType: {"type": "null"},
}
AXES_PARTS = {"variables": Variable, "coordinates": Coordinate}
VECTOR = {"type": "array", "items": NUMBER}
COUNTS = {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1e300}}
MATRIX = {"type": "array", "items": VECTOR}
HANDOVER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "starts": MATRIX,
        "inverse_mass": {"anyOf": [VECTOR, MATRIX], "description": "a list of numbers, or of lists of them"},
        "step": NUMBER,
    },
    "required": ["starts", "inverse_mass", "step"],
    "additionalProperties": False,
}
# Of each array, what its axes count: arrays that share a word must agree.
AXES = {
    "paths.snapshots": ("snapshots",),
    "paths.estimate": ("snapshots", "rows"),
    "paths.error": ("snapshots", "rows"),
    "paths.rho2": ("snapshots", "rows"),
    "paths.reference": ("rows",),
    "paths.unit": ("rows",),
    "paths.acceptance": ("iterations",),
    "paths.step": ("iterations",),
    "paths.rho2_max": ("iterations",),
    "start_draws": ("draws", "labels"),  # fewer than the chains, where some were left out
    "moved_draws": ("draws", "labels"),
}


def report_schema(name: str, version: int) -> dict[str, Any]:
    """The JSON schema of a whole report."""
    rows = {"type": "array", "minItems": 1, "items": _object_of(Row, verdict={"enum": list(VERDICTS)})}
    texts = {"type": "array", "items": PLAIN[str]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A report of taddaa",
        **_object(
            {
                "schema": {"const": name},
                "version": {"const": version},
                "verdict": {"enum": list(VERDICTS)},
                "headline": PLAIN[str],
                "rows": rows,
                "checks": {"type": "array", "items": _object_of(Check)},
                "cost": _object_of(Cost),
                "provenance": _object_of(Provenance),
                "notes": texts,
                "paths": _object({field.name: _array(f"paths.{field.name}") for field in fields(Paths)}),
                "labels": {"minItems": 1, **texts},
                "start_draws": _array("start_draws"),
                "moved_draws": _array("moved_draws"),
                "certificate": {"anyOf": [PLAIN[NoneType], _object_of(Certificate)]},
                "axes": _object({part: {"type": "array", "items": _object_of(kind)} for part, kind in AXES_PARTS.items()}),
                "handover": {"anyOf": [HANDOVER, PLAIN[NoneType]]},
            },
            optional={"axes", "certificate", "handover"},
        ),
    }


def misfit(value: Any, schema: dict[str, Any], path: str = "") -> str:
    """In one sentence the first thing that does not fit, with its path; '' if all does."""
    here = path or "the report"
    if "const" in schema or "enum" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        fits = any(value == each and type(value) is type(each) for each in allowed)
        return "" if fits else f"{here} must be {' or '.join(map(repr, allowed))}, got {shown(value)}"
    if "anyOf" in schema:
        fits = any(not misfit(value, each) for each in schema["anyOf"])
        return "" if fits else f"{here} must be {schema.get('description') or _names(schema['anyOf'])}, got {shown(value)}"
    if not isinstance(value, KINDS[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return f"{here} must be {NAMES[schema['type']]}, got {shown(value)}"
    if not schema.get("minimum", -np.inf) <= (value if "minimum" in schema else 0) <= schema.get("maximum", np.inf):
        return f"{here} must lie between {schema['minimum']:g} and {schema['maximum']:g}, got {shown(value)}"
    if schema["type"] == "array":
        if len(value) < schema.get("minItems", 0):
            return f"{here} must not be empty"
        if schema["items"] is NUMBER and _all_numbers(value):
            return ""
        return next(filter(None, (misfit(part, schema["items"], f"{path}[{i}]") for i, part in enumerate(value))), "")
    if schema["type"] == "object":
        return _misfit_of_object(value, schema, path)
    return ""


def disagreement(content: dict[str, Any]) -> str:
    """In one sentence the first parts of a report, each well by itself, that do not belong together; '' if all do."""
    counts = {"labels": len(content["labels"]), "rows": len(content["rows"])}
    whose = {"labels": "labels", "rows": "rows"}
    for path, axes in AXES.items():
        array = content
        for part in path.split("."):
            array = array[part]
        for depth, axis in enumerate(axes):
            lengths = {len(array)} if depth == 0 else {len(row) for row in array}
            expected = counts.setdefault(axis, len(array))
            if lengths - {expected}:
                has = f"{next(iter(lengths - {expected}))} {axis}"
                return f"{path} has {has}, but {whose.setdefault(axis, path)} {expected}"
            whose.setdefault(axis, path)
    chains = content["provenance"]["chains"]
    if not 0 < counts["draws"] <= chains:
        return f"moved_draws has {counts['draws']} draws, but provenance.chains {chains}"
    first: dict[tuple[str, str], int] = {}
    for i, row in enumerate(content["rows"]):
        same = first.setdefault((row["parameter"], row["functional"]), i)
        if same != i:
            return f"rows[{same}] and rows[{i}] are both the {shown(row['functional'])} of {shown(row['parameter'])}"
    known = {coordinate["dim"] for coordinate in content.get("axes", {}).get("coordinates", ())}
    for i, variable in enumerate(content.get("axes", {}).get("variables", ())):
        if not {*variable["dims"]} <= known:
            return f"axes.variables[{i}] has dims that axes.coordinates does not have"
    for i, check in enumerate(content["checks"]):
        if any(row >= counts["rows"] for row in check.get("rows") or ()):
            return f"checks[{i}].rows names the row {max(check['rows'])}, but there are {counts['rows']}"
        if check.get("each") is not None and len(check["each"]) != counts["rows"]:
            return f"checks[{i}].each has {len(check['each'])} entries, but there are {counts['rows']} rows"
    return _uneven(content["handover"]) if content.get("handover") else ""


def _uneven(handover: dict[str, Any]) -> str:
    """Whether starts and mass matrix are of one dimension."""
    starts, mass = handover["starts"], handover["inverse_mass"]
    dim = len(starts[0]) if starts else 0
    if not starts or any(len(row) != dim for row in starts):
        return "handover.starts must have rows, all of the same length"
    square = len(mass) == dim and all(not isinstance(row, list) or len(row) == dim for row in mass)
    return "" if square else f"handover.inverse_mass does not fit starts of dimension {dim}"


KINDS: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": NoneType,
    "array": list,
    "object": dict,
}
NAMES = {
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
    "array": "a list",
    "object": "an object",
}


def _object_of(kind: type, **known: dict[str, Any]) -> dict[str, Any]:
    """A dataclass: its fields by their types; those with a default may be left out."""
    hints = get_type_hints(kind)
    optional = {field.name for field in fields(kind) if field.default is not MISSING}
    return _object({field.name: known.get(field.name) or _of_type(hints[field.name]) for field in fields(kind)}, optional)


def _object(properties: dict[str, Any], optional: set[str] | frozenset[str] = frozenset()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _of_type(kind: Any) -> dict[str, Any]:
    if kind in PLAIN:
        return PLAIN[kind]
    if getattr(kind, "__origin__", None) is tuple:  # tuple[int, ...]
        return {"type": "array", "items": _of_type(get_args(kind)[0])}
    return {"anyOf": [_of_type(part) for part in get_args(kind)]}  # int | None


def _array(path: str) -> dict[str, Any]:
    return COUNTS if path == "paths.snapshots" else VECTOR if len(AXES[path]) == 1 else MATRIX


def _misfit_of_object(value: dict[str, Any], schema: dict[str, Any], path: str) -> str:
    inside = f"{path}." if path else ""
    for name in schema["required"]:
        if name not in value:
            return f"{inside}{name} is missing"
    for name, part in value.items():
        if name not in schema["properties"]:
            return f"{path or 'the report'} has {shown(name)}, which is not one of its fields"
        found = misfit(part, schema["properties"][name], f"{inside}{name}")
        if found:
            return found
    return ""


def _all_numbers(values: list) -> bool:
    """Quickly, for the thousands of most arrays; not if there is an infinity among them."""
    return {*map(type, values)} <= {int, float} and (not values or (min(values) >= -LARGEST and max(values) <= LARGEST))


def _names(schemas: list[dict[str, Any]]) -> str:
    return " or ".join(NAMES[each["type"]] for each in schemas)


def shown(value: Any) -> str:
    """A value as a message may hold it: short, and without characters that a terminal obeys."""
    if isinstance(value, (list, dict)):
        return f"{NAMES['array' if isinstance(value, list) else 'object']} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**20:
        return "a number of more than 20 digits"
    text = {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else ascii(value)
    return text if len(text) <= 40 else text[:39] + "…"
