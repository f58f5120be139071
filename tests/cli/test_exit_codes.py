"""Exit codes never lie: those of verdicts come from verdicts, whatever else happens has its own, at any moment and on any stream."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from test_cli import GOOD, QUICK

from sample_reports import clean_report, demo_report
from taddaa import cli
from taddaa.cli import commands, interrupts

FINE, FOUND, WRONG_USE, DOUBTFUL, FAILED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143
# Where the tests themselves run in the background, SIGINT is ignored, and the child would inherit that.
COMMAND = [*(["env", "--default-signal=INT,TERM"] if sys.platform == "linux" else []), sys.executable, "-m", "taddaa.cli"]


@pytest.fixture
def stored(tmp_path):
    demo_report().to_json(tmp_path / "wrong.json")
    clean_report().to_json(tmp_path / "fine.json")
    return tmp_path


def shell(line: str, folder) -> subprocess.CompletedProcess:
    line = line.replace("taddaa", f"{sys.executable} -m taddaa.cli", 1)
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, capture_output=True, text=True, check=False)


# Verdicts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (("within tolerance", "within tolerance"), FINE),
        (("within tolerance", "no error found"), FINE),
        (("within tolerance", "untrusted"), DOUBTFUL),
        (("within tolerance", "error"), FOUND),
        (("untrusted", "error"), FOUND),
    ],
)
def test_each_verdict_has_its_exit_code(tmp_path, verdicts, code):
    """The first row has a bound above zero, which alone is no reason to fail."""
    pairs = zip(demo_report().rows, verdicts, strict=False)
    rows = tuple(replace(row, verdict=verdict, bound=0.05, relative_bound=0.05) for row, verdict in pairs)
    paths = demo_report().paths
    first = {name: getattr(paths, name)[..., :2] for name in ("estimate", "error", "rho2", "reference", "unit")}
    checks = tuple(replace(check, rows=None, each=None) for check in demo_report().checks)
    report = replace(demo_report(), rows=rows, paths=replace(paths, **first), checks=checks)
    report.to_json(tmp_path / "report.json")
    assert cli.main(["show", str(tmp_path / "report.json"), "--fail-above", "0"]) == code
    fine = replace(report, rows=tuple(replace(row, verdict="within tolerance") for row in rows))
    fine.to_json(tmp_path / "fine.json")
    assert cli.main(["compare", str(tmp_path / "fine.json"), str(tmp_path / "report.json")]) == code


# Streams --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("taddaa show wrong.json --fail-above 0.1", FOUND),
        ("taddaa show fine.json --fail-above 0.1", FINE),
        ("taddaa compare fine.json wrong.json", FOUND),
        ("taddaa compare fine.json fine.json", FINE),
    ],
)
@pytest.mark.parametrize("end", ["", "| true", ">&-", ">&- 2>&-", "| head -c 1"])
def test_what_becomes_of_the_output_does_not_change_the_verdict(stored, line, code, end):
    done = shell(f"{line} {end}", stored)
    assert done.returncode == code
    assert done.stderr == ""


def test_errors_reach_their_exit_code_without_a_listener(stored):
    assert shell("taddaa show missing.json 2>&-", stored).returncode == WRONG_USE
    assert shell("taddaa show missing.json 2> >(true)", stored).returncode == WRONG_USE
    assert shell("taddaa --help | true", stored).returncode == FINE


def test_a_full_disk_is_no_verdict(stored):
    assert shell("taddaa show fine.json --fail-above 0 > /dev/full", stored).returncode == WRONG_USE


# What nobody foresaw --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [RuntimeError("odd"), KeyError("gone"), AssertionError(), RecursionError("deep"), SystemExit(1), GeneratorExit()]
)
@pytest.mark.parametrize("command", ["run f.py", "show r.json", "compare a.json b.json", "demo"])
def test_an_unforeseen_failure_has_a_code_of_its_own(monkeypatch, capsys, error, command):
    def fails(chosen):
        raise error

    monkeypatch.setattr(commands, command.split()[0], fails)
    assert cli.main(command.split()) == FAILED
    told = capsys.readouterr().err
    assert told.startswith("taddaa: failed unexpectedly, which is no verdict: " + type(error).__name__)
    assert "Traceback" in told and "in fails" in told


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return {'target': logdensity, 'approximation': taddaa.Gaussian([0.0], [1.0]), 'settings': 'fast'}",
            "settings must be a taddaa.Settings, got str",
        ),
        ("raise type('Odd', (BaseException,), {})('stop')", "failed: Odd: stop"),
        ("raise SystemExit(0)", "failed: SystemExit"),
    ],
)
def test_bad_problems_are_bad_input_and_no_verdict(tmp_path, capsys, body, message):
    path = tmp_path / "bad.py"
    path.write_text(GOOD.partition("def problem")[0] + f"def problem():\n    {body}\n")
    assert cli.main(["run", str(path), *QUICK]) == WRONG_USE
    assert message in capsys.readouterr().err.splitlines()[0]


# Interrupts -----------------------------------------------------------------------------------------------------------

ENDLESS = """
import time
import jax
import jax.numpy as jnp
import taddaa

