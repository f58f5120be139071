"""Progress: where somebody looks, with the time that is left, and nowhere else."""

import io
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import jax.numpy as jnp
import pytest

import taddaa
from taddaa.chains.walk import Progress
from taddaa.show.progress import NotebookLine, Pace, ProgressLine, line, watched


def test_a_line_shows_what_it_is_told_and_cleans_up():
    stream = io.StringIO()
    with ProgressLine(stream, "387 chains × 80 iterations planned", patience=0.0) as progress:
        time.sleep(0.1)
        progress(Progress("opening", 20, 80, 0.4, 0.25))
        time.sleep(0.5)
    shown = stream.getvalue()
    assert "387 chains × 80 iterations planned, compiling" in shown
    assert "opening ███░░░░░░░░░ 20/80 iterations, " in shown
    assert shown.endswith("\r\033[K")


def test_the_first_look_stands_above_the_progress_line_and_goes_with_it():
    stream = io.StringIO()
    with ProgressLine(stream, patience=0.0) as progress:
        progress(Progress("first look", 0, 80, float("nan"), float("nan"), "First look: all seems well."))
        time.sleep(0.3)
        progress(Progress("opening", 20, 80, 0.4, 0.25))
        time.sleep(0.5)
    shown = stream.getvalue()
    assert shown.count("First look: all seems well.\n") == 1 and "nan" not in shown
    assert "20/80 iterations" in shown.partition("First look")[2]
    assert shown.endswith("\r\033[K\033[1A\033[K")


def test_short_work_shows_no_progress():
    stream = io.StringIO()
    with ProgressLine(stream) as progress:
        progress(Progress("opening", 20, 80, 0.4, 0.25))
    assert stream.getvalue() == ""


def test_the_time_left_follows_the_pace_of_the_round():
    pace = Pace()
    assert pace.left(0.0) is None
    pace.note(Progress("first round", 10, 110, 0.4, 0.2), 5.0)  # what compiling took is not counted
    assert pace.left(5.0) is None
    pace.note(Progress("first round", 60, 110, 0.4, 0.2), 15.0)  # 50 iterations in 10 s
    assert pace.left(15.0) == pytest.approx(10.0) and pace.left(19.0) == pytest.approx(6.0) and pace.left(99.0) == 0.0
    pace.note(Progress("running on, round 1", 120, 220, 0.4, 0.2), 30.0)
    assert pace.left(30.0) is None
    told = Progress("first round", 60, 110, 0.4, 0.2)
    assert line(told, 15.0, left=10.0).endswith("60/110 iterations, 15 s, about 10 s left, 40% accepted, ρ² 0.20")
    assert "2 min, about 3.0 h left" in line(told, 120.0, left=3 * 3600.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_by_itself_only_where_somebody_looks(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with watched(None) as found:
        assert found is None
    with watched(True) as found:
        assert isinstance(found, ProgressLine)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with watched(None) as found:
        assert isinstance(found, ProgressLine)
    with watched(False) as found:
        assert found is None
    with watched(print) as found:
        assert found is print
    seen = []
    thread = threading.Thread(target=lambda: seen.append(watched(None).__enter__()))
    thread.start()
    thread.join()
    assert seen == [None]


@pytest.mark.parametrize("wrong", [3, "yes", object()])
def test_what_is_no_progress_is_refused(wrong):
    with pytest.raises(taddaa.InputError, match="progress must be a function that takes a Progress, or True or False"):
        taddaa.diagnose(lambda x: -0.5 * jnp.sum(x**2), taddaa.Gaussian([0.0], [1.0]), progress=wrong)


def test_a_notebook_gets_one_output_that_is_replaced_and_emptied(monkeypatch):
    shown = []

    def display(content, raw, display_id):
        assert raw and display_id
        shown.append(content["text/plain"])
        return SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))

    fake = ModuleType("IPython")
    fake.get_ipython = type("ZMQInteractiveShell", (), {})
    fake.display = ModuleType("IPython.display")
    fake.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake.display)
    with watched(None) as found:
        assert isinstance(found, NotebookLine)
    assert not shown  # it was over before two seconds had passed
    with NotebookLine(display, "387 chains", patience=0.0, redraw=0.05) as progress:
        time.sleep(0.3)  # programs are compiled, and nothing is reported
        progress(Progress("first round", 10, 20, 0.4, 0.2))
        time.sleep(0.3)
        progress(Progress("first round", 20, 20, 0.4, 0.2))
        time.sleep(0.3)
    assert shown[0] == "387 chains, compiling … 0 s" and shown[-1] == ""
    assert any("10/20" in text for text in shown) and "20/20" in shown[-2]
    assert len(shown) == 1 + len(set(shown[1:]))  # drawn again only where it says something new
    fake.get_ipython = type("TerminalInteractiveShell", (), {})
    with watched(None) as found:
        assert found is None


def test_progress_costs_next_to_nothing():
    """Five lines a second, each in well under 2 ms, are under 1 % of a run; the callback itself is an assignment."""
    told = Progress("opening", 20, 80, 0.4, 0.25)
    started = time.process_time()
    for _ in range(1000):
        line(told, 1.0)
    assert (time.process_time() - started) / 1000 < 2e-3
