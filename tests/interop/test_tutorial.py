"""docs/tutorial-doubt.md is true: its code runs, and its assertions hold."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from frameworks import need

need("numpyro")
PAGE = Path(__file__).parents[2] / "docs" / "tutorial-doubt.md"


@pytest.mark.skipif(os.environ.get("TADDAA_REQUIRE_ALL") != "1", reason="half a minute, for make test-interop")
def test_the_tutorial_runs():
    """In a process of its own, as a reader would: NumPyro's precision is set once a process, and other tests set it."""
    page = PAGE.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    said = re.search(r"```text\n(.*?)```", page, re.DOTALL)[1]
    assert ran.stdout.startswith(said.splitlines()[0])
    assert "All 8 quantities are within tolerance" in ran.stdout
