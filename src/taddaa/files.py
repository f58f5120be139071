"""Files that are written whole or not at all, by one process of several."""

import os
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PARTIAL = ".taddaa-*.partial"  # hidden, short whatever the file's own name, and of no other program
FOLDER = "it is a folder; name a file in it"
_under_way: set[Path] = set()
STALE_SECONDS = 60  # after which an unlocked one was left by a writer that died


def write_whole(path: str | Path, text: str) -> None:
    """Write all or nothing: a reader, a full disk or Ctrl-C never leaves half a file. Links are followed, devices written to."""
    if not first_process():
        return
    path = real_path(path)
    with _clear_refusal(path):
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a device, which must not be replaced by a file
            path.write_text(text, encoding="utf-8")
            return
    with whole_file(path) as file:
        file.write(text.encode())


def first_process() -> bool:
    """Whether this process writes files: of several that run one script together, the first does. Does not load JAX."""
    jax = sys.modules.get("jax")
    return jax is None or not jax.distributed.is_initialized() or jax.process_index() == 0


def real_path(path: str | Path, name: str = "") -> Path:
    """Where the user's own links lead."""
    try:
        return Path(path).resolve()
    except (OSError, TypeError, ValueError, RuntimeError) as error:  # no path at all, a NUL in the name, or links in a ring
        raise InputError(f"{name or repr(str(path))} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def refuse_unwritable(path: Path, name: str = "") -> None:
    """Refuse an output path before minutes of work, not after. Pipes and devices are taken as they are."""
    path, name = real_path(path, name), name or str(path)
    with _clear_refusal(name):
        with suppress(FileNotFoundError):
            path.stat()  # is the name too long?
        if path.is_dir():
            raise InputError(f"{name} cannot be written: {FOLDER}")
        if not path.exists() or path.is_file():
            with tempfile.TemporaryFile(dir=path.parent):
                pass


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path`, with its mode, only when it is complete and on the disk."""
    with _clear_refusal(path):
        if path.is_dir():
            raise InputError(f"{path} cannot be written: {FOLDER}")
        _sweep(path.parent)
        # A random name that no other writer has, whatever its process id.
        partial = path.parent / PARTIAL.replace("*", secrets.token_hex(16))
        _under_way.add(partial)
        try:
            with _created(partial) as file:
                with suppress(FileNotFoundError):
                    partial.chmod(stat.S_IMODE(path.stat().st_mode))
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
            _under_way.discard(partial)
        _sync_folder(path.parent)


def abandon() -> None:
    """Remove what is half written: for a program that ends at once."""
    for partial in tuple(_under_way):
        with suppress(OSError):
            partial.unlink()


def _created(path: Path) -> BinaryIO:
    """A new, locked file; O_EXCL follows no link that somebody has put there."""
    file = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666), "wb")
    _lock(file)
    return file


def _lock(file: BinaryIO) -> bool:
    """The kernel frees the lock when its holder dies, in whichever container. False if another holds it."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: age alone must tell
            pass
    return True


def _sweep(folder: Path) -> None:
    """Remove what writers left that were killed."""
    for left in folder.glob(PARTIAL):
        with suppress(OSError):  # somebody else has removed it, or it is not ours
            if time.time() - left.lstat().st_mtime > STALE_SECONDS and stat.S_ISREG(left.lstat().st_mode):
                with left.open("rb") as file:
                    if _lock(file):
                        left.unlink()


def _sync_folder(folder: Path) -> None:
    """The new name, too, survives a loss of power."""
    with suppress(OSError):  # the file is in its place; some systems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _clear_refusal(name: str | Path) -> Iterator[None]:
    """The system's refusals as one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name} cannot be written: {error.strerror or error}") from error
