"""Targets whose truth is known, and approximations that are wrong in known ways."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from taddaa import Approximation, Draws, Gaussian, Target

ROOT = Path(__file__).resolve().parent.parent
SHIFT, WIDE, NARROW = 0.7, 2.0, 0.5


@dataclass(frozen=True)
class Problem:
    """A target, its moments, and a way to draw from it (seed, count) → (count, d)."""

    name: str
    family: str
    target: Target
    mean: np.ndarray
    covariance: np.ndarray
    draw: Callable[[int, int], np.ndarray]
    truth_known: bool = True  # to the last digit, not from draws

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(np.diag(self.covariance))

    def approximations(self) -> dict[str, Callable[[int], Approximation]]:
        """Kind → seed → approximation. A mean-field fit has the inverse of the precision's diagonal as variances."""
        meanfield = 1 / np.sqrt(np.diag(np.linalg.inv(self.covariance)))
        kinds: dict[str, Callable[[int], Approximation]] = {
            "exact": lambda seed: Draws(self.draw(10_000 + seed, 5000)),
            "mean-field": lambda seed: Gaussian(self.mean, meanfield),
            "shifted": lambda seed: Gaussian(self.mean + SHIFT * self.sd, meanfield),
            "too wide": lambda seed: Gaussian(self.mean, WIDE * self.sd),
            "too narrow": lambda seed: Gaussian(self.mean, NARROW * self.sd),
        }
        if self.family == "mixture":
            kinds["one mode"] = lambda seed: Gaussian(self.mean - np.r_[MODES * 0.5, 0.0], np.ones(2))
        return kinds

    def errors(self, kind: str, approximation: Approximation) -> tuple[np.ndarray, np.ndarray]:
        """True errors: of means in posterior standard deviations, and of log variances."""
        if kind == "exact":
            return np.zeros(len(self.mean)), np.zeros(len(self.mean))
        mean, variance = approximation.mean(), approximation.covariance()
        assert mean is not None and variance is not None and variance.ndim == 1
        return np.abs(mean - self.mean) / self.sd, np.abs(np.log(variance / self.sd**2))


def gaussian(d: int, rho: float) -> Problem:
    """The paper's correlated Gaussian: equal correlations, σ₁² = 10."""
    scale = np.r_[np.sqrt(10.0), np.ones(d - 1)]
    share = rho / (1 + (d - 1) * rho)

    def logdensity(x, scale):
        z = x / scale
        return -0.5 * (jnp.sum(z * z) - share * jnp.sum(z) ** 2) / (1 - rho)

    covariance = np.outer(scale, scale) * (rho + (1 - rho) * np.eye(d))
    factor = np.linalg.cholesky(covariance)
    draw = lambda seed, n: np.random.default_rng(seed).standard_normal((n, d)) @ factor.T  # noqa: E731
    return Problem(f"Gaussian d={d} ρ={rho:g}", "Gaussian", Target(logdensity, dim=d, data=scale), np.zeros(d), covariance, draw)


def funnel(d: int) -> Problem:
    """Neal's funnel as in the paper: x₁ ~ N(0, 1), x_i ~ N(0, e^{x₁})."""

    def logdensity(x):
        return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (d - 1) * x[0]

    def draw(seed, n):
        rng = np.random.default_rng(seed)
        first = rng.standard_normal((n, 1))
        return np.concatenate([first, np.exp(first / 2) * rng.standard_normal((n, d - 1))], axis=1)

    variance = np.r_[1.0, np.full(d - 1, np.exp(0.5))]
    return Problem(f"funnel d={d}", "funnel", Target(logdensity, dim=d), np.zeros(d), np.diag(variance), draw)


def student(d: int, df: float) -> Problem:
    def logdensity(x):
        return -0.5 * (df + 1) * jnp.sum(jnp.log1p(x * x / df))

    draw = lambda seed, n: np.random.default_rng(seed).standard_t(df, (n, d))  # noqa: E731
    return Problem(f"Student t_{df:g} d={d}", "Student t", Target(logdensity, dim=d), np.zeros(d), np.eye(d) * df / (df - 2), draw)


