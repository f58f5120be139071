"""What a fit returns: the best restart, and where the others ended."""

from dataclasses import dataclass

import numpy as np

from ..problem.approximation import Approximation
from .family import Features, distance

APART = 0.5  # standard deviations, log spreads or correlation by which two restarts are different solutions


@dataclass(frozen=True, eq=False)
class Restart:
    """What one start led to; `distance` is from the best restart, in standard deviations, log spreads or correlation."""

    approximation: Approximation
    elbo: float
    converged: bool
    distance: float


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted approximation: give `.approximation` to `taddaa.diagnose`.

    Args:
        approximation: the best restart's (largest ELBO).
        elbo: its ELBO, from 1000 fresh draws.
        elbo_trace: the ELBO's estimate at each step (Pathfinder: along its path; Laplace: the log density along the way).
        gradients: how many gradients all restarts took together (a Hessian counts as dim of them).
        converged: whether the best restart met the convergence rule.
        restarts: all of them, best first.
        notes: what a user should know, in sentences.
    """

    approximation: Approximation
    elbo: float
    elbo_trace: np.ndarray
    gradients: int
    converged: bool
    restarts: tuple[Restart, ...]
    notes: tuple[str, ...]

    @property
    def agree(self) -> bool:
        """Whether all restarts came to the same solution."""
        return all(restart.distance <= APART for restart in self.restarts)

    def __str__(self) -> str:
        how = "converged" if self.converged else "not converged"
        lines = [
            f"{self.approximation.describe()}: {how}, ELBO {self.elbo:.4g}, {self.gradients:,} gradients, {len(self.restarts)} restarts"
        ]
        return "\n".join(lines + [f"  note  {note}" for note in self.notes])

    __repr__ = __str__


def gather(fits: list, elbos: np.ndarray, trace, gradients: int, converged, features: Features, best: int, notes: list[str]) -> Fit:
    """Best first, with how far the others are from it."""
    apart = distance(features, Features(*(part if part is None else part[best] for part in features)))  # type: ignore[arg-type]
    order = [best, *sorted((i for i in range(len(fits)) if i != best), key=lambda i: -np.nan_to_num(elbos[i], nan=-np.inf))]
    restarts = tuple(Restart(fits[i], float(elbos[i]), bool(converged[i]), float(apart[i])) for i in order)
    elsewhere = [restart for restart in restarts if restart.distance > APART]
    if elsewhere:
        told = ", ".join(f"{restart.elbo:.4g}" for restart in elsewhere[:4])
        notes.append(
            f"{len(elsewhere)} of {len(fits)} restarts ended elsewhere (ELBO {told}, against {restarts[0].elbo:.4g}): there may be several "
            f"modes; diagnose with other_starts=fit.restarts[{restarts.index(elsewhere[0])}].approximation"
        )
    return Fit(fits[best], float(elbos[best]), np.asarray(trace, float), gradients, bool(converged[best]), restarts, tuple(notes))
