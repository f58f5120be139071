"""Directions across parameters along which the chains moved most: what single coordinates can hide."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..chains.arrival import Seen

DIRECTIONS = 3
DENSE_DIRECTIONS = 300  # dimensions up to which all eigenvectors are computed


def directions_moved_most(seen: "Seen") -> np.ndarray:
    """Directions (d, ≤ 4), in units of moved standard deviations: the mean's shift, and where the spread changed most.

    Chosen at the middle of the round, because a test at its ends must not look for what it was chosen by.
    """
    start, moved = seen.origin.positions, seen.snapshots[len(seen.snapshots) // 2].positions
    scale = moved.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    dim = start.shape[1]
    if dim == 1:
        return 1 / scale[:, None]
    shift = (moved.mean(axis=0) - start.mean(axis=0)) / scale
    before, after = [(part - part.mean(axis=0)) / scale / np.sqrt(len(part) - 1) for part in (start, moved)]
    spread = _extreme_directions(after, before, min(DIRECTIONS, dim - 1))
    size = np.linalg.norm(shift)
    columns = [spread] if size == 0 else [shift[:, None] / size, spread]
    return np.concatenate(columns, axis=1) / scale[:, None]


def _extreme_directions(after: np.ndarray, before: np.ndarray, count: int) -> np.ndarray:
    """Eigenvectors (d, ≤ count) of the change in covariance with the largest |eigenvalue|."""
    dim = after.shape[1]
    if dim <= DENSE_DIRECTIONS:
        values, vectors = np.linalg.eigh(after.T @ after - before.T @ before)
        return vectors[:, np.argsort(-np.abs(values))[:count]]
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    change = LinearOperator((dim, dim), matvec=lambda v: after.T @ (after @ v) - before.T @ (before @ v), dtype=float)
    try:
        return eigsh(change, k=count, which="LM", v0=np.ones(dim), tol=1e-3)[1]
    except ArpackError:  # nothing changed, or no convergence: then no direction stands out
        return np.zeros((dim, 0))
