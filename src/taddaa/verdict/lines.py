"""Positions and forces along lines and curves: what features with a known mean are made of.

A line is a direction v: t = v·(x − m) and u = v·G∇log π, in units in which v·Gv = 1. A curve is a quantity f itself, with Lf and Γf
(`stein`). Arrays are (N, W, k): chains, states, quantities. Plain NumPy in float64.
"""

from typing import NamedTuple

import numpy as np

from ..moves.metric import Dense, Metric, as_covariance

COMMON = 2  # directions that features of all quantities share
COMMON_DIMENSIONS = 300  # beyond, finding them costs more than it gains
COMMON_CHAINS = 100  # with fewer, so many features fit nothing


class Projection(NamedTuple):
    """Positions `along` (centred) and `force` along each quantity's direction v, (N, W, k) in units of √(v·Gv).

    Along a curve these are f and Lf, and `square` is Γf, which is one along a straight line. `curve` is such a one of the same
    quantities, and `common` (N, k, p) are further features of mean zero, each chain's average.
    """

    along: np.ndarray
    force: np.ndarray
    square: np.ndarray | float = 1.0
    curve: "Projection | None" = None
    common: np.ndarray | None = None

    def of(self, columns) -> "Projection":
        return Projection(
            self.along[..., columns],
            self.force[..., columns],
            self.square[..., columns] if isinstance(self.square, np.ndarray) else self.square,
            None if self.curve is None else self.curve.of(columns),
            None if self.common is None else self.common[:, columns],
        )


def project(positions: np.ndarray, gradients: np.ndarray, metric: Metric, directions: np.ndarray | None = None) -> Projection:
    """Along the rows of `directions` (k, d), such as each quantity's mean gradient; along the coordinates if None."""
    along = positions - positions.mean(axis=(0, 1))
    whitened = np.asarray(metric.pull(gradients.reshape(-1, gradients.shape[-1])))
    if directions is None:
        variance = as_covariance(metric)
        length = np.sqrt(variance if variance.ndim == 1 else np.diag(variance))
        force = np.asarray(metric.push(whitened))
    else:
        pulled = np.asarray(metric.pull(directions))
        length, along, force = np.linalg.norm(pulled, axis=1), along @ directions.T, whitened @ pulled.T
    length = np.where(length > 0, length, 1.0)  # a quantity that depends on nothing has features of zero
    along, force = along / length, (force / length).reshape(along.shape)
    # Where forces are linear, t + u is the distance from its mean to the target's: the centre then is the target's own.
    return Projection(along - np.median(along + force, axis=(0, 1)), force)


def project_on_curves(values: np.ndarray, drift: np.ndarray, square: np.ndarray) -> Projection:
    """Along the quantities themselves: their values, Lf and Γf (N, W, k), in units in which Γf is one on average."""
    length = np.sqrt(square.mean(axis=(0, 1)))
    length = np.where(length > 0, length, 1.0)
    along, force = values / length, drift / length
    return Projection(along - np.median(along + force, axis=(0, 1)), force, square / length**2)


def side_by_side(first: Projection, second: Projection) -> Projection:
    """Of the quantities of both, along straight lines."""
    common = None if first.common is None or second.common is None else np.concatenate([first.common, second.common], axis=1)
    along, force = (np.concatenate(pair, axis=2) for pair in ((first.along, second.along), (first.force, second.force)))
    return Projection(along, force, common=common)


def with_common(
    projection: Projection, positions: np.ndarray, gradients: np.ndarray, metric: Metric, directions: np.ndarray | None
) -> Projection:
    """With features along the directions that forces depend on most: hᵤ, h hᵤ + 1, and those with each quantity's own direction.

    Such are the scales of a hierarchical model, which make all other forces weaker or stronger. In whitened space they are where
    the part of the force that is not linear, y + g, is large.
    """
    dim = positions.shape[2]
    if not isinstance(metric, Dense) or dim > COMMON_DIMENSIONS or len(positions) < COMMON_CHAINS:
        return projection
    factor = np.asarray(metric.factor)
    centred = (positions - positions.mean(axis=(0, 1))).reshape(-1, dim)
    y, g = np.linalg.solve(factor, centred.T).T, gradients.reshape(-1, dim) @ factor
    y = y - np.median(y + g, axis=0)
    bent = ((y + g) ** 2).sum(axis=1)
    bent = np.minimum(bent, np.quantile(bent, 0.99))  # no single state shall decide
    roots, vectors = np.linalg.eigh(y.T @ (y * (bent / max(bent.mean(), np.finfo(float).tiny) - 1)[:, None]))
    chosen = vectors[:, np.argsort(-np.abs(roots))[:COMMON]]
    h, force = ((part @ chosen).reshape(*positions.shape[:2], -1) for part in (y, g))
    pulled = factor if directions is None else directions @ factor
    length = np.linalg.norm(pulled, axis=1, keepdims=True)
    aligned = (pulled / np.where(length > 0, length, 1.0)) @ chosen  # (k, COMMON)
    count, rows = len(positions), projection.along.shape[2]
    own = [np.broadcast_to(force[..., a].mean(axis=1)[:, None], (count, rows)) for a in range(h.shape[2])]
    for a in range(h.shape[2]):
        for b in range(h.shape[2]):
            own.append(np.broadcast_to((h[..., a] * force[..., b] + (a == b)).mean(axis=1)[:, None], (count, rows)))
        own.append(np.einsum("nw,nwk->nk", h[..., a], projection.force) / h.shape[1] + aligned[:, a])
        own.append(np.einsum("nw,nwk->nk", force[..., a], projection.along) / h.shape[1] + aligned[:, a])
    return projection._replace(common=np.stack(own, axis=-1))


def alignment(metric: Metric, directions: np.ndarray) -> float:
    """v₁·Gv₂ of two directions (2, d), each in units of its own √(v·Gv)."""
    first, second = np.asarray(metric.pull(directions))
    length = np.linalg.norm(first) * np.linalg.norm(second)
    return float(first @ second / length) if length > 0 else 0.0
