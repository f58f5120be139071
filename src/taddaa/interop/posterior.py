"""Draws in an ArviZ DataTree or InferenceData (group `posterior`), or in an xarray Dataset, with their dims and coords."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InputError
from ..problem.approximation import Approximation, Draws
from ..problem.target import Target, as_target
from .layout import said

SAMPLE_DIMS = ("chain", "draw", "sample")


def posterior_of(fit) -> Any | None:
    """The dataset of draws in `fit`; None if it has none."""
    if hasattr(fit, "data_vars") and any(dim in SAMPLE_DIMS for dim in fit.dims):
        return fit
    try:
        group = fit["posterior"] if "posterior" in getattr(fit, "groups", ()) or hasattr(fit, "children") else None
    except (KeyError, TypeError):
        group = None
    if group is None:  # InferenceData's `groups` is a method
        group = getattr(fit, "posterior", None)
    return group if group is not None and hasattr(group, "data_vars") else None


def stacked(posterior) -> dict[str, np.ndarray]:
    """Each variable's draws, one axis of draws first, whatever the order of its axes."""
    found = {}
    for name in posterior.data_vars:
        variable = posterior[name]
        leading = [dim for dim in variable.dims if dim in SAMPLE_DIMS]
        if not leading:
            continue
        rest = [dim for dim in variable.dims if dim not in SAMPLE_DIMS]
        values = np.asarray(variable.transpose(*leading, *rest).values)
        found[str(name)] = values.reshape(-1, *values.shape[len(leading) :])
    return found


def dims_and_coords(posterior, shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, list[str | None]], dict[str, Any]]:
    """The dims and coords that the draws have for arrays of these shapes."""
    dims: dict[str, list[str | None]] = {}
    coords: dict[str, Any] = {}
    for name in posterior.data_vars:
        own = [dim for dim in posterior[name].dims if dim not in SAMPLE_DIMS]
        if str(name) in shapes and tuple(posterior.sizes[dim] for dim in own) == tuple(shapes[str(name)]) and own:
            dims[str(name)] = [str(dim) for dim in own]
            coords.update({str(dim): posterior[dim].values for dim in own if dim in posterior.coords})
    return dims, coords


def read(target, fit, data=None) -> tuple[Target, Approximation]:
    """A `Target` on the scale of its parameters, and a fit's draws of them by name; for `taddaa.diagnose(target, idata)`."""
    posterior = posterior_of(fit)
    if posterior is None:
        raise InputError(f"approximation has no group of draws named posterior, got {type(fit).__name__}")
    if data is not None:
        raise InputError("data goes into the target here: taddaa.Target(logdensity, dim, data=…)")
    arrays = stacked(posterior)
    if isinstance(target, Target) and target.constrain is not None:
        raise InputError(
            "target has constrain, so the chains' own coordinates cannot be told from draws of its parameters; "
            "pass them as taddaa.Draws(array)"
        )
    if not isinstance(target, Target) or target.names is None:
        if len(arrays) != 1:
            raise InputError(f"target needs names to be matched with draws of {said(arrays)}: taddaa.Target(logdensity, dim, names=…)")
        name, values = next(iter(arrays.items()))
        flat = values.reshape(len(values), -1)
        return as_target(target, flat.shape[1]), Draws(flat)
    columns: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        ticks = [[str(tick) for tick in posterior[dim].values] for dim in posterior[name].dims if dim not in SAMPLE_DIMS]
        for index in np.ndindex(*values.shape[1:]):
            column = values[(slice(None), *index)]
            columns[f"{name}[{','.join(map(str, index))}]" if index else name] = column
            if index:
                columns.setdefault(f"{name}[{','.join(axis[i] for axis, i in zip(ticks, index, strict=True))}]", column)
    missing = [label for label in target.labels if label not in columns]
    if missing:
        raise InputError(f"approximation has no draws of {said(missing)}; it has {said(columns)}")
    return target, Draws(np.column_stack([columns[label] for label in target.labels]))
