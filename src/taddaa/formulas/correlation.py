"""How much one column says of another."""

import numpy as np


def squared_correlation(starts: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """ρ² of each column with itself at the start; 0 where either does not vary or is infinite."""
    return (centred_to_one(starts) * centred_to_one(moved)).sum(axis=0) ** 2


def squared_correlations(columns: np.ndarray, others: np.ndarray) -> np.ndarray:
    """ρ² of each of the columns (N, m) with each of the others (N, k): (m, k)."""
    return (centred_to_one(columns).T @ centred_to_one(others)) ** 2


def centred_to_one(values: np.ndarray) -> np.ndarray:
    """Each column about its mean, with a sum of squares of 1; zero where it does not vary or is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        centred = values - values.mean(axis=0)
        largest = np.abs(centred).max(axis=0, initial=0.0)
    if not np.isfinite(largest).all():
        centred = np.nan_to_num(centred, posinf=0.0, neginf=0.0)
        largest = np.abs(centred).max(axis=0, initial=0.0)
    centred /= np.where(largest > 0, largest, 1.0)  # first: squares of values near the largest float would overflow
    length = np.sqrt((centred**2).sum(axis=0))
    centred /= np.where(length > 0, length, 1.0)
    return centred
