"""A killed diagnosis goes on to the identical report; damaged and foreign checkpoints are refused."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa.chains.checkpoint
import taddaa.chains.machine.engine
import taddaa.study
from known import gaussian_logdensity, paper_gaussian
from taddaa import Gaussian, Identity, InputError, Mean, Quantile, Settings, Target, cli, diagnose
from taddaa.cli import output
from taddaa.moves.metric import Bent
from taddaa.moves.precondition import Found

TESTS = Path(__file__).parents[1]
_, PRECISION, SD = paper_gaussian(4)
TARGET = Target(gaussian_logdensity, dim=4, data=PRECISION)
APPROXIMATION = Gaussian(np.zeros(4), 0.3 * SD)
# Badly preconditioned, so that it runs through all its rounds: ten saves for each arm.
SLOW = Settings(chains=60, iterations=16, budget=4, preconditioner="identity", kernel="rwmh")


def run(path=None, settings=SLOW, target=TARGET, approximation=APPROXIMATION, **more):
    return diagnose(target, approximation, settings=settings, checkpoint=path, **{"other_starts": "inflated", **more})


def content(report) -> dict:
    """All that a report says, except how long it took and when."""
    kept = json.loads(report.to_json())
    cost = kept.pop("cost")
    kept["provenance"].pop("date")
    return {**kept, "gradients": cost["gradients"], "iterations": cost["iterations"]}


class Killed(BaseException):
    pass


def run_killed_at(save: int, path, monkeypatch, **more) -> bool:
    """A run that ends right after its nth save; False if there are fewer."""
    with monkeypatch.context() as patch:
        write, saves = taddaa.chains.checkpoint._write, []

        def counted(*arguments):
            write(*arguments)
            saves.append(1)
            if len(saves) == save:
                raise Killed

        patch.setattr(taddaa.chains.checkpoint, "_write", counted)
        try:
            run(path, **more)
        except Killed:
            return True
    return False


@pytest.fixture(scope="module")
def whole():
    report = run()
    assert report.cost.iterations == 64
    return content(report)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A checkpoint in the middle of the second round."""
    assert run_killed_at(7, tmp_path / "run.ckpt", monkeypatch)
    return tmp_path / "run.ckpt"


# Going on ---------------------------------------------------------------------------------------------------------------


# Each of two arms is saved after its opening and after every quarter of its three rounds.
@pytest.mark.parametrize("save", [1, 2, 5, 7, 13, 14, 20, 26])
def test_a_run_goes_on_to_the_identical_report(save, tmp_path, monkeypatch, whole):
    path = tmp_path / "run.ckpt"
    assert run_killed_at(save, path, monkeypatch)
    assert content(run(path)) == whole
    assert list(tmp_path.iterdir()) == [path]
    assert not run_killed_at(1, path, monkeypatch)  # finished: nothing is left to save


def test_longer_trajectories_stay_so(tmp_path, monkeypatch):
    """Killed in a round whose trajectories have twice as many steps, because acceptance had kept them short."""
    monkeypatch.setattr(taddaa.study, "worth_running_on", lambda *_: True)
    target = Target(lambda x: jnp.sum(-0.5 * x**2 + 0.5 * jnp.cos(6 * x)), 20)
    given = {
        "target": target,
        "approximation": Gaussian(np.zeros(20), np.ones(20)),
        "settings": Settings(chains=60, iterations=100, budget=4),
        "other_starts": None,
    }
    whole = run(**given)
    assert whole.continuation.walk.longer
    assert run_killed_at(11, tmp_path / "run.ckpt", monkeypatch, **given)  # an opening and two rounds have nine saves
    assert content(run(tmp_path / "run.ckpt", **given)) == content(whole)


