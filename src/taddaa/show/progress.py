"""Progress of a diagnosis: one line on a terminal or in a notebook, with an estimate of the time left. It imports nothing slow."""

import contextvars
import math
import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import InputError

if TYPE_CHECKING:
    from ..chains.walk import Progress

QUIET_SECONDS = 2.0  # shorter work needs no progress
REDRAW_SECONDS = 0.2
BAR = 12  # letters
NOTEBOOK_SECONDS = 0.5  # a notebook's display costs more


@contextmanager
def watched(progress: Any, planned: str = "") -> Iterator[Callable[["Progress"], None] | None]:
    """What a walk reports to: the user's own function; nothing (False); or, by itself, a line where somebody looks.

    That is a terminal, or a notebook; True insists on a line wherever standard error goes.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InputError(f"progress must be a function that takes a Progress, or True or False, got {progress!r}")
    if callable(progress):
        yield progress
    elif progress is False or (progress is None and threading.current_thread() is not threading.main_thread()):
        yield None
    elif (notebook := _notebook()) is not None:
        with NotebookLine(notebook, planned) as line_of:
            yield line_of
    elif progress is True or (sys.stderr is not None and sys.stderr.isatty()):
        with ProgressLine(sys.stderr, planned) as line_of:
            yield line_of
    else:
        yield None


class Drawn(ABC):
    """A context that shows how the work goes once it takes longer than two seconds; call it with a `Progress`.

    A thread draws, so that time is seen to pass while programs are compiled and nothing is reported.
    """

    def __init__(self, planned: str, patience: float, redraw: float):
        self._planned, self._patience, self._redraw = planned, patience, redraw
        self._latest: Progress | None = None
        self._pace, self._look = Pace(), ""
        self._stop = threading.Event()
        # In the caller's context: a notebook tells by it to which cell an output belongs.
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._draw_until_stopped,), daemon=True)

    @abstractmethod
    def _draw(self, look: str, told: str) -> None:
        """Show what the first look said (or nothing) and one line, in the place of what was shown before."""

    @abstractmethod
    def _clear(self) -> None:
        """Take away what was shown, if anything was."""

    def __call__(self, progress: "Progress") -> None:
        self._pace.note(progress, time.monotonic())
        self._latest = progress
        self._look = progress.look or self._look

    def __enter__(self) -> "Drawn":
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()
        self._clear()

    def _draw_until_stopped(self) -> None:
        wait = self._patience
        while not self._stop.wait(wait):
            wait = self._redraw
            now = time.monotonic()
            self._draw(self._look, line(self._latest, now - self._started, self._planned, self._pace.left(now)))


class ProgressLine(Drawn):
    """One line on a terminal; what the first look says stands above it."""

    def __init__(self, stream: TextIO, planned: str = "", patience: float = QUIET_SECONDS):
        super().__init__(planned, patience, REDRAW_SECONDS)
        self._stream, self._shown, self._look_shown = stream, False, False

    def _draw(self, look: str, told: str) -> None:
        width = shutil.get_terminal_size().columns
        if look and not self._look_shown:  # a line of its own above the one that is drawn again and again
            self._stream.write("\r\033[K" + look[: width - 1] + "\n")
            self._look_shown = True
        self._stream.write("\r\033[K" + told[: width - 1])
        self._stream.flush()
        self._shown = True

    def _clear(self) -> None:
        if self._shown:
            self._stream.write("\r\033[K" + "\033[1A\033[K" * self._look_shown)
            self._stream.flush()


class NotebookLine(Drawn):
    """The same in a notebook: one output that is replaced as the work goes on, and is empty at the end."""

    def __init__(self, display: Any, planned: str = "", patience: float = QUIET_SECONDS, redraw: float = NOTEBOOK_SECONDS):
        super().__init__(planned, patience, redraw)
        self._display, self._handle, self._text = display, None, ""

    def _draw(self, look: str, told: str) -> None:
        text = "\n".join(filter(None, (look, told)))
        if self._handle is None:
            self._handle = self._display({"text/plain": text}, raw=True, display_id=True)
        elif text != self._text:
            self._handle.update({"text/plain": text}, raw=True)
        self._text = text

    def _clear(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


class Pace:
    """How fast iterations go, from what was reported of the stage that is under way."""

    def __init__(self) -> None:
        self._stage, self._from, self._at = "", 0, 0.0
        self._latest, self._seen = 0, 0.0
        self._goal = 0

    def note(self, progress: "Progress", now: float) -> None:
        if progress.stage != self._stage:
            self._stage, self._from, self._at = progress.stage, progress.iteration, now
        self._latest, self._seen, self._goal = progress.iteration, now, progress.planned

    def left(self, now: float) -> float | None:
        """Seconds to the end of the stage; None before there is anything to tell it by."""
        done, took = self._latest - self._from, self._seen - self._at
        if done <= 0 or took <= 0:
            return None
        return max(took / done * (self._goal - self._latest) - (now - self._seen), 0.0)


def line(progress: "Progress | None", seconds: float, planned: str = "", left: float | None = None) -> str:
    """What is going on, in one line."""
    if progress is None or not progress.iteration:
        return f"{planned}{', ' * bool(planned)}compiling … {seconds:.0f} s"
    done = progress.iteration / max(progress.planned, 1)
    bar = "█" * round(BAR * done) + "░" * (BAR - round(BAR * done))
    ahead = "" if left is None else f", about {_duration(left)} left"
    done_of = f"{progress.stage} {bar} {progress.iteration}/{progress.planned}"
    if math.isnan(progress.acceptance):  # no chains move
        return f"{done_of} gradients, {_duration(seconds)}"
    return f"{done_of} iterations, {_duration(seconds)}{ahead}, {progress.acceptance:.0%} accepted, ρ² {progress.rho2:.2f}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _notebook() -> Any:
    """The function that shows things in a notebook's cell, if this is one."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None and hasattr(python, "get_ipython") else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from importlib import import_module

    return import_module("IPython.display").display
