"""What a stochastic fit may choose from: each family is its parameters, its draws, its density, and a step from where it is.

Steps are taken in the family's own units: a location moves by so many of its present scales, a scale by a factor. Progress is
then the same whatever the units of the target's coordinates are.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from ..problem.approximation import Approximation, Gaussian, StudentT

LOG_DF = (0.0, float(np.log(200.0)))  # degrees of freedom from 1 (Cauchy) to 200 (normal, for all one can see)
FIRST_DF = 10.0


class Features(NamedTuple):
    """What two fits of a family are compared by: location, spread (half the interquartile range) and correlations, (R, d)."""

    location: np.ndarray
    spread: np.ndarray
    correlation: np.ndarray | None = None


@dataclass(frozen=True)
class Family(ABC):
    """Written for one fit; `ascent` batches it over restarts."""

    @abstractmethod
    def start(self, location, sd) -> Any:
        """The parameters to begin with."""

    def noise(self, key, count: int, dim: int):
        return jax.random.normal(key, (count, dim))

    @abstractmethod
    def draw(self, parameters, noise):
        """Draws (count, d), as a smooth function of the parameters."""

    @abstractmethod
    def logdensity(self, parameters, x):
        """The log density at the rows of x."""

    @abstractmethod
    def move(self, parameters, step):
        """The parameters after a step in the family's own units; the zero step stays."""

    def rates(self, parameters):
        """How the common learning rate is shared out among the parameters; they all take it whole."""
        return jax.tree.map(lambda _: 1.0, parameters)

    @abstractmethod
    def features(self, parameters) -> Features:
        """Of parameters on the host, batched over restarts."""

    @abstractmethod
    def approximation(self, parameters) -> Approximation:
        """Of one restart's parameters, on the host."""


class Independent(NamedTuple):
    mean: Any
    log_sd: Any


class MeanField(Family):
    """Independent normal coordinates."""

    def start(self, location, sd):
        return Independent(location, jnp.log(sd))

    def draw(self, parameters, noise):
        return parameters.mean + jnp.exp(parameters.log_sd) * noise

    def logdensity(self, parameters, x):
        white = (x - parameters.mean) * jnp.exp(-parameters.log_sd)
        return jnp.sum(jax.scipy.stats.norm.logpdf(white) - parameters.log_sd, axis=-1)

    def move(self, parameters, step):
        return Independent(parameters.mean + jnp.exp(parameters.log_sd) * step.mean, parameters.log_sd + step.log_sd)

    def features(self, parameters):
        return Features(parameters.mean, np.exp(parameters.log_sd) * stats.norm.ppf(0.75))

    def approximation(self, parameters):
        return Gaussian(parameters.mean, np.exp(parameters.log_sd))


class Factored(NamedTuple):
    mean: Any
    factor: Any  # the covariance's Cholesky factor


class FullRank(Family):
    """A normal distribution with any covariance."""

    def start(self, location, sd):
        return Factored(location, jnp.diag(sd))

    def draw(self, parameters, noise):
        return parameters.mean + noise @ parameters.factor.T

    def logdensity(self, parameters, x):
        white = jax.scipy.linalg.solve_triangular(parameters.factor, (x - parameters.mean).T, lower=True).T
        return jnp.sum(jax.scipy.stats.norm.logpdf(white), axis=-1) - jnp.sum(jnp.log(jnp.diag(parameters.factor)))

    def move(self, parameters, step):
        turn = jnp.tril(step.factor, -1) + jnp.diag(jnp.exp(jnp.diag(step.factor)))
        return Factored(parameters.mean + parameters.factor @ step.mean, parameters.factor @ turn)

    def rates(self, parameters):
        dim = parameters.mean.shape[-1]
        # d off-diagonal steps of random sign add up to √d times one of them.
        return Factored(1.0, jnp.eye(dim) + (1 - jnp.eye(dim)) / jnp.sqrt(dim))

    def features(self, parameters):
        covariance = parameters.factor @ np.swapaxes(parameters.factor, -1, -2)
        sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        return Features(parameters.mean, sd * stats.norm.ppf(0.75), covariance / (sd[..., None, :] * sd[..., :, None]))

    def approximation(self, parameters):
        return Gaussian(parameters.mean, covariance=parameters.factor @ parameters.factor.T)


class Tailed(NamedTuple):
    loc: Any
    log_scale: Any
    log_df: Any


@dataclass(frozen=True)
class Tails(Family):
    """Independent Student t coordinates, with degrees of freedom of their own unless `df` fixes them."""

    df: float | None = None

    def start(self, location, sd):
        return Tailed(location, jnp.log(sd), jnp.full_like(sd, np.log(self.df or FIRST_DF)))

    def noise(self, key, count, dim):
        return jax.random.uniform(key, (2, count, dim), minval=jnp.finfo(float).tiny)

    def draw(self, parameters, noise):
        """Bailey's (1994) polar method, smooth in the degrees of freedom: √(ν (U^(−2/ν) − 1)) cos 2πV."""
        df = self._df(parameters)
        radius = jnp.sqrt(df * jnp.expm1(-2 * jnp.log(noise[0]) / df))
        return parameters.loc + jnp.exp(parameters.log_scale) * radius * jnp.cos(2 * jnp.pi * noise[1])

    def logdensity(self, parameters, x):
        scaled = (x - parameters.loc) * jnp.exp(-parameters.log_scale)
        return jnp.sum(jax.scipy.stats.t.logpdf(scaled, self._df(parameters)) - parameters.log_scale, axis=-1)

    def move(self, parameters, step):
        return Tailed(
            parameters.loc + jnp.exp(parameters.log_scale) * step.loc,
            parameters.log_scale + step.log_scale,
            parameters.log_df if self.df else jnp.clip(parameters.log_df + step.log_df, *LOG_DF),
        )

    def features(self, parameters):
        return Features(parameters.loc, np.exp(parameters.log_scale) * stats.t.ppf(0.75, self._df(parameters)))

    def approximation(self, parameters):
        return StudentT(parameters.loc, np.exp(parameters.log_scale), self._df(parameters))

    def _df(self, parameters):
        return self.df + 0 * parameters.log_df if self.df else jnp.exp(parameters.log_df)


def distance(one: Features, other: Features) -> np.ndarray:
    """How far fits are apart, (R,): the largest difference of locations in (normal) standard deviations, of log spreads, or of
    correlations."""
    unit = np.sqrt((one.spread**2 + other.spread**2) / 2) / stats.norm.ppf(0.75)
    apart = np.max(np.abs(one.location - other.location) / unit, axis=-1)
    apart = np.maximum(apart, np.max(np.abs(np.log(one.spread / other.spread)), axis=-1))
    if one.correlation is not None and other.correlation is not None:
        apart = np.maximum(apart, np.max(np.abs(one.correlation - other.correlation), axis=(-2, -1)))
    return np.nan_to_num(apart, nan=np.inf)
