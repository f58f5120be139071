"""Compiled programs kept on disk between processes: JAX's own cache, switched on at a sensible place and kept to a size."""

import contextlib
import os
from pathlib import Path

import jax

from ...errors import InputError

ASKED = "TADDAA_CACHE"  # a folder, or 1 for the usual place
MEGABYTES = 500  # some thousand programs
_done: list[bool] = []  # whether the environment has been read


def cache(folder: str | os.PathLike | None = None, megabytes: float = MEGABYTES) -> Path:
    """Keep compiled programs on disk from now on: a later process that diagnoses the same model compiles nothing.

    It is JAX's compilation cache, for all that this process compiles. Programs that were used longest ago are removed, when it is switched
    on, until the rest takes at most `megabytes`. What is loaded from there is run, so the folder must be yours alone. To have it always,
    set TADDAA_CACHE=1, or to a folder, in the environment.

    Args:
        folder: where; in your own cache folder (XDG_CACHE_HOME, or ~/.cache) if None.
        megabytes: what it may grow to between two processes.
    """
    if isinstance(megabytes, bool) or not isinstance(megabytes, (int, float)) or not megabytes > 0:
        raise InputError(f"megabytes must be a positive number, got {megabytes!r}")
    place = _usual_place() if folder is None else Path(folder).expanduser()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"folder must be one that can be made and written to, got {str(place)!r} ({error.strerror}); name another"
        ) from error
    if not os.access(place, os.W_OK):
        raise InputError(f"folder must be one that can be written to, got {str(place)!r}; name another")
    _trim(place, megabytes * 1e6)
    jax.config.update("jax_compilation_cache_dir", str(place))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small programs add up
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()  # JAX looks only once, at its first program
    return place


def cache_if_asked() -> None:
    """Once in a process: as TADDAA_CACHE says, unless JAX has been given a cache already."""
    asked = os.environ.get(ASKED, "")
    if _done or asked in ("", "0"):
        return
    _done.append(True)
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        cache(None if asked == "1" else asked)


def _usual_place() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taddaa" / "programs"


def _trim(place: Path, size: float) -> None:
    """Files of other processes may come and go meanwhile."""
    found = []
    for path in place.iterdir():
        with contextlib.suppress(OSError):
            about = path.stat()
            found.append((max(about.st_atime, about.st_mtime), about.st_size, path))
    for _, bytes_, path in sorted(found, reverse=True):
        size -= bytes_
        if size < 0 and path.is_file():
            with contextlib.suppress(OSError):
                path.unlink()
