"""Writes report.schema.json, the published schema of stored reports, from the package's own: `make schema`."""

import json
from pathlib import Path

from taddaa.report.schema import report_schema
from taddaa.report.stored import SCHEMA, SCHEMA_VERSION

PAGE = Path(__file__).parent / "report.schema.json"


def text() -> str:
    return json.dumps(report_schema(SCHEMA, SCHEMA_VERSION), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
