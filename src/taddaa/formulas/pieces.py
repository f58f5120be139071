"""Wide arrays, a few columns at a time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

PIECE = 500  # columns at a time
THREADS = 2  # side by side: NumPy lets others run while it sorts and adds, and memory holds so many pieces' copies
WORTH_THREADS = 30_000  # numbers: fewer are done before a thread has begun


def by_pieces(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """A function of columns, of few at a time, so that its copies stay small in high dimension; in threads where it pays."""
    columns = arrays[0].shape[1]
    size = min(PIECE, -(-columns // THREADS)) if arrays[0].size >= WORTH_THREADS else PIECE
    parts = [slice(first, first + size) for first in range(0, columns, size)]
    return np.concatenate(in_threads(lambda part: function(*(array[:, part] for array in arrays)), parts))


def in_threads(function: Callable[[Any], Any], pieces: Iterable[Any]) -> list[Any]:
    """The function of each piece, in order; two at a time where there are several."""
    pieces = list(pieces)
    if len(pieces) == 1:
        return [function(pieces[0])]
    errors = np.geterr()  # which a thread has its own of

    def alike(piece: Any) -> Any:
        with np.errstate(**errors):
            return function(piece)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(alike, pieces))
