"""Any batched function on the host (NumPy, PyTorch, C++, Stan) → a JAX log density with its gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError
from ..problem.approximation import Approximation, as_approximation
from ..problem.target import Target, first_line

PROBE_DRAWS = 8


def from_callback(
    fn: Callable[[np.ndarray], tuple[Any, Any]],
    dim: int,
    approximation: Approximation,
    *,
    names: Sequence[str] | None = None,
    constrain: Callable[..., Any] | None = None,
) -> tuple[Target, Approximation]:
    """A batched host function and an approximation, as `taddaa.diagnose` takes them.

    `fn` is called once an iteration for all chains. If it raises, its rows are evaluated one by one, and those that fail or
    give NaN count as log density −inf: the proposal is rejected, and the report counts it.

    Args:
        fn: ``x of shape (n, dim) -> (log densities (n,), gradients (n, dim))``; x is a float64 NumPy array of fn's own to
            keep or change. With PyTorch: ``torch.func.vmap(torch.func.grad_and_value(f))``, which gives the gradient first.
        dim: the length of a flat vector; its coordinates must be free to take any real value.
        approximation: of the same flat vector: `taddaa.Gaussian`, `Draws`, `Sampler`, …
        names, constrain: as in `taddaa.Target`; constrain is a JAX function of one flat vector.
    """
    if not callable(fn):
        raise InputError(f"fn must be a function (n, dim) -> (log densities, gradients), got {type(fn).__name__}")
    approximation = as_approximation(approximation)
    target = Target(host_logdensity(fn), dim, names=names, constrain=constrain)
    if approximation.dim != dim:
        raise InputError(f"approximation has dimension {approximation.dim}, but dim = {dim}")
    probe(fn, approximation.sample(np.random.default_rng(0), PROBE_DRAWS))
    return target, approximation


def host_logdensity(fn: Callable) -> Callable:
    """The JAX log density of one flat vector; batched by `vmap`, it makes one call of `fn` for all of them."""

    def call(x):
        values = _exactly(lambda rows: _on_rows(fn, rows), 1 + x.shape[0], x)
        return values[0], values[1:]

    @jax.custom_vjp
    def logdensity(x):
        return call(x)[0]

    logdensity.defvjp(call, lambda gradient, cotangent: (cotangent * gradient,))
    return logdensity


def host_values(fn: Callable, size: int) -> Callable:
    """The JAX version of a batched host function without a gradient, (n, d) → (n, size); a row that fails is NaN."""

    def on_rows(rows):
        try:
            return np.asarray(fn(rows), float)
        except Exception:
            return np.concatenate([_one(fn, row, np.full((1, size), np.nan)) for row in rows])

    return lambda x: _exactly(on_rows, size, x)


def _exactly(on_rows: Callable, size: int, x):
    """`on_rows` of shape (n, d) → (n, size) at x, as one host call for all that `vmap` stacks, in full double precision.

    JAX runs host callbacks on a thread of its own, where `jax.enable_x64(True)` of the caller does not hold and doubles are cut
    to single precision without a word; pairs of 32-bit words come through unharmed.
    """
    double = x.dtype == jnp.float64

    def on_host(words):
        words = np.asarray(words)
        if double:
            words = np.ascontiguousarray(words).view(np.float64)[..., 0]
        rows = np.array(words, dtype=np.float64).reshape(-1, words.shape[-1])  # a writable copy: PyTorch warns about others
        values = on_rows(rows).reshape(*words.shape[:-1], size).astype(x.dtype)
        return np.ascontiguousarray(values[..., None]).view(np.uint32) if double else values

    if not double:
        return jax.pure_callback(on_host, jax.ShapeDtypeStruct((size,), x.dtype), x, vmap_method="broadcast_all")
    words = jax.lax.bitcast_convert_type(x, jnp.uint32)
    result = jax.pure_callback(on_host, jax.ShapeDtypeStruct((size, 2), jnp.uint32), words, vmap_method="broadcast_all")
    return jax.lax.bitcast_convert_type(result, jnp.float64)


def probe(fn: Callable, draws: np.ndarray) -> None:
    """Call `fn` once on draws of the approximation, and refuse what can never work, in the user's own words."""
    count, dim = draws.shape
    try:
        result = fn(draws.copy())
    except Exception as error:
        failures = [_failure(fn, row) for row in draws]
        if all(failures):
            raise InputError(
                f"fn failed on every one of {count} draws of the approximation, with x of shape {(count, dim)}: {first_line(error)}"
            ) from error
        return
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise InputError(f"fn must return the pair (log densities, gradients), got {type(result).__name__}")
    for what, value, shape in (("log densities", result[0], (count,)), ("gradients", result[1], (count, dim))):
        if np.shape(value) != shape:
            hint = "; the pair is the other way round" if what == "log densities" and np.shape(value) == (count, dim) else ""
            raise InputError(f"fn must return {what} of shape {shape} for x of shape {(count, dim)}, got shape {np.shape(value)}{hint}")
        try:
            np.asarray(value, float)
        except Exception as error:  # a tensor on another device, or one that still carries its gradient
            raise InputError(f"fn must return {what} as numbers, got {type(value).__name__}: {first_line(error)}") from error


def _on_rows(fn: Callable, rows: np.ndarray) -> np.ndarray:
    """Log density and gradient side by side, (n, 1 + d); a row that fails has log density −inf."""
    try:
        table = _checked(fn(rows.copy()), rows)
    except Exception:
        nothing = np.concatenate([[-np.inf], np.zeros(rows.shape[1])])[None]
        table = np.concatenate([_one(lambda x: _checked(fn(x), x), row, nothing) for row in rows])
    table[np.isnan(table[:, 0]), 0] = -np.inf
    return table


def _checked(result, rows: np.ndarray) -> np.ndarray:
    values, gradients = (np.asarray(part, float) for part in result)
    if values.shape != (len(rows),) or gradients.shape != rows.shape:
        raise InputError(f"fn returned shapes {values.shape} and {gradients.shape} for x of shape {rows.shape}")
    return np.concatenate([values[:, None], gradients], axis=1)


def _one(fn: Callable, row: np.ndarray, otherwise):
    try:
        return fn(row[None].copy())
    except Exception:
        return otherwise


def _failure(fn: Callable, row: np.ndarray) -> bool:
    try:
        fn(row[None].copy())
    except Exception:
        return True
    return False
