"""Wide arrays, a few columns at a time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

PIECE = 500  # columns at a time
THREADS = 2  # side by side: NumPy lets others run while it sorts and adds, and memory holds so many pieces' copies


def by_pieces(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """A function of columns, applied to few columns at a time, so that its copies stay small in high dimension."""
    starts = range(0, arrays[0].shape[1], PIECE)
    return np.concatenate([function(*(array[:, first : first + PIECE] for array in arrays)) for first in starts])


def in_threads(function: Callable[[Any], Any], pieces: Iterable[Any]) -> list[Any]:
    """The function of each piece, in order; two at a time where there are several."""
    pieces = list(pieces)
    if len(pieces) == 1:
        return [function(pieces[0])]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, pieces))
