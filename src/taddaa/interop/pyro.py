"""Pyro: a model and a fitted guide → (Target, approximation). Potential and transforms are Pyro's own, called on the host."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError, place_of, require
from ..problem.approximation import Approximation, Draws, Gaussian
from ..problem.origin import Origin, described
from ..problem.target import Target, first_line
from .callback import host_logdensity, host_values, probe
from .layout import Layout, said

GUIDE_DRAWS = 2000  # of a guide without a closed form; Pyro draws them one by one
PROBE_DRAWS = 4


def from_pyro(model: Callable, guide: Callable, *args, **kwargs) -> tuple[Target, Approximation]:
    """A Pyro model and its fitted guide, as `taddaa.diagnose` takes them.

    Chains run on Pyro's unconstrained scale, in double precision. Rows, moved draws and `of=` functions see the model's own latent
    sites, constrained; values of `pyro.deterministic` are not among them: write them as `of=` functions.

    Args:
        model: the model that was fitted; every latent site continuous, no subsampling.
        guide: an autoguide or a hand-written guide, with its parameters in Pyro's parameter store. AutoNormal, AutoDiagonalNormal and
            the multivariate normal guides give closed forms, others are drawn from.
        *args, **kwargs: what the model takes, in full.
    """
    require("pyro", "pyro")
    study = _Model(model, _double(args), _double(kwargs))
    approximation = study.approximation(guide, args, kwargs)
    probe(study.evaluate, approximation.sample(np.random.default_rng(0), PROBE_DRAWS))
    return study.target(), approximation


def read(model, fit, data=None) -> tuple[Target, Approximation]:
    """As `taddaa.diagnose(model, guide, data=…)` finds them; data is a tuple of arguments or a dict of keyword arguments."""
    if fit is None:
        raise InputError("approximation is missing beside the Pyro model: pass its guide, diagnose(model, guide, data=(x, y))")
    if isinstance(data, dict):
        return from_pyro(model, fit, **data)
    return from_pyro(model, fit, *(data if isinstance(data, (tuple, list)) else () if data is None else (data,)))


class _Model:
    """What Pyro tells of a model: its latent sites, their transforms to the unconstrained scale, and its potential."""

    def __init__(self, model, args, kwargs):
        import torch
        from pyro.infer.mcmc.util import initialize_model

        self._torch, self._lock, self._data, self._batched = torch, threading.Lock(), (args, kwargs), True
        try:
            with _in_double(torch):
                start, self._potential, self._transforms, trace = initialize_model(model, args, kwargs)
        except Exception as error:
            raise InputError(
                f"model failed when it was run once{place_of(error)}: {first_line(error)}; pass the arguments it was fitted with"
            ) from error
        if not start:
            raise InputError("model has no latent sites, so there is no posterior to judge; is everything observed?")
        order = [name for name in trace.nodes if name in start]
        self.layout = Layout({name: tuple(start[name].shape) for name in order})
        self.shapes = {name: tuple(self._transforms[name].inv(start[name]).shape) for name in order}

    def evaluate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities and gradients of rows (n, d): all at once where PyTorch can, else one by one."""
        torch = self._torch
        with self._lock, _in_double(torch):
            points = torch.tensor(rows, dtype=torch.float64)
            if self._batched:
                try:
                    gradients, values = torch.func.vmap(torch.func.grad_and_value(self._logdensity), randomness="different")(points)
                    return values.detach().numpy(), gradients.detach().numpy()
                except RuntimeError:  # an operation in the model that PyTorch cannot batch
                    self._batched = False
            found = [torch.func.grad_and_value(self._logdensity)(point) for point in points]
        return np.array([float(value) for _, value in found]), np.stack([gradient.numpy() for gradient, _ in found])

    def _logdensity(self, point):
        return -self._potential(self._parts(point))

    def constrain(self, rows: np.ndarray) -> np.ndarray:
        torch = self._torch
        with self._lock, _in_double(torch), torch.no_grad():
            parts = self._parts(torch.tensor(rows, dtype=torch.float64))
            return torch.cat([self._transforms[name].inv(part).reshape(len(rows), -1) for name, part in parts.items()], dim=1).numpy()

    def _parts(self, point) -> dict[str, Any]:
        """A flat vector (…, d) as Pyro's dict."""
        parts, first = {}, 0
        for name, shape in self.layout.shapes.items():
            size = int(np.prod(shape))
            parts[name] = point[..., first : first + size].reshape((*point.shape[:-1], *shape))
            first += size
        return parts

    def target(self) -> Target:
        from pyro import __version__

        sizes = {name: int(np.prod(shape)) for name, shape in self.shapes.items()}
        values = host_values(self.constrain, sum(sizes.values()))

        def constrain(x):
            flat, parts, first = values(x), {}, 0
            for name, shape in self.shapes.items():
                parts[name] = flat[first : first + sizes[name]].reshape(shape)
                first += sizes[name]
            return parts

        args, kwargs = self._data
        arrays = {f"argument {name}": np.asarray(v) for name, v in [*enumerate(args), *kwargs.items()] if self._torch.is_tensor(v)}
        origin = Origin(f"pyro {__version__}", described(arrays))
        return Target(host_logdensity(self.evaluate), self.layout.dim, constrain=constrain, origin=origin)

    def approximation(self, guide, args, kwargs) -> Approximation:
        """In closed form where the guide is normal on the unconstrained scale; else from draws of its sites."""
        from pyro.infer import autoguide

        torch = self._torch
        with torch.no_grad():
            if isinstance(guide, (autoguide.AutoDiagonalNormal, autoguide.AutoMultivariateNormal, autoguide.AutoLowRankMultivariateNormal)):
                posterior = guide.get_posterior()
                order = self._order(guide)
                mean = posterior.mean.numpy().astype(float)[order]
                if isinstance(guide, autoguide.AutoDiagonalNormal):
                    return Gaussian(mean, posterior.stddev.numpy().astype(float)[order])
                return Gaussian(mean, covariance=posterior.covariance_matrix.numpy().astype(float)[np.ix_(order, order)])
            if type(guide) is autoguide.AutoNormal:
                loc, scale = (self._flat(getattr(guide, part)) for part in ("locs", "scales"))
                return Gaussian(loc, scale)
        return self._drawn(guide, args, kwargs)

    def _flat(self, holder) -> np.ndarray:
        from operator import attrgetter  # a site's name may have dots, and then is held in parts

        try:
            parts = [attrgetter(name)(holder).detach().numpy().astype(float) for name in self.layout.shapes]
        except AttributeError as error:
            raise InputError(f"guide does not match the model: it has no {first_line(error)[-60:]}; fit it, and pass its model") from error
        return np.concatenate([part.reshape(-1) for part in parts])

    def _order(self, guide) -> np.ndarray:
        """Where each of our flat coordinates is in the guide's own flat vector."""
        places, first = {}, 0
        for name, _ in guide.prototype_trace.iter_stochastic_nodes():
            size = int(np.prod(guide._unconstrained_shapes[name]))
            places[name] = np.arange(first, first + size)
            first += size
        missing = [name for name in self.layout.shapes if name not in places]
        if missing:
            raise InputError(f"guide does not match the model: it does not sample {said(missing)}; pass the model that was fitted")
        return np.concatenate([places[name] for name in self.layout.shapes])

    def _drawn(self, guide, args, kwargs) -> Draws:
        from pyro import poutine

        torch, rows = self._torch, []
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            for _ in range(GUIDE_DRAWS):
                nodes = poutine.trace(guide).get_trace(*args, **kwargs).nodes
                missing = [name for name in self.layout.shapes if name not in nodes]
                if missing:
                    raise InputError(f"guide does not match the model: it does not sample {said(missing)}; pass the model that was fitted")
                parts = [self._transforms[name](nodes[name]["value"].double()).reshape(-1) for name in self.layout.shapes]
                rows.append(torch.cat(parts).numpy())
        draws = np.stack(rows)
        if not np.isfinite(draws).all():
            lost = self.layout.coordinates()[int(np.flatnonzero(~np.isfinite(draws).all(axis=0))[0])]
            raise InputError(f"guide draws {lost} on the very edge of its support, where the unconstrained value is infinite")
        return Draws(draws)


class _in_double:
    """While open, PyTorch makes new tensors in double precision, and values are not checked: checks cannot be batched."""

    def __init__(self, torch):
        from pyro import validation_enabled

        self._torch, self._unchecked = torch, validation_enabled(False)

    def __enter__(self):
        self._before = self._torch.get_default_dtype()
        self._torch.set_default_dtype(self._torch.float64)
        self._unchecked.__enter__()

    def __exit__(self, *error):
        self._unchecked.__exit__(*error)
        self._torch.set_default_dtype(self._before)


def _double(value):
    """Arguments with their tensors of real numbers in double precision."""
    if isinstance(value, (tuple, list)):
        return type(value)(_double(part) for part in value)
    if isinstance(value, dict):
        return {name: _double(part) for name, part in value.items()}
    return value.double() if hasattr(value, "is_floating_point") and value.is_floating_point() else value
