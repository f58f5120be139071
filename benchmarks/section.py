"""docs/performance.md has one section for each benchmark, which only that benchmark writes."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def write_section(name: str, text: str) -> None:
    opened, closed = f"<!-- {name}: written by its benchmark, do not edit -->", f"<!-- end of {name} -->"
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Performance\n"
    kept = re.sub(rf"\n*{re.escape(opened)}.*?{re.escape(closed)}\n*", "\n\n", page, flags=re.DOTALL)
    PAGE.write_text(f"{kept.rstrip()}\n\n{opened}\n\n{text.strip()}\n\n{closed}\n", encoding="utf-8")
