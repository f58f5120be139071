"""Metrics: a factor C of G = C Cᵀ, applied as `push` (C z) and `pull` (Cᵀ g), and the coordinates that chains walk in.

How one is found is in `precondition`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from .bend import Bend
from .kernel import Point, in_precision

MIDDLE = 1e-5  # how far from a map's middle its slope there is taken


class Dense(NamedTuple):
    """A full factor C."""

    factor: Any

    def push(self, z):
        return z @ self.factor.T

    def pull(self, gradient):
        return gradient @ self.factor


class DiagonalLowRank(NamedTuple):
    """C = D (I + U diag(stretch − 1) Uᵀ), U with orthonormal columns (or zeros where there is nothing to stretch)."""

    scale: Any
    basis: Any
    stretch: Any

    def push(self, z):
        return self.scale * self._stretched(z)

    def pull(self, gradient):
        return self._stretched(self.scale * gradient)

    def _stretched(self, z):
        return z + ((self.stretch - 1) * (z @ self.basis)) @ self.basis.T


class Diagonal(NamedTuple):
    """Independent scales."""

    scale: Any

    def push(self, z):
        return self.scale * z

    def pull(self, gradient):
        return self.scale * gradient


class Bent(NamedTuple):
    """A full factor C in the coordinates w of a map x(w)."""

    bend: Any  # a `Bend`, or while the host steps the same `OnHost`
    factor: Any

    def push(self, z):
        return z @ self.factor.T

    def pull(self, gradient):
        return gradient @ self.factor


Metric = Dense | Diagonal | DiagonalLowRank | Bent


# Between the user's flat space and the coordinates that chains walk in; without a map they are the same. Chains on their way need
# `place_of`. The rest is done for all chains between rounds, on the host.


def place_of(metric: Metric, w) -> tuple[Any, Any, Callable]:
    """Where a chain that stands at w is, and log |dx/dw|; and a function from a gradient there to that in its own coordinates.

    In JAX for one chain; in NumPy, of an `OnHost`, for many at once.
    """
    return metric.bend.there_and_back(w) if isinstance(metric, Bent) else (w, 0.0, lambda gradient: gradient)


def places_of(metric: Metric, w: np.ndarray) -> np.ndarray:
    """Where chains are that stand at the rows of `w`."""
    return metric.bend.on_host().forward(w)[0] if isinstance(metric, Bent) else w


def enter(metric: Metric, x: np.ndarray, logdensity: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The chains' own coordinates w, with the log density and the gradient in them."""
    if not isinstance(metric, Bent):
        return x, logdensity, gradient
    with np.errstate(all="ignore"):  # what is not finite stays so
        w, stretched, gradient = metric.bend.on_host().enter(x, gradient)
        return w, logdensity + stretched, gradient


def entered_point(metric: Metric, x: np.ndarray, logdensity: np.ndarray, gradient: np.ndarray) -> Point:
    """The same with whitened slopes."""
    w, logdensity, gradient = enter(metric, x, logdensity, gradient)
    return Point(w, logdensity, gradient, on_host(metric).pull(gradient))


def leave(metric: Metric, w: np.ndarray, logdensity: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Back from there."""
    if not isinstance(metric, Bent):
        return w, logdensity, gradient
    with np.errstate(all="ignore"):
        x, stretched, gradient = metric.bend.on_host().leave(w, gradient)
        return x, logdensity - stretched, gradient


def force(metric: Metric, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The log norm of the whitened gradient of each chain."""
    slope = entered_point(metric, x, np.zeros(len(x)), gradient).slope
    return np.log(np.maximum(np.linalg.norm(slope, axis=1), np.finfo(float).tiny))


def on_host(metric: Metric) -> Metric:
    """The same in NumPy."""
    return jax.tree.map(lambda part: np.asarray(part, float), metric)


def whitened(metric: Metric, w: np.ndarray) -> np.ndarray:
    """C⁻¹ of the rows of `w`, on the host."""
    if isinstance(metric, Diagonal):
        return w / np.asarray(metric.scale)
    if isinstance(metric, DiagonalLowRank):
        inverse = DiagonalLowRank(np.ones(()), np.asarray(metric.basis), 1 / np.asarray(metric.stretch))
        return inverse.push(w / np.asarray(metric.scale))
    return np.linalg.solve(np.asarray(metric.push(np.eye(w.shape[-1])), float).T, w.T).T


def unpulled(metric: Metric, slope: np.ndarray) -> np.ndarray:
    """The gradients g with Cᵀ g = slope, on the host: rows again."""
    if isinstance(metric, Diagonal):
        return slope / np.asarray(metric.scale)
    if isinstance(metric, DiagonalLowRank):
        inverse = DiagonalLowRank(np.ones(()), np.asarray(metric.basis), 1 / np.asarray(metric.stretch))
        return inverse.push(slope) / np.asarray(metric.scale)
    return np.linalg.solve(np.asarray(metric.push(np.eye(slope.shape[-1])), float), slope.T).T


def same_kind(metric: Metric, drivers: int, levels: int) -> Metric:
    """The metric, or one of the same kind and size as another process's with so many drivers and levels (its numbers come from there)."""
    mine = (metric.bend.select.shape[1], metric.bend.levels.shape[0]) if isinstance(metric, Bent) else (0, 0)
    if mine == (drivers, levels) or not isinstance(metric, Dense | Bent):
        return metric
    dim = len(metric.factor)
    if drivers == 0:
        return Dense(metric.factor)
    shapes = ((dim,), (dim,), (dim, int(drivers)), (int(drivers), dim), (int(drivers), dim), (int(levels), dim), *[(dim,)] * 3)
    return Bent(Bend(*(in_precision(np.zeros(shape)) for shape in shapes)), metric.factor)


def as_covariance(metric: Metric) -> np.ndarray:
    """G = C Cᵀ: the matrix for a full metric, its diagonal for the others."""
    if isinstance(metric, Dense):
        return np.asarray(metric.factor) @ np.asarray(metric.factor).T
    if isinstance(metric, Diagonal):
        return np.asarray(metric.scale) ** 2
    if isinstance(metric, Bent):  # at the middle of the map
        way = MIDDLE * np.eye(len(metric.factor))
        centred = metric._replace(bend=metric.bend._replace(centre=np.zeros(len(way))))  # differences lose no digits to it
        slope = (places_of(centred, way) - places_of(centred, -way)).T / (2 * MIDDLE)
        factor = slope @ np.asarray(metric.factor)
        return factor @ factor.T
    basis, stretch = np.asarray(metric.basis), np.asarray(metric.stretch)
    return np.asarray(metric.scale) ** 2 * (1 + basis**2 @ (stretch**2 - 1))
