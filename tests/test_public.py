"""What `import taddaa` alone gives, and what it does not load."""

import subprocess
import sys
from importlib import metadata

import pytest


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_pictures_fits_and_the_version_need_no_import_of_their_own():
    assert run("import taddaa; print(taddaa.plot.forest.__name__, taddaa.fit.laplace.__name__)") == "forest laplace"
    assert run("import taddaa; print(taddaa.__version__)") == metadata.version("taddaa")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import taddaa", {"jax", "numpy", "importlib.metadata"}),
        ("import taddaa; taddaa.Report", {"jax", "scipy.special"}),  # stored reports are shown without what runs chains
    ],
)
def test_what_is_not_needed_is_not_loaded(code, absent):
    loaded = run(f"{code}; import sys; print(*sys.modules)").split()
    assert "taddaa" in loaded and not absent & set(loaded)
