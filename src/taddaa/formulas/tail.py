"""How heavy tails are, and what of a mean may lie where no chain has been."""

import numpy as np

HEAVIEST = 0.9  # a tail index from which nothing more is added to a mean: from 1 there is none
WIDE_SHARE = 0.2  # of the draws, where the index must not be too low by chance: from more of them it is steadier, and rather too high


def tail_index(draws: np.ndarray, share: float = 0.1) -> np.ndarray:
    """The moment estimator of Dekkers, Einmahl and de Haan (1989) for |x − median|: 1/ν for Student t_ν, ≤ 0 if light."""
    distance = draws.T.copy()  # a quantity's draws side by side, which partitions want
    distance = np.abs(distance - np.median(distance, axis=1, keepdims=True))
    count = max(int(share * len(draws)), 5)
    distance.partition(len(draws) - count - 1, axis=1)
    top, threshold = distance[:, -count:].T, distance[:, -count - 1]
    excess = np.log(np.maximum(top, np.finfo(float).tiny)) - np.log(np.maximum(threshold, np.finfo(float).tiny))
    first, second = excess.mean(axis=0), (excess**2).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        index = first + 1 - 0.5 / (1 - first**2 / second)
    # Where most draws are one value (an event, a hinge) there is no tail to speak of.
    return np.where(threshold > 0, np.nan_to_num(index, nan=0.0, posinf=0.0, neginf=0.0), 0.0)


def square_tail(window: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """The tail index of (x − centre)² over all states of a window (N, W, k): its variance is infinite from 1/2, its mean from 1."""
    return tail_index(((window - centre) ** 2).reshape(-1, window.shape[-1]), WIDE_SHARE)


def heaviest_likely(draws: np.ndarray) -> np.ndarray:
    """The tail index of independent draws (N, k), and one standard error more."""
    index = tail_index(draws, WIDE_SHARE)
    return index + np.sqrt((1 + index**2) / (WIDE_SHARE * len(draws)))


def unseen(level: float, chains: int) -> float:
    """The probability of an event that this many chains all miss with probability α/2: about log(2/α)/N."""
    return float(np.log(2 / (1 - level)) / chains)


def beyond_the_farthest(averages: np.ndarray, index: np.ndarray | float, level: float) -> np.ndarray:
    """What an event that no chain has seen adds to the mean of (N, k) beyond the farthest of them, in an upper tail of this index.

    There a Pareto tail of index ξ goes on, on average, by ξ/(1 − ξ) of its distance; a light one has nothing to add.
    """
    heavy = np.clip(index, 0.0, HEAVIEST)
    return (averages.max(axis=0) - averages.mean(axis=0)) * unseen(level, len(averages)) * heavy / (1 - heavy)
