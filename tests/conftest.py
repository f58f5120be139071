"""Property tests repeat exactly and have no time limit of their own: the machine may be busy.

The studies' data is taken from `TADDAA_DATA`, or from ../shared/data where that exists, or downloaded; where it can be had from
none of them, tests that need it fail with a sentence that says what to do. They are never skipped.
"""

import os
from pathlib import Path

from hypothesis import settings

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("TADDAA_DATA", str(BESIDE))

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")
