"""Commands as people and pipelines use them: output, exit codes, bad input, and what is left on the disk."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sample_reports import clean_report, demo_report, doubtful_report
from taddaa import cli
from taddaa.cli import parser, terminal
from taddaa.moves.kernel import as_kernel
from taddaa.report import refit

GOOD = """
import jax.numpy as jnp
import taddaa

def logdensity(x):
    return -jnp.sum(x**2) / 2

def problem():
    return logdensity, taddaa.Gaussian([0.0, 0.0], [1.0, SD])
"""
QUICK = ["--chains", "50", "--iterations", "60"]


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.py"
    path.write_text(GOOD.replace("SD", "0.5"))
    return path


def run(*arguments, capsys=None):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr() if capsys else None
    return code, captured


def in_shell(*arguments, **more):
    return subprocess.run([sys.executable, "-m", "taddaa.cli", *map(str, arguments)], capture_output=True, text=True, check=False, **more)


# Help -----------------------------------------------------------------------------------------------------------------


def test_help_is_quick_and_never_imports_jax():
    code = "import sys, taddaa.cli as c\ntry: c.main(['run', '--help'])\nexcept SystemExit: pass\nassert 'jax' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
    best = 9.0
    for _ in range(3):
        started = time.monotonic()
        assert in_shell("--help").returncode == 0
        best = min(best, time.monotonic() - started)
    assert best < 0.5


@pytest.mark.parametrize("command", ["demo", "run", "show", "compare", "completion", "reproduce"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([command, "--help"])
    assert stopped.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_kernel_names_are_the_packages():
    assert {as_kernel(name).label.lower() for name in parser.KERNELS} == set(parser.KERNELS)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "f.py", "--chains", "3"],
        ["run", "f.py", "--kernel", "gibbs"],
        ["run", "f.py", "--fail-above", "much"],
        ["run", "f.py", "--fail-above", "nan"],
        ["demo", "--seed", "-1"],
    ],
)
def test_wrong_use_is_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2


# run ------------------------------------------------------------------------------------------------------------------


def test_a_first_look_is_printed_stored_and_fails_nothing(good, tmp_path, capsys):
    code, printed = run("run", good, "--glance", "--json", tmp_path / "look.json", capsys=capsys)
    assert code == 0 and printed.out.startswith("First look, not a bound: 1 of 4 quantities seem wrong, most the variance of x[1] by ×4")
    assert json.loads((tmp_path / "look.json").read_text())["schema"] == "taddaa-glance"
    code, printed = run("run", good, "--glance", "--fail-above", "1", capsys=capsys)
    assert code == 2 and "--fail-above does not go with --glance" in printed.err


def test_run_prints_writes_and_exits_with_the_verdict(good, tmp_path, capsys):
    code, printed = run("run", good, *QUICK, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html", capsys=capsys)
    assert code == 1
    assert printed.out.startswith("A large error found in 1 of 4 quantities.\n\nDo not use (1)  The variance of x[1] is too small")
    assert "\033" not in printed.out
    assert json.loads((tmp_path / "r.json").read_text())["provenance"]["chains"] == 50
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["good.py", "r.html", "r.json"]


def test_threshold_decides_between_0_and_1(good):
    assert run("run", good, *QUICK, "--quiet", "--fail-above", "5")[0] == 0
    assert run("run", good, *QUICK, "--quiet", "--fail-above", "0.1")[0] == 1


def test_untrusted_is_exit_code_3(tmp_path):
    """Far too few iterations, and no more of them allowed."""
    path = tmp_path / "doubtful.py"
    start = GOOD.partition("    return logdensity, ")[0]
    few = "'settings': taddaa.Settings(chains=50, iterations=2, budget=1)"
    path.write_text(f"{start}    return {{'target': logdensity, 'approximation': taddaa.Gaussian([30.0, 0.0], [0.01, 1.0]), {few}}}\n")
    assert run("run", path, "--quiet", "--fail-above", "1e9")[0] == 3


def test_a_fit_in_the_wrong_place_is_exit_code_1_whatever_its_rows_say(tmp_path):
    path = tmp_path / "far.py"
    path.write_text(GOOD.replace("[0.0, 0.0], [1.0, SD]", "[90.0, 0.0], [0.01, 1.0]"))
    assert run("run", path, "--chains", "50", "--iterations", "2", "--quiet", "--fail-above", "1e9")[0] == 1


def test_quiet_prints_nothing(good, capsys):
    _, printed = run("run", good, *QUICK, "--quiet", capsys=capsys)
    assert printed.out == printed.err == ""


def test_json_to_standard_output_is_only_json(good, capsys):
    _, printed = run("run", good, *QUICK, "--json", "-", capsys=capsys)
    assert json.loads(printed.out)["schema"] == "taddaa-report"


def test_options_reach_the_settings(good, capsys):
    _, printed = run("run", good, *QUICK, "--kernel", "mala", "--seed", "7", "--paper", "--json", "-", capsys=capsys)
    about = json.loads(printed.out)["provenance"]
    assert about["kernel"].lower() == "mala"
    assert about["seed"] == 7
    assert about["chains"] == 50
    assert "chi2" in about["settings"]
    assert not about["simultaneous"]


def test_problem_may_return_a_dict_or_functionals(tmp_path, capsys):
    path = tmp_path / "more.py"
    body = "{'target': logdensity, 'approximation': taddaa.Gaussian([0.0], [1.0]), 'seed': 5, 'settings': taddaa.Settings(level=0.9)}"
    path.write_text(GOOD.partition("def problem")[0] + f"def problem():\n    return {body}\n")
    _, printed = run("run", path, *QUICK, "--json", "-", capsys=capsys)
    about = json.loads(printed.out)["provenance"]
    assert (about["seed"], about["level"]) == (5, 0.9)
    path.write_text(
        GOOD.partition("def problem")[0] + "def problem():\n    return logdensity, taddaa.Gaussian([0.0], [1.0]), [taddaa.Quantile(0.5)]\n"
    )
    _, printed = run("run", path, *QUICK, "--json", "-", capsys=capsys)
    assert [row["functional"] for row in json.loads(printed.out)["rows"]] == ["q0.5"]


BAD_FILES = {
    "no problem": ("x = 1", "must define a function problem()", None),
    "syntax": ("def problem(:\n    pass", "SyntaxError", "def problem(:"),
    "import": ("import a_package_that_is_not_there", "ModuleNotFoundError", "import a_package"),
    "raises": ("def helper():\n    return 1 / 0\ndef problem():\n    return helper()", "ZeroDivisionError", "return 1 / 0"),
    "exits": ("import sys\nsys.exit(0)", "SystemExit", "sys.exit(0)"),
    "one value": ("def problem():\n    return 3", "got int", None),
    "four values": ("def problem():\n    return 1, 2, 3, 4", "got 4 values", None),
    "unknown key": ("def problem():\n    return {'target': 1, 'approximation': 2, 'chains': 3}", "'chains'", None),
    "missing key": ("def problem():\n    return {'target': 1}", "'approximation'", None),
    "bad shape": (GOOD.replace("SD", "1.0").replace("-jnp.sum(x**2)", "-jnp.sum(x.reshape(7)**2)"), "logdensity", "x.reshape(7)"),
    "not text": (b"\xff\xfe\x00\x01", "not a text file", None),
    "null bytes": (b"x = 1\x00", "null bytes", None),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file_gives_one_sentence_and_the_users_own_lines(name, tmp_path, capsys):
    content, message, own_line = BAD_FILES[name]
    path = tmp_path / "bad.py"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, printed = run("run", path, capsys=capsys)
    assert code == 2
    assert printed.out == ""
    first, *rest = printed.err.splitlines()
    assert first.startswith("taddaa: ")
    assert message in first
    if own_line is None:
        assert rest == []
    else:
        assert own_line in "\n".join(rest)
    assert "site-packages" not in printed.err
    assert "problem_file" not in printed.err


@pytest.mark.parametrize(
    "written",
    [
        b"\xef\xbb\xbf" + GOOD.replace("SD", "0.5").encode(),
        ("# coding: latin-1\nname = 'é'\nassert len(name) == 1\n" + GOOD.replace("SD", "0.5")).encode("latin-1"),
        GOOD.replace("SD", "0.5").replace("\n", "\r\n").encode(),
    ],
    ids=["byte order mark", "coding line", "line ends"],
)
def test_files_are_read_as_python_reads_them(good, written):
    good.write_bytes(written)
    assert run("run", good, *QUICK, "--quiet")[0] == 1


def test_outputs_that_would_replace_each_other_or_the_input_are_refused(good, tmp_path, capsys):
    before = good.read_text()
    (tmp_path / "linked.py").hardlink_to(good)
    clashes = [
        ["--json", "r", "--html", "r"],
        ["--json", "r", "--checkpoint", "x/../r"],
        ["--html", "r", "--checkpoint", "r"],
        ["--json", good],
        ["--checkpoint", tmp_path / "linked.py"],
        ["--json", "-", "--html", "-"],
    ]
    for options in clashes:
        code, printed = run("run", good, *options, capsys=capsys)
        assert (code, printed.out) == (2, "")
        assert "name the same file" in printed.err
    stored = tmp_path / "report.json"
    stored.write_text(demo_report().to_json())
    code, printed = run("show", stored, "--html", stored, capsys=capsys)
    assert code == 2 and "REPORT.json and --html name the same file" in printed.err
    assert (good.read_text(), stored.read_text()) == (before, demo_report().to_json())
    assert run("run", good, *QUICK, "--quiet", "--json", "/dev/null", "--html", "/dev/null")[0] == 1


def test_error_in_a_neighbour_of_the_file_shows_its_line(tmp_path, capsys):
    (tmp_path / "neighbour_of_bad.py").write_text("def fit():\n    raise RuntimeError('no convergence')\n")
    path = tmp_path / "bad.py"
    path.write_text("import neighbour_of_bad\ndef problem():\n    return neighbour_of_bad.fit()\n")
    _, printed = run("run", path, capsys=capsys)
    assert "no convergence" in printed.err
    assert "raise RuntimeError" in printed.err


# show -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "report.json"
    demo_report().to_json(path)
    return path


def test_show_prints_the_report_and_writes_the_page(stored, tmp_path, capsys):
    code, printed = run("show", stored, capsys=capsys)
    assert code == 0
    assert printed.out.strip() == str(demo_report()).strip()
    code, printed = run("show", stored, "--html", tmp_path / "page.html", capsys=capsys)
    assert (code, printed.out) == (0, "")
    assert "intercept" in (tmp_path / "page.html").read_text()


def test_show_fails_only_above_the_threshold(stored, tmp_path):
    assert run("show", stored, "--fail-above", "0.5")[0] == 1
    assert run("show", stored, "--fail-above", "50")[0] == 0
    doubtful_report().to_json(tmp_path / "doubtful.json")
    assert run("show", tmp_path / "doubtful.json", "--fail-above", "1e9")[0] == 3


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "damaged"),
        (lambda text: text.replace('"version": 3', '"version": 99'), "version 99"),
        (lambda text: "{}", "not a report"),
        (lambda text: "[]", "not"),
        (lambda text: "", "not"),
        (lambda text: text.replace('"rows"', '"rose"'), "report"),
    ],
)
def test_show_refuses_what_is_not_a_report(stored, damage, message, capsys):
    stored.write_text(damage(stored.read_text()))
    code, printed = run("show", stored, capsys=capsys)
    assert code == 2
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1


def test_show_refuses_paths_it_cannot_read(tmp_path, capsys):
    for path in (tmp_path / "missing.json", tmp_path):
        code, printed = run("show", path, capsys=capsys)
        assert code == 2
        assert len(printed.err.strip().splitlines()) == 1


# compare --------------------------------------------------------------------------------------------------------------


def test_compare_tells_worse_from_better_and_same(good, tmp_path, capsys):
    paths = {}
    for sd in ("1.0", "0.5", "0.2"):
        good.write_text(GOOD.replace("SD", sd))
        paths[sd] = tmp_path / f"{sd}.json"
        run("run", good, *QUICK, "--quiet", "--json", paths[sd])
    assert run("compare", paths["1.0"], paths["1.0"])[0] == 0
    capsys.readouterr()
    code, printed = run("compare", paths["1.0"], paths["0.5"], capsys=capsys)
    assert code == 1
    assert printed.out.startswith("The refit got worse.")
    code, printed = run("compare", paths["0.5"], paths["0.2"], capsys=capsys)
    assert code == 1
    assert " worse" in printed.out.splitlines()[4]
    code, printed = run("compare", paths["0.2"], paths["0.5"], capsys=capsys)
    assert code == 0
    assert "1 better" in printed.out
    assert run("compare", paths["0.5"], paths["0.2"], "--fail-above", "99", "--quiet")[0] == 0


def test_compare_says_when_it_cannot_tell(tmp_path, capsys):
    clean_report().to_json(tmp_path / "a.json")
    doubtful_report().to_json(tmp_path / "b.json")
    code, printed = run("compare", tmp_path / "a.json", tmp_path / "b.json", "--fail-above", "1e9", capsys=capsys)
    assert code == 3
    assert "cannot" in printed.out


def test_overlapping_intervals_are_no_change():
    kinds = {change.change for change in refit.changes(demo_report(), demo_report())}
    assert kinds == {refit.SAME}


def test_quantities_in_one_report_only_are_named():
    found = refit.changes(demo_report(), clean_report())
    assert {change.change for change in found} == {refit.ADDED, refit.REMOVED}
    assert "no quantity in common" in refit.changes_text(demo_report(), clean_report(), found)


# The disk -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_paths_that_cannot_be_written_are_refused_before_the_work(good, option, tmp_path, capsys):
    for path in (tmp_path / "no such folder" / "out", tmp_path):
        started = time.monotonic()
        code, printed = run("run", good, option, path, capsys=capsys)
        assert code == 2
        assert "cannot be written" in printed.err
        assert printed.out == ""
        assert time.monotonic() - started < 1


def test_devices_and_links_are_written_through(good, tmp_path):
    assert run("run", good, *QUICK, "--quiet", "--json", "/dev/null")[0] == 1
    assert Path("/dev/null").is_char_device()
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    run("run", good, *QUICK, "--quiet", "--json", tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text().startswith("{")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB, which needs root; elsewhere a full disk is only pretended (below)."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk_leaves_the_old_file_and_nothing_else(stored, small_disk, capsys):
    out = small_disk / "page.html"
    out.write_text("old")
    (small_disk / "filler").write_bytes(b"x" * 40_000)
    code, printed = run("show", stored, "--html", out, capsys=capsys)
    assert code == 2
    assert "No space left" in printed.err
    assert out.read_text() == "old"
    assert sorted(path.name for path in small_disk.iterdir()) == ["filler", "page.html"]


def test_read_only_folder(good, stored, small_disk, capsys):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for arguments in (["run", good, "--json", small_disk / "r.json"], ["show", stored, "--html", small_disk / "p.html"]):
        code, printed = run(*arguments, capsys=capsys)
        assert code == 2
        assert "Read-only" in printed.err


def test_full_disk_pretended(stored, tmp_path, capsys, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, printed = run("show", stored, "--html", tmp_path / "page.html", capsys=capsys)
    assert code == 2
    assert "No space left" in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_full_disk_after_the_work_still_prints_the_report(good, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("taddaa.files.write_whole", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    code, printed = run("run", good, "--json", tmp_path / "r.json", capsys=capsys)
    assert code == 2
    assert "No space left" in printed.err and "quantities" in printed.out.splitlines()[0]


def test_printing_to_a_full_disk_is_one_sentence(stored):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "taddaa.cli", "show", stored], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_reader_that_stops_early_is_no_error(stored):
    command = f"{sys.executable} -m taddaa.cli show {stored} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Errors found")
    assert done.stderr == ""


def test_ascii_terminal_gets_question_marks_not_a_traceback(stored):
    done = in_shell("show", stored, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "error ?" in done.stdout


WATCHED = """
import jax.numpy as jnp
import taddaa

