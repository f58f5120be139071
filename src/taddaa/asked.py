"""What a diagnosis and a first look are asked, checked: one target and one approximation of it, functionals, settings, a seed."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from .chains.machine.placement import refuse_forked
from .errors import InputError, whole_seed
from .problem.approximation import Approximation, Inflated, as_approximation
from .problem.drawn import refuse_misshapen
from .problem.framework import as_problem
from .problem.functional import Functional, as_functionals
from .problem.target import Target, as_target
from .settings import Settings, as_settings, with_tolerance


class Asked(NamedTuple):
    target: Target
    approximation: Approximation
    functionals: Sequence[Functional]
    settings: Settings
    seed: int


def as_asked(
    what: str,
    target: Target | Callable | Any,
    approximation: Approximation | Any,
    functionals: Sequence[Functional] | None,
    settings: Settings | None,
    seed: int,
    tolerance: float | tuple[float, float] | None,
    data: Any,
    var_names: str | Sequence[str] | None,
) -> Asked:
    """The arguments of `what` as the rest of the package takes them, or an `InputError` that names the one to blame."""
    settings = as_settings(settings) if tolerance is None else with_tolerance(as_settings(settings), tolerance)
    target, approximation = as_problem(target, approximation, data)
    approximation = as_approximation(approximation)
    refuse_misshapen(approximation)
    target = as_target(target, approximation.dim)
    if target.dim != approximation.dim:
        raise InputError(f"target has dim = {target.dim}, but the approximation has dimension {approximation.dim}")
    functionals, seed = as_functionals(functionals, var_names), whole_seed(seed)
    refuse_forked()
    if isinstance(jax.device_put(0.0), jax.core.Tracer):  # which compiles nothing
        raise InputError(f"{what} cannot be called inside jax.jit: it compiles and runs programs of its own; call it outside")
    return Asked(target, approximation, functionals, settings, seed)


def as_other_starts(other_starts: Any, approximation: Approximation) -> Approximation | None:
    if other_starts is None:
        return None
    if isinstance(other_starts, str):
        if other_starts != "inflated":
            raise InputError(f"other_starts must be 'inflated' or an approximation, got {other_starts!r}")
        return Inflated(approximation)
    other = as_approximation(other_starts, "other_starts")
    refuse_misshapen(other)
    if other.dim != approximation.dim:
        raise InputError(f"other_starts has dimension {other.dim}, but the approximation has {approximation.dim}")
    return other
