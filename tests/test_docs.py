"""The documentation is true: its code runs, its links lead somewhere, and it names all there is."""

import json
import re
from pathlib import Path

import pytest

from frameworks import need
from sample_reports import demo_report
from taddaa import cli
from taddaa.cli.parser import parser
from taddaa.experiments import STUDIES
from taddaa.verdict.checks.registry import ALL, NAMED, PAPER, documented

ROOT = Path(__file__).parent.parent
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def python_blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/quickstart.md",
        "docs/choosing.md",
        "docs/fit-and-compare.md",
        "docs/beside.md",
        "docs/howto.md",
        "docs/tutorial-nightly.md",
    ],
)
def test_code_runs(name, tmp_path, monkeypatch):
    if name == "docs/howto.md":
        need("arviz_base")
        need("arviz_stats")
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    blocks = python_blocks(name)
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), scope)


def test_pictures_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in python_blocks("docs/pictures.md"):
        exec(compile(block, "docs/pictures.md", "exec"), {})
    assert (tmp_path / "forest.pdf").stat().st_size > 1000


def test_the_command_lines_example_runs(tmp_path):
    (block,) = python_blocks("docs/cli.md")
    (tmp_path / "model.py").write_text(block)
    assert cli.main(["run", str(tmp_path / "model.py"), "--quiet"]) == 1


def test_readme_shows_what_is_printed():
    scope: dict = {}
    exec(compile(python_blocks("README.md")[0].partition("report.to_dataframe")[0], "README.md", "exec"), scope)
    shown = re.search(r"```\nparameter.*?```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL).group()
    columns = shown.splitlines()[1].split("  ")
    printed = next(line for line in str(scope["report"]).splitlines() if line.startswith("parameter"))
    assert [column for column in columns if column] == [column for column in printed.split("  ") if column]


def test_the_landing_page_shows_the_demos_answer():
    """In its words; numbers may differ in their last digits on another machine."""
    shown = re.search(r"```text\n(.*?)```", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    answer = str(demo_report()).partition("\nparameter ")[0]
    words = lambda text: re.sub(r"[\d.]+|\s+", " ", text).split()  # noqa: E731
    assert words(shown) == words(answer)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_pictures_are_small():
    for picture in (ROOT / "docs" / "img").rglob("*.*"):
        assert picture.stat().st_size < 200_000, picture.name


def test_the_papers_page_is_of_all_studies_in_full():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert "Not run yet" not in page and "--quick" not in page
    for name in STUDIES:
        assert f"\n## {name}\n" in page, name


def test_json_page_names_every_field():
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    content = json.loads(demo_report().to_json())
    parts = [content, content["rows"][0], content["checks"][0], content["cost"], content["provenance"], content["paths"]]
    for name in {name for part in parts for name in part}:
        assert f"`{name}`" in page, name
    assert f"Version {content['version']} is described here" in page


def test_the_table_of_checks_is_that_of_the_registry():
    assert documented() in (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    for check in demo_report().checks:
        assert check.name in NAMED


def test_every_check_says_all_of_itself():
    assert len(NAMED) == len(ALL)
    for checker in (*ALL, *PAPER):
        assert checker.question.endswith((".", "?"))
        assert checker.remedy.endswith(".")
        assert checker.should_be and checker.silences


def test_every_command_is_documented():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    commands = next(action for action in parser()._actions if action.dest == "command").choices
    for name, command in commands.items():
        assert f"taddaa {name}" in page
        for action in command._actions:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    assert option in page, option