def logdensity(x):
    open({sign!r}, "w").close()
    return -0.5 * jnp.sum(x**2)

def problem():
    return taddaa.Target(logdensity, 2), taddaa.Gaussian([0.0, 0.0], [1.0, 1.0])
"""


def test_interrupt_leaves_nothing_half_written(good, tmp_path):
    out, begun = tmp_path / "r.json", tmp_path / "signs" / "begun"
    begun.parent.mkdir()
    good.write_text(WATCHED.format(sign=str(begun)))
    # Where the tests themselves run in the background, SIGINT is ignored, and the child would inherit that.
    plain = ["env", "--default-signal=INT"] if sys.platform == "linux" else []
    process = subprocess.Popen(
        [*plain, sys.executable, "-m", "taddaa.cli", "run", good, "--iterations", "5000000", "--json", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < deadline:  # imports alone may take long on a busy machine
        time.sleep(0.1)
    time.sleep(1)
    told = ""
    try:
        # On a busy machine the first one may fall into an import, which swallows it: press again, as a person would.
        for _ in range(10):
            process.send_signal(signal.SIGINT)
            try:
                _, told = process.communicate(timeout=6)
                break
            except subprocess.TimeoutExpired:
                continue
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert "interrupted" in told
    assert "Traceback" not in told
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["good.py"]


# Progress and completion ----------------------------------------------------------------------------------------------


def test_progress_on_a_terminal_only(good):
    """Long enough to be shown on a pseudo-terminal; the same run piped shows nothing."""
    command = [sys.executable, "-m", "taddaa.cli", "run", str(good), "--chains", "10", "--iterations", "400000", "--paper"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        deadline = time.monotonic() + 30
        while b" left" not in seen and time.monotonic() < deadline:
            try:
                seen += os.read(ours, 4096)
            except OSError:
                break
        process.send_signal(signal.SIGINT)
        os.close(ours)
    assert b"iterations" in seen
    assert b" left" in seen
    piped = in_shell("run", good, *QUICK)
    assert piped.stderr == ""


def on_a_terminal(command, **environment) -> str:
    """All that a command prints to a pseudo-terminal."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env={**kept, "TERM": "xterm", **environment}):
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # Linux's word for the end
                part = b""
            if not part:
                break
            seen += part
    os.close(ours)
    return seen.decode()


