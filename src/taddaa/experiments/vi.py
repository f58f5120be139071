"""Variational inference as the paper did it: mean-field, 10 draws a step, up to 200,000 steps, one start, stopping when converged."""

from dataclasses import dataclass
from typing import Any

from .. import fit
from ..problem.approximation import Approximation, Gaussian, StudentT
from ..problem.target import Target
from .study import Store

DRAWS, MOST_STEPS, QUICK_STEPS = 10, 200_000, 5_000
TOLERANCE = 0.1


@dataclass(frozen=True)
class Fitted:
    """What the optimisation came to, and what it cost."""

    approximation: Approximation
    gradients: int
    converged: bool
    elbo: float


def mean_field(
    store: Store,
    key: dict[str, Any],
    target: Target,
    *,
    family: str = "gaussian",
    df=None,
    seed: int = 0,
    quick=False,
    tolerance: float = TOLERANCE,
) -> Fitted:
    """The fit of `family` (gaussian or student-t) to a target, made once for all cells; `key` must name the target and its data."""
    steps = QUICK_STEPS if quick else MOST_STEPS
    options = {"family": family, "df": df, "seed": seed, "steps": steps, "draws": DRAWS, "tolerance": tolerance, "revision": 1}

    def make() -> dict[str, Any]:
        common: dict[str, Any] = {"restarts": 1, "draws": DRAWS, "steps": steps, "tolerance": tolerance, "seed": seed}
        if family == "gaussian":
            found = fit.meanfield(target, **common)
            parameters = {"mean": found.approximation.mean(), "sd": found.approximation.covariance() ** 0.5}  # type: ignore[operator]
        else:
            found = fit.student_t(target, df=df, **common)
            t = found.approximation
            assert isinstance(t, StudentT)
            parameters = {"loc": t.loc, "scale": t.scale, "df": t.df}
        return {"parameters": parameters, "gradients": found.gradients, "converged": found.converged, "elbo": found.elbo}

    kept = store.once(f"vi-{family}", {"target": key, **options}, make)
    kind: Any = Gaussian if family == "gaussian" else StudentT
    return Fitted(kind(**kept["parameters"]), kept["gradients"], kept["converged"], kept["elbo"])
