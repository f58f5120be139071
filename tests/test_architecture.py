"""docs/architecture.md is true: every module is named there, and imports form no cycle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "src" / "taddaa").glob("[!_]*.py")}


def imported(tree: ast.Module) -> set[str]:
    """Modules beside it that a module imports when it is loaded itself."""
    found = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 1]
    names = {node.module.split(".")[0] for node in found if node.module} | {
        alias.name for node in found if not node.module for alias in node.names
    }
    return names & set(MODULES)


def test_imports_form_no_cycle():
    order = list(TopologicalSorter({name: imported(tree) for name, tree in MODULES.items()}).static_order())
    assert order.index("errors") < order.index("engine") < order.index("diagnosis")


def test_every_module_has_its_place():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [name for name in MODULES if name not in page] == []
