"""Property tests repeat exactly and have no time limit of their own: the machine may be busy.

The studies' data is taken from `TADDAA_DATA`, or from ../shared/data where that exists, or downloaded. Where it can be had from
none of them, tests that need it are skipped with the reason, which `make test` shows; with TADDAA_REQUIRE_ALL=1 they fail.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

import taddaa

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("TADDAA_DATA", str(BESIDE))

# A program that one test compiled serves the others, and later runs. Each worker has a folder of its own, and processes that tests start
# (and kill) have none, because JAX may read what another process is still writing, or was.
PROGRAMS = Path(__file__).resolve().parents[1] / ".pytest_cache" / "programs" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
taddaa.cache(PROGRAMS, megabytes=200)

os.environ["COLUMNS"] = "120"  # text is as wide as the terminal, of which workers have none

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


# Workers take whole files: those that take longest come first, so that no worker is left with one of them at the end.
LONGEST = ("test_operating.py", "test_placement.py", "test_processes.py", "test_diagnosis.py", "test_real_studies.py", "test_reproduce.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    return (yield from without_data_skipped())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    return (yield from without_data_skipped())


def without_data_skipped():
    try:
        return (yield)
    except taddaa.InputError as error:
        if "cannot be had from" not in str(error) or os.environ.get("TADDAA_REQUIRE_ALL"):
            raise
        pytest.skip(f"no network and no data: {error}")
