"""docs/architecture.md is true: data walks one way through the rooms, and the page names them all with what they hold."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from taddaa.verdict.checks.registry import ALL

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "taddaa"
MAIN = (
    *("errors", "version", "files", "formulas", "surrogate", "problem", "moves", "plan", "settings", "chains.machine", "chains"),
    *("verdict", "report", "show", "asked", "glancing", "identity", "study", "diagnosis"),
)
# Side rooms: the main path never imports them, and they see only so much of it and of each other.
SIDE = {
    "interop": {"errors", "problem"},
    "fit": {"errors", "problem"},
    "comparison": {*MAIN},
    "experiments": {*MAIN, "fit", "comparison"},
    "testing": {*MAIN},
    "cli": {*MAIN, "experiments"},
}
# A report hands itself on when it is asked for its page, or for its chains to go on.
DOORS = {("report.report", "show.page"), ("report.report", "diagnosis")}


def modules() -> dict[str, ast.Module]:
    files = {path.relative_to(PACKAGE).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    return {".".join(name.parts): ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items() if str(name) != "__init__"}


MODULES = modules()


def room(module: str) -> str:
    """The innermost room, or the file itself at the root."""
    return next(place for place in sorted({*MAIN, *SIDE}, key=len, reverse=True) if f"{module}.".startswith(f"{place}."))


def imported(module: str, nodes) -> set[str]:
    """Modules of this package that these import statements of a module name."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            above = module.split(".")[: -node.level]
            source = ".".join([*above, *([node.module] if node.module else [])])
            beneath = {f"{source}.{alias.name}".lstrip(".") for alias in node.names} & set(MODULES)
            found |= beneath or ({source} if source in MODULES else {f"{source}.__init__"} if f"{source}.__init__" in MODULES else set())
    return found


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_rooms_before_it(module):
    here = room(module)
    allowed = SIDE.get(here) or {*MAIN[: MAIN.index(here)]}
    for other in imported(module, ast.walk(MODULES[module])):
        assert room(other) in {*allowed, here} or (module, other) in DOORS, f"{module} imports {other}"


def test_imports_form_no_cycle():
    order = list(TopologicalSorter({name: imported(name, tree.body) for name, tree in MODULES.items()}).static_order())
    assert order.index("errors") < order.index("chains.machine.engine") < order.index("diagnosis")


def test_the_page_names_every_room_in_its_order_with_its_files():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named: dict[str, set[str]] = {}
    for places, files in re.findall(r"(?m)^\| (`[^|]*/`|`[^|]*\.py`) \|[^|]*\|([^|]*)\|$", page):
        for place in re.findall(r"`([^`]+)`", places):
            named[place.removesuffix("/").removesuffix(".py").replace("/", ".")] = set(re.findall(r"`(\w+)`", files))
    assert [place for place in named if place != "verdict.checks"] == [*MAIN, *SIDE]
    for place, files in named.items():
        folder = PACKAGE / place.replace(".", "/")
        assert files == {path.stem for path in folder.glob("[!_]*.py")}, place
        assert folder.is_dir() or folder.with_suffix(".py").is_file()
    assert {path.stem for path in PACKAGE.glob("[!_]*.py")} <= set(named)


def test_every_room_says_what_it_is_for():
    for folder in {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}:
        said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        assert said and "Begin with `" in said, folder
        assert (folder / f"{said.split('Begin with `')[1].partition('`')[0]}.py").is_file(), folder


def test_the_tests_have_the_same_rooms():
    for folder in {path.parent for path in (ROOT / "tests").rglob("test_*.py")} - {ROOT / "tests"}:
        assert (PACKAGE / folder.relative_to(ROOT / "tests")).is_dir(), folder


def test_only_the_checks_themselves_compare_their_names():
    names = {checker.name for checker in ALL}
    for module, tree in MODULES.items():
        if not module.startswith("verdict.checks."):
            words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
            assert not words & names - {"settled", "acceptance"}, module  # words of pictures too
