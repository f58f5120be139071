"""A PyMC model whose operations JAX does not know: PyTensor's own compiled value and gradient, called on the host."""

import threading
import warnings
from typing import Any

import jax
import numpy as np

from ..problem.target import first_line
from .callback import host_logdensity, host_values
from .layout import Layout


class HostModel:
    """What `from_pymc` asks of a model: log density and constrained values of one flat vector, as JAX sees them."""

    def __init__(self, model, layout: Layout, shown: list[Any], error: Exception):
        import pytensor

        self._layout, self._lock = layout, threading.Lock()
        values = list(model.value_vars)
        logp = model.logp()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gradients: Any = pytensor.grad(logp, values)
            self._gradient = _compiled(model, [logp, *gradients])
            self._view = _compiled(model, shown)
        start = model.initial_point(random_seed=0)
        example = self._view(*(np.asarray(start[value.name], value.dtype) for value in values))
        self._types = [value.dtype for value in values]
        self._shown = {variable.name: np.shape(found) for variable, found in zip(shown, example, strict=True)}
        self.logdensity: Any = host_logdensity(self.evaluate)
        self._values = host_values(self._viewed, sum(int(np.prod(shape)) for shape in self._shown.values()))
        why = first_line(error)[:120]
        self.note = f"the model has no JAX form ({why}), so PyTensor computes its gradients one by one on the host, which is slower"

    def constrain(self, x) -> dict[str, Any]:
        flat, parts, first = self._values(x), {}, 0
        for name, shape in self._shown.items():
            size = int(np.prod(shape))
            parts[name] = jax.numpy.reshape(flat[first : first + size], shape)
            first += size
        return parts

    def evaluate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities and gradients of rows (n, d)."""
        values, gradients = np.empty(len(rows)), np.empty(rows.shape)
        with self._lock:  # a PyTensor function keeps its results in memory of its own
            for i, row in enumerate(rows):
                value, *parts = self._gradient(*self._arguments(row))
                values[i], gradients[i] = value, np.concatenate([np.ravel(part) for part in parts])
        return values, gradients

    def _viewed(self, rows: np.ndarray) -> np.ndarray:
        with self._lock:
            return np.stack([np.concatenate([np.ravel(part) for part in self._view(*self._arguments(row))]) for row in rows])

    def _arguments(self, row: np.ndarray) -> list[np.ndarray]:
        parts, first = [], 0
        for shape, kind in zip(self._layout.shapes.values(), self._types, strict=True):
            size = int(np.prod(shape))
            parts.append(row[first : first + size].reshape(shape).astype(kind, copy=False))
            first += size
        return parts


def _compiled(model, outputs: list[Any]):
    function = model.compile_fn(outputs, inputs=list(model.value_vars), point_fn=False, on_unused_input="ignore")
    if hasattr(function, "trust_input"):
        function.trust_input = True
    return function