def banana(noise: float = 0.5) -> Problem:
    """x₂ = x₁² + noise; E x₂ = 1, Var x₂ = 2 + noise²."""

    def logdensity(x):
        return -0.5 * x[0] ** 2 - 0.5 * (x[1] - x[0] ** 2) ** 2 / noise**2

    def draw(seed, n):
        rng = np.random.default_rng(seed)
        first = rng.standard_normal(n)
        return np.stack([first, first**2 + noise * rng.standard_normal(n)], axis=1)

    return Problem("banana", "banana", Target(logdensity, dim=2), np.array([0.0, 1.0]), np.diag([1.0, 2 + noise**2]), draw)


MODES = 12.0  # between the mixture's modes, each of standard deviation 1: chains cannot cross


def mixture() -> Problem:
    def logdensity(x):
        first, second = (-0.5 * (x[0] - side * MODES / 2) ** 2 for side in (-1, 1))
        return jnp.logaddexp(first, second) - 0.5 * x[1] ** 2

    def draw(seed, n):
        rng = np.random.default_rng(seed)
        return rng.standard_normal((n, 2)) + np.stack([rng.choice([-MODES / 2, MODES / 2], n), np.zeros(n)], axis=1)

    return Problem("mixture", "mixture", Target(logdensity, dim=2), np.zeros(2), np.diag([1 + MODES**2 / 4, 1.0]), draw)


def logistic(n: int = 150, d: int = 8) -> Problem:
    """Logistic regression with correlated columns; truth from 40,000 NUTS draws (NumPyro)."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, d)) @ (np.eye(d) + 0.5)
    data = {"x": x, "y": (rng.random(n) < 1 / (1 + np.exp(-x @ rng.standard_normal(d) / 2))).astype(float)}

    def logdensity(beta, data):
        logits = data["x"] @ beta
        return data["y"] @ logits - jnp.sum(jax.nn.softplus(logits)) - 0.5 * beta @ beta

    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True):
        sampler = MCMC(
            NUTS(potential_fn=lambda beta: -logdensity(beta, data), dense_mass=True),
            num_warmup=1000,
            num_samples=10_000,
            num_chains=4,
            chain_method="vectorized",
            progress_bar=False,
        )
        sampler.run(jax.random.key(0), init_params=jnp.zeros((4, d)))
        draws = np.asarray(sampler.get_samples())
    return _from_draws("logistic regression", "logistic", Target(logdensity, dim=d, data=data), draws)


def reference_posteriors() -> Iterator[Problem]:
    """Real posteriors with reference draws, where the folder `TADDAA_TRUTH` (or ../shared/truth) holds them."""
    folder = Path(os.environ.get("TADDAA_TRUTH", ROOT.parent / "shared" / "truth"))
    if not (folder / "models.py").exists():
        return
    spec = importlib.util.spec_from_file_location("models", folder / "models.py")
    assert spec and spec.loader
    models = sys.modules["models"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    for name in models.MODELS:
        with jax.enable_x64(True):
            logdensity, draws = models.unconstrained(name)
        yield _from_draws(name.split("-")[-1], "posteriordb", Target(logdensity, dim=draws.shape[1]), draws)


def _from_draws(name: str, family: str, target: Target, draws: np.ndarray) -> Problem:
    def draw(seed, n):
        return draws[np.random.default_rng(seed).permutation(len(draws))[:n]]

    return Problem(name, family, target, draws.mean(axis=0), np.atleast_2d(np.cov(draws.T)), draw, truth_known=False)


def problems() -> Iterator[Problem]:
    """All of them, one at a time."""
    for d in (2, 10, 30, 100, 256):
        yield gaussian(d, 0.7)
    for d in (10, 30):
        yield gaussian(d, 0.95)
    yield from (funnel(2), funnel(5), funnel(10), student(5, 5.0), student(5, 3.0), banana(), mixture(), logistic())
    yield from reference_posteriors()
