"""The NumPy arrays that a user's function closes over, and what JAX remembers of them.

While a traced program lives, JAX keeps what became of each NumPy array in it: 32 bits wide in a run of single precision, 64 in one of
double, whichever came first. A function that was run in the one then fails in the other. So our programs hold copies of such arrays,
which leaves the user's own as they were; and what the user's programs have left behind is forgotten where it is in the way.
"""

import gc
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError

TRACED = "values of a jax.jit, vmap or grad around it; call diagnose outside of them, with numbers"
T = TypeVar("T")


def passing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, to be traced once: what JAX keeps of a trace lives as long as the function that was traced."""
    return lambda *arguments: function(*arguments)  # noqa: PLW0108


def with_own_constants(function: Callable[..., Any], what: str = "a function") -> Callable[..., Any]:
    """A function of arrays that returns one array, for programs that live on: it holds copies of the NumPy arrays it closes over."""

    def inner(*arguments):
        program = jax.make_jaxpr(lambda *arguments: jnp.asarray(function(*arguments)))(*arguments)
        if any(isinstance(const, jax.core.Tracer) for const in program.consts):
            raise InputError(f"{what} uses {TRACED}")
        copies = [np.array(const) if isinstance(const, np.ndarray) else const for const in program.consts]
        return jax.core.eval_jaxpr(program.jaxpr, copies, *jax.tree.leaves(arguments))[0]

    return inner


def afresh(trace: Callable[[], T]) -> T:
    """`trace()`; where arrays are remembered in another width, once more after all is forgotten (programs are compiled again)."""
    try:
        return trace()
    except (TypeError, ValueError) as error:
        if not _is_of_widths(error):
            raise
    jax.clear_caches()  # out here, because the error's traceback holds arrays too
    gc.collect()
    return trace()


def _is_of_widths(error: Exception) -> bool:
    """As JAX says that an array of 32 bits met one of 64, when it traces and when it lowers."""
    text = str(error)
    return "Cannot lower jaxpr with verifier errors" in text or ("32" in text and "64" in text)