def run_and_die_while_writing(path):
    """The third save is cut off when its file is half written."""
    saves = []

    def cut_off(file):
        if not stat.S_ISREG(os.fstat(file).st_mode):  # folders are synced too
            return
        saves.append(os.fstat(file).st_size)
        if len(saves) == 3:
            os.truncate(file, saves[-1] // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = cut_off
    run(path)


def test_kill_9_while_writing(tmp_path):
    path = tmp_path / "run.ckpt"
    script = "import sys, test_checkpoint as t; t.run_and_die_while_writing(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    child = subprocess.run([sys.executable, "-c", script, str(path)], env=environment, capture_output=True, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    assert len(list(tmp_path.iterdir())) == 2  # the second save, and half of the third
    assert content(run(path)) == content(run())


def test_kill_9(tmp_path):
    """A real process, really killed while it walks; this one takes over."""
    path = tmp_path / "run.ckpt"
    script = "import sys, time, test_checkpoint as t; t.run(sys.argv[1], progress=lambda _: time.sleep(0.2))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    child = subprocess.Popen([sys.executable, "-c", script, str(path)], env=environment, stderr=subprocess.PIPE)
    waited = time.monotonic()
    while not path.exists() and child.poll() is None and time.monotonic() - waited < 120:
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(signal.SIGKILL)
    _, told = child.communicate()
    assert child.returncode == -signal.SIGKILL, told.decode()
    before = path.read_bytes()
    resumed = run(path)
    assert path.read_bytes() != before
    assert content(resumed) == content(run())


def test_a_run_in_straightened_coordinates_goes_on(tmp_path):
    """To the report of a run that was never interrupted."""
    funnel = lambda x: -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0]  # noqa: E731
    fit = Gaussian(np.zeros(5), np.r_[1.0, np.full(4, np.exp(0.25))])
    run = lambda budget, **saved: diagnose(Target(funnel, 5), fit, settings=Settings(budget=budget), **saved)  # noqa: E731
    first = run(1, checkpoint=tmp_path / "run")
    assert isinstance(first.continuation.walk.metric, Bent)
    again = run(2, checkpoint=tmp_path / "run")
    assert again.cost.iterations > first.cost.iterations
    assert [row.moved for row in again.rows] == [row.moved for row in run(2).rows]


def test_a_finished_run_is_not_run_again(tmp_path, whole, monkeypatch):
    path = tmp_path / "run.ckpt"
    first = run(path)
    blocks = []
    again = run(path, progress=blocks.append)
    assert content(first) == content(again) == whole
    assert not blocks
    assert again.cost.seconds_running > first.cost.seconds_running  # what both processes took


def test_a_larger_budget_goes_on_and_a_smaller_one_is_refused(tmp_path, whole):
    path = tmp_path / "run.ckpt"
    short = run(path, replace(SLOW, budget=2))
    assert short.cost.iterations == 32
    longer = content(run(path))
    assert longer.pop("provenance") == whole["provenance"]
    assert longer == {key: value for key, value in whole.items() if key != "provenance"}
    with pytest.raises(
        InputError, match=r"a run towards 64 iterations, more than the 16 that budget allows now; raise budget to at least 4"
    ):
        run(path, replace(SLOW, budget=1))


def test_another_budget_is_the_same_diagnosis_where_draws_stand_for_q_too(tmp_path):
    """What is asked of q is known by an interval whose level depends on the budget; it is not what tells diagnoses apart."""
    asked = [Quantile(p, of=lambda x: jnp.exp(x[0]) + x[1], name=f"at {p}") for p in (0.05, 0.5, 0.9)]
    target, q = Target(lambda x: -0.5 * jnp.sum(x**2), 2), Gaussian([0.0, 0.0], [1.0, 1.0])
    for budget in (1, 2, 16):
        settings = Settings(chains=20, iterations=16, budget=budget)
        diagnose(target, q, asked, settings, checkpoint=tmp_path / "run.ckpt")


