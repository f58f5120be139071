"""Wide arrays, a few columns at a time."""

from collections.abc import Callable

import numpy as np

PIECE = 500  # columns at a time


def by_pieces(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """A function of columns, applied to few columns at a time, so that its copies stay small in high dimension."""
    starts = range(0, arrays[0].shape[1], PIECE)
    return np.concatenate([function(*(array[:, first : first + PIECE] for array in arrays)) for first in starts])
