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
        from pytensor.graph.replace import clone_replace
        from pytensor.tensor import dvector

        self._lock = threading.Lock()
        # Of one flat vector: to cut it into a model's variables, and gradients together, takes Python longer than PyTensor needs.
        x = dvector("x")
        parts: Any = dict(zip(model.value_vars, _parts(layout, x), strict=True))
        typed = {value: part.astype(value.dtype) for value, part in parts.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logp, *views = clone_replace([model.logp(), *shown], replace=typed, rebuild_strict=False)
            gradient: Any = pytensor.grad(logp, x)
            self._gradient = _compiled(model, x, [logp, gradient])
            self._view = _compiled(model, x, views)
        start = model.initial_point(random_seed=0)
        example = self._view(np.concatenate([np.ravel(start[name]) for name in layout.shapes]).astype(float))
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
                values[i], gradients[i] = self._gradient(row)
        return values, gradients

    def _viewed(self, rows: np.ndarray) -> np.ndarray:
        with self._lock:
            return np.stack([np.concatenate([np.ravel(part) for part in self._view(row)]) for row in rows])


def _parts(layout: Layout, x) -> list[Any]:
    """A symbolic flat vector, cut into the model's variables."""
    ends = np.cumsum([int(np.prod(shape)) for shape in layout.shapes.values()])
    return [x[int(end - np.prod(shape)) : int(end)].reshape(shape) for end, shape in zip(ends, layout.shapes.values(), strict=True)]


def _compiled(model, x, outputs: list[Any]):
    function = model.compile_fn(outputs, inputs=[x], point_fn=False, on_unused_input="ignore")
    if hasattr(function, "trust_input"):
        function.trust_input = True
    return function
