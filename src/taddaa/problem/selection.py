"""Which parameters are meant: by name, as in ArviZ (`["b", "~mu"]`); by default those that are not merely computed in bulk."""

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from ..errors import InputError
from .target import Target

SMALL = 20  # values of a derived quantity that is judged without being asked for


def as_names(names) -> tuple[str, ...]:
    """One name or a list of them, checked."""
    found = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, (list, tuple)) else ()
    if not found or not all(isinstance(name, str) and name.strip("~") for name in found):
        raise InputError(f'var_names must be names of parameters such as "b", "b[0]" or ["b", "~mu"], got {names!r}')
    return found


def chosen(labels: Sequence[str], names: tuple[str, ...]) -> np.ndarray:
    """The positions of the labels that are meant.

    A name is an array's (`b`), an element's (`b[x1]`) or, with ~ in front, one to leave out; if all have it, all others are meant.
    """
    wanted, unwanted = [name for name in names if not name.startswith("~")], [name[1:] for name in names if name.startswith("~")]
    inside = np.ones(len(labels), bool) if not wanted else np.any([_called(labels, name) for name in wanted], axis=0)
    for name in unwanted:
        inside &= ~_called(labels, name)
    if not inside.any():
        raise InputError(f"var_names {list(names)!r} leaves nothing to judge")
    return np.flatnonzero(inside)


def _called(labels: Sequence[str], name: str) -> np.ndarray:
    found = np.array([label == name or label.startswith((f"{name}[", f"{name}.")) for label in labels])
    if not found.any():
        arrays = dict.fromkeys([*labels, *(label.partition("[")[0] for label in labels)])
        close = get_close_matches(name, arrays, n=1)
        known = list(dict.fromkeys(label.partition("[")[0] for label in labels))
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known[:8])}{', …' * (len(known) > 8)}"
        raise InputError(f"var_names has {name!r}, which is not one of the parameters; {hint}")
    return found


def by_default(target: Target) -> tuple[np.ndarray, str]:
    """The positions of the labels that are judged without being named, and a note on what is left out."""
    derived = () if target.origin is None else target.origin.derived
    inside, left_out, first = np.ones(len(target.labels), bool), [], 0
    for name, shape in target.shapes:
        size = int(np.prod(shape))
        if name in derived and size > SMALL:
            inside[first : first + size] = False
            left_out.append((name, size))
        first += size
    if not left_out or not inside.any():
        return np.arange(len(target.labels)), ""
    said = ", ".join(f"{name} ({size} values)" for name, size in left_out[:6]) + f" and {len(left_out) - 6} more" * (len(left_out) > 6)
    return np.flatnonzero(
        inside
    ), f"computed from the parameters and not judged by default: {said}; var_names=[{left_out[0][0]!r}] judges them"
