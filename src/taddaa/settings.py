"""All that can be chosen about a diagnosis; the defaults are our best, `Settings.paper()` is the paper's."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .errors import InputError, kindly
from .moves.kernel import HMC, Barker, Relay, as_kernel
from .moves.precondition import PRECONDITIONERS, Fisher, FromApproximation, Preconditioner
from .plan import FEWEST_LOOKS, LOOKS, MOST_LOOKS, MOST_PROBES, Plan, chains_for_mean, chains_for_variance, iterations_for, within
from .problem.functional import VARIANCE_INTERVALS

LEAST_CHAINS = 10
SHARPER = 2  # times fewer chains than plain intervals need
FEWEST_CHAINS = 50  # that a budget of gradients plans: fewer know their step size and the checks' cutoffs too badly
GRADIENTS_CHECKED = 2 * 32  # states at which gradients are held against finite differences
MOST_BUDGET, MOST = 1e9, 10**15


@dataclass(frozen=True)
class Settings:
    """How a diagnosis is made.

    Args:
        kernel: a kernel or its name: relay (Barker's until the chains have arrived, then HMC), barker, mala, rwmh, hmc.
        preconditioner: a preconditioner or its name: fisher, approximation (the paper's), identity.
        variance_interval: bonett (any distribution with a fourth moment; above, with the tail that no chain has seen) or chi2 (the
            paper's; assumes normality).
        interval: stein (sharpened by the gradients that the chains carry, where that narrows them) or plain (the paper's).
        level: the confidence level 1 − α.
        simultaneous: whether all intervals of a report hold together at the level, or each by itself.
        mean_tolerance, variance_tolerance: errors that do not matter, in standard deviations and in log variance. A row whose error
            surely is smaller is *within tolerance*; the number of chains is planned for plain intervals of this half-width.
        chains: the number N of chains; planned from the tolerances if None.
        iterations: the number T of iterations before the first look; if None, planned from kernel and dimension, and the default kernel's
            chains end at half of it where nothing is slow and nine tenths of what is asked are decided.
        budget: how long chains may run while quantities still move, in units of T; 1 never runs on.
        gradients: the most that a diagnosis may evaluate in all, or None. It is kept: chains are planned fewer (not below 50), and run on
            only as far as the rest pays for.
        states: how many late states of each chain an interval pools, at most (1 is the paper's: the last one only). A round has
            16, one beyond T 32, and the latest are taken.
        checks: all (ours), or correlation (only the paper's ρ² check).
        groups: how many groups of chains have a step size of their own (at least 50 chains in each; 1 is the paper's), and in a
            compiled loop on a CPU a thread. Results depend on them as on the seed, on the cores not.
        precision: float64 or float32.
    """

    kernel: Any = Relay()  # a name is turned into a Kernel below
    preconditioner: Any = Fisher()
    variance_interval: str = "bonett"
    interval: str = "stein"
    level: float = 0.95
    simultaneous: bool = True
    mean_tolerance: float = 0.1
    variance_tolerance: float = 0.15
    chains: int | None = None
    iterations: int | None = None
    budget: float = 16
    gradients: int | None = None
    states: int = MOST_LOOKS
    checks: str = "all"
    groups: int = 2
    precision: str = "float64"

    def __post_init__(self):
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        if isinstance(self.preconditioner, str):
            if self.preconditioner not in PRECONDITIONERS:
                names = ", ".join(PRECONDITIONERS)
                raise InputError(f"preconditioner must be one of {names} or an object, got {self.preconditioner!r}")
            object.__setattr__(self, "preconditioner", PRECONDITIONERS[self.preconditioner])
        elif not isinstance(self.preconditioner, Preconditioner):
            raise InputError(f"preconditioner must be a taddaa preconditioner, got {type(self.preconditioner).__name__}")
        _one_of("variance_interval", self.variance_interval, VARIANCE_INTERVALS)
        _one_of("interval", self.interval, ("stein", "plain"))
        _one_of("checks", self.checks, ("all", "correlation"))
        _one_of("precision", self.precision, ("float64", "float32"))
        if not _is_number(self.level) or not 0 < self.level < 1:
            raise InputError(f"level must lie strictly between 0 and 1 (0.95 is usual), got {self.level!r}")
        for name in ("mean_tolerance", "variance_tolerance"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value <= 1e300:
                raise InputError(f"{name} must be a positive number, got {value!r}")
        if not _is_number(self.budget) or not 1 <= self.budget <= MOST_BUDGET:
            raise InputError(f"budget must be at least 1 (in planned iterations) and at most {MOST_BUDGET:.0e}, got {self.budget!r}")
        if not isinstance(self.simultaneous, (bool, np.bool_)):
            raise InputError(f"simultaneous must be True or False, got {self.simultaneous!r}")
        if self.chains is not None:
            _whole("chains", self.chains, LEAST_CHAINS, "variances and correlations over chains mean nothing with fewer")
        if self.gradients is not None:
            _whole("gradients", self.gradients, 1, "nothing can be said without any")
        if self.iterations is not None:
            _whole("iterations", self.iterations, 1, "chains that do not move show nothing")
        _whole("groups", self.groups, 1, "all chains together are one group")
        _whole("states", self.states, 1, "the last state is the least that can be used")
        if self.states > MOST_LOOKS:
            raise InputError(f"states must be at most {MOST_LOOKS}, the most that a round has, got {self.states}")

    @classmethod
    def paper(cls, **changes) -> "Settings":
        """The paper to the letter (with the corrections in docs/method.md): q's covariance, χ², one look, the ρ² check."""
        settings = cls(
            kernel=Barker(),
            preconditioner=FromApproximation(),
            variance_interval="chi2",
            interval="plain",
            simultaneous=False,
            budget=1,
            states=1,
            checks="correlation",
            groups=1,
        )
        settings = replace(settings, **changes)
        named_hmc = isinstance(changes.get("kernel"), str) and isinstance(settings.kernel, HMC)
        return replace(settings, kernel=HMC(jitter=0.0)) if named_hmc else settings

    @property
    def planned_chains(self) -> int:
        """N: as given, or from the tolerances."""
        planned = max(chains_for_mean(self.mean_tolerance, self.level), chains_for_variance(self.variance_tolerance, self.level))
        if self.interval == "stein":
            planned = -(-planned // SHARPER)
        return self.chains or max(LEAST_CHAINS, planned)

    def plan(self, dim: int) -> Plan:
        """N and T for a target of this dimension."""
        iterations = self.iterations or iterations_for(self.kernel, dim)
        plan = Plan(self.planned_chains, iterations, int(self.budget * iterations), self._early(iterations, dim))
        if self.gradients is None:
            return plan
        fewest = plan.chains if self.chains else min(FEWEST_CHAINS, plan.chains)
        rounds = 1 + math.ceil(math.log2(self.budget))
        # At so many looks gradients are evaluated for the checks alone.
        looks = 0 if self.kernel.uses_gradient else LOOKS * (1 + rounds + bool(plan.early))
        each = self.kernel.gradients_per_iteration

        def beside(chains: int) -> int:
            """Pilots, the trials of a first step from them, the starts, and a check of the gradient."""
            pilots = self.preconditioner.pilots(dim, chains)
            trials = (1 + MOST_PROBES * each) * chains if pilots else 0
            return pilots + trials + chains * (1 + looks) + GRADIENTS_CHECKED

        return within(self.gradients, plan, fewest, each, beside)

    def _early(self, iterations: int, dim: int) -> int:
        """Half of T, where sharper intervals and all checks can tell whether chains that have gone over to longer steps may end."""
        if self.iterations is not None or self.interval != "stein" or self.checks != "all":
            return 0
        onward, half = self.kernel.exploring(dim), iterations // 2
        enough = half - iterations // 8 >= FEWEST_LOOKS * onward.gradients_per_iteration
        return half if onward is not self.kernel and enough else 0


def with_tolerance(settings: Settings, tolerance: Any) -> Settings:
    """The same, with other errors that do not matter: one number in standard deviations, or a pair with that of log variances.

    Variances get the paper's one and a half times the one number. A larger tolerance plans no fewer chains: checks need them.
    """
    pair = tolerance if isinstance(tolerance, tuple | list) else (tolerance, 1.5 * tolerance if _is_number(tolerance) else tolerance)
    if len(pair) != 2 or not all(_is_number(value) and 0 < value <= 1e300 for value in pair):
        raise InputError(
            f"tolerance must be a positive number (in standard deviations) or a pair (standard deviations, log variance), got {tolerance!r}"
        )
    changed = replace(settings, mean_tolerance=float(pair[0]), variance_tolerance=float(pair[1]))
    fewer = settings.chains is None and changed.planned_chains < settings.planned_chains
    return replace(changed, chains=settings.planned_chains) if fewer else changed


Settings.__init__ = kindly(Settings.__init__)  # type: ignore[method-assign]


def as_settings(settings: Any) -> Settings:
    """Settings as they are, or the default ones."""
    if settings is None:
        return Settings()
    if not isinstance(settings, Settings):
        raise InputError(f"settings must be a taddaa.Settings, got {type(settings).__name__}")
    return settings


def _is_number(value) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _one_of(name: str, value, allowed) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def _whole(name: str, value, least: int, why: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least} ({why}), got {value!r}")
    if value > MOST:
        raise InputError(f"{name} must be at most {MOST:.0e}, which no machine comes to the end of, got a larger number")
