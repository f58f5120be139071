"""A user's Python file with `problem()` → the arguments of `diagnose`; and, when it fails, its own lines and nothing else."""

import importlib.util
import linecache
import sys
import traceback
from pathlib import Path
from typing import Any

from ..errors import InputError

MODULE = "taddaa_problem_file"
ARGUMENTS = ("target", "approximation", "functionals", "settings", "seed", "tolerance", "other_starts", "data", "var_names")
_FOLDERS: set[str] = set()  # of the files loaded here, so that the user's lines can be told from a library's


def load_problem(path: Path) -> dict[str, Any]:
    """Run the file, call its `problem()`, and return the arguments of `diagnose` by name."""
    module = _load(path)
    function = getattr(module, "problem", None)
    if not callable(function):
        raise InputError(f"{path} must define a function problem() that returns (target, approximation)")
    try:
        found = function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too, and whatever else would pass for an exit code
        raise _failed(f"problem() of {path} failed", error) from error
    return _arguments(path, found)


def user_lines(error: BaseException | None) -> str:
    """The frames of the error, or of what caused it, that lie beside the files loaded here; '' if there are none."""
    while error is not None:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
        if isinstance(error, SyntaxError) and _is_users(error.filename or ""):
            return "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)]).rstrip()
        if frames:
            return "".join(traceback.format_list(frames)).rstrip()
        error = error.__cause__
    return ""


def _is_users(filename: str) -> bool:
    path = Path(filename)
    return any(path.is_relative_to(folder) for folder in _FOLDERS) and not {"site-packages", "dist-packages", __package__} & set(path.parts)


def _load(path: Path):
    try:
        source = importlib.util.decode_source(path.read_bytes())  # as Python reads it: byte order mark, coding line
    except (OSError, ValueError, SyntaxError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise InputError(f"{path} cannot be read: {reason}") from error
    name = str(path.resolve())
    folder = str(path.resolve().parent)
    _FOLDERS.add(folder)
    linecache.checkcache(name)
    spec = importlib.util.spec_from_loader(MODULE, loader=None, origin=name)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    module.__file__ = name
    sys.modules[MODULE] = module  # dataclasses and pickle look a class's module up
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as python FILE.py does, so that it can import its neighbours
    try:
        exec(compile(source, name, "exec"), module.__dict__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _failed(f"{path} could not be run", error) from error
    return module


def _failed(what: str, error: BaseException) -> InputError:
    lines = str(error).strip().splitlines()
    return InputError(f"{what}: {type(error).__name__}{': ' + lines[0] if lines else ''}")


def _arguments(path: Path, found: Any) -> dict[str, Any]:
    if isinstance(found, tuple | list):
        if len(found) not in (2, 3):
            raise InputError(f"problem() of {path} must return (target, approximation) or with functionals, got {len(found)} values")
        found = dict(zip(ARGUMENTS, found, strict=False))
    if not isinstance(found, dict):
        raise InputError(f"problem() of {path} must return (target, approximation) or a dict, got {type(found).__name__}")
    unknown = [str(key) for key in found if key not in ARGUMENTS]
    if unknown:
        raise InputError(f"problem() of {path} returned a dict with {unknown[0]!r}, which is not one of {', '.join(ARGUMENTS)}")
    missing = [key for key in ARGUMENTS[:2] if key not in found]
    if missing:
        raise InputError(f"problem() of {path} returned a dict without {missing[0]!r}")
    return dict(found)
