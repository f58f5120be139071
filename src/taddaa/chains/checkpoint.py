"""A long diagnosis on disk, so that a killed one goes on where it was last saved.

The file is a zip of .npy arrays, one JSON header and a digest of both (NumPy's own .npz, no pickle), replaced whole or not at all.
Functions cannot be stored, so the call that resumes gives them again; what they return at the starts tells whether they are the same.
"""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import first_process, real_path, refuse_unwritable, whole_file
from ..moves.bend import Bend
from ..moves.kernel import Point
from ..moves.metric import Bent, Dense, Diagonal, DiagonalLowRank, places_of
from .machine.engine import Trace
from .machine.program import Chains
from .walk import Snapshot, Walk, Waypoint

FORMAT, FORMAT_VERSION = "taddaa-checkpoint", 9
KINDS = {kind.__name__: kind for kind in (Chains, Point, Trace, Snapshot, Waypoint, Dense, Diagonal, DiagonalLowRank, Bend, Bent)}
# All of a walk that changes on the way; the rest is made anew from the same inputs.
WALKED = (
    "metric",
    "iteration",
    "proposals",
    "proposals_before",
    "rounds",
    "under_way",
    "exploring",
    "longer",
    "traces",
    "snapshots",
    "path",
    "noted",
)
START_AGAIN = "or delete it to start again"


class Checkpoint:
    """One file for the arms of one diagnosis. Without a path nothing is saved and nothing is found."""

    def __init__(self, path: str | os.PathLike | None):
        self.path = None if path is None else _checked(path)
        self._arms: list[dict[str, Any]] = [] if self.path is None or not self.path.exists() else _read(self.path)

    def resume(self, walk: Walk, arm: int, identity: dict[str, Any]) -> bool:
        """Bring a walk that stands at its starts to where it was saved; False if it was not."""
        if arm >= len(self._arms):
            return False
        with _clear_damage(self.path):
            self._take_over(walk, self._arms[arm], identity)
        return True

    def _take_over(self, walk: Walk, saved: dict[str, Any], identity: dict[str, Any]) -> None:
        difference = _difference(saved["identity"], identity, walk.engine.dtype)
        if difference:
            raise InputError(
                f"checkpoint={self.path} belongs to another diagnosis: {difference}; "
                f"give the same inputs as before, name another file, {START_AGAIN}"
            )
        _refuse_misfit(saved, walk)
        walk.plan = replace(walk.plan, early=saved["walk"]["early"])  # with which its rounds are counted
        started = saved["walk"]["rounds"] - (not saved["walk"]["under_way"])
        furthest = walk.plan.goal(max(started, 0))
        if furthest > max(walk.plan.most_iterations, walk.plan.iterations):
            raise InputError(
                f"checkpoint={self.path} holds a run towards {furthest} iterations, more than the {walk.plan.most_iterations} that "
                f"budget allows now; raise budget to at least {furthest / walk.plan.iterations:g}, {START_AGAIN}"
            )
        for name in WALKED:
            setattr(walk, name, saved["walk"][name])
        walk.use_kernel()
        walk.chains = walk.engine.placed(saved["walk"]["chains"])
        walk.engine.noise_state = saved["noise"]
        walk.engine.meter.resume(**saved["meter"])

    def save(self, walk: Walk, arm: int, identity: dict[str, Any]) -> None:
        """All arms so far, this one as it stands now."""
        if self.path is None:
            return
        walked = {**{name: getattr(walk, name) for name in WALKED}, "early": walk.plan.early}
        record = {
            "identity": identity,
            "walk": {**walked, "chains": walk.engine.fetched(walk.chains)},
            "noise": walk.engine.noise_state,
            "meter": walk.engine.meter.so_far(),
        }
        self._arms = [*self._arms[:arm], record]
        if first_process():
            _write(self.path, self._arms)

    @property
    def content(self) -> str:
        """What processes that resume together must have in common."""
        if self.path is None:
            return "none"
        if not self.path.exists():
            return "new"
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _checked(path: Any) -> Path:
    """The path, tried before hours of work."""
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise InputError(f"checkpoint must be the path of a file, got {type(path).__name__}: {path!r}")
    path = real_path(Path(path), f"checkpoint={path!s}")
    refuse_unwritable(path, f"checkpoint={path}")
    return path


