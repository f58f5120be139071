"""As a script, with nothing but an installed taddaa: the verb, the page, the JSON and the commands work. `make dist` runs it.

It needs no pytest and none of the extras, and refuses to test the clone instead of what was installed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import taddaa
from taddaa.testing import assert_trustworthy

EXAMPLE = Path(__file__).parents[1] / "examples" / "regression_jax.py"


def logdensity(x):
    return -0.5 * (x[0] ** 2 - 1.8 * x[0] * x[1] + x[1] ** 2) / 0.19


def command(*arguments: str) -> int:
    return subprocess.run([str(Path(sys.executable).parent / "taddaa"), *arguments], check=False, stdout=subprocess.DEVNULL).returncode


def main() -> None:
    installed = Path(taddaa.__file__)
    assert installed.is_relative_to(sys.prefix), f"this is not an installed taddaa: {installed}"
    assert (installed.parent / "py.typed").exists()
    target = taddaa.Target(logdensity, dim=2, names=["alpha", "beta"])
    wrong = taddaa.diagnose(target, taddaa.Gaussian([0, 0], [0.436, 0.436]))
    assert wrong.verdict == "error" and "variance" in wrong.headline
    right = taddaa.diagnose(target, taddaa.Gaussian([0, 0], covariance=[[1, 0.9], [0.9, 1]]))
    assert_trustworthy(right)
    with tempfile.TemporaryDirectory() as folder:
        page, stored = Path(folder) / "report.html", Path(folder) / "report.json"
        assert command("run", str(EXAMPLE), "--quiet", "--html", str(page), "--json", str(stored)) == 1, "an error was to be found"
        assert page.read_text(encoding="utf-8").startswith("<!doctype html>") and json.loads(stored.read_text(encoding="utf-8"))["rows"]
        assert command("show", str(stored)) == 0
        assert command("compare", str(stored), str(stored)) == 0
    print(f"taddaa {taddaa.__version__} works as it was installed in {installed.parent}")


if __name__ == "__main__":
    main()
