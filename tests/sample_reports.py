"""Real reports for the tests of what shows them, each made once."""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np

import taddaa
from taddaa.cli.demo import problem

NASTY = (
    "<script>document.title='owned'</script>",
    "\"quoted\" & 'single'",
    "🦖 emoji 漢字 λ[β]",
    "long" * 75,
    "</td></table><img src=x onerror=alert(1)>",
    "$\\alpha_{1}$",
    "= cmd",
)


@lru_cache
def demo_report() -> taddaa.Report:
    return taddaa.diagnose(**problem(), seed=0)


@lru_cache
def wide_report(dim: int = 200) -> taddaa.Report:
    """Half the variances wrong by growing factors, a few means wrong, and names that no page may trip over."""
    names = [*NASTY, *(f"beta[{i}]" for i in range(dim - len(NASTY)))]
    sd = np.where(np.arange(dim) % 2, np.linspace(1, 0.3, dim), 1.0)
    mean = np.where(np.arange(dim) % 20 == 3, 0.5, 0.0)
    settings = taddaa.Settings(chains=200, budget=1)
    return taddaa.diagnose(taddaa.Target(_normal, dim=dim, names=names), taddaa.Gaussian(mean, sd), settings=settings)


@lru_cache
def doubtful_report() -> taddaa.Report:
    """Far too few iterations: nothing can be trusted."""
    settings = taddaa.Settings(chains=50, iterations=2, budget=1)
    return taddaa.diagnose(_normal, taddaa.Gaussian([30.0, 0.0], [0.01, 1.0]), settings=settings)


@lru_cache
def clean_report() -> taddaa.Report:
    return taddaa.diagnose(_normal, taddaa.Gaussian(np.zeros(2), np.ones(2)))


def _normal(x):
    return -jnp.sum(x**2) / 2
