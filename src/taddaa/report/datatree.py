"""Report → an ArviZ DataTree: starts, moved draws, rows and checks, with the user's names as arrays and coordinates."""

import re
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import require
from ..verdict.checks.check import Check

if TYPE_CHECKING:
    from .report import Report

_LABEL = re.compile(r"^(?P<name>.*?)\[(?P<index>[^\[\]]+)\]$")
TEXT = ("parameter", "functional", "verdict", "reason")


def report_to_datatree(report: "Report") -> Any:
    """The report as an xarray DataTree that ArviZ's plots and summaries open.

    Groups: `posterior` (the moved draws; ArviZ looks there first), `starts` (the approximation's draws that the chains began
    at), `rows` (one value a quantity, the columns of `to_dataframe`) and `checks`. Chains are independent, so the draws of
    both groups are one ArviZ chain with a draw for each; posterior.attrs["usable"] says whether they may stand in for posterior draws.
    """
    arviz_base = require("arviz_base", "arviz")
    arrays = {"posterior": gather(report.labels, report.moved_draws), "starts": gather(report.labels, report.start_draws)}
    dims, coords = _dims_and_coords(arrays["posterior"])
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
    """One of the user's arrays: values of shape (1, draws, …) and the labels along each of its own axes."""

    def __init__(self, values: np.ndarray, ticks: list[list[Any]]):
        self.values, self.ticks = values, ticks


def gather(labels, draws: np.ndarray) -> dict[str, _Part]:
    """Columns `theta[0]`, `theta[1]`, … → the array `theta`; what does not form a full grid stays one variable a column."""
    columns: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for column, label in enumerate(labels):
        match = _LABEL.match(label)
        name, index = (match["name"], tuple(match["index"].split(","))) if match else (label, ())
        columns.setdefault(name, []).append((index, column))
    parts: dict[str, _Part] = {}
    for name, entries in columns.items():
        ticks = [list(dict.fromkeys(axis)) for axis in zip(*(index for index, _ in entries), strict=False)]
        shape = tuple(len(axis) for axis in ticks)
        same_rank = len({len(index) for index, _ in entries}) == 1
        if not same_rank or int(np.prod(shape)) != len(entries):
            parts.update({labels[column]: _Part(draws[None, :, column], []) for _, column in entries})
            continue
        source = np.empty(shape, int)  # the column of each element
        for index, column in entries:
            source[tuple(axis.index(tick) for axis, tick in zip(ticks, index, strict=True))] = column
        values = draws[None, :, source]
        parts[name] = _Part(values, [list(map(int, axis)) if all(map(str.isdigit, axis)) else axis for axis in ticks])
    return parts


def _dims_and_coords(parts: dict[str, _Part]) -> tuple[dict[str, list[str]], dict[str, list[Any]]]:
    dims = {name: [f"{name}_dim_{axis}" for axis in range(len(part.ticks))] for name, part in parts.items() if part.ticks}
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
