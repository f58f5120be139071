"""Two processes make one diagnosis together: the report of one; clear words when they disagree, or when one dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_placement import assert_same

import processes
from devices import X, Y

TESTS = Path(__file__).parents[2]


def run_two(folder: Path, scene: str, timeout: float = 300) -> list[tuple[int, str, str]]:
    """Exit code, standard output and error of each; none is left behind."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "XLA_FLAGS": ""}
    command = [sys.executable, str(TESTS / "processes.py")]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    children = [subprocess.Popen([*command, str(i), port, str(folder), scene], env=environment, **streams) for i in range(2)]
    until = time.monotonic() + timeout
    try:
        told = [child.communicate(timeout=max(until - time.monotonic(), 1)) for child in children]
    finally:
        for child in children:
            child.kill()
    return [(child.returncode, *words) for child, words in zip(children, told, strict=True)]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    ended = run_two(folder, "together")
    for code, _, errors in ended:
        assert code == 0, errors[-3000:]
    return folder, ended


def load(path: Path):
    return json.loads(path.read_text())


FORK = """
import os, signal
import jax.numpy as jnp
from taddaa import Gaussian, InputError, Settings, diagnose

def run():
    return diagnose(lambda x: -jnp.sum(x**2) / 2, Gaussian([0.0, 0.0], [1.0, 1.0]), settings=Settings(chains=200, iterations=20, budget=1))

def in_child(name):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, name
        return
    signal.alarm(60)
    try:
        run()
        print(name, "done", flush=True)
    except InputError as error:
        print(name, error, flush=True)
    os._exit(0)

in_child("before")
jnp.zeros(3) + 1
in_child("after")
run()
"""


def test_a_fork_after_use_says_so_and_does_not_hang():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.splitlines()
    assert before == "before done"
    assert after.startswith("after this process was forked from one that had used JAX")


def test_two_processes_give_the_report_of_one(together):
    folder, _ = together
    one = json.loads(processes.whole().to_json())
    assert one["cost"]["iterations"] == 16
    for process in (0, 1):
        assert_same(one, load(folder / f"report{process}.json"))
        assert_same(one, load(folder / f"resumed{process}.json"))


def test_random_numbers_of_accelerators_are_the_same_in_all_processes(together):
    folder, _ = together
    one = json.loads(processes.with_the_noise_of_accelerators().to_json())
    for process in (0, 1):
        assert_same(one, load(folder / f"noise{process}.json"))


def test_data_that_no_process_holds_in_full(together):
    folder, _ = together
    one = json.loads(processes.regression({"x": X, "y": Y}).to_json())
    for process in (0, 1):
        assert_same(one, load(folder / f"regression{process}.json"))


def test_the_first_process_writes_and_prints(together):
    folder, ended = together
    assert load(folder / "report.json")["rows"] == load(folder / "report0.json")["rows"]
    assert (folder / "cli0.json").exists()
    assert not (folder / "cli1.json").exists()
    assert load(folder / "code0.json") == load(folder / "code1.json")
    assert "parameter" in ended[0][1]
    assert "parameter" not in ended[1][1]
    assert not list(folder.glob(".*partial"))


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("seed", "seed"),
        ("settings", "settings"),
        ("data", "data"),
        ("logdensity", "logdensity"),
        ("names", "the names of target"),
        ("approximation", "approximation"),
        ("draws", "approximation"),
        ("other_starts", "other_starts"),
        ("functionals", "functionals"),
        ("checkpoint", "the file of checkpoint"),
    ],
)
def test_disagreement_is_refused_by_all(what, named, together):
    folder, _ = together
    for process in (0, 1):
        told = load(folder / f"refused{process}.json")[what]
        assert told.startswith(f"{named} must be the same in all 2 processes, but process 1 has another than process 0"), told
        assert "\n" not in told


@pytest.mark.slow
def test_when_a_process_dies_the_other_says_so(tmp_path):
    started = time.monotonic()
    (code, _, errors), (killed, _, _) = run_two(tmp_path, "1")
    assert killed == -signal.SIGKILL
    assert code not in (0, -signal.SIGKILL)
    assert "LostProcess: process 0 of 2 lost contact with another, which has died or failed" in errors
    sentence, seconds = load(tmp_path / "lost.json")
    assert "with checkpoint= they go on where they were" in sentence
    assert seconds < 60
    assert time.monotonic() - started < 200
    # What both had saved, one alone brings to its end.
    blocks = []
    resumed = processes.whole(checkpoint=tmp_path / "run.ckpt", progress=blocks.append)
    assert blocks[0].iteration > 4
    assert_same(json.loads(processes.whole().to_json()), json.loads(resumed.to_json()))


@pytest.mark.slow
def test_when_the_first_process_dies_the_other_ends_too(tmp_path):
    """It holds JAX's coordination service, so that JAX itself may end the other before our own error is raised."""
    (killed, _, _), (code, _, errors) = run_two(tmp_path, "0")
    assert killed == -signal.SIGKILL
    assert code not in (0, -signal.SIGKILL)
    assert "lost contact with another" in errors or "another task died" in errors