def test_verdicts_have_colours_on_a_terminal_unless_none_are_wanted(tmp_path):
    path = tmp_path / "report.json"
    demo_report().to_json(path)
    show = [sys.executable, "-m", "taddaa.cli", "show", str(path)]
    assert "\033[31mlarge error\033[0m" in on_a_terminal(show)
    for refusal in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\033" not in on_a_terminal(show, **refusal)
    assert "\033" not in in_shell("show", path).stdout
    prompt = f"import taddaa; report = taddaa.Report.from_json({str(path)!r}); print(repr(report)); print('then'); print(report)"
    shown, _, printed = on_a_terminal([sys.executable, "-c", prompt]).partition("then")
    assert "\033[31mlarge error\033[0m" in shown and "large error" in printed and "\033" not in printed


def complete_in_bash(line: str) -> list[str]:
    words = line.split(" ")
    script = terminal.completion_script(parser.parser(), "bash")
    quoted = " ".join(f"'{word}'" for word in words)
    script += f"\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _taddaa; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_completion_in_bash():
    assert complete_in_bash("taddaa co") == ["compare", "completion"]
    assert complete_in_bash("taddaa run --f") == ["--fail-above"]
    assert complete_in_bash("taddaa run --kernel h") == ["hmc"]
    assert complete_in_bash("taddaa completion ") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("shell", parser.SHELLS)
