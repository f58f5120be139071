"""Regression that is judged on chains it has not seen: what a quantity's features, and a kernel between chains, leave of it.

Arrays have one row a chain. Each chain's remainder is taken with coefficients from *other* chains, so that it is unbiased whatever the
regression is worth, as long as features and kernel have mean zero. Plain NumPy in float64.
"""

from typing import NamedTuple

import numpy as np

from .distributions import t_quantile
from .tail import beyond_the_farthest, heaviest_likely, unseen

FOLDS = 2  # leave-one-out understates the error of an interpolating kernel many times over; 4 or 8 gain little and cost more
RIDGE = 1e-12  # of a feature's own size: features may coincide
RIDGES = 10.0 ** np.arange(-9, 1, 2)  # in units of the kernel's mean eigenvalue


class Kernel(NamedTuple):
    """A Stein kernel between chains, (N, N), and its eigenvalues and eigenvectors without each fold."""

    matrix: np.ndarray
    eigen: list[tuple[np.ndarray, np.ndarray]]


class Regression(NamedTuple):
    """Each chain's value less its features times what other chains say of them, (N, k), and the ridge λ used, (FOLDS, k)."""

    remainders: np.ndarray
    ridges: np.ndarray


def folds(chains: int) -> list[tuple[np.ndarray, np.ndarray]]:
    fold = np.arange(chains) % FOLDS
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]


def regress(values: np.ndarray, features: np.ndarray, kernel: Kernel | None, ridges: np.ndarray | None = None) -> Regression:
    """Of values (N, k) on features (N, k, p), cross-fitted over chains: generalised least squares with the covariance 1 + K/λ.

    Unless given, λ makes the leave-one-out errors among the fitted chains smallest; it is infinite where the kernel is no help.
    """
    scale = features.std(axis=0)
    columns = np.concatenate([np.ones((*values.shape, 1)), features / np.where(scale > 0, scale, 1.0)], axis=2)
    centre = values.mean(axis=0)
    values, left, chosen = values - centre, np.empty_like(values), np.full((FOLDS, values.shape[1]), np.inf)
    if kernel is None:
        return Regression(centre + _left_over(values, columns), chosen)
    for k, (fit, rest) in enumerate(folds(len(values))):
        eigen = kernel.eigen[k]
        chosen[k] = _best_ridge(values[fit], columns[fit], eigen) if ridges is None else ridges[k]
        _, coefficients, weighed = _fitted(values[fit], columns[fit], eigen, chosen[k])
        left[rest] = values[rest] - np.einsum("nri,ri->nr", columns[rest][..., 1:], coefficients[:, 1:])
        left[rest] -= kernel.matrix[np.ix_(rest, fit)] @ (weighed / chosen[k])
    return Regression(centre + left, chosen)


def _left_over(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Without a kernel, all quantities at once: each fold's sums are those of all chains less its own."""
    whole, left = columns.transpose(1, 2, 0), np.empty_like(values)  # (k, 1 + p, N)
    parts = [(rest, whole[..., rest]) for _, rest in folds(len(values))]
    normals = [part @ part.transpose(0, 2, 1) for _, part in parts]
    sums = [part @ values[rest].T[..., None] for rest, part in parts]
    ridge = RIDGE * np.eye(columns.shape[2])
    for (rest, part), normal, mine in zip(parts, normals, sums, strict=True):
        others = sum(normals) - normal
        others = others + np.trace(others, axis1=1, axis2=2)[:, None, None] * ridge
        coefficients = np.linalg.solve(others, sum(sums) - mine)[:, 1:]
        left[rest] = values[rest] - (part[:, 1:] * coefficients).sum(axis=1).T
    return left


def _best_ridge(values: np.ndarray, columns: np.ndarray, eigen: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    ridge = np.full(values.shape[1], np.inf)
    best = _fitted(values, columns, None, ridge)[0]
    for other in RIDGES * eigen[0].mean():
        error = _fitted(values, columns, eigen, np.full_like(ridge, other))[0]
        ridge, best = np.where(error < best, other, ridge), np.minimum(error, best)
    return ridge


def _fitted(values: np.ndarray, columns: np.ndarray, eigen, ridge: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean square of the leave-one-out errors, the coefficients (k, 1 + p), and (1 + K/λ)⁻¹ times the residuals (n, k)."""
    weighed, weighed_values, diagonal = columns, values, np.ones_like(values)
    if eigen is not None:
        roots, vectors = eigen
        weight = 1 / (1 + np.maximum(roots, 0.0)[:, None] / ridge)
        both = np.concatenate([columns, values[..., None]], axis=2)
        turned = (vectors.T @ both.reshape(len(both), -1)).reshape(both.shape) * weight[..., None]
        both = (vectors @ turned.reshape(len(both), -1)).reshape(both.shape)
        weighed, weighed_values, diagonal = both[..., :-1], both[..., -1], vectors**2 @ weight
    normal = np.einsum("nri,nrj->rij", columns, weighed)
    normal += RIDGE * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(columns.shape[2])
    solved = np.linalg.solve(normal, weighed.transpose(1, 2, 0))  # (k, 1 + p, n)
    coefficients = np.einsum("rin,nr->ri", solved, values)
    left = weighed_values - np.einsum("nri,ri->nr", weighed, coefficients)
    errors = left / np.maximum(diagonal - np.einsum("nri,rin->nr", weighed, solved), 1e-10 * diagonal)
    return (errors**2).mean(axis=0), coefficients, left


def centre_and_half(left: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Student's half-width with the degrees of freedom that the kurtosis leaves to the standard error (Satterthwaite).

    And what may be missing: with probability α/2, an event of probability log(2/α)/N that is as far out as the farthest chain.
    """
    count, centre = len(left), left.mean(axis=0)
    away, spread = np.abs(left - centre), left.std(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = np.nan_to_num((away**4).mean(axis=0) / spread**4, nan=3.0)
    freedom = np.clip(2 * count / np.maximum(kurtosis - 1, 1e-9), 2, count - 1)
    half = t_quantile((1 + level) / 2, freedom) * spread / np.sqrt(count)
    return centre, np.hypot(half, away.max(axis=0) * unseen(level, count))


def centre_and_sides(left: np.ndarray, level: float, tail: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """The same with a half-width below and one above (2, k), which reaches further where values have an upper tail of this index.

    Features may have taken some of it away: what is left has its own tail at most, as far as so few chains can tell.
    """
    centre, half = centre_and_half(left, level)
    if np.all(np.less_equal(tail, 0.0)):
        return centre, np.stack([half, half])
    return centre, np.stack([half, half + beyond_the_farthest(left, np.minimum(tail, heaviest_likely(left)), level)])


def kernel_between(matrix: np.ndarray) -> Kernel:
    """With its eigenvalues and eigenvectors, without each fold."""
    return Kernel(matrix, [np.linalg.eigh(matrix[np.ix_(fit, fit)]) for fit, _ in folds(len(matrix))])
