"""A PyStan 3 model, called in a process of its own.

PyStan's own server takes 3 ms a call, its compiled module 0.02 ms; but that module may be called only from the main thread that
loaded it (another one crashes the interpreter), and JAX calls back from threads. So it gets a main thread elsewhere.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import weakref
from typing import Any

import numpy as np

from ..errors import InputError, require

PATIENCE = 10.0  # seconds for a worker to end


class PyStan:
    """What `from_stan` asks of a model: names, and methods of rows, batched so that a sweep is one message."""

    def __init__(self, model):
        require("httpstan", "stan")
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "taddaa.interop.pystan"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert self._worker.stdin is not None and self._worker.stdout is not None
        self._questions, self._answers = self._worker.stdin, self._worker.stdout
        self._stop = weakref.finalize(self, _stop, self._worker)
        layout = list(zip(model.param_names, [tuple(dims) for dims in model.dims], strict=True))
        self.dim, parameters, shown = self._ask(("open", model.model_name, dict(model.data), layout))
        names = list(model.constrained_param_names)
        self.parameters, self.shown = names[:parameters], names[:shown]

    def each(self, method: str, rows: np.ndarray) -> list[Any]:
        return self._ask((method, rows))

    def _ask(self, question):
        try:
            pickle.dump(question, self._questions)
            self._questions.flush()
            answer = pickle.load(self._answers)
        except (EOFError, OSError) as error:
            raise InputError(f"model's process ended with exit code {self._worker.poll()}; does its Stan program crash?") from error
        if isinstance(answer, Exception):
            raise InputError(f"model cannot be opened: {answer}; build it again with stan.build") from answer
        return answer


def _stop(worker) -> None:
    """Ask the worker to end. The end of its input would not reach it: PyStan forks when it samples, and its forks hold the pipe too."""
    with contextlib.suppress(OSError):
        pickle.dump(None, worker.stdin)
        worker.stdin.close()
    worker.stdout.close()
    try:
        worker.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


class Module:
    """The compiled module with its data, for one row at a time; lives in the worker."""

    def __init__(self, name: str, data: dict, layout: list[tuple[str, tuple[int, ...]]]):
        from httpstan.models import import_services_extension_module

        self._module, self._data, self._layout = import_services_extension_module(name), data, layout
        sizes = [int(np.prod(dims)) for _, dims in layout]
        # PyStan does not tell the number of unconstrained parameters. Most often it is that of the first few variables.
        for dim in [*np.cumsum(sizes).tolist(), *range(sum(sizes) + 1)]:
            try:
                self.parameters = len(self._module.write_array(data, [0.0] * dim, False, False))
                break
            except RuntimeError as error:
                if "does not match the number" not in str(error):
                    raise
        self.dim = dim
        self.shown = self.parameters + self._transformed(sizes)

    def _transformed(self, sizes: list[int]) -> int:
        """How many values the transformed parameters have, at the first point where they can be computed."""
        rng = np.random.default_rng(0)
        for scale in np.linspace(0, 2, 20):
            try:
                point = (scale * rng.uniform(-1, 1, self.dim)).tolist()
                return len(self._module.write_array(self._data, point, True, False)) - self.parameters
            except RuntimeError:
                continue
        return 0

    def value_and_gradient(self, row):
        row = row.tolist()
        return self._module.log_prob(self._data, row, True), np.array(self._module.log_prob_grad(self._data, row, True))

    def constrain(self, row):
        values = np.array(self._module.write_array(self._data, row.tolist(), True, False))
        return values[: self.shown]

    def unconstrain(self, values):
        parts, first = {}, 0
        for name, dims in self._layout:
            size = int(np.prod(dims))
            if first + size > len(values):
                break
            # Stan writes arrays first index fastest.
            parts[name] = np.reshape(values[first : first + size], dims, order="F").tolist()
            first += size
        return np.array(self._module.transform_inits(self._data, parts))


def each(source, method: str, rows: np.ndarray) -> list[Any]:
    """A method's result for each row, or the RuntimeError by which Stan rejected it."""
    answers = []
    for row in rows:
        try:
            answers.append(getattr(source, method)(row))
        except (RuntimeError, ValueError) as error:
            answers.append(RuntimeError(str(error)))
    return answers


def serve(questions, answers) -> None:
    """The worker: open a module, then answer until the questions end."""
    module = None
    while True:
        try:
            question = pickle.load(questions)
        except EOFError:
            return
        if question is None:
            return
        try:
            if question[0] == "open":
                module = Module(*question[1:])
                answer: Any = (module.dim, module.parameters, module.shown)
            else:
                answer = each(module, *question)
        except Exception as error:
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Stan prints to standard output, which must carry nothing but answers
    serve(sys.stdin.buffer, replies)
