"""Data walks one way through the rooms: each imports only what comes before it, and imports form no cycle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "taddaa"
MAIN = (
    *("errors", "version", "files", "formulas", "problem", "moves", "plan", "settings", "chains.machine", "chains"),
    *("verdict", "report", "show", "identity", "diagnosis"),
)
# Side rooms: the main path never imports them, and they see only so much of it and of each other.
SIDE = {
    "interop": {"errors", "problem"},
    "fit": {"errors", "problem"},
    "comparison": {*MAIN},
    "experiments": {*MAIN, "fit", "comparison"},
    "cli": {*MAIN, "experiments"},
}
# A report hands itself on when it is asked for its page.
DOORS = {("report.report", "show.page")}


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
