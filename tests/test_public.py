"""What `import taddaa` alone gives, and what it does not load."""

import gc
import importlib
import subprocess
import sys
from importlib import metadata

import pytest

import taddaa


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


@pytest.mark.parametrize("on", [True, False])
def test_loading_leaves_the_garbage_collector_as_it_was(on, monkeypatch):
    was, seen = gc.isenabled(), []
    monkeypatch.delitem(vars(taddaa), "InputError", raising=False)
    monkeypatch.setattr(taddaa, "import_module", lambda *names: seen.append(gc.isenabled()) or importlib.import_module(*names))
    try:
        (gc.enable if on else gc.disable)()
        assert taddaa.InputError and gc.isenabled() == on and seen == [False]
        with pytest.raises(AttributeError):
            _ = taddaa.no_such_name
        assert gc.isenabled() == on
    finally:
        (gc.enable if was else gc.disable)()
