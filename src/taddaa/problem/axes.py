"""What the axes of the user's arrays are called, and the places along them: dims and coords, as PyMC and ArviZ know them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import InputError


@dataclass(frozen=True)
class Variable:
    """An array of the user's, and the name of each of its axes."""

    name: str
    dims: tuple[str, ...]


@dataclass(frozen=True)
class Coordinate:
    """The labels along an axis."""

    dim: str
    ticks: tuple[str | float, ...]


@dataclass(frozen=True)
class Axes:
    """All named axes of a target."""

    variables: tuple[Variable, ...] = ()
    coordinates: tuple[Coordinate, ...] = ()

    def ticks(self, name: str) -> list[tuple[str | float, ...]] | None:
        """The labels along each axis of an array, if they are known."""
        found = next((variable for variable in self.variables if variable.name == name), None)
        places = {coordinate.dim: coordinate.ticks for coordinate in self.coordinates}
        return None if found is None else [places[dim] for dim in found.dims]


def axes_of(shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, Sequence[str | None]], coords: Mapping[str, Any]) -> Axes:
    """The named axes of arrays of these shapes. Axes without a name get ArviZ's, `theta_dim_0`; places without labels are counted."""
    variables, places = [], {dim: _labels(dim, ticks) for dim, ticks in coords.items()}
    for name, shape in shapes.items():
        given = list(dims.get(name) or ())
        if not shape or not given:
            continue
        if len(given) != len(shape):
            raise InputError(f"dims must name each axis of {name!r}, whose shape is {shape}, got {given}")
        # A dimension may not have the name of a variable, and has one length.
        own = tuple(dim if dim is not None and dim not in shapes else f"{name}_dim_{axis}" for axis, dim in enumerate(given))
        for dim, size in zip(own, shape, strict=True):
            if len(places.setdefault(dim, tuple(range(size)))) != size:
                raise InputError(f"coords has {len(places[dim])} labels of {dim!r}, but {name!r} has {size} places along it")
        variables.append(Variable(name, own))
    used = {dim for variable in variables for dim in variable.dims}
    return Axes(tuple(variables), tuple(Coordinate(dim, ticks) for dim, ticks in places.items() if dim in used))


def _labels(dim: str, ticks) -> tuple[str | float, ...]:
    """As they can be stored; counted instead where they do not tell the places apart."""
    try:
        plain = tuple(_plain(tick) for tick in np.asarray(ticks).tolist())
    except TypeError as error:
        raise InputError(f"coords must hold a list of labels of {dim!r}, got {type(ticks).__name__}") from error
    return plain if len({*map(str, plain)}) == len(plain) else tuple(range(len(plain)))


def _plain(tick: Any) -> str | float:
    if isinstance(tick, Integral):
        return int(tick)
    return float(tick) if isinstance(tick, Real) and np.isfinite(float(tick)) else str(tick)
