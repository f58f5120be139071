"""What a user asks about: means, variances, quantiles and covariances, of parameters or of any function of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..formulas.interval import (
    Interval,
    covariance_interval,
    log_variance_bonett,
    log_variance_chi2,
    mean_interval,
    quantile_interval,
)
from .approximation import Approximation
from .selection import as_names

Names = str | Sequence[str]
VARIANCE_INTERVALS = {"bonett": log_variance_bonett, "chi2": log_variance_chi2}


@dataclass(frozen=True)
class Functional(ABC):
    """A number that a distribution has. Arrays are (N, W, k) windows of k quantities; see `interval`.

    Args:
        of: a function of the parameters (on the user's scale) that returns a number or an array, or the name of a parameter or names
            of several ("b", "b[x1]", ["b", "~b[x3]"]); if None every parameter that `diagnose` judges by default.
        name: the label of the rows that `of` gives; the function's own name if None.
    """

    of: Callable[..., Any] | Names | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def __post_init__(self):
        if isinstance(self.of, (str, list, tuple)):
            object.__setattr__(self, "of", as_names(self.of))
        elif self.of is not None and not callable(self.of):
            raise InputError(
                f"of must be a function of the parameters, such as lambda p: p[0], or a name, got {type(self.of).__name__}: {self.of!r}"
            )
        if self.name is not None and not isinstance(self.name, str):
            raise InputError(f"name must be a string, got {type(self.name).__name__}: {self.name!r}")

    @property
    def names(self) -> tuple[str, ...] | None:
        """The parameters that it names."""
        return self.of if isinstance(self.of, tuple) else None

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function that it is of."""
        return self.of if callable(self.of) else None

    @property
    @abstractmethod
    def label(self) -> str:
        """The row's `functional` column."""

    @abstractmethod
    def interval(self, window: np.ndarray, level: float, variance_interval: str) -> Interval:
        """Estimate and confidence interval, on the scale on which movement is measured."""

    @abstractmethod
    def score(self, window: np.ndarray, pooled: np.ndarray) -> np.ndarray:
        """A function of each state whose mean moves when and only when the functional does, at the pooled draws' value."""

    def closed_form(self, approximation: Approximation) -> np.ndarray | None:
        """The functional of each coordinate of q, where it is known exactly."""
        return None

    def estimate(self, draws: np.ndarray) -> np.ndarray:
        """The functional of plain draws (n, k), on the movement's scale."""
        return self.interval(draws[:, None], 0.5, "bonett").estimate

    def shown(self, value: np.ndarray) -> np.ndarray:
        """From the movement's scale to the functional itself, for the table."""
        return value

    def unit(self, sd: np.ndarray) -> np.ndarray:
        """What a relative bound is measured in, from the moved draws' standard deviation."""
        return sd


@dataclass(frozen=True)
class Mean(Functional):
    """The mean, of every parameter, of those named, or `of` a function of them; Student t interval."""

    of: Callable[..., Any] | Names | None = None  # by position too: Mean(f), Mean("b")

    @property
    def label(self):
        return "mean"

    def interval(self, window, level, variance_interval):
        return mean_interval(window, level)

    def score(self, window, pooled):
        return window

    def closed_form(self, approximation):
        return approximation.mean()


@dataclass(frozen=True)
class Variance(Functional):
    """The variance, of every parameter, those named, or `of` a function; its movement is that of log variance, as in the paper."""

    of: Callable[..., Any] | Names | None = None

    @property
    def label(self):
        return "variance"

    def interval(self, window, level, variance_interval):
        return VARIANCE_INTERVALS[variance_interval](window, level)

    def score(self, window, pooled):
        return (window - pooled.mean(axis=0)) ** 2

    def closed_form(self, approximation):
        covariance = approximation.covariance()
        if covariance is None:
            return None
        return np.log(covariance if covariance.ndim == 1 else np.diag(covariance))

    def shown(self, value):
        with np.errstate(over="ignore"):
            return np.exp(value)

    def unit(self, sd):
        return np.ones_like(sd)


@dataclass(frozen=True)
class Quantile(Functional):
    """The p-quantile, of what `Mean` may be of: Quantile(0.9), Quantile(0.9, "b[x1]"); distribution-free, from order statistics."""

    p: float = 0.5

    def __init__(self, p: float = 0.5, of: Callable[..., Any] | Names | None = None, *, name: str | None = None):
        for field_name, value in (("p", p), ("of", of), ("name", name)):  # frozen, and with p before what it inherits
            object.__setattr__(self, field_name, value)
        self.__post_init__()

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.p, bool) or not isinstance(self.p, (int, float, np.number)) or not 0 < self.p < 1:
            raise InputError(f"the quantile's p must lie strictly between 0 and 1, got {self.p!r}")

    @property
    def label(self):
        return f"q{self.p:g}"

    def interval(self, window, level, variance_interval):
        return quantile_interval(window, self.p, level)

    def score(self, window, pooled):
        return (window <= np.quantile(pooled, self.p, axis=0)).astype(float)

    def closed_form(self, approximation):
        return approximation.quantile(self.p)


@dataclass(frozen=True)
class Covariance(Functional):
    """The covariance of two parameters (labels or positions), or of the two values that `of` returns.

    Its relative bound is in units of the product of the two moved standard deviations.
    """

    first: str | int | None = None
    second: str | int | None = None

    def __post_init__(self):
        super().__post_init__()
        given = (self.first is not None) + (self.second is not None)
        if given != (2 if self.of is None else 0):
            raise InputError("Covariance needs two parameters, Covariance('a', 'b'), or of= a function that returns two values")

    @property
    def label(self):
        return "covariance"

    def interval(self, window, level, variance_interval):
        return covariance_interval(window[..., :1], window[..., 1:], level)

    def score(self, window, pooled):
        centred = window - pooled.mean(axis=0)
        return centred[..., :1] * centred[..., 1:]

    def closed_form(self, approximation):
        return approximation.covariance()

    def unit(self, sd):
        return np.prod(sd, keepdims=True)


def as_functionals(functionals, var_names=None) -> tuple[Functional, ...]:
    """The user's list, checked; means and variances if there is none. Those of every parameter are of `var_names`, if given."""
    if var_names is not None:
        names = as_names(var_names)
        return tuple(
            replace(each, of=names) if each.of is None and not isinstance(each, Covariance) else each
            for each in as_functionals(functionals)
        )
    if functionals is None:
        return (Mean(), Variance())
    if isinstance(functionals, Functional):
        functionals = [functionals]
    if not isinstance(functionals, Iterable) or getattr(functionals, "ndim", 1) == 0:
        raise InputError(f"functionals must be a list of taddaa.Mean, Variance, Quantile or Covariance, got {type(functionals).__name__}")
    functionals = [item() if isinstance(item, type) and issubclass(item, Functional) else item for item in functionals]
    if not functionals:
        raise InputError("functionals must name at least one quantity, got an empty list")
    for item in functionals:
        if not isinstance(item, Functional):
            raise InputError(f"functionals must hold taddaa.Mean, Variance, Quantile or Covariance, got {type(item).__name__}")
    return tuple(functionals)
