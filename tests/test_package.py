"""What is around the package: versions, what an index shows, workflows whose steps exist, and templates that are whole."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def padded(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in [*version.split("."), "0", "0"][:3])


def test_the_oldest_versions_are_those_that_are_allowed():
    pinned = dict(re.findall(r"(?m)^([\w-]+)==(\S+)$", (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8")))
    allowed = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", each).groups() for each in project()["dependencies"])
    assert set(pinned) == {*allowed, "jaxlib"} and pinned["jaxlib"] == pinned["jax"]
    for name, least in allowed.items():
        assert padded(pinned[name]) == padded(least), name


def readme_functions():
    """`absolute` and `urls` of hatch_build.py, without hatchling, which only a build installs."""
    tree = ast.parse((ROOT / "hatch_build.py").read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    space: dict = {"re": re}
    exec(compile(tree, "hatch_build.py", "exec"), space)
    return space["absolute"], space["urls"]


def test_an_index_sees_no_relative_link():
    absolute, urls = readme_functions()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = absolute(readme, "https://forge.example/us/taddaa")
    links = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(links) == len(re.findall(r"\]\(([^)]+)\)", readme)) > 5
    assert all(link.startswith(("https://", "#")) for link in links)
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", shown):
        assert picture.startswith("https://forge.example/us/taddaa/raw/HEAD/docs/img/")
    for address in urls("https://forge.example/us/taddaa").values():
        path = address.partition("/blob/HEAD/")[2]
        assert not path or (ROOT / path).exists(), address


def test_links_that_are_absolute_already_stay():
    absolute, _ = readme_functions()
    assert (
        absolute("[a](https://b.example) [c](#d) [e](f.md)", "https://r") == "[a](https://b.example) [c](#d) [e](https://r/blob/HEAD/f.md)"
    )


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_step_of_a_workflow_is_a_target(workflow):
    text = workflow.read_text(encoding="utf-8")
    named = re.findall(r"run: make ([a-z-]+)", text)
    if "make ${{ matrix.target }}" in text:
        named += [name for names in re.findall(r"target: \[([^]]+)\]", text) for name in names.split(", ")]
    assert named
    for target in named:
        assert re.search(rf"(?m)^{target}:", MAKEFILE), target


def test_every_target_is_explained_and_phony():
    targets = set(re.findall(r"(?m)^([a-z][a-z-]*):", MAKEFILE))
    explained = set(re.findall(r"(?m)^([a-z][a-z-]*):.* ## \S", MAKEFILE))
    phony = set(re.search(r"\.PHONY: ((?:.*\\\n)*.*)", MAKEFILE)[1].replace("\\", " ").split())
    assert targets == explained == phony


def test_before_a_commit_runs_what_make_lint_runs():
    assert "entry: make lint\n" in (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")


def test_scripts_that_make_names_exist():
    for script in re.findall(r"python ((?:benchmarks|studies|docs|tests)/\w+\.py)", MAKEFILE):
        assert (ROOT / script).is_file(), script


def test_changelog_and_citation_have_this_version():
    assert f"\nversion: {project()['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {project()['version']} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_paper_cites_what_its_bibliography_holds_and_shows_what_exists():
    paper, bibliography = ((ROOT / "paper" / name).read_text(encoding="utf-8") for name in ("paper.md", "paper.bib"))
    assert set(re.findall(r"@(\w+)", paper)) == set(re.findall(r"@\w+\{(\w+),", bibliography))
    for picture in re.findall(r"\]\((\.\./[^)]+)\)", paper):
        assert (ROOT / "paper" / picture).is_file(), picture
    for section in ("Summary", "Statement of need", "State of the field", "Acknowledgements", "References"):
        assert f"\n# {section}\n" in paper
    assert len(paper.split("---\n")[2].split()) < 1200  # a software journal's usual most is near a thousand
