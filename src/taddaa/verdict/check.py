"""The result of one check of a run; the checks themselves are in `reliability`."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Check:
    """One reason to trust or not.

    `rows` are the rows it makes untrusted (all where None); `only_zero` says that it matters only to rows without a
    bound; `more_iterations` that running on may help; `slow_for_good` that it has seen why chains will not forget their starts.
    """

    name: str
    passed: bool
    value: float
    cutoff: float
    message: str
    rows: tuple[int, ...] | None = None
    only_zero: bool = False
    more_iterations: bool = False
    slow_for_good: bool = False

    def concerned(self, count: int) -> np.ndarray:
        """For each of `count` rows, whether this check speaks of it."""
        mask = np.full(count, self.rows is None)
        mask[list(self.rows or ())] = True
        return mask
