"""Targets with known moments and quantiles, and one diagnosis of them as plain numbers."""

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import integrate, optimize, stats

from ..approximation import Approximation
from ..comparison import Comparators, compare
from ..functional import Functional
from ..report import Report
from ..settings import Settings
from ..target import Target

CORRELATION, FIRST_VARIANCE = 0.7, 10.0  # section 4.1


@cache
def correlated_gaussian(dim: int) -> Target:
    """N(0, Σ) with unit variances but σ₁² = 10, and all correlations 0.7."""
    precision = jnp.asarray(np.linalg.inv(gaussian_covariance(dim)))
    return Target(lambda x: -0.5 * x @ precision @ x, dim=dim, names=names(dim))


def gaussian_covariance(dim: int) -> np.ndarray:
    sd = np.ones(dim)
    sd[0] = np.sqrt(FIRST_VARIANCE)
    correlation = np.full((dim, dim), CORRELATION)
    np.fill_diagonal(correlation, 1.0)
    return correlation * np.outer(sd, sd)


@cache
def funnel(dim: int) -> Target:
    """x₁ ~ N(0, 1); the others N(0, exp(x₁)), a variance."""

    def logdensity(x):
        return -0.5 * x[0] ** 2 - 0.5 * (dim - 1) * x[0] - 0.5 * jnp.exp(-x[0]) * jnp.sum(x[1:] ** 2)

    return Target(logdensity, dim=dim, names=names(dim))


def names(dim: int) -> list[str]:
    return [f"X{i + 1}" for i in range(dim)]


FUNNEL_VARIANCES = np.array([1.0, np.exp(0.5)])  # of X₁ and X₂


@cache
def funnel_quantile(p: float) -> float:
    """The p-quantile of X₂, a normal variance mixture over a log-normal variance; by quadrature."""

    def distribution(x: float) -> float:
        value, _ = integrate.quad(lambda z: stats.norm.cdf(x * np.exp(-z / 2)) * stats.norm.pdf(z), -10, 10, epsabs=1e-12)
        return value - p

    return 0.0 if p == 0.5 else float(optimize.brentq(distribution, -50, 50))


def judge(
    target: Target, approximation: Approximation, settings: Settings, seed: int, functionals: list[Functional] | None = None
) -> tuple[Report, Comparators]:
    """A diagnosis, with k-hat and the Wasserstein bounds."""
    found = compare({"q": approximation}, target, functionals, settings, seed)
    return found.reports["q"], found.comparators["q"]


def rows_of(report: Report, parameters: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The rows of some parameters: {"X1 mean": {"bound": …, "verdict": …}, …}."""
    return {
        f"{row.parameter} {row.functional}": {
            "bound": row.bound,
            "relative_bound": row.relative_bound,
            "lower": row.lower,
            "upper": row.upper,
            "verdict": row.verdict,
            "reason": row.reason,
        }
        for row in report.rows
        if row.parameter in parameters
    }


def thinned(values: np.ndarray, most: int = 120) -> tuple[list[int], list[float]]:
    """At most so many points of a path, evenly spaced in the logarithm of the iteration."""
    at = np.unique(np.geomspace(1, len(values), most).round().astype(int))
    return at.tolist(), np.asarray(values, float)[at - 1].tolist()
