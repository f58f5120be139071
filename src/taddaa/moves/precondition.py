"""Preconditioners: which directions the chains take long steps in.

A strategy finds a `metric` from independent pilot draws of the approximation and their gradients, and may find a better one later
from the moving chains.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..formulas.distributions import chi2_quantile, normal_quantile
from ..problem.approximation import Approximation
from .bend import Bend
from .kernel import in_precision
from .metric import Bent, Dense, Diagonal, DiagonalLowRank, Metric, enter
from .straighten import find_straightening

# The full matrix is used up to this dimension: beyond, its d² memory and d³ factorisation outgrow the chains' own cost.
LARGEST_FULL = 2000
# A full matrix needs clearly more draws than dimensions: the slowest direction is where gradients are smallest.
DRAWS_PER_DIMENSION = 3
LEAST_DRAWS_PER_DIMENSION = 1.5
LOW_RANK = 20


class Found(NamedTuple):
    """A metric and what the user should know about how it was found ('' if nothing)."""

    metric: Metric
    note: str


class Improved:
    """A metric that is made when it is asked for; known before is whether it is `Bent`, and by how much that lowers the loss."""

    def __init__(self, make: Callable[[], Metric], gain: float | None = None):
        self._make, self.gain = make, gain  # None if it is straight

    @cached_property
    def metric(self) -> Metric:
        made = self._make()
        del self._make  # and with it the states that it is made of
        return made


class Preconditioner(ABC):
    """A strategy for finding a metric."""

    def pilots(self, dim: int, chains: int) -> int:
        """How many draws and gradients it wants, of q at first and later of the chains."""
        return 0

    @abstractmethod
    def initial(self, approximation: Approximation, draws: np.ndarray, gradients: np.ndarray) -> Found:
        """From pilot draws (or the starts, when there are none) and their gradients."""

    def improved(self, metric: Metric, draws: np.ndarray, gradients: np.ndarray, chains: int) -> Improved:
        """From the moving chains' states and gradients; the same metric if there is nothing to gain."""
        return Improved(lambda: metric, float(metric.bend.gain) if isinstance(metric, Bent) else None)

    @property
    def label(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class Identity(Preconditioner):
    """No preconditioning."""

    def initial(self, approximation, draws, gradients):
        return Found(Diagonal(in_precision(np.ones(approximation.dim))), "")


@dataclass(frozen=True)
class FromApproximation(Preconditioner):
    """The paper's: the covariance of q, from the starts if it has no closed form (section 3.1)."""

    def initial(self, approximation, draws, gradients):
        covariance = approximation.covariance()
        if covariance is None or not np.all(np.isfinite(covariance)):
            covariance = np.atleast_2d(np.cov(draws, rowvar=False))
            if len(draws) <= approximation.dim:
                note = f"{len(draws)} draws cannot give a covariance matrix of dimension {approximation.dim}: its diagonal was used"
                return Found(Diagonal(in_precision(np.sqrt(np.diag(covariance)))), note)
        if covariance.ndim == 1:
            return Found(Diagonal(in_precision(np.sqrt(covariance))), "")
        try:
            return Found(Dense(in_precision(np.linalg.cholesky(covariance))), "")
        except np.linalg.LinAlgError:
            note = "the draws' covariance matrix is singular: its diagonal was used as preconditioner"
            return Found(Diagonal(in_precision(np.sqrt(np.diag(covariance)))), note)


@dataclass(frozen=True)
class Fisher(Preconditioner):
    """G with G Cov(∇log π) G = Cov(x): the geometric mean of the draws' covariance and the inverse gradient covariance.

    For a Gaussian target it is the target's covariance, whatever q is. Full to d = 2,000; beyond, a diagonal whose
    low-rank part is learnt from the moving chains. Where a few parameters drive how wide others are, as in hierarchical models, and
    the dimension is at most 500, the moving chains also learn coordinates in which they do not (`straighten`).
    """

    straighten: bool = True

    def pilots(self, dim, chains):
        return max(chains, DRAWS_PER_DIMENSION * dim) if dim <= LARGEST_FULL else chains

    def initial(self, approximation, draws, gradients):
        usable = np.isfinite(gradients).all(axis=1)
        x, g = draws[usable], gradients[usable]
        if len(x) < 10:
            return _of_approximation(approximation, draws, f"only {len(x)} of {len(draws)} pilot draws have finite gradients")
        if np.any(_spread(g) == 0):
            return _of_approximation(approximation, draws, "some gradients do not vary")
        dim = x.shape[1]
        if dim > LARGEST_FULL:
            scale = in_precision(_fisher_scale(x, g))
            return Found(DiagonalLowRank(scale, *map(in_precision, (np.zeros((dim, LOW_RANK)), np.ones(LOW_RANK)))), "")
        if len(x) < LEAST_DRAWS_PER_DIMENSION * dim:
            note = f"{len(x)} usable pilot gradients are too few for a full preconditioner in {dim} dimensions: a diagonal one was used"
            return Found(Dense(in_precision(np.diag(_fisher_scale(x, g)))), note)
        try:
            return Found(Dense(in_precision(_fisher_factor(x, g))), "")
        except np.linalg.LinAlgError:
            return _of_approximation(approximation, draws, "gradients are too large")

    def improved(self, metric, draws, gradients, chains):
        usable = np.isfinite(gradients).all(axis=1) & np.isfinite(draws).all(axis=1)
        x, g = draws[usable], gradients[usable]
        if len(x) < 10 or np.any(_spread(g) == 0) or np.any(_spread(x) == 0):
            return super().improved(metric, draws, gradients, chains)
        if isinstance(metric, DiagonalLowRank):
            return Improved(lambda: _fisher_low_rank(x, g, metric.basis.shape[1]))
        if isinstance(metric, Dense | Bent) and len(x) >= LEAST_DRAWS_PER_DIMENSION * x.shape[1]:
            found = find_straightening(x, g, chains) if self.straighten else None
            if found is not None:
                return Improved(lambda: _bent(found.bend(), x, g), found.gain)
            return Improved(lambda: Dense(in_precision(_fisher_factor(x, g))))
        return super().improved(metric, draws, gradients, chains)


PRECONDITIONERS: dict[str, Preconditioner] = {
    "fisher": Fisher(),
    "approximation": FromApproximation(),
    "identity": Identity(),
}


def _of_approximation(approximation: Approximation, draws: np.ndarray, reason: str) -> Found:
    metric = FromApproximation().initial(approximation, draws, np.zeros_like(draws)).metric
    if isinstance(metric, Diagonal) and len(metric.scale) <= LARGEST_FULL:
        metric = Dense(np.diag(metric.scale))  # so that the chains may still improve it
    return Found(metric, f"the approximation's own covariance was used as preconditioner, because {reason}")


def _bent(bend: Bend, x: np.ndarray, g: np.ndarray) -> Bent:
    """With the factor of what is left in the map's coordinates."""
    w, _, slope = enter(Bent(bend, np.eye(x.shape[1])), x, np.zeros(len(x)), g)
    return Bent(bend, in_precision(_fisher_factor(w, slope)))


def _spread(values: np.ndarray) -> np.ndarray:
    """A standard deviation that a few wild values do not move: from the quartiles, or the plain one if they coincide."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    robust = (high - low) / (2 * normal_quantile(0.75))
    return np.where(robust > 0, robust, values.std(axis=0))


def _fisher_scale(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The diagonal solution: √(sd(x_i) / sd(g_i)), whose square is G_ii."""
    return np.sqrt(_spread(x) / _spread(g))


def _tempered_weights(r: np.ndarray) -> np.ndarray:
    """Weights that bound each draw's influence: 1 for ordinary gradient norms, falling as 1/norm² for wild ones.

    The same weights serve draws and gradients, so that a Gaussian target is still solved exactly.
    """
    squared = np.sum(r**2, axis=1)
    dim = r.shape[1]
    ordinary = np.median(squared) * chi2_quantile(0.999, dim) / chi2_quantile(0.5, dim)
    return ordinary / np.maximum(squared, ordinary) if ordinary > 0 else np.ones(len(r))


def _weighted_covariance(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    centred = values - weights @ values / weights.sum()
    return (centred * weights[:, None]).T @ centred / weights.sum()


def _fisher_factor(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """C = D L (Lᵀ B L)^{−1/4}, with A = L Lᵀ and B the covariances of draws and gradients in diagonally scaled coordinates.

    Then G = C Cᵀ solves G B G = A. In scaled coordinates a ridge of 10⁻¹⁰ keeps both factorisations defined.
    """
    scale = _fisher_scale(x, g)
    y, r = x / scale, g * scale
    weights = _tempered_weights(r)
    ridge = 1e-10
    a, b = _weighted_covariance(y, weights), _weighted_covariance(r, weights)
    a += ridge * np.trace(a) / len(a) * np.eye(len(a))
    b += ridge * np.trace(b) / len(b) * np.eye(len(b))
    lower = np.linalg.cholesky(a)
    values, vectors = np.linalg.eigh(lower.T @ b @ lower)
    values = np.maximum(values, values[-1] * 1e-15)
    return scale[:, None] * (lower @ (vectors * values**-0.25) @ vectors.T)


def _top_directions(rows: np.ndarray, count: int) -> np.ndarray:
    """The first right singular vectors, from the small Gram matrix of the rows."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    values, vectors = values[-count:], vectors[:, -count:]
    return (vectors / np.sqrt(np.maximum(values, values[-1] * 1e-12))).T @ rows


def _fisher_low_rank(x: np.ndarray, g: np.ndarray, rank: int) -> DiagonalLowRank:
    """Diagonal scales, and a stretch along the few directions in which draws or gradients are most unlike them."""
    scale = _fisher_scale(x, g)
    y, r = x / scale, g * scale
    weights = _tempered_weights(r)
    root = np.sqrt(weights / weights.sum())[:, None]
    y, r = root * (y - weights @ y / weights.sum()), root * (r - weights @ r / weights.sum())
    subspace = np.linalg.qr(np.concatenate([_top_directions(rows, rank) for rows in (y, r)]).T)[0]
    a, b = [(rows @ subspace).T @ (rows @ subspace) for rows in (y, r)]
    # Shrunk towards the diagonal solution, on the level of what the scaled draws show on average.
    level_a, level_b = np.sum(y**2) / y.shape[1], np.sum(r**2) / r.shape[1]
    shrink = 0.05
    a, b = a / level_a + shrink * np.eye(len(a)), b / level_b + shrink * np.eye(len(b))
    lower = np.linalg.cholesky(a)
    values, vectors = np.linalg.eigh(lower.T @ b @ lower)
    half = lower @ (vectors * values**-0.25)
    lengths, directions = np.linalg.eigh(half @ half.T)
    most = np.argsort(-np.abs(np.log(lengths)))[:rank]
    return DiagonalLowRank(in_precision(scale), in_precision(subspace @ directions[:, most]), in_precision(np.sqrt(lengths[most])))
