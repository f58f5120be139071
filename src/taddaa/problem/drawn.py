"""Draws of an approximation, as the chains need them: the right shape, finite, and numbers that the precision can tell apart."""

import numpy as np

from ..errors import InputError, whole_dimension
from .approximation import Approximation
from .numbers import numbers

# A standard deviation must be so many times the distance between neighbouring numbers there, or rounding shows in the verdicts.
DISTINGUISHABLE = 100


def drawn(approximation: Approximation, rng: np.random.Generator, count: int) -> np.ndarray:
    """`count` draws of any approximation, the user's own classes too; what they cannot be is refused in one sentence."""
    what = f"sample(rng, {count}) of {type(approximation).__name__}"
    try:
        draws = approximation.sample(rng, count)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what} failed: {type(error).__name__}: {error}".partition("\n")[0]) from error
    draws = numbers(what, draws, "an array")
    if draws.shape != (count, approximation.dim):
        raise InputError(f"{what} must return shape {(count, approximation.dim)}, got {draws.shape}")
    if not np.isfinite(draws).all():
        raise InputError(f"{what} returned NaN or infinite values; the approximation itself is broken")
    return draws


def refuse_unrepresentable(draws: np.ndarray, precision: str) -> None:
    """Refuse coordinates whose spread is lost to rounding, or whose powers over- or underflow."""
    kind = np.finfo(precision)
    with np.errstate(over="ignore", invalid="ignore"):
        middle, sd = np.median(draws, axis=0), draws.std(axis=0, ddof=1)
    step = np.spacing(np.abs(middle).astype(kind.dtype)).astype(float)
    lost = ~(sd >= DISTINGUISHABLE * step)
    # Squares are taken in the run's precision, fourth powers in double precision.
    least = max(float(kind.tiny) ** 0.5, float(np.finfo(float).tiny) ** 0.25)
    most = min(float(kind.max) ** 0.5, float(np.finfo(float).max) ** 0.25)
    odd = ~((sd > least) & (sd < most))
    for wrong, why, remedy in (
        (odd, f"whose powers {precision} cannot hold", "scale it to about 1"),
        (lost, f"which {precision} cannot tell from rounding there", "subtract its centre inside logdensity"),
    ):
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"coordinate {i} of the approximation's draws has standard deviation {sd[i]:.3g} around {middle[i]:.3g}, {why}; {remedy}"
            )


def refuse_misshapen(approximation: Approximation) -> None:
    """What a class of the user's own says of itself must have the shapes of its dimension; ours check themselves."""
    what = type(approximation).__name__
    dim = whole_dimension(getattr(approximation, "dim", None))
    if type(approximation).__module__.startswith(f"{__name__.partition('.')[0]}."):
        return
    for name, found in (
        ("mean()", approximation.mean),
        ("covariance()", approximation.covariance),
        ("quantile(0.5)", lambda: approximation.quantile(0.5)),
    ):
        try:
            value = found()
        except (Exception, SystemExit) as error:
            raise InputError(f"{name} of {what} failed: {type(error).__name__}: {error}".partition("\n")[0]) from error
        shapes = [(dim,), (dim, dim)] if name == "covariance()" else [(dim,)]
        if value is not None and not (isinstance(value, np.ndarray) and value.shape in shapes and value.dtype.kind in "fiu"):
            allowed = " or ".join(map(str, shapes))
            raise InputError(f"{name} of {what} must be None or a NumPy array of shape {allowed}, got {np.shape(value) or value!r}")