def logdensity(x):
    return -0.5 * jnp.sum(jax.lax.fori_loop(0, 10**4, lambda i, y: jnp.sin(y), x) + x**2)

def problem():
    try:
        for _ in range(5):
            time.sleep(0.02)
    except KeyboardInterrupt:
        pass
    return taddaa.Target(logdensity, 2), taddaa.Gaussian([0.0, 0.0], [1.0, 1.0])
"""


def interrupted_after(seconds: float, folder, number=signal.SIGINT, file=ENDLESS) -> tuple[int, str]:
    (folder / "endless.py").write_text(file)
    arguments = ["run", "endless.py", "--iterations", "5000000", "--json", "r.json", "--checkpoint", "r.ckpt"]
    process = subprocess.Popen([*COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(seconds)
        process.send_signal(number)
        out, told = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert out == ""
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == ["endless.py"]
    return process.returncode, told


def test_ctrl_c_at_any_moment(tmp_path):
    """From the loading of modules over the user's own code to compiled code that does not return for long.

    Not while Python itself starts, which nobody can catch, and which takes longer on a busy machine.
    """
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    python = time.perf_counter() - begun
    for seconds in (max(0.15, 3 * python), 0.3, 0.6, 1.0, 1.7, 2.5, 6.0):
        if seconds < 3 * python:
            continue
        code, told = interrupted_after(seconds, tmp_path)
        assert (code, told.strip().splitlines()[-1][:20]) == (INTERRUPTED, "taddaa: interrupted;"), (seconds, told)
        assert "Traceback" not in told


def test_sigterm_ends_like_ctrl_c(tmp_path):
    code, told = interrupted_after(2.0, tmp_path, signal.SIGTERM)
    assert code == TERMINATED
    assert "taddaa: interrupted;" in told


HALF_WRITTEN = """
import time
from pathlib import Path
from taddaa.files import whole_file

def problem():
    with whole_file(Path("r.json").resolve()) as file:
        file.write(b"half")
        file.flush()
        time.sleep(30)
"""


def test_an_interrupt_removes_what_is_half_written(tmp_path):
    assert interrupted_after(1.5, tmp_path, file=HALF_WRITTEN)[0] == INTERRUPTED


def test_handlers_are_the_callers_again_afterwards(stored):
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    cli.main(["show", str(stored / "fine.json")])
    assert [signal.getsignal(number) for number in interrupts.SIGNALS] == before
    ignored = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interrupts.interrupts_end_it():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
    finally:
        signal.signal(signal.SIGTERM, ignored)


# Only the report on standard output -----------------------------------------------------------------------------------

TALKING = "import ctypes, os\nprint('loading')\n" + GOOD.replace("SD", "0.5").replace(
    "    return -jnp", "    print('tracing')\n    return -jnp"
).replace(
    "def problem():\n",
    "def problem():\n    print('working')\n    os.system('echo from a child')\n    ctypes.CDLL(None).puts(b'from C')\n",
)


def test_what_the_users_code_prints_goes_to_standard_error(tmp_path):
    (tmp_path / "model.py").write_text(TALKING)
    done = shell(f"taddaa run model.py {' '.join(QUICK)} --json - | {sys.executable} -c 'import json,sys; json.load(sys.stdin)'", tmp_path)
    assert done.returncode == FOUND, done.stderr
    assert {"loading", "tracing", "working", "from a child", "from C"} <= set(done.stderr.splitlines())
