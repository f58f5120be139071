"""Where a target comes from: the framework and the data of a model that was not written for this package."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Origin:
    """What an adapter knows about the model behind a `Target`, for the report.

    Args:
        framework: its name and version.
        data: what the model is conditioned on, by name, shape and digest (see `described`).
        notes: what the report should say about how the model was read.
        derived: the names of what is computed from the parameters (deterministics), of which only small ones are judged by default.
    """

    framework: str = ""
    data: str = ""
    notes: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()


def described(arrays: Mapping[str, np.ndarray]) -> str:
    """Arrays in one line: `x (100, 3), y (100,); digest 1f3a9c20`. The same line means the same data."""
    if not arrays:
        return ""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.shape} {array.dtype} ".encode())
        digest.update(array.tobytes() if array.dtype.kind in "fiubc" else repr(array.tolist()).encode())
    names = list(arrays)
    said = ", ".join(f"{name} {arrays[name].shape}" for name in names[:20]) + f" and {len(names) - 20} more" * (len(names) > 20)
    return f"{said}; digest {digest.hexdigest()[:12]}"
