"""Programs side by side in threads, where that is safe; and matrix products in one, where they are small."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
from threadpoolctl import threadpool_limits

_limits: list[threadpool_limits] = []  # one for each that was opened since none was, in whatever thread
_open = [0]  # so many are
_lock = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While open, NumPy and SciPy multiply matrices in one thread: small ones take longer where two wait for each other.

    It holds for the whole process. The last of several that are open at once puts back what they have found, that of the first last.
    """
    with _lock:
        _limits.append(threadpool_limits(1, "blas"))
        _open[0] += 1
    try:
        yield
    finally:
        with _lock:
            _open[0] -= 1
            while _limits and not _open[0]:
                _limits.pop().restore_original_limits()


@contextmanager
def mapping(threads: int) -> Iterator[Callable[[Callable, list], list]]:
    """`map` in this thread or in several, which are then told JAX's precision as it is here."""
    if threads == 1:
        yield lambda function, items: [function(item) for item in items]
        return
    wide = jax.config.jax_enable_x64  # type: ignore[attr-defined]

    def alike(function: Callable, item: Any) -> Any:
        with jax.enable_x64(wide), jax.debug_nans(False), jax.debug_infs(False):
            return function(item)

    with ThreadPoolExecutor(threads) as pool:
        yield lambda function, items: list(pool.map(lambda item: alike(function, item), items))


def may_run_twice_at_once(program: str) -> bool:
    """Not if it calls libraries, which wait for threads of a pool that the other may have taken, or the user's code on the host.

    The program is text, before or after compiling.
    """
    calls = "custom-call(", " fft(", " convolution(", "stablehlo.custom_call", "stablehlo.fft", "stablehlo.convolution"
    return not any(call in program for call in calls)