# Is it the same diagnosis? ------------------------------------------------------------------------------------------------


def _difference(saved: dict[str, Any], now: dict[str, Any], dtype: Any) -> str:
    """In words, the first thing that is not the same; '' if all is. Numbers may differ by rounding, as on other devices."""
    for name, ours in now.items():
        theirs = saved.get(name)
        if isinstance(ours, dict):
            inside = _difference(theirs if isinstance(theirs, dict) else {}, ours, dtype)
            if inside:
                return inside
        elif not isinstance(ours, np.ndarray):
            if ours != theirs:
                return f"the {name} was {_short(theirs)} and is {_short(ours)}"
        elif not isinstance(theirs, np.ndarray) or theirs.shape != ours.shape:
            return f"the {name} had another shape than {ours.shape}"
        else:
            tolerance = np.sqrt(np.finfo(dtype).eps)
            close = np.isclose(theirs, ours, rtol=tolerance, atol=tolerance * _size(ours), equal_nan=True)
            rows = ~np.reshape(close, (len(ours), -1)).all(axis=1)
            if rows.any():
                return f"the {name} differ in {rows.sum()} of {rows.size} rows"
    return ""


def _size(values: np.ndarray) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(np.median(finite)) if finite.size else 0.0


def _short(value: Any) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", str(value)) or "none"
    return text if len(text) <= 60 else text[:57] + "…"


# The file -----------------------------------------------------------------------------------------------------------------


def _write(path: Path, arms: Sequence[dict[str, Any]]) -> None:
    arrays: dict[int, tuple[str, np.ndarray]] = {}
    header = {"format": FORMAT, "version": FORMAT_VERSION, "arms": _encoded(list(arms), arrays)}
    with whole_file(path) as file:
        text, named = np.frombuffer(json.dumps(header).encode(), np.uint8), {name: np.asarray(array) for name, array in arrays.values()}
        np.savez(file, header=text, digest=_digest(text, named), **named)  # type: ignore[arg-type]