def test_a_full_disk_leaves_the_last_save(saved, monkeypatch, whole):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"run\.ckpt cannot be written: No space left on device"):
            run(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
    assert content(run(saved)) == whole


def test_the_command_line(tmp_path, capsys):
    file, path = tmp_path / "model.py", tmp_path / "run.ckpt"
    file.write_text("import test_checkpoint as t\ndef problem():\n    return t.TARGET, t.APPROXIMATION\n")
    command = ["run", str(file), "--quiet", "--chains", "60", "--iterations", "16", "--checkpoint", str(path)]
    assert cli.main(command) == cli.main(command)
    assert path.exists()
    assert cli.main([*command, "--seed", "1"]) == output.WRONG_USE
    assert "belongs to another diagnosis: the seed was 0 and is 1" in capsys.readouterr().err


def test_the_random_numbers_of_accelerators_go_on_too(tmp_path, monkeypatch):
    monkeypatch.setattr(taddaa.chains.machine.engine, "HostNoise", taddaa.chains.machine.engine.DeviceNoise)
    path = tmp_path / "run.ckpt"
    assert run_killed_at(7, path, monkeypatch)
    assert content(run(path)) == content(run())


# What is refused ----------------------------------------------------------------------------------------------------------


def shifted(x, precision):
    return gaussian_logdensity(x - 0.01, precision)


def total(x):
    return x.sum()


def other_total(x):
    return 2 * x.sum()


@pytest.mark.parametrize(
    ("difference", "changes"),
    [
        ("the seed was 0 and is 1", {"seed": 1}),
        ("the setting chains was 60 and is 61", {"settings": replace(SLOW, chains=61)}),
        (r"the setting kernel was RWMH\(\) and is MALA\(\)", {"settings": replace(SLOW, kernel="mala")}),
        ("the log densities at the starts differ in 60 of 60 rows", {"target": Target(shifted, 4, data=PRECISION)}),
        ("the log densities at the starts differ in 60 of 60 rows", {"target": Target(gaussian_logdensity, 4, data=1.00001 * PRECISION)}),
        (
            r"the shape of the data was \(4, 4\) float64 and is \(4, 4\) float32",
            {"target": Target(gaussian_logdensity, 4, data=np.float32(PRECISION))},
        ),
        ("the list of parameters was x", {"target": Target(gaussian_logdensity, 4, data=PRECISION, names=list("abcd"))}),
        ("the starts differ in 60 of 60 rows", {"approximation": Gaussian(np.zeros(4), 0.31 * SD)}),
        (
            "the approximation was Gaussian of dimension 4 and is 100 draws",
            {"approximation": taddaa.Draws(np.random.default_rng(0).standard_normal((100, 4)))},
        ),
        ("the list of functionals was mean of x", {"functionals": [Quantile(0.5)]}),
    ],
)
def test_another_diagnosis_is_refused(saved, difference, changes):
    before = saved.read_bytes()
    with pytest.raises(InputError, match=f"belongs to another diagnosis: {difference}") as caught:
        run(saved, **changes)
    assert "name another file, or delete it to start again" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert saved.read_bytes() == before


def test_another_function_of_the_same_name_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    assert run_killed_at(1, path, monkeypatch, functionals=[Mean(of=total, name="total")])
    with pytest.raises(InputError, match="the functionals of the approximation differ in 1 of 1 rows"):
        run(path, functionals=[Mean(of=other_total, name="total")])


def test_other_starts_of_another_kind_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    assert run_killed_at(15, path, monkeypatch)
    with pytest.raises(InputError, match="the starts differ in 60 of 60 rows"):
        run(path, other_starts=Gaussian(np.ones(4), SD))


def test_truncated_and_damaged_files_are_refused(saved):
    """A flipped byte is noticed, or lies where it changes nothing that is read."""
    whole = saved.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"checkpoint=.*run.ckpt is (an empty file|not a checkpoint, or a truncated one|damaged)"):
            run(saved)
    saved.write_bytes(whole)
    expected, noticed = stored(saved), 0
    places = np.linspace(0, len(whole) - 1, 150, dtype=int)
    for place in places:
        spoilt = bytearray(whole)
        spoilt[place] ^= 0x55
        saved.write_bytes(spoilt)
        try:
            assert stored(saved) == expected, place
        except InputError as error:
            assert re.search("damaged|not a checkpoint", str(error))
            noticed += 1
    assert noticed > 0.8 * len(places)


def rewritten(path, change, digest=True):
    """The file with its header and arrays changed, as somebody would who wants it to be read."""
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files}
    header, seal = json.loads(arrays.pop("header").tobytes()), arrays.pop("digest")
    change(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, header=text, digest=taddaa.chains.checkpoint._digest(text, arrays) if digest else seal, **arrays)


def part(header, *names):
    """A part of the first arm, in the header's own spelling."""
    at = header["arms"][0]
    for name in names:
        at = at["parts"][at["keys"].index(name) if isinstance(name, str) else name]
    return at


def set_part(*names, value):
    def change(header, arrays):
        at = part(header, *names[:-1])
        at["parts"][at["keys"].index(names[-1]) if isinstance(names[-1], str) else names[-1]] = value

    return change


def drop_part(*names):
    def change(header, arrays):
        at = part(header, *names[:-1])
        place = at["keys"].index(names[-1])
        del at["keys"][place], at["parts"][place]

    return change


def set_array(*names, value):
    def change(header, arrays):
        name = part(header, *names)["name"]
        arrays[name] = value(arrays[name])

    return change


def test_no_number_can_be_changed_unnoticed(saved):
    """Positions as NaN, say, with all of zip's own sums right."""
    for change in (set_array("walk", "chains", 0, 0, value=lambda a: a * np.nan), set_part("walk", "rounds", value=0)):
        before = saved.read_bytes()
        rewritten(saved, change, digest=False)
        with pytest.raises(InputError, match=r"is damaged \(its content has changed since it was written\); name another file"):
            run(saved)
        saved.write_bytes(before)


