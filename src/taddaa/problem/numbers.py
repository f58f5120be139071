"""Numbers that a user gives: read as arrays, or refused in one sentence."""

import numpy as np

from ..errors import InputError


def vector(name: str, value, *, length: int | None = None, positive: bool = False) -> np.ndarray:
    """A finite float vector, or a sentence about why it is not one."""
    array = numbers(name, value, "a vector")
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} must be a vector, got shape {array.shape}")
    if length is not None and len(array) != length:
        raise InputError(f"{name} must have length {length}, got {len(array)}")
    if not np.all(np.isfinite(array)):
        where = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"{name} must be finite, got {array[where]} at position {where}")
    if positive and np.any(array <= 0):
        where = int(np.flatnonzero(array <= 0)[0])
        raise InputError(f"{name} must be positive, got {array[where]:g} at position {where}")
    return array


def numbers(name: str, value, shape: str) -> np.ndarray:
    """A float array, or a sentence about why it is not one. NumPy would drop masks and imaginary parts without a word."""
    if np.ma.is_masked(value):
        raise InputError(
            f"{name} must be {shape} of numbers, got a masked array with {np.ma.count_masked(value)} masked; fill or drop them"
        )
    try:
        kind = np.asarray(value).dtype
        if kind.kind in "cmM":
            raise InputError(f"{name} must be {shape} of real numbers, got {kind}")
        return np.asarray(value, dtype=float)
    except InputError:
        raise
    except Exception as error:  # tracers, ragged lists, whatever a user's class may raise
        raise InputError(f"{name} must be {shape} of numbers, got {type(value).__name__}") from error


def covariance_or_variances(covariance, dim: int) -> np.ndarray:
    """A positive definite matrix, or a vector of variances."""
    array = numbers("covariance", covariance, "a matrix")
    if array.shape == (dim,):
        return vector("covariance", array, positive=True)
    if array.ndim != 2:
        raise InputError(f"covariance must have shape {(dim, dim)} or {(dim,)}, got {array.shape}")
    cholesky_of(array, dim)
    return array


def cholesky_of(covariance, dim: int) -> np.ndarray:
    """The factor of a covariance matrix, or a sentence about why it has none."""
    matrix = numbers("covariance", covariance, "a matrix")
    if matrix.shape != (dim, dim):
        raise InputError(f"covariance must have shape {(dim, dim)}, got {matrix.shape}")
    if not np.all(np.isfinite(matrix)):
        raise InputError("covariance must be finite, got NaN or infinite entries")
    scale = np.sqrt(np.abs(np.diag(matrix)))
    if np.any(np.abs(matrix - matrix.T) > 1e-8 * np.outer(scale, scale) + 1e-300):
        raise InputError("covariance must be symmetric; pass (S + S.T) / 2 if the difference is rounding")
    try:
        return np.linalg.cholesky((matrix + matrix.T) / 2)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]
        raise InputError(
            f"covariance must be positive definite, its smallest eigenvalue is {smallest:.3g}; add a small multiple of the identity"
        ) from None
