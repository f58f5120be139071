"""NumPyro: a model and a fitted guide → (Target, approximation)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, MissingExtra, place_of, require
from ..problem.approximation import Approximation
from ..problem.constants import afresh
from ..problem.origin import Origin, described
from ..problem.target import Target, first_line
from .layout import Layout, said
from .numpyro_discrete import independent_of, refuse_unsummable, summed_out
from .numpyro_guide import approximation_of, from_draws, from_particles
from .posterior import dims_and_coords, posterior_of, stacked


def from_numpyro(model: Callable, guide: Callable, params, *args, **kwargs) -> tuple[Target, Approximation]:
    """A NumPyro model and its fitted guide, as `taddaa.diagnose` takes them.

    Chains run on NumPyro's unconstrained scale. Rows, moved draws and `of=` functions see the model's own sites, constrained,
    with its deterministic sites: ``Mean(of=lambda p: p["beta"][0] - p["beta"][1], name="contrast")``.

    Args:
        model: the model that was fitted, without subsampling. Discrete latent sites are summed out (which needs funsor): the others
            are judged, and deterministic sites that do not depend on a discrete one.
        guide: an autoguide, or a hand-written guide that samples each of the model's continuous latent sites.
        params: what `svi.get_params(state)` or `svi.run(...).params` gave (the result of `svi.run` is accepted too).
        *args, **kwargs: what the model takes, in full (all data, no minibatch).
    """
    require("numpyro", "numpyro")
    params = getattr(params, "params", params)
    if not isinstance(params, dict):
        raise InputError(f"params must be the dict that svi.run(...).params holds, got {type(params).__name__}")
    with jax.enable_x64(True):
        study = Model(model, params, args, kwargs)
        return study.target(), afresh(lambda: approximation_of(study, guide, params))  # a guide may hold arguments that NUTS has seen


def read(model, fit, data=None) -> tuple[Target, Approximation]:
    """As `taddaa.diagnose(model, fit, data=…)` finds them; `from_numpyro` says what each part is.

    Args:
        model: the model, the SVI or SteinVI object, or the autoguide, which knows its model.
        fit: (guide, params), or only the params or the SVIRunResult where the first argument knows the guide; or draws, as an ArviZ
            DataTree or InferenceData.
        data: the model's arguments: a tuple of them, a dict of keyword arguments, or a single array.
    """
    require("numpyro", "numpyro")
    args, kwargs = _arguments(data)
    posterior = posterior_of(fit)
    if posterior is not None:
        with jax.enable_x64(True):
            study = Model(getattr(model, "model", model), {}, args, kwargs)
            return study.target(posterior), from_draws(study, stacked(posterior))
    if hasattr(model, "num_stein_particles"):
        params = getattr(fit, "params", fit)
        with jax.enable_x64(True):
            study = Model(model.model, params, args, kwargs)
            return study.target(), from_particles(study, model, params)
    guide = model.guide if hasattr(model, "guide") else model if hasattr(model, "model") else None
    model = getattr(model, "model", model)
    if guide is None and isinstance(fit, (tuple, list)) and not hasattr(fit, "params") and len(fit) == 2:
        guide, fit = fit
    if guide is None:
        raise InputError(
            f"approximation must be (guide, params) for a NumPyro model, since {type(fit).__name__} does not hold the guide: "
            "diagnose(model, (guide, result), data=(x, y)), or diagnose(svi, result, data=(x, y))"
        )
    return from_numpyro(model, guide, fit, *args, **kwargs)


def _arguments(data) -> tuple[tuple, dict]:
    if data is None:
        return (), {}
    if isinstance(data, dict):
        return (), data
    return tuple(data) if isinstance(data, (tuple, list)) else (data,), {}


class _Site(NamedTuple):
    """What is known of a latent site without running the model."""

    shape: tuple[int, ...]
    unconstrained: tuple[int, ...]
    dims: tuple[str | None, ...]  # by the plates it is in


class Model:
    """What tracing the model once tells: its latent sites in trace order and their shapes.

    `sites` are the continuous ones; `discrete` ones are summed out, and what depends on them (`hidden`) is not shown.
    """

    def __init__(self, model, params, args, kwargs):
        from numpyro import handlers

        # JAX may remember an array of integers as 32 bits wide from a run in single precision, such as NUTS: it meets copies here.
        self.args, self.kwargs = jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, (args, kwargs))
        self.sites: dict[str, _Site] = {}
        self.discrete: dict[str, jax.ShapeDtypeStruct] = {}
        self.hidden: tuple[str, ...] = ()
        _refuse_block(model)
        # Only parameters: a guide's parameter may have the name of a site of the model.
        own = handlers.substitute(model, substitute_fn=lambda site: params.get(site["name"]) if site["type"] == "param" else None)
        self.model = self.summed = handlers.seed(own, 0)
        try:
            afresh(lambda: jax.eval_shape(lambda: self._read(params)))
        except (InputError, MissingExtra):
            raise
        except Exception as error:
            raise InputError(
                f"model failed when it was run once{place_of(error)}: {first_line(error)}; pass the arguments it was fitted with"
            ) from error
        if not self.sites:
            kind = "continuous latent sites" if self.discrete else "latent sites"
            raise InputError(f"model has no {kind}, so there is no posterior to judge; is everything observed?")
        self.layout = Layout({name: site.unconstrained for name, site in self.sites.items()})
        if self.discrete:
            self.hidden = self._hidden()

    def _read(self, params) -> None:
        from numpyro import handlers
        from numpyro.distributions import biject_to
        from numpyro.infer import init_to_uniform

        # Not drawn from the prior, which may be improper.
        started = handlers.substitute(self.model, substitute_fn=init_to_uniform())
        trace = handlers.trace(_whole_plates()(started)).get_trace(*self.args, **self.kwargs)
        for name, site in trace.items():
            if site["type"] == "param" and name not in params:
                raise InputError(f"params lacks {name!r}, a numpyro.param of the model; pass all that svi.run(...).params holds")
            if site["type"] != "sample" or site["is_observed"]:
                continue
            support = site["fn"].support
            if support.is_discrete:
                refuse_unsummable(name, site)
                self.discrete[name] = jax.ShapeDtypeStruct(jnp.shape(site["value"]), jnp.result_type(site["value"]))
                continue
            self.sites[name] = _Site(jnp.shape(site["value"]), jnp.shape(biject_to(support).inv(site["value"])), _dims(site))
        if self.discrete:
            self.summed = summed_out(self.model, list(self.discrete), trace)
            self.model = self.summed.fn  # its discrete sites are marked, so that NumPyro has nothing to warn about

    def _hidden(self) -> tuple[str, ...]:
        from numpyro import handlers

        middle = jnp.zeros(self.layout.dim)
        shown = lambda discrete: self.constrain(middle, self.args, self.kwargs, handlers.substitute(self.model, data=discrete))  # noqa: E731
        free = independent_of(self.discrete, shown)
        return tuple(name for name in jax.eval_shape(shown, self.discrete) if name not in free)

    def logdensity(self, x, args, kwargs):
        from numpyro.infer.util import potential_energy

        return -potential_energy(self.summed, args, kwargs, self.layout.unflatten(x), enum=bool(self.discrete))

    def constrain(self, x, args, kwargs, model=None) -> dict:
        from numpyro.infer.util import constrain_fn

        found = constrain_fn(model or self.model, args, kwargs, self.layout.unflatten(x), return_deterministic=True)
        return {name: value for name, value in found.items() if name not in self.hidden}

    def unconstrain(self, values: dict) -> Any:
        """One draw of the constrained latent sites as a flat vector."""
        from numpyro.infer.util import unconstrain_fn

        return self.layout.flatten(unconstrain_fn(self.model, self.args, self.kwargs, values))

    def target(self, posterior=None) -> Target:
        """Arrays among the arguments become the target's data; where the model needs their values while tracing, constants.

        Axes have the names that the draws give them, or else those of the model's plates.
        """
        found = self._bare_target()
        shapes = dict(found.shapes)
        dims, coords = ({}, {}) if posterior is None else dims_and_coords(posterior, shapes)
        plates = {name: site.dims for name, site in self.sites.items() if any(site.dims) and len(site.dims) == len(shapes[name])}
        derived = tuple(name for name in shapes if name not in self.sites)
        return replace(found, dims={**plates, **dims}, coords=coords, origin=replace(self.origin(), derived=derived))

    def _bare_target(self) -> Target:
        leaves, tree = jax.tree.flatten((self.args, self.kwargs))
        moving = [
            i for i, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray)) and leaf.ndim and leaf.dtype.kind in "fiub"
        ]

        def inputs(data):
            full = list(leaves)
            for i, leaf in zip(moving, data, strict=True):
                full[i] = leaf
            return jax.tree.unflatten(tree, full)

        point = jax.ShapeDtypeStruct((self.layout.dim,), jnp.float64)
        data = [leaves[i] for i in moving]
        if data:
            try:
                jax.eval_shape(lambda x, data: (self.logdensity(x, *inputs(data)), self.constrain(x, *inputs(data))), point, data)
                return Target(
                    lambda x, data: self.logdensity(x, *inputs(data)),
                    self.layout.dim,
                    data=data,
                    constrain=lambda x, data: self.constrain(x, *inputs(data)),
                )
            except Exception:  # the same is tried with constant arguments, as NumPyro's own MCMC does
                pass
        return Target(
            lambda x: self.logdensity(x, self.args, self.kwargs),
            self.layout.dim,
            constrain=lambda x: self.constrain(x, self.args, self.kwargs),
        )

    def origin(self) -> Origin:
        from numpyro import __version__

        found = jax.tree_util.tree_leaves_with_path((dict(enumerate(self.args)), self.kwargs))
        arrays = {f"argument {jax.tree_util.keystr(path[1:], simple=True)}": leaf for path, leaf in found if np.ndim(leaf)}
        notes: tuple[str, ...] = ()
        if self.discrete:
            also = f", and what depends on it ({said(self.hidden)}) has no row" if self.hidden else ""
            notes = (f"the model's discrete {said(self.discrete)} is summed out{also}",)
        return Origin(f"numpyro {__version__}", described({name: np.asarray(leaf) for name, leaf in arrays.items()}), notes)


def _refuse_block(model) -> None:
    """What `block` hides would be drawn at random and taken for given."""
    from numpyro import handlers

    while model is not None:
        if isinstance(model, handlers.block):
            raise InputError(
                "model is inside numpyro.handlers.block, which hides some of its sites (a guide of such a model holds that); "
                "pass the model itself and the guide: diagnose(model, (guide, params), data=…)"
            )
        model = getattr(model, "fn", None)


def _whole_plates():
    """A handler that refuses subsampling when it meets it: the model may fail on the rows' random numbers afterwards."""
    from numpyro.primitives import Messenger

    class WholePlates(Messenger):
        def process_message(self, msg):
            if msg["type"] == "plate" and msg["args"][1] is not None and msg["args"][0] != msg["args"][1]:
                size, part = msg["args"][:2]
                raise InputError(
                    f"model's plate {msg['name']!r} takes {part} of {size} rows at random, so its log density is not one function; "
                    "pass a model without subsample_size for the diagnosis"
                )

    return WholePlates


def _dims(site) -> tuple[str | None, ...]:
    """A plate's name for each axis that is one of its own."""
    batch = len(site["fn"].batch_shape)
    names = {frame.dim: frame.name for frame in site["cond_indep_stack"]}
    return tuple(names.get(axis - batch) if axis < batch else None for axis in range(jnp.ndim(site["value"])))
