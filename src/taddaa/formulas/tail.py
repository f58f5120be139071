"""How heavy tails are."""

import numpy as np


def tail_index(draws: np.ndarray, share: float = 0.1) -> np.ndarray:
    """The moment estimator of Dekkers, Einmahl and de Haan (1989) for |x − median|: 1/ν for Student t_ν, ≤ 0 if light."""
    distance = np.abs(draws - np.median(draws, axis=0)).T.copy()  # a quantity's draws side by side, which partition wants
    count = max(int(share * len(draws)), 5)
    distance.partition(len(draws) - count - 1, axis=1)
    top, threshold = distance[:, -count:].T, distance[:, -count - 1]
    excess = np.log(np.maximum(top, np.finfo(float).tiny)) - np.log(np.maximum(threshold, np.finfo(float).tiny))
    first, second = excess.mean(axis=0), (excess**2).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        index = first + 1 - 0.5 / (1 - first**2 / second)
    # Where most draws are one value (an event, a hinge) there is no tail to speak of.
    return np.where(threshold > 0, np.nan_to_num(index, nan=0.0, posinf=0.0, neginf=0.0), 0.0)
