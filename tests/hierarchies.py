"""Hierarchies whose truth is known, written in JAX: funnels in closed form, normal ones by a grid of their scale."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

HEARD = np.array([2.8, 0.8, -0.3, 0.7, -0.1, 0.1, 1.8, 1.2])
NOISE = np.array([1.5, 1.0, 1.6, 1.1, 0.9, 1.1, 1.0, 1.8])
GROUPS = len(HEARD)
DIM = 2 + GROUPS


def funnel(x):
    """v ~ N(0, 1), and x_i | v ~ N(0, exp(v))."""
    return -(x[0] ** 2) / 2 - jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) / 2 - (x.size - 1) * x[0] / 2


def funnel_draws(rng: np.random.Generator, count: int, dim: int) -> np.ndarray:
    v = rng.standard_normal((count, 1))
    return np.concatenate([v, np.exp(v / 2) * rng.standard_normal((count, dim - 1))], axis=1)


def centred(x):
    """log τ and μ ~ N(0, 1), θ_i ~ N(μ, τ²), what is heard of θ_i with noise."""
    log_tau, mu, theta = x[0], x[1], x[2:]
    prior = -(log_tau**2) / 2 - mu**2 / 2 - jnp.sum((theta - mu) ** 2) * jnp.exp(-2 * log_tau) / 2 - GROUPS * log_tau
    return prior - jnp.sum((HEARD - theta) ** 2 / NOISE**2) / 2


def noncentred(x):
    """The same with θ = μ + τ z."""
    log_tau, mu, z = x[0], x[1], x[2:]
    return -jnp.sum(x**2) / 2 - jnp.sum((HEARD - mu - jnp.exp(log_tau) * z) ** 2 / NOISE**2) / 2


class Truth:
    """Of the hierarchy: given log τ on a fine grid, μ, θ and z are jointly normal."""

    def __init__(self):
        self.grid = np.linspace(-8, 4, 1201)
        moments = [self._given(np.exp(log_tau)) for log_tau in self.grid]
        log = stats.norm.logpdf(self.grid) + np.array([each[0] for each in moments])
        self.weights = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
        self.means, self.variances = (np.array([each[i] for each in moments]) for i in (1, 2))

    @staticmethod
    def _given(tau: float) -> tuple[float, np.ndarray, np.ndarray]:
        """log p(heard | τ); means and variances of (μ, θ, z)."""
        marginal = np.diag(tau**2 + NOISE**2) + 1.0
        prior = np.diag([1.0] + [1.0] * GROUPS)  # of (μ, z)
        maps = np.concatenate([np.ones((GROUPS, 1)), tau * np.eye(GROUPS)], axis=1)  # to θ
        gain = prior @ maps.T @ np.linalg.inv(marginal)
        mean, covariance = gain @ HEARD, prior - gain @ maps @ prior
        means = np.concatenate([mean[:1], maps @ mean, mean[1:]])
        variances = np.concatenate([np.diag(covariance)[:1], np.diag(maps @ covariance @ maps.T), np.diag(covariance)[1:]])
        return stats.multivariate_normal.logpdf(HEARD, np.zeros(GROUPS), marginal), means, variances

    def moments(self, effects: slice) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of log τ, μ and these of (θ, z)."""
        chosen = [0, *range(1, 1 + 2 * GROUPS)[effects]]
        mean = self.weights @ self.means[:, chosen]
        variance = self.weights @ (self.variances + self.means**2)[:, chosen] - mean**2
        own = self.weights @ self.grid
        return np.r_[own, mean], np.r_[self.weights @ self.grid**2 - own**2, variance]

    def quantile(self, p: float) -> float:
        """Of log τ."""
        return float(np.interp(p, np.cumsum(self.weights), self.grid))


THETA, Z = slice(0, GROUPS), slice(GROUPS, None)


def evaluated(logdensity: Callable) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Log densities and gradients of rows, in double precision."""
    both = jax.jit(jax.vmap(jax.value_and_grad(logdensity)))

    def evaluate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with jax.enable_x64(True):
            return tuple(np.asarray(part) for part in both(jnp.asarray(x)))

    return evaluate
