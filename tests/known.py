"""Targets whose truth is known: log densities with exact samplers, and the paper's correlated Gaussian."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Known(NamedTuple):
    """A log density with an exact sampler (rng, count) -> draws."""

    logdensity: Callable
    sample: Callable
    dim: int


COVARIANCE = np.array([[10.0, 0.7 * np.sqrt(10.0)], [0.7 * np.sqrt(10.0), 1.0]])
_PRECISION = np.linalg.inv(COVARIANCE)


def correlated_logdensity(x):
    return -0.5 * x @ jnp.asarray(_PRECISION) @ x


def correlated_sample(rng, count):
    return rng.multivariate_normal(np.zeros(2), COVARIANCE, count)


def banana_logdensity(x):
    return -0.5 * x[0] ** 2 - 0.5 * (x[1] - 0.5 * x[0] ** 2) ** 2


def banana_sample(rng, count):
    first = rng.standard_normal(count)
    return np.stack([first, 0.5 * first**2 + rng.standard_normal(count)], axis=1)


def student_logdensity(x):
    """Two dependent coordinates of Student's t with 8 degrees of freedom."""
    return -0.5 * (8 + 2) * jnp.log1p(jnp.sum(x**2) / 8)


def student_sample(rng, count):
    return rng.standard_normal((count, 2)) / np.sqrt(rng.chisquare(8, (count, 1)) / 8)


KNOWN = {
    "correlated": Known(correlated_logdensity, correlated_sample, 2),
    "banana": Known(banana_logdensity, banana_sample, 2),
    "student": Known(student_logdensity, student_sample, 2),
}


def paper_gaussian(dim: int):
    """The paper's correlated Gaussian (ρ = 0.7, σ₁² = 10): covariance, precision, and the sds of its mean-field fit."""
    scale = np.ones(dim)
    scale[0] = np.sqrt(10.0)
    covariance = (0.7 + 0.3 * np.eye(dim)) * np.outer(scale, scale)
    precision = np.linalg.inv(covariance)
    return covariance, precision, 1 / np.sqrt(np.diag(precision))


def gaussian_logdensity(x, precision):
    return -0.5 * x @ precision @ x


def run_chains(known: Known, kernel, starts, metric, iterations: int, seed: int = 0, step: float | None = None):
    """Carry starts through the engine, under a given metric: (final positions, trace)."""
    from taddaa import Target
    from taddaa.chains.machine.engine import Engine
    from taddaa.chains.machine.meter import Meter

    with jax.enable_x64(True):
        engine = Engine(Target(known.logdensity, known.dim), kernel, len(starts), seed, "float64", Meter(), 2)
        chains = engine.start(starts, metric, step or kernel.initial_step(known.dim))
        chains, trace = engine.advance(chains, metric, starts, iterations)
        return engine.host(engine.flat(chains, metric).position), trace
