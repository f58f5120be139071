"""What a report is made of: rows, cost, provenance, the way of the quantities, and what a full MCMC run needs."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Row:
    """One quantity. `lower`, `upper`, `bound` and `detectable` are on the movement's scale (log variance for variances)."""

    parameter: str
    functional: str
    approximation: float
    moved: float
    lower: float
    upper: float
    bound: float
    relative_bound: float
    detectable: float
    rho2: float
    verdict: str
    reason: str
    # The posterior's own value of the functional with its interval, on the functional's own scale; NaN where untrusted, or where
    # a check doubts that the chains have come to rest (an error may stand nevertheless: what has moved has moved).
    corrected: float = math.nan
    corrected_lower: float = math.nan
    corrected_upper: float = math.nan
    at_most: float = math.inf  # the error, on the scale of `bound`, as coupled pairs certify it; infinite where they do not


@dataclass(frozen=True)
class Cost:
    """What the diagnosis took. `programs` counts what had to be compiled."""

    gradients: int
    seconds_compiling: float
    seconds_running: float
    programs: int
    iterations: int
    planned_iterations: int

    @property
    def beside_the_plan(self) -> str:
        """In words, where the chains did not run for as long as planned."""
        if self.iterations > self.planned_iterations:
            return "ran on while quantities moved"
        return "half were enough" if self.iterations <= self.planned_iterations // 2 else ""


@dataclass(frozen=True)
class Provenance:
    """What is needed to repeat the run."""

    seed: int
    chains: int
    kernel: str
    preconditioner: str
    level: float
    simultaneous: bool
    settings: str
    approximation: str
    versions: str
    date: str
    data: str = ""  # of a framework's model, by name, shape and digest


@dataclass(frozen=True)
class Paths:
    """How rows moved (S snapshots × rows) and how the kernel fared (one value an iteration)."""

    snapshots: np.ndarray  # (S,) iterations
    estimate: np.ndarray  # (S, rows), on the movement's scale
    error: np.ndarray  # (S, rows), standard errors
    rho2: np.ndarray  # (S, rows)
    reference: np.ndarray  # (rows,), the approximation's own value on that scale
    unit: np.ndarray  # (rows,), what relative bounds are measured in, on that scale
    acceptance: np.ndarray  # (T,)
    step: np.ndarray  # (T,), the geometric mean over groups
    rho2_max: np.ndarray  # (T,), over the flat coordinates


class Handover(NamedTuple):
    """For a full MCMC run: starts and an inverse mass matrix on the unconstrained scale, and a step size to begin with."""

    starts: np.ndarray
    inverse_mass: np.ndarray
    step: float
