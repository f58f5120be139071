"""Optional frameworks: tests skip where one is absent, and fail instead where TADDAA_REQUIRE_ALL=1 says that all must be there."""

import os
import warnings
from importlib import import_module

import pytest


def need(package: str):
    """The package; without it the test is skipped, or fails where everything is required."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what other packages say about each other while they are imported
            return import_module(package)
    except ImportError as error:
        if os.environ.get("TADDAA_REQUIRE_ALL") == "1":
            raise RuntimeError(f"TADDAA_REQUIRE_ALL=1, but {package} cannot be imported: {error}") from error
        pytest.skip(f"{package} is not installed", allow_module_level=True)
