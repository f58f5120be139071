"""docs/tutorial-doubt.md is true: its code runs, and its assertions hold."""

import re
import warnings
from pathlib import Path

from frameworks import need

need("numpyro")
PAGE = Path(__file__).parents[2] / "docs" / "tutorial-doubt.md"


def test_the_tutorial_runs(capsys):
    scope: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), scope)
    shown = capsys.readouterr().out
    said = re.search(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert shown.startswith(said.splitlines()[0])
    assert "All 8 quantities are within tolerance" in shown
