"""How many chains and iterations: the smallest numbers that meet the user's tolerances."""

import math
from dataclasses import dataclass

import numpy as np

from .formulas.distributions import chi2_quantile, t_quantile
from .moves.kernel import HMC, Kernel

# The paper's constant c in T = ⌊c d^γ⌋ (section 3.3).
ITERATION_CONSTANT = 50


@dataclass(frozen=True)
class Plan:
    """N chains, T iterations of the first round, and the most iterations that the budget allows."""

    chains: int
    iterations: int
    most_iterations: int


def chains_for_mean(tolerance: float, level: float) -> int:
    """Smallest n with t_{n−1}(1−α/2)/√n ≤ tolerance: the half-width of a mean's interval, in standard deviations."""
    return _smallest(lambda n: t_quantile((1 + level) / 2, n - 1) / math.sqrt(n) <= tolerance)


def chains_for_variance(tolerance: float, level: float) -> int:
    """Smallest n with log(χ²_{n−1}(1−α/2)/χ²_{n−1}(α/2)) ≤ 2·tolerance: half the width of a log variance's interval."""
    upper, lower = (1 + level) / 2, (1 - level) / 2
    return _smallest(lambda n: math.log(chi2_quantile(upper, n - 1) / chi2_quantile(lower, n - 1)) <= 2 * tolerance)


def iterations_for(kernel: Kernel, dim: int) -> int:
    """T = ⌊50 d^{1/3}⌋, for HMC ⌊50 d^{1/4}/L⌋, and at least 1."""
    if isinstance(kernel, HMC):
        return max(1, math.floor(ITERATION_CONSTANT * dim**0.25 / kernel.leapfrog + 1e-9))
    return max(1, math.floor(ITERATION_CONSTANT * np.cbrt(dim) + 1e-9))  # 8^{1/3} is 2, not 1.99…


def _smallest(enough) -> int:
    """The smallest n ≥ 2 with enough(n), for a condition that stays true once it is."""
    low, high = 1, 2  # one chain is never enough
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
