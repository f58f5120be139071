"""Report → an ArviZ DataTree: starts, moved draws, rows and checks, with the user's names as arrays and coordinates."""

import math
import re
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import require
from ..problem.axes import Axes
from ..verdict.checks.check import Check

if TYPE_CHECKING:
    from .report import Report

_LABEL = re.compile(r"^(?P<name>.*?)\[(?P<index>[^\[\]]+)\]$")
NO_AXES = Axes()
TEXT = ("parameter", "functional", "verdict", "reason")


def report_to_datatree(report: "Report") -> Any:
    """The report as an xarray DataTree that ArviZ's plots and summaries open.

    Groups: `posterior` (the moved draws; ArviZ looks there first), `starts` (the approximation's draws that the chains began
    at), `rows` (one value a quantity, the columns of `to_dataframe`) and `checks`. Chains are independent, so the draws of
    both groups are one ArviZ chain with a draw for each; posterior.attrs["usable"] says whether they may stand in for posterior draws.
    """
    arviz_base = require("arviz_base", "arviz")
    draws = {"posterior": report.moved_draws, "starts": report.start_draws}
    arrays = {group: gather(report.labels, values, report.axes) for group, values in draws.items()}
    dims, coords = dims_and_coords(arrays["posterior"])
    tree = arviz_base.from_dict(
        {group: {name: part.values for name, part in parts.items()} for group, parts in arrays.items()},
        dims=dims,
        coords=coords,
        sample_dims=("chain", "draw"),
        attrs={
            "posterior": {"usable": int(report.usable), "verdict": report.verdict, "headline": report.headline},
            "starts": {"approximation": report.provenance.approximation},
        },
    )
    tree["rows"] = _rows(report)
    tree["checks"] = _checks(report.checks)
    tree.attrs.update({"inference_library": "taddaa", **{key: _plain(value) for key, value in asdict(report.provenance).items()}})
    return tree


class _Part:
    """One of the user's arrays: values of shape (1, draws, …), and the names of its own axes with the labels along them."""

    def __init__(self, values: np.ndarray, ticks: list[list[Any]], dims: tuple[str, ...] | None = None):
        self.values, self.ticks, self.dims = values, ticks, dims


def gather(labels, draws: np.ndarray, axes: Axes = NO_AXES) -> dict[str, _Part]:
    """Columns `theta[0]`, `theta[1]`, … → the array `theta`; what does not form a full grid stays one variable a column."""
    columns: dict[str, list[tuple[str, int]]] = {}
    for column, label in enumerate(labels):
        known = next((each.name for each in axes.variables if label.startswith(f"{each.name}[")), None)
        match = _LABEL.match(label)
        name, index = (known, "") if known is not None else (match["name"], match["index"]) if match else (label, "")
        columns.setdefault(name, []).append((index, column))
    parts: dict[str, _Part] = {}
    for name, entries in columns.items():
        named = any(each.name == name for each in axes.variables)
        found = _with_dims(name, entries, draws, axes) if named else _from_labels(entries, draws)
        parts.update({name: found} if found else {labels[column]: _Part(draws[None, :, column], []) for _, column in entries})
    return parts


def _with_dims(name: str, entries: list[tuple[str, int]], draws: np.ndarray, axes: Axes) -> _Part | None:
    """An array whose axes have names; its columns stand in the array's own order."""
    ticks = axes.ticks(name)
    if ticks is None or math.prod(map(len, ticks)) != len(entries):
        return None
    values = draws[None, :, [column for _, column in entries]].reshape(1, len(draws), *map(len, ticks))
    return _Part(values, [list(axis) for axis in ticks], next(each.dims for each in axes.variables if each.name == name))


def _from_labels(entries: list[tuple[str, int]], draws: np.ndarray) -> _Part | None:
    """An array whose labels are all that is known of it."""
    indices = [tuple(index.split(",")) if index else () for index, _ in entries]
    if len({*map(len, indices)}) != 1:
        return None
    ticks = [list(dict.fromkeys(axis)) for axis in zip(*indices, strict=True)]
    shape = tuple(len(axis) for axis in ticks)
    if math.prod(shape) != len(entries):
        return None
    source = np.empty(shape, int)  # the column of each element
    for index, (_, column) in zip(indices, entries, strict=True):
        source[tuple(axis.index(tick) for axis, tick in zip(ticks, index, strict=True))] = column
    return _Part(draws[None, :, source], [list(map(int, axis)) if all(map(str.isdigit, axis)) else axis for axis in ticks])


def dims_and_coords(parts: dict[str, _Part]) -> tuple[dict[str, list[str]], dict[str, list[Any]]]:
    """As ArviZ wants them, of the arrays that `gather` found."""
    dims = {name: list(part.dims or [f"{name}_dim_{i}" for i in range(len(part.ticks))]) for name, part in parts.items() if part.ticks}
    coords = {dim: ticks for name, names in dims.items() for dim, ticks in zip(names, parts[name].ticks, strict=True)}
    return dims, coords


def _rows(report: "Report"):
    import xarray

    frame = report.to_dataframe()
    labels = [f"{functional} of {parameter}" for parameter, functional in zip(frame["parameter"], frame["functional"], strict=True)]
    variables = {
        column: ("row", np.array([str(item) for item in frame[column]]) if column in TEXT else frame[column].to_numpy(float))
        for column in frame.columns
    }
    return xarray.Dataset(variables, coords={"row": labels})


def _checks(checks: tuple[Check, ...]):
    import xarray

    names = [field.name for field in fields(Check) if field.name not in ("name", "rows", "each")]
    variables = {name: ("check", np.array([getattr(check, name) for check in checks])) for name in names}
    return xarray.Dataset(variables, coords={"check": [check.name for check in checks]})


def _plain(value):
    return int(value) if isinstance(value, bool) else value
