"""docs/handover.md is true: NUTS from a handover has no divergences and comes to the posterior."""

import re
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

from frameworks import need
from taddaa.cli.demo import true_variances

PAGE = (Path(__file__).parents[2] / "docs" / "handover.md").read_text(encoding="utf-8")


def part(title: str) -> str:
    return re.findall(r"```python\n(.*?)```", PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0], re.DOTALL)[0]


@pytest.fixture(scope="module")
def scope():
    found: dict = {}
    exec(compile(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], "docs/handover.md", "exec"), found)
    return found


@pytest.fixture
def wide_numbers():
    yield
    jax.config.update("jax_enable_x64", False)


def agree(draws: np.ndarray) -> None:
    """With the posterior's own variances, known by quadrature: five standard errors of 4,000 dependent draws."""
    truth = true_variances()[:4]
    np.testing.assert_allclose(draws.var(axis=0), truth, rtol=5 * np.sqrt(2 / 1000))


@pytest.mark.slow
@pytest.mark.usefixtures("wide_numbers")
def test_numpyro_and_blackjax_from_the_handover(scope):
    need("numpyro"), need("blackjax")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(part("NumPyro"), "docs/handover.md", "exec"), scope)
        agree(np.asarray(scope["draws"]))
        exec(compile(part("BlackJAX"), "docs/handover.md", "exec"), scope)
    agree(np.asarray(scope["positions"]).reshape(-1, 4))
