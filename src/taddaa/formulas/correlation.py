"""How much one column says of another."""

import numpy as np


def squared_correlation(starts: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """ρ² of each column with itself at the start; 0 where either does not vary or is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        starts, moved = [np.nan_to_num(part - part.mean(axis=0), posinf=0.0, neginf=0.0) for part in (starts, moved)]
    # Scaled first: squares of values near the largest float would overflow.
    starts, moved = [part / np.maximum(np.abs(part).max(axis=0), np.finfo(float).tiny) for part in (starts, moved)]
    scale = (starts**2).sum(axis=0) * (moved**2).sum(axis=0)
    return np.where(scale > 0, (starts * moved).sum(axis=0) ** 2 / np.where(scale > 0, scale, 1.0), 0.0)