def _digest(header: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Of all that is stored, so that no part of it can change unnoticed."""
    found = hashlib.sha256(header.tobytes())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {arrays[name].shape} ".encode())
        found.update(array.data if array.size else b"")
    return np.frombuffer(found.digest(), np.uint8)


def _read(path: Path) -> list[dict[str, Any]]:
    if path.stat().st_size == 0:
        raise InputError(f"checkpoint={path} is an empty file; name another, {START_AGAIN}")
    with _clear_damage(path), zipfile.ZipFile(path) as archive:
        if "header.npy" not in archive.namelist():
            raise InputError(f"checkpoint={path} is not a checkpoint of taddaa; name another file")
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        text = arrays.pop("header")
        header = json.loads(text.tobytes())
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise InputError(f"checkpoint={path} is not a checkpoint of taddaa; name another file")
        if header["version"] != FORMAT_VERSION:
            raise InputError(
                f"checkpoint={path} has format version {str(header['version'])[:20]}, and this taddaa reads {FORMAT_VERSION}; "
                f"finish it with the version that wrote it, {START_AGAIN}"
            )
        if not np.array_equal(arrays.pop("digest"), _digest(text, arrays)):
            raise ValueError("its content has changed since it was written")
        arms = _decoded(header["arms"], arrays)
        if not isinstance(arms, list):
            raise ValueError("it holds no arms")
        return arms


@contextmanager
def _clear_damage(path: Path | None) -> Iterator[None]:
    """Whatever a damaged file makes NumPy, zip, JSON or ourselves stumble over becomes one sentence."""
    try:
        yield
    except InputError:
        raise
    except zipfile.BadZipFile as error:
        raise InputError(f"checkpoint={path} is not a checkpoint, or a truncated one; name another file, {START_AGAIN}") from error
    except Exception as error:
        what = str(error) if type(error) is ValueError and len(str(error)) < 80 else type(error).__name__
        raise InputError(f"checkpoint={path} is damaged ({what}); name another file, {START_AGAIN}") from error


def _refuse_misfit(saved: dict[str, Any], walk: Walk) -> None:
    """Is all there, of the kinds and shapes that this walk has at its starts?"""
    walked, chains = saved["walk"], walk.engine.fetched(walk.chains)
    rows = len(saved["identity"]["functionals of the approximation"])
    per_row, per_quantity = np.zeros(rows), np.zeros(walk.origin.quantities.shape[1])
    _refuse_unlike(walked["chains"], chains, "chains")
    _refuse_unlike(saved["noise"], walk.engine.noise_state, "noise")
    _refuse_unlike(saved["meter"], walk.engine.meter.so_far(), "meter")
    whole, yes_no = ("iteration", "proposals", "proposals_before", "rounds", "early"), ("under_way", "exploring", "longer")
    _refuse_unlike([walked[name] for name in whole + yes_no], [0] * len(whole) + [False] * len(yes_no), "iteration")
    _refuse_unlike(walked["snapshots"], [walk.origin] * max(len(walked["snapshots"]), 1), "snapshots")
    _refuse_unlike(walked["path"], [Waypoint(0, per_row, per_row, per_quantity)] * len(walked["path"]), "path")
    for trace in walked["traces"]:
        _refuse_unlike(trace, Trace(*[np.zeros(len(trace.rho2))] * len(Trace._fields)), "traces")
    if sum(len(trace.rho2) for trace in walked["traces"]) != walked["iteration"]:
        raise ValueError("its traces are not as long as its way")
    if np.shape(walked["metric"].push(places_of(walked["metric"], walk.starts[:1]))) != walk.starts[:1].shape:
        raise ValueError("its metric does not fit")
    if not all(isinstance(value, float) for value in walked["noted"].values()):
        raise ValueError("what its checks noted are no numbers")
    if not np.isfinite(walked["chains"].point.position).all():
        raise ValueError("its chains are nowhere")


def _refuse_unlike(found: Any, pattern: Any, name: str) -> None:
    """The same kind, shape and parts; numbers may be others."""
    if isinstance(pattern, np.ndarray):
        if not isinstance(found, np.ndarray) or found.shape != pattern.shape or found.dtype.kind != pattern.dtype.kind:
            raise ValueError(f"its {name} have another shape or kind")
        return
    number = isinstance(pattern, (int, float)) and not isinstance(pattern, bool)
    alike = isinstance(found, (int, float)) and not isinstance(found, bool) and found >= 0 if number else type(found) is type(pattern)
    if not alike or (isinstance(pattern, (dict, list, tuple)) and len(found) != len(pattern)):
        raise ValueError(f"its {name} are of another kind")
    if isinstance(pattern, dict):
        for key, part in pattern.items():
            _refuse_unlike(found[key], part, name)
    elif isinstance(pattern, (list, tuple)):
        for each, part in zip(found, pattern, strict=True):
            _refuse_unlike(each, part, name)


def _encoded(value: Any, arrays: dict[int, tuple[str, np.ndarray]]) -> Any:
    """As JSON, with arrays put aside; one that occurs twice is put aside once."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        if type(value).__name__ not in KINDS:
            raise InputError(f"checkpoint cannot store a {type(value).__name__}; use one of taddaa's own preconditioners, or no checkpoint")
        return {"kind": type(value).__name__, "parts": [_encoded(part, arrays) for part in value]}
    if isinstance(value, dict):
        return {"kind": "dict", "keys": list(value), "parts": [_encoded(part, arrays) for part in value.values()]}
    if isinstance(value, (list, tuple)):
        return [_encoded(part, arrays) for part in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    name, _ = arrays.setdefault(id(value), (f"a{len(arrays)}", value))
    return {"kind": "array", "name": name}


def _decoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decoded(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if value["kind"] == "array":
        return arrays[value["name"]]
    parts = [_decoded(part, arrays) for part in value["parts"]]
    return dict(zip(value["keys"], parts, strict=True)) if value["kind"] == "dict" else KINDS[value["kind"]](*parts)
