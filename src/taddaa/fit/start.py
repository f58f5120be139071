"""Where fits begin: checked options, diverse starts, and the way up from each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError
from ..problem.numbers import numbers
from ..problem.target import Target
from .ascent import FitProgress
from .path import Path, climb, programs


@dataclass(frozen=True)
class Options:
    """Checked arguments."""

    restarts: int
    starts: Any
    spread: float
    seed: int
    progress: Callable[[FitProgress], None] | None
    draws: int = 1
    steps: int = 1
    tolerance: float = 1.0

    def __post_init__(self):
        for name, least in (("restarts", 1), ("draws", 1), ("steps", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name in ("spread", "tolerance"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
                raise InputError(f"{name} must be a positive number, got {value!r}")


def climb_all(target: Target, options: Options) -> tuple[Any, list[Path]]:
    """The data on the device, and the way up from every start."""
    if not isinstance(target, Target):
        hint = "; wrap it: taddaa.Target(logdensity, dim=…)" if callable(target) else ""
        raise InputError(f"target must be a taddaa.Target, got {type(target).__name__}{hint}")
    target.check()
    data = jax.tree.map(_double, target.data)
    paths = []
    for number, start in enumerate(_starts(target, data, options)):
        paths.append(climb(target, data, start))
        if options.progress is not None:
            options.progress(FitProgress("starts", number + 1, options.restarts, np.nan))
    return data, paths


def _double(leaf):
    array = jnp.asarray(leaf)
    return array.astype(jnp.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array


def _starts(target: Target, data: Any, options: Options) -> list[np.ndarray]:
    """Diverse starts in opposite pairs, so that each coordinate begins on both sides; drawn closer to 0 where that is needed."""
    evaluate = programs(target.logdensity, target.data is not None).value_and_grad
    finite = lambda x: all(np.all(np.isfinite(part)) for part in evaluate(jnp.asarray(x), data))  # noqa: E731
    if options.starts is not None:
        given = numbers("starts", options.starts, "an array")
        if given.ndim != 2 or given.shape[1] != target.dim or not len(given):
            raise InputError(f"starts must have shape (restarts, {target.dim}), got {given.shape}")
        bad = [i for i, start in enumerate(given) if not finite(start)]
        if bad:
            raise InputError(f"logdensity or its gradient is not finite at starts[{bad[0]}]; start elsewhere")
        return list(given)
    half = np.random.default_rng([options.seed, 11]).standard_normal((-(-options.restarts // 2), target.dim)) * options.spread
    found = []
    for start in np.stack([half, -half], axis=1).reshape(-1, target.dim)[: options.restarts]:
        closer = next((start / 2**k for k in range(20) if finite(start / 2**k)), None)
        if closer is None:
            raise InputError("logdensity or its gradient is not finite anywhere near 0; pass starts=, points where it is")
        found.append(closer)
    return found
