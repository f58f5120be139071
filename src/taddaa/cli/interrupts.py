"""Ctrl-C and SIGTERM end a command at any moment: one line, no half-written file, exit code 128 + the signal's number.

As an exception an interrupt can be lost in an import or in a callback of JAX's, it waits for compiled code to return, and unwinding
under JAX's running threads can crash. So a thread of its own ends the process. It imports nothing slow: an interrupt may come early.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 128 + signal.SIGINT
NOTHING_WRITTEN = "nothing was written"
_ending = threading.Lock()
_left_behind = [NOTHING_WRITTEN]  # what an interrupt leaves, the innermost last


@contextmanager
def interrupts_end_it() -> Iterator[None]:
    """While open, interrupts end the process. Those that the caller ignores or handles are left to it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Where a job runs in the background, SIGINT is ignored.
    ours = [number for number in SIGNALS if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL)]
    waiting, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, _end) for number in ours}
    watcher = threading.Thread(target=_end_when_told, args=(waiting, frozenset(ours)), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(told)
        watcher.join()
        os.close(waiting)


@contextmanager
def interrupts_leave(what: str) -> Iterator[None]:
    """While open, this is what an interrupted user is told."""
    _left_behind.append(what)
    try:
        yield
    finally:
        _left_behind.pop()


def told_on_interrupt() -> str:
    return f"\ntaddaa: interrupted; {_left_behind[-1]}"


def _end_when_told(waiting: int, ours: frozenset[int]) -> None:
    while number := os.read(waiting, 1):
        if number[0] in ours:
            _end(number[0])


def _end(number: int, *_) -> None:
    if not _ending.acquire(blocking=False):  # by the main thread or by the watching one, whichever is free
        return
    files = sys.modules.get("taddaa.files")
    if files is not None:
        files.abandon()
    with suppress(OSError):
        os.write(2, f"{told_on_interrupt()}\n".encode())
    os._exit(128 + number)
