"""docs/handover.md is true: NUTS from a handover has no divergences and comes to the posterior."""

import re
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from eight import EFFECT, ERROR, MEAN, SD, moments

import taddaa
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


def right(mu: np.ndarray, tau: np.ndarray) -> None:
    """Both means within five standard errors of as many draws as a tenth of these (they depend on each other)."""
    for name, draws in (("mu", mu), ("tau", np.log(tau))):
        mean, sd = moments()[name]
        assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(draws.size / 10), name
        assert abs(np.log(draws.std() / sd)) < 0.25, name  # the fit that it began with is half as wide for log tau


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PyTensor and ArviZ warn about themselves
def test_pymc_from_the_handover():
    pytest.importorskip("pymc")
    from test_pymc import meanfield, schools

    model = schools()
    scope = {"taddaa": taddaa, "model": model, "approx": meanfield(model, MEAN, SD)}
    exec(compile(part("PyMC"), "docs/handover.md", "exec"), scope)  # it counts the divergences itself
    chains = scope["trace"].posterior
    right(chains["mu"].values, chains["tau"].values)


@pytest.mark.stan
@pytest.mark.filterwarnings("ignore")  # of httpstan's server about itself
def test_stan_from_the_handover():
    import pandas

    stan = need("stan")
    program = (Path(__file__).parents[2] / "examples" / "eight_schools.stan").read_text(encoding="utf-8")
    model = stan.build(program, data={"J": 8, "effect": EFFECT.tolist(), "error": ERROR.tolist()}, random_seed=1)
    rows = np.random.default_rng(0).normal(MEAN, SD, (400, 10))
    rows[:, 1] = np.exp(rows[:, 1])
    draws = pandas.DataFrame(rows, columns=["mu", "tau", *(f"eta[{i}]" for i in range(1, 9))])
    scope = {"taddaa": taddaa, "model": model, "draws": draws}
    exec(compile(part("Stan"), "docs/handover.md", "exec"), scope)
    right(scope["fit"]["mu"], scope["fit"]["tau"])
