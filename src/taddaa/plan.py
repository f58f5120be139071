"""How many chains and iterations: the smallest numbers that meet the user's tolerances."""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .errors import InputError
from .formulas.distributions import chi2_quantile, t_quantile
from .moves.kernel import HMC, Kernel

# The paper's constant c in T = ⌊c d^γ⌋ (section 3.3).
ITERATION_CONSTANT = 50
LOOKS, FEWEST_LOOKS = 16, 4  # snapshots in a round; the latter where chains and dimensions are many
MOST_LOOKS = 32  # in a round beyond T: each chain says more the more of its way is seen, and a short round has no more proposals
ARRAYS = 25  # of N × d numbers in double precision that a diagnosis holds at its peak (docs/scaling.md)
MOST_PROBES = 6  # trials of a first step size
MOST_CHAINS = 2**53  # beyond which even counting them is inexact


@dataclass(frozen=True)
class Plan:
    """N chains, T iterations, and the most that the budget allows; half of T first, where a run may end early."""

    chains: int
    iterations: int
    most_iterations: int
    early: int = 0  # iterations of the early round; none if 0

    def goal(self, rounds: int) -> int:
        """Where the round ends that comes after so many: at T/2 (if there is an early one), T, 2T, 4T, …"""
        if self.early and rounds == 0:
            return self.early
        return self.iterations * 2 ** self.full(rounds)

    def full(self, rounds: int) -> int:
        """Of so many rounds, those but the early one."""
        return rounds - (self.early > 0)

    @property
    def in_words(self) -> str:
        return f"{self.chains} chains × {self.iterations} iterations planned, at most {self.most_iterations}"

    def refuse_too_large(self, dim: int) -> None:
        """Say what a run would need before it starts, if no machine like this one has it."""
        needed, there = ARRAYS * 8 * self.chains * dim + 3 * 8 * self.iterations, memory()
        if needed > there:
            raise InputError(
                f"{self.chains:,} chains of dimension {dim:,} for {self.iterations:,} iterations would need about "
                f"{_size(needed)} of memory, and this machine has {_size(there)}; ask for fewer chains (or wider tolerances, which plan "
                "them) or fewer iterations"
            )


def chains_for_mean(tolerance: float, level: float) -> int:
    """Smallest n with t_{n−1}(1−α/2)/√n ≤ tolerance: the half-width of a mean's interval, in standard deviations."""
    return _smallest(lambda n: t_quantile((1 + level) / 2, n - 1) / math.sqrt(n) <= tolerance)


def chains_for_variance(tolerance: float, level: float) -> int:
    """Smallest n with log(χ²_{n−1}(1−α/2)/χ²_{n−1}(α/2)) ≤ 2·tolerance: half the width of a log variance's interval."""
    upper, lower = (1 + level) / 2, (1 - level) / 2
    return _smallest(lambda n: math.log(chi2_quantile(upper, n - 1) / chi2_quantile(lower, n - 1)) <= 2 * tolerance)


def within(gradients: int, plan: Plan, fewest: int, each: int, beside: Callable[[int], int]) -> Plan:
    """The plan with as many of its chains as so many gradients pay for through T iterations, run on only as far as the rest pays for.

    An iteration of a chain takes `each`, and N chains take `beside(N)` in all beside their iterations.
    """
    needed = lambda chains: beside(chains) + each * chains * plan.iterations  # noqa: E731
    if needed(fewest) > gradients:
        raise InputError(
            f"gradients must be at least {needed(fewest):,} for {fewest} chains × {plan.iterations} iterations and what comes before them, "
            f"got {gradients:,}; allow so many, plan fewer chains or iterations, or take a first look for 400 (taddaa.glance)"
        )
    low, high = fewest, plan.chains + 1  # low chains can be paid for
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needed(middle) <= gradients else (low, middle)
    return replace(plan, chains=low, most_iterations=min(plan.most_iterations, (gradients - beside(low)) // (each * low)))


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
        if high > MOST_CHAINS:
            raise InputError(f"mean_tolerance or variance_tolerance is too small, {MOST_CHAINS:.0e} chains would not do; widen it")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def memory() -> float:
    """Bytes that this machine or container has; infinite where it does not say."""
    found = [math.inf]
    with suppress(AttributeError, OSError, ValueError):
        found.append(float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        found.append(float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(found)


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB"
