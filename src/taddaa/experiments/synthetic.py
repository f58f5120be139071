"""Targets with known moments and quantiles."""

from functools import cache

import jax.numpy as jnp
import numpy as np
from scipy import integrate, optimize, stats

from ..problem.target import Target

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


def funnel_covariance(dim: int) -> np.ndarray:
    return np.diag([1.0, *[np.exp(0.5)] * (dim - 1)])


def normal_quantile(p: float) -> float:
    """Of X₁."""
    return float(stats.norm.ppf(p))


@cache
def funnel_quantile(p: float) -> float:
    """The p-quantile of X₂, a normal variance mixture over a log-normal variance; by quadrature."""

    def distribution(x: float) -> float:
        value, _ = integrate.quad(lambda z: stats.norm.cdf(x * np.exp(-z / 2)) * stats.norm.pdf(z), -10, 10, epsabs=1e-12)
        return value - p

    return 0.0 if p == 0.5 else float(optimize.brentq(distribution, -50, 50))
