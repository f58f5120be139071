"""Distributions of other libraries as approximations: anything with `sample` and `log_prob` over a flat vector.

Each library has its own way to be asked for draws; which one it is, the package of the object's type says.
"""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import numpy as np

from ..errors import InputError

TORCH = {"torch", "zuko", "pyro", "sbi"}
SEED_BY_NAME = {"tensorflow_probability", "distrax"}


def sampler_of(distribution: Any) -> tuple[Callable[[Any, int], Any], int, Callable[[Any], Any]]:
    """(sample(key, count), dimension, logdensity) of a distribution."""
    packages = {kind.__module__.partition(".")[0] for kind in type(distribution).__mro__}
    if getattr(distribution, "cond_shape", None) is not None:  # flowjax
        raise InputError(f"approximation is conditional on a variable of shape {distribution.cond_shape}; fix it in a taddaa.Sampler")
    if packages & TORCH:
        return _of_torch(distribution)
    draw = _with_seed if packages & SEED_BY_NAME else _with_key
    return (lambda key, count: draw(distribution, key, count)), _dimension(distribution), _logdensity(distribution)


def _with_key(distribution, key, count: int):
    """NumPyro, flowjax."""
    return distribution.sample(key, (count,))


def _with_seed(distribution, key, count: int):
    """distrax, TensorFlow Probability on JAX."""
    return distribution.sample(sample_shape=(count,), seed=key)


def _dimension(distribution) -> int:
    shape = getattr(distribution, "shape", None)
    if not isinstance(shape, tuple):  # flowjax has the shape of a draw; others tell batches from events
        shape = tuple(getattr(distribution, "batch_shape", ())) + tuple(getattr(distribution, "event_shape", ()))
    return _flat(shape)


def _flat(shape) -> int:
    if len(shape) != 1:
        raise InputError(f"approximation must be a distribution over a flat vector, got draws of shape {tuple(shape)}")
    return int(shape[0])


def _logdensity(distribution) -> Callable[[Any], Any]:
    def logdensity(x):
        result = np.asarray(distribution.log_prob(jax.numpy.asarray(x)))
        return result.sum(-1) if result.ndim == 2 else result

    return logdensity


def _of_torch(distribution):
    """PyTorch's own, zuko's flows and sbi's posteriors: draws come from a global stream, which is set and put back."""
    torch = import_module("torch")
    silently = {"show_progress_bars": False} if type(distribution).__module__.startswith("sbi.") else {}

    def draw(key, count: int):
        seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            return distribution.sample((count,), **silently)

    first = draw(jax.random.key(0), 2)
    dim = _flat(tuple(first.shape[1:]))

    def logdensity(x):
        with torch.no_grad():
            result = distribution.log_prob(torch.as_tensor(np.asarray(x), dtype=first.dtype, device=first.device))
        result = np.asarray(result.cpu(), float)
        return result.sum(-1) if result.ndim == 2 and math.prod(result.shape) == len(x) * dim else result

    return (lambda key, count: np.asarray(draw(key, count).cpu(), float)), dim, logdensity
