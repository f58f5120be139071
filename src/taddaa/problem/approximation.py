"""What is being judged: a distribution on R^d that can be sampled, with whatever else is known about it."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..errors import InputError, whole_dimension
from ..formulas.distributions import normal_logpdf, normal_quantile, t_logpdf, t_quantile
from .distribution import sampler_of
from .numbers import cholesky_of, covariance_or_variances, numbers, vector

# Fewer distinct draws than this share of all draws are particles or a stuck chain, not a sample.
DISTINCT_SHARE = 0.5
MOSTLY_DISTINCT = 0.9  # below it, a warning


class Approximation(ABC):
    """A distribution q on R^d. Only `sample` is required; each closed form that exists narrows the intervals."""

    dim: int

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """`count` independent draws, shape (count, d)."""

    def mean(self) -> np.ndarray | None:
        return None

    def covariance(self) -> np.ndarray | None:
        """The covariance matrix, or its diagonal as a vector when coordinates are independent."""
        return None

    def quantile(self, p: float) -> np.ndarray | None:
        return None

    def logdensity(self, x: np.ndarray) -> np.ndarray | None:
        """The normalised log density at the rows of x, where it is known."""
        return None

    def describe(self) -> str:
        return f"{type(self).__name__} of dimension {self.dim}"

    def __repr__(self) -> str:
        """What it is, with the first of its means and standard deviations where they are known."""
        with np.errstate(over="ignore"):
            centre, spread = self.mean(), self.covariance()
        if centre is None or spread is None:
            return f"<{self.describe()}>"
        sd = np.sqrt(np.diagonal(spread) if np.ndim(spread) == 2 else spread)
        return f"<{self.describe()}: mean {_few(centre)}, sd {_few(sd)}>"


def _few(values: np.ndarray, most: int = 4) -> str:
    """The first few numbers of a vector."""
    shown = ", ".join(f"{value:.3g}" for value in np.asarray(values)[:most])
    return f"[{shown}{', …' if len(values) > most else ''}]"


class Gaussian(Approximation):
    """A normal distribution, mean-field (`sd`) or with a full `covariance`."""

    def __init__(self, mean, sd=None, *, covariance=None):
        self._mean = vector("mean", mean)
        self.dim = len(self._mean)
        if (sd is None) == (covariance is None):
            raise InputError("Gaussian needs either sd (mean-field) or covariance, " + ("got neither" if sd is None else "got both"))
        if sd is not None:
            self._sd = vector("sd", sd, length=self.dim, positive=True)
            self._cholesky = None
        else:
            self._cholesky = cholesky_of(covariance, self.dim)
            self._sd = np.sqrt(np.sum(self._cholesky**2, axis=1))

    def sample(self, rng, count):
        noise = rng.standard_normal((count, self.dim))
        return self._mean + (noise * self._sd if self._cholesky is None else noise @ self._cholesky.T)

    def mean(self):
        return self._mean

    def covariance(self):
        return self._sd**2 if self._cholesky is None else self._cholesky @ self._cholesky.T

    def quantile(self, p):
        return self._mean + self._sd * normal_quantile(p)

    def logdensity(self, x):
        centred = np.asarray(x) - self._mean
        if self._cholesky is None:
            return normal_logpdf(centred / self._sd).sum(-1) - np.log(self._sd).sum()
        from scipy import linalg  # a diagnosis does without

        white = linalg.solve_triangular(self._cholesky, centred.T, lower=True).T
        return normal_logpdf(white).sum(-1) - np.log(np.diag(self._cholesky)).sum()


class StudentT(Approximation):
    """Independent Student t coordinates: loc + scale · t(df)."""

    def __init__(self, loc, scale, df):
        self.loc = vector("loc", loc)
        self.dim = len(self.loc)
        self.scale = vector("scale", scale, length=self.dim, positive=True)
        self.df = vector("df", np.broadcast_to(df, (self.dim,)) if np.ndim(df) == 0 else df, length=self.dim, positive=True)

    def sample(self, rng, count):
        return self.loc + self.scale * rng.standard_t(self.df, (count, self.dim))

    def mean(self):
        return np.where(self.df > 1, self.loc, np.nan)

    def covariance(self):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.df > 2, self.scale**2 * self.df / (self.df - 2), np.nan)

    def quantile(self, p):
        return self.loc + self.scale * t_quantile(p, self.df)

    def logdensity(self, x):
        return np.sum(t_logpdf((np.asarray(x) - self.loc) / self.scale, self.df) - np.log(self.scale), axis=-1)


class Draws(Approximation):
    """Nothing but draws: chains start at some of them, and intervals include the draws' own sampling error."""

    def __init__(self, draws):
        draws = numbers("draws", draws, "an array")
        if draws.ndim != 2 or draws.shape[1] < 1:
            raise InputError(f"draws must have shape (draws, dim), got shape {draws.shape}")
        if not np.all(np.isfinite(draws)):
            bad = int(np.sum(~np.isfinite(draws).all(axis=1)))
            raise InputError(f"draws must be finite, got NaN or infinity in {bad} of {len(draws)} rows; remove or refit them")
        if len(draws) < 20:
            raise InputError(f"draws must hold at least 20 rows (hundreds are better), got {len(draws)}")
        constant = np.flatnonzero(np.ptp(draws, axis=0) == 0)
        if constant.size:
            raise InputError(
                f"draws must vary, but column {constant[0]} has the one value {draws[0, constant[0]]:g} in every row; "
                "a fit with a singular covariance gives such draws"
            )
        distinct = len(np.unique(draws, axis=0))
        if distinct < DISTINCT_SHARE * len(draws):
            raise InputError(
                f"draws must be distinct, but only {distinct} of {len(draws)} rows are, so they are not independent: pass repeated "
                "particles once each, and draws resampled by importance weights as they were before (psis_resample=False in CmdStanPy)"
            )
        if distinct < MOSTLY_DISTINCT * len(draws):
            warnings.warn(
                f"only {distinct} of {len(draws)} draws are distinct, as after importance resampling; intervals that treat them as "
                "independent may be too narrow, so an error may be found where there is none",
                UserWarning,
                stacklevel=3,
            )
        self.draws = draws
        self.dim = draws.shape[1]

    def sample(self, rng, count):
        """Distinct rows in random order while they last, then the same rows again in another order."""
        rounds = -(-count // len(self.draws))
        order = np.concatenate([rng.permutation(len(self.draws)) for _ in range(rounds)])
        return self.draws[order[:count]]

    def describe(self):
        return f"{len(self.draws)} draws of dimension {self.dim}"


class Sampler(Approximation):
    """Anything that can sample, with an optional log density: flows, mixtures, hand-written guides.

    Args:
        sample: ``(key, count) -> (count, d)`` with a JAX random key.
        dim: the dimension d.
        logdensity: the normalised log density ``(count, d) -> (count,)``, if known.
        mean, covariance: closed forms, if known (covariance may be a vector of variances).
    """

    def __init__(
        self,
        sample: Callable[[Any, int], Any],
        dim: int,
        logdensity: Callable[[Any], Any] | None = None,
        *,
        mean=None,
        covariance=None,
    ):
        if not callable(sample):
            raise InputError(f"sample must be a function (key, count) -> draws, got {type(sample).__name__}")
        if logdensity is not None and not callable(logdensity):
            raise InputError(f"logdensity must be a function of draws, got {type(logdensity).__name__}")
        self._sample, self._logdensity, self.dim = sample, logdensity, whole_dimension(dim)
        self._mean = None if mean is None else vector("mean", mean, length=self.dim)
        self._covariance = None if covariance is None else covariance_or_variances(covariance, self.dim)

    def sample(self, rng, count):
        key = jax.random.key(int(rng.integers(2**31)))
        try:
            draws = self._sample(key, count)
        except (Exception, SystemExit) as error:
            raise InputError(f"sample(key, {count}) failed: {type(error).__name__}: {error}".partition("\n")[0]) from error
        draws = numbers(f"sample(key, {count})", draws, "an array")
        if draws.shape != (count, self.dim):
            raise InputError(f"sample(key, {count}) must return shape {(count, self.dim)}, got {draws.shape}")
        if not np.all(np.isfinite(draws)):
            raise InputError(f"sample(key, {count}) returned NaN or infinite values; the approximation itself is broken")
        if count > 1 and np.any(np.ptp(draws, axis=0) == 0):
            column = int(np.flatnonzero(np.ptp(draws, axis=0) == 0)[0])
            raise InputError(f"sample(key, {count}) returned the same value in every row of column {column}; is the fit singular?")
        return draws

    def mean(self):
        return self._mean

    def covariance(self):
        return self._covariance

    def logdensity(self, x):
        if self._logdensity is None:
            return None
        try:
            values = self._logdensity(x)
        except (Exception, SystemExit) as error:
            raise InputError(f"logdensity of the Sampler failed: {type(error).__name__}: {error}".partition("\n")[0]) from error
        values = numbers("logdensity of the Sampler", values, "a vector")
        if values.shape != np.shape(x)[:1]:
            raise InputError(f"logdensity of the Sampler must return shape {np.shape(x)[:1]} for {len(x)} draws, got {values.shape}")
        return values


class Inflated(Approximation):
    """Another approximation's draws, `factor` times as far from their median: starts that other modes may catch."""

    def __init__(self, approximation: Approximation, factor: float = 3.0):
        self._of, self._factor, self.dim = approximation, factor, approximation.dim

    def sample(self, rng, count):
        draws = np.asarray(self._of.sample(rng, count), float)
        centre = np.median(draws, axis=0)
        return centre + self._factor * (draws - centre)


def as_approximation(approximation, name: str = "approximation") -> Approximation:
    """An Approximation as it is; a distribution with `sample` and `log_prob` of NumPyro, flowjax, distrax, TFP or PyTorch is wrapped."""
    if isinstance(approximation, Approximation):
        return approximation
    if hasattr(approximation, "sample") and hasattr(approximation, "log_prob"):
        return Sampler(*sampler_of(approximation))
    if isinstance(approximation, (np.ndarray, jax.Array)):
        raise InputError(f"{name} is a bare array; wrap it: taddaa.Draws(array)")
    raise InputError(
        f"{name} must be a taddaa.Gaussian, StudentT, Draws or Sampler, a distribution with sample and log_prob, or a framework's fit "
        "(taddaa.from_pymc, from_numpyro, from_stan say which), "
        f"got {type(approximation).__name__}"
    )