def test_completion_scripts_are_valid(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = terminal.completion_script(parser.parser(), shell)
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", parser.SHELLS)
def test_completion_names_every_command(shell, capsys):
    code, printed = run("completion", shell, capsys=capsys)
    assert code == 0
    for command in ("demo", "run", "show", "compare", "completion", "reproduce"):
        assert command in printed.out


NAMED = """
import jax.numpy as jnp
import taddaa

def problem():
    target = taddaa.Target(lambda x: -jnp.sum(x**2) / 2, 3, constrain=lambda x: {"b": x[:2], "tau": x[2]})
    return {"target": target, "approximation": taddaa.Gaussian([0.0, 0.0, 0.0], [1.0, 0.2, 1.0]), "var_names": ["tau"]}
"""


def test_parameters_by_name_in_place_of_the_files(tmp_path, capsys):
    path, out = tmp_path / "named.py", tmp_path / "report.json"
    path.write_text(NAMED)
    assert cli.main(["run", str(path), *QUICK]) == 0  # the file's: tau, which is right
    assert cli.main(["run", str(path), *QUICK, "--var-names", "b", "~b[0]", "--json", str(out)]) == 1
    assert {row["parameter"] for row in json.loads(out.read_text())["rows"]} == {"b[1]"}
    assert cli.main(["run", str(path), *QUICK, "--var-names", "c"]) == 2
    assert "var_names has 'c', which is not one of the parameters" in capsys.readouterr().err


def test_a_stored_report_on_some_parameters(tmp_path, capsys):
    path, out = tmp_path / "named.py", tmp_path / "report.json"
    path.write_text(NAMED.replace('"var_names": ["tau"]', '"seed": 0'))
    cli.main(["run", str(path), *QUICK, "--quiet", "--json", str(out)])
    assert cli.main(["show", str(out), "--fail-above", "0"]) == 1
    capsys.readouterr()
    assert cli.main(["show", str(out), "--fail-above", "0", "--var-names", "~b[1]"]) == 0
    shown = capsys.readouterr().out
    assert "tau" in shown and "b[0]" in shown and "b[1]" not in shown