@pytest.mark.parametrize(
    "change",
    [
        set_array("walk", "chains", 0, 0, value=lambda a: a * np.nan),
        set_array("walk", "chains", 0, 0, value=lambda a: a[:, :0]),
        set_array("walk", "chains", 0, 1, value=lambda a: a.astype("U5")),
        set_array("identity", "starts", value=lambda a: a.astype("U5")),
        set_part("walk", "chains", value=[1, 2]),
        set_part("walk", "metric", value=3),
        set_part("walk", "metric", value={"kind": "Trace", "parts": [1, 2, 3]}),
        set_array("walk", "metric", 0, value=lambda a: np.ones((7, 7))),
        set_part("walk", "traces", value=[]),
        set_part("walk", "traces", value=[5]),
        set_part("walk", "snapshots", value=[]),
        set_part("walk", "path", value=[None]),
        set_part("walk", "rounds", value="two"),
        set_part("walk", "iteration", value=-5),
        set_part("walk", "under_way", value=3),
        set_part("noise", value=0),
        set_part("noise", value=[]),
        set_part("meter", "seconds", value="long"),
        drop_part("meter", "seconds"),
        drop_part("walk", "rounds"),
        drop_part("walk"),
        drop_part("identity"),
        lambda header, arrays: header.update(arms=3),
        lambda header, arrays: header.update(arms=[3]),
        lambda header, arrays: header.pop("arms"),
        lambda header, arrays: header.pop("version"),
        lambda header, arrays: arrays.pop("a0"),
    ],
)
def test_parts_that_are_missing_or_of_another_kind_are_refused(saved, change):
    rewritten(saved, change)
    with pytest.raises(InputError, match=r"checkpoint=\S+ (is damaged|belongs to another diagnosis)") as caught:
        run(saved)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def stored(path):
    arrays: dict = {}
    header = taddaa.chains.checkpoint._encoded(taddaa.chains.checkpoint._read(path), arrays)
    return header, [(name, array.dtype, array.shape, array.tobytes()) for name, array in arrays.values()]


def test_files_of_others_are_refused_and_kept(tmp_path):
    text, archive, other = tmp_path / "notes.txt", tmp_path / "some.zip", tmp_path / "arrays.npz"
    text.write_text("my notes")
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("a", "b")
    np.savez(other, header=np.frombuffer(b'{"format": "theirs"}', np.uint8))
    for path in (text, archive, other):
        before = path.read_bytes()
        with pytest.raises(InputError, match=r"is not a checkpoint.*name another file"):
            run(path)
        assert path.read_bytes() == before


class Mine(NamedTuple):
    """A metric that only its author knows."""

    scale: Any

    def push(self, z):
        return self.scale * z

    pull = push


class OfMyOwn(Identity):
    def initial(self, approximation, draws, gradients):
        return Found(Mine(np.ones(approximation.dim)), "")


def test_a_metric_of_the_users_own_is_refused(tmp_path):
    with pytest.raises(InputError, match="checkpoint cannot store a Mine; use one of taddaa's own preconditioners, or no checkpoint"):
        run(tmp_path / "run.ckpt", replace(SLOW, preconditioner=OfMyOwn()))
    assert not list(tmp_path.iterdir())


def test_another_format_is_refused(saved, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(taddaa.chains.checkpoint, "FORMAT_VERSION", 99)
        with pytest.raises(InputError, match=r"has format version \d, and this taddaa reads 99; finish it with the version that wrote it"):
            run(saved)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (3, "checkpoint must be the path of a file, got int: 3"),
        (".", "cannot be written: it is a folder; name a file in it"),
        ("/nowhere/run.ckpt", "checkpoint=/nowhere/run.ckpt cannot be written: No such file"),
    ],
)
def test_bad_paths_are_refused_before_the_work(path, message):
    blocks = []
    with pytest.raises(InputError, match=message):
        run(path, progress=blocks.append)
    assert not blocks


def test_another_source_of_random_numbers_is_refused(saved, monkeypatch):
    """As when a run begun on a CPU goes on on a GPU."""
    monkeypatch.setattr(taddaa.chains.machine.engine, "HostNoise", taddaa.chains.machine.engine.DeviceNoise)
    with pytest.raises(InputError, match="the source of random numbers was the host and is a device"):
        run(saved)
