"""`import taddaa` brings no framework with it, and a missing one is named with the pip command."""

import subprocess
import sys

import pytest

import taddaa

FRAMEWORKS = ("numpyro", "pymc", "pymc_extras", "bridgestan", "httpstan", "stan", "torch", "arviz", "arviz_base", "xarray", "matplotlib")


def test_importing_taddaa_and_its_adapters_imports_no_framework():
    code = (
        "import sys, taddaa; taddaa.from_numpyro, taddaa.from_pymc, taddaa.from_stan, taddaa.from_callback, taddaa.diagnose\n"
        f"print(sorted(set({FRAMEWORKS!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("numpyro", "numpyro", lambda: taddaa.from_numpyro(print, print, {})),
        ("pymc", "pymc", lambda: taddaa.from_pymc(None)),
        ("bridgestan", "stan", lambda: taddaa.from_stan("model.stan", None)),
    ],
)
def test_a_missing_framework_gives_the_pip_command(monkeypatch, package, extra, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(taddaa.MissingExtra, match="not installed") as caught:
        call()
    assert str(caught.value) == f"this needs {package}, which is not installed: pip install 'taddaa[{extra}]'"
