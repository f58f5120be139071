"""The published schema and what is read are the same: all that is written fits, and what does not fit is one sentence with its path."""

import json
import sys
from dataclasses import fields
from functools import reduce
from pathlib import Path

import pytest

from sample_reports import clean_report, demo_report, doubtful_report, wide_report
from taddaa import InputError, Report
from taddaa.report.parts import Cost, Paths, Provenance, Row
from taddaa.report.schema import AXES, disagreement, misfit, report_schema
from taddaa.report.stored import SCHEMA, SCHEMA_VERSION
from taddaa.verdict.checks.check import Check

DOCS = Path(__file__).parents[2] / "docs"
OURS = report_schema(SCHEMA, SCHEMA_VERSION)


def damaged(change, report=None) -> str:
    content = json.loads((report or demo_report()).to_json())
    change(content)
    return json.dumps(content)


def put(path: str, value):
    """A change of one place, such as rows.0.bound."""

    def change(content):
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        reduce(lambda at, part: at[part], way, content)[last] = value

    return change


def drop(path: str):
    def change(content):
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        del reduce(lambda at, part: at[part], way, content)[last]

    return change


def refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        Report.from_json(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    return str(caught.value)


def test_the_published_schema_is_the_one_that_is_used():
    sys.path.insert(0, str(DOCS))
    try:
        from schema import text
    finally:
        sys.path.remove(str(DOCS))
    assert (DOCS / "report.schema.json").read_text(encoding="utf-8") == text(), "run `make schema`"


@pytest.mark.parametrize("make", [demo_report, doubtful_report, clean_report, wide_report])
def test_what_is_written_fits(make):
    content = json.loads(make().to_json())
    assert misfit(content, OURS) == disagreement(content) == ""


def test_every_field_has_its_place():
    parts = {"cost": Cost, "provenance": Provenance, "paths": Paths}
    for name, kind in parts.items():
        assert list(OURS["properties"][name]["properties"]) == [field.name for field in fields(kind)]
    for name, kind in {"rows": Row, "checks": Check}.items():
        assert list(OURS["properties"][name]["items"]["properties"]) == [field.name for field in fields(kind)]
    assert {f"paths.{field.name}" for field in fields(Paths)} < set(AXES)
    assert set(json.loads(demo_report().to_json())) == set(OURS["properties"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("rows", []), "rows must not be empty"),
        (put("rows", {}), "rows must be a list, got an object of 0"),
        (put("rows.0", 3), "rows[0] must be an object, got 3"),
        (put("rows.1.bound", "many"), "rows[1].bound must be a number; JSON has no infinities, so they are strings, got 'many'"),
        (put("rows.1.bound", None), "rows[1].bound must be a number"),
        (put("rows.1.bound", True), "rows[1].bound must be a number"),
        (put("rows.1.bound", 10**400), "rows[1].bound must be a number"),
        (put("rows.1.verdict", "fine"), "rows[1].verdict must be 'error' or "),
        (put("rows.1.parameter", 5), "rows[1].parameter must be a string, got 5"),
        (put("rows.1.surprise", 5), "rows[1] has 'surprise', which is not one of its fields"),
        (drop("rows.1.bound"), "rows[1].bound is missing"),
        (put("checks.0.passed", 1), "checks[0].passed must be true or false, got 1"),
        (put("checks.0.rows", [99]), "checks[0].rows names the row 99, but there are 10"),
        (put("checks.0.rows", [-1]), "checks[0].rows must be a list or null"),
        (put("checks.0.rows", "all"), "checks[0].rows must be a list or null, got 'all'"),
        (put("cost.iterations", 1.5), "cost.iterations must be a whole number, got 1.5"),
        (put("cost.iterations", -1), "cost.iterations must lie between 0 and 1e+300, got -1"),
        (put("provenance.level", []), "provenance.level must be a number"),
        (put("notes", "one"), "notes must be a list, got 'one'"),
        (put("notes", [1]), "notes[0] must be a string, got 1"),
        (put("labels", ["a"]), "start_draws has 4 labels, but labels 1"),
        (put("paths", []), "paths must be an object"),
        (put("paths.snapshots.0", "NaN"), "paths.snapshots[0] must be a number, got 'NaN'"),
        (put("paths.unit", [1.0]), "paths.unit has 1 rows, but rows 10"),
        (put("paths.unit.3", "x"), "paths.unit[3] must be a number"),
        (put("paths.estimate.1", [1.0]), "paths.estimate has 1 rows, but rows 10"),
        (drop("paths.snapshots.0"), "paths.estimate has"),
        (drop("paths.step.0"), "paths.step has"),
        (put("moved_draws.3.1", None), "moved_draws[3][1] must be a number"),
        (drop("moved_draws.3.1"), "moved_draws has 3 labels, but labels 4"),
        (drop("moved_draws.3"), "moved_draws has 193 draws, but start_draws"),
        (put("provenance.chains", 3), "moved_draws has 194 draws, but provenance.chains 3"),
        (lambda content: content["rows"][1].update(parameter="intercept"), "rows[0] and rows[1] are both the 'mean' of 'intercept'"),
        (put("headline", None), "headline must be a string, got null"),
        (put("rows.0.parameter", {"\x1b[2J": 1}), "rows[0].parameter must be a string, got an object of 1"),
        (put("\x1b[2J", 1), r"the report has '\x1b[2J', which is not one of its fields"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    assert f"this report is damaged: {message}" in refused(damaged(change))


@pytest.mark.parametrize(
    "text",
    [
        lambda: damaged(put("rows.0.bound", "PLACE")).replace('"PLACE"', "NaN"),
        lambda: damaged(put("rows.0.bound", "PLACE")).replace('"PLACE"', "1e999"),
        lambda: damaged(put("rows.0.bound", "PLACE")).replace('"PLACE"', "9" * 5000),
        lambda: damaged(put("notes", "PLACE")).replace('"PLACE"', "[" * 100_000 + "]" * 100_000),
        lambda: demo_report().to_json() + "}",
    ],
)
def test_what_python_would_stumble_over(text):
    assert "this report is damaged: " in refused(text())


@pytest.mark.parametrize("source", [5, None, b"{}", "a\0b", "[" * 5000, ""])
def test_what_is_no_report_at_all(source):
    with pytest.raises(InputError, match="report"):
        Report.from_json(source)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(b"\xef\xbb\xbf" + demo_report().to_json().encode())
    assert Report.from_json(path).rows == demo_report().rows
