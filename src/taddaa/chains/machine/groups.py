"""Chains in groups of equal size. Each has a step size and random numbers of its own, so that on a CPU each can be a program
in a thread of its own: two of half the size take about a third less time than one that spreads its work over two cores.
"""

from dataclasses import dataclass

import numpy as np

LEAST_CHAINS = 50  # in a group; fewer know their mean acceptance too badly to adapt a step size


@dataclass(frozen=True)
class Groups:
    """`count` groups of `size` places, of which the last group may leave some empty."""

    chains: int
    count: int

    @classmethod
    def of(cls, chains: int, wanted: int) -> "Groups":
        """As many as wanted, or fewer, so that the last one has enough chains too."""
        most = max(1, min(wanted, chains // LEAST_CHAINS))
        enough = (cls(chains, count) for count in range(most, 1, -1) if cls(chains, count).sizes[-1] >= LEAST_CHAINS)
        return next((groups for groups in enough if len(groups.sizes) == groups.count), cls(chains, 1))

    @property
    def size(self) -> int:
        return -(-self.chains // self.count)

    @property
    def sizes(self) -> list[int]:
        """How many chains are in each group."""
        return [min(self.size, self.chains - first) for first in range(0, self.chains, self.size)]

    def membership(self, rows: int) -> np.ndarray:
        """1 where the chain of a row is in the group, (count, rows); rows beyond the chains are in none."""
        row = np.arange(rows)
        return ((row // self.size == np.arange(self.count)[:, None]) & (row < self.chains)).astype(float)

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        """An array with one row a chain, as one array a group; empty places hold copies of the last row."""
        missing = self.count * self.size - self.chains
        parts = [rows[first : first + self.size] for first in range(0, self.chains, self.size)]
        return [*parts[:-1], np.concatenate([parts[-1], np.repeat(parts[-1][-1:], missing, axis=0)])] if missing else parts
