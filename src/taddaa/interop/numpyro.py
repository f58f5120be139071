"""NumPyro: a model and a fitted guide → (Target, approximation)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, place_of, require
from ..problem.approximation import Approximation, Gaussian, Sampler
from ..problem.origin import Origin, described
from ..problem.target import Target, first_line
from .layout import Layout, said

PROBE_DRAWS = 50  # of a hand-written guide, to refuse what cannot be sampled or does not vary
MAPPED_DRAWS = 1024  # of a guide at a time, so that memory stays bounded


def from_numpyro(model: Callable, guide: Callable, params, *args, **kwargs) -> tuple[Target, Approximation]:
    """A NumPyro model and its fitted guide, as `taddaa.diagnose` takes them.

    Chains run on NumPyro's unconstrained scale. Rows, moved draws and `of=` functions see the model's own sites, constrained,
    with its deterministic sites: ``Mean(of=lambda p: p["beta"][0] - p["beta"][1], name="contrast")``.

    Args:
        model: the model that was fitted; every latent site continuous, no subsampling.
        guide: an autoguide, or a hand-written guide that samples each of the model's latent sites.
        params: what `svi.get_params(state)` or `svi.run(...).params` gave (the result of `svi.run` is accepted too).
        *args, **kwargs: what the model takes, in full (all data, no minibatch).
    """
    require("numpyro", "numpyro")
    params = getattr(params, "params", params)
    if not isinstance(params, dict):
        raise InputError(f"params must be the dict that svi.run(...).params holds, got {type(params).__name__}")
    # JAX may remember an array of integers as 32 bits wide from a run in single precision, such as NUTS: it meets copies here.
    args, kwargs = jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, (args, kwargs))
    with jax.enable_x64(True):
        study = _Model(model, params, args, kwargs)
        return study.target(), _approximation(study, guide, params)


class _Site(NamedTuple):
    """What is known of a latent site without running the model."""

    shape: tuple[int, ...]
    unconstrained: tuple[int, ...]


class _Model:
    """What tracing the model once tells: its latent sites in trace order and their shapes."""

    def __init__(self, model, params, args, kwargs):
        from numpyro import handlers

        self.args, self.kwargs = args, kwargs
        self.sites: dict[str, _Site] = {}
        # Only parameters: a guide's parameter may have the name of a site of the model.
        own = handlers.substitute(model, substitute_fn=lambda site: params.get(site["name"]) if site["type"] == "param" else None)
        self.model = handlers.seed(own, 0)
        try:
            self._trace(params)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"model failed when it was run once{place_of(error)}: {first_line(error)}; pass the arguments it was fitted with"
            ) from error
        if not self.sites:
            raise InputError("model has no latent sites, so there is no posterior to judge; is everything observed?")
        self.layout = Layout({name: site.unconstrained for name, site in self.sites.items()})

    def _trace(self, params) -> None:
        try:
            jax.eval_shape(lambda: self._read(params))
        except TypeError as error:
            if not all(width in str(error) for width in ("32", "64")):
                raise
            jax.clear_caches()  # what JAX remembers of arrays that the model itself holds, from a run in single precision
            jax.eval_shape(lambda: self._read(params))

    def _read(self, params) -> None:
        from numpyro import handlers
        from numpyro.distributions import biject_to
        from numpyro.infer import init_to_uniform

        # Not drawn from the prior, which may be improper.
        started = handlers.substitute(self.model, substitute_fn=init_to_uniform())
        for name, site in handlers.trace(started).get_trace(*self.args, **self.kwargs).items():
            if site["type"] == "plate" and site["args"][1] is not None and site["args"][0] != site["args"][1]:
                size, part = site["args"][:2]
                raise InputError(
                    f"model's plate {name!r} takes {part} of {size} rows at random, so its log density is not one function; "
                    "pass a model without subsample_size for the diagnosis"
                )
            if site["type"] == "param" and name not in params:
                raise InputError(f"params lacks {name!r}, a numpyro.param of the model; pass all that svi.run(...).params holds")
            if site["type"] != "sample" or site["is_observed"]:
                continue
            support = site["fn"].support
            if support.is_discrete:
                raise InputError(
                    f"model's latent site {name!r} is discrete ({type(site['fn']).__name__}); gradients need a model in which it is "
                    "summed out, for example with numpyro.distributions.MixtureSameFamily"
                )
            self.sites[name] = _Site(jnp.shape(site["value"]), jnp.shape(biject_to(support).inv(site["value"])))

    def logdensity(self, x, args, kwargs):
        from numpyro.infer.util import potential_energy

        return -potential_energy(self.model, args, kwargs, self.layout.unflatten(x))

    def constrain(self, x, args, kwargs) -> dict:
        from numpyro.infer.util import constrain_fn

        return constrain_fn(self.model, args, kwargs, self.layout.unflatten(x), return_deterministic=True)

    def unconstrain(self, values: dict) -> Any:
        """One draw of the constrained latent sites as a flat vector."""
        from numpyro.infer.util import unconstrain_fn

        return self.layout.flatten(unconstrain_fn(self.model, self.args, self.kwargs, values))

    def target(self) -> Target:
        """Arrays among the arguments become the target's data; where the model needs their values while tracing, constants."""
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
                    origin=self.origin(),
                )
            except Exception:  # the same is tried with constant arguments, as NumPyro's own MCMC does
                pass
        return Target(
            lambda x: self.logdensity(x, self.args, self.kwargs),
            self.layout.dim,
            constrain=lambda x: self.constrain(x, self.args, self.kwargs),
            origin=self.origin(),
        )

    def origin(self) -> Origin:
        from numpyro import __version__

        found = jax.tree_util.tree_leaves_with_path((dict(enumerate(self.args)), self.kwargs))
        arrays = {f"argument {jax.tree_util.keystr(path[1:], simple=True)}": leaf for path, leaf in found if np.ndim(leaf)}
        return Origin(f"numpyro {__version__}", described({name: np.asarray(leaf) for name, leaf in arrays.items()}))


def _approximation(study: _Model, guide, params) -> Approximation:
    from numpyro.infer import autoguide

    if isinstance(guide, autoguide.AutoDelta):
        raise InputError("guide is an AutoDelta, a point without spread; fit an AutoLaplaceApproximation or an AutoNormal instead")
    if isinstance(guide, autoguide.AutoNormal):
        return _from_autonormal(study, guide, params)
    if isinstance(guide, autoguide.AutoContinuous):
        _refuse_other_guide(study, guide, params)
        posterior = _posterior(guide, params)
        if posterior is not None:
            return _from_posterior(study, guide, posterior)
    return _from_sites(study, guide, params)


def _refuse_other_guide(study: _Model, guide, params) -> None:
    """The guide's sites must be the model's, and params the guide's."""
    from numpyro import handlers

    fitted = handlers.seed(handlers.substitute(guide, data=params), 0)

    def read() -> None:
        _sites_of(study, handlers.trace(fitted).get_trace(*study.args, **study.kwargs), params)

    try:
        if guide.prototype_trace is None:  # it looks at its model at its first call, which must be a real one
            with handlers.block():
                handlers.seed(guide, 0)(*study.args, **study.kwargs)
        jax.eval_shape(read)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"guide failed on these params and arguments: {first_line(error)}; do they belong together?") from error


def _sites_of(study: _Model, trace, params) -> dict:
    """The latent sites of a guide's trace, by name; refused if they are not the model's."""
    missing = [name for name, site in trace.items() if site["type"] == "param" and name not in params]
    if missing:
        raise InputError(f"params lacks the guide's {said(missing)}; pass what svi.run(...).params holds for this guide")
    values = {name: site["value"] for name, site in trace.items() if _is_latent(site)}
    _refuse_other_sites({name: jnp.shape(value) for name, value in values.items()}, {n: site.shape for n, site in study.sites.items()})
    return {name: values[name] for name in study.sites}


def _refuse_other_sites(guide: dict[str, tuple[int, ...]], model: dict[str, tuple[int, ...]]) -> None:
    lost, extra = [name for name in model if name not in guide], [name for name in guide if name not in model]
    if lost or extra:
        what = f"does not sample the model's {said(lost)}" if lost else f"samples {said(extra)}, which the model does not have"
        raise InputError(f"guide does not match the model: it {what}; pass the model that this guide was fitted to, and its params")
    for name, shape in model.items():
        if guide[name] != shape:
            raise InputError(
                f"guide does not match the model: site {name!r} has shape {guide[name]} in the guide and {shape} in the model; "
                "pass the arguments that it was fitted with"
            )


def _is_latent(site) -> bool:
    return site["type"] == "sample" and not site["is_observed"] and not site["infer"].get("is_auxiliary", False)


def _from_autonormal(study: _Model, guide, params) -> Gaussian:
    """Read from its parameters, which are named by site: the guide itself need not have seen its model in this process."""
    parts = {}
    for part in ("loc", "scale"):
        end = f"_{guide.prefix}_{part}"
        parts[part] = {name.removesuffix(end): np.asarray(value, float) for name, value in params.items() if name.endswith(end)}
        _refuse_other_sites({name: value.shape for name, value in parts[part].items()}, dict(study.layout.shapes))
    return Gaussian(np.asarray(study.layout.flatten(parts["loc"])), np.asarray(study.layout.flatten(parts["scale"])))


def _posterior(guide, params):
    """The guide's distribution of the flat unconstrained vector, or None where it has no such thing (AutoDAIS)."""
    import numpyro.distributions as dist
    from numpyro.infer.autoguide import AutoLaplaceApproximation

    if isinstance(guide, AutoLaplaceApproximation):

        @jax.jit
        def mode_and_scale(params):
            transform = guide.get_transform(params)
            return transform.loc, transform.scale_tril

        loc, scale = mode_and_scale(params)
        return dist.MultivariateNormal(loc, scale_tril=scale, validate_args=False)
    try:
        return guide.get_posterior(params)
    except NotImplementedError:
        return None


def _from_posterior(study: _Model, guide, posterior) -> Approximation:
    """In closed form for normal guides; otherwise by sampling, with the log density where the guide can invert itself."""
    import numpyro.distributions as dist

    dim = study.layout.dim
    # Where each of our flat coordinates is in the guide's own flat vector.
    order = np.asarray(study.layout.flatten(guide._unpack_latent(jnp.arange(float(dim))))).astype(int)
    if isinstance(posterior, dist.Normal):
        return Gaussian(np.asarray(posterior.loc, float)[order], np.asarray(posterior.scale, float)[order])
    if isinstance(posterior, (dist.MultivariateNormal, dist.LowRankMultivariateNormal)):
        covariance = np.asarray(posterior.covariance_matrix, float)
        if not np.all(np.diag(covariance) > 0):
            raise InputError(
                f"guide ({type(guide).__name__}) is singular: the Hessian at its mode cannot be inverted, so its draws would be constant; "
                "fit an AutoNormal, or find a better mode"
            )
        return Gaussian(np.asarray(posterior.mean, float)[order], covariance=covariance[np.ix_(order, order)])

    def sample(key, count):
        with jax.enable_x64(True):
            return np.asarray(jax.jit(lambda key: posterior.sample(key, (count,)))(key))[:, order]

    def logdensity(x):
        with jax.enable_x64(True):
            return jax.jit(posterior.log_prob)(jnp.asarray(x)[:, np.argsort(order)])

    try:
        logdensity(sample(jax.random.key(0), 2))
    except NotImplementedError:  # BNAF has no inverse
        return Sampler(sample, dim)
    return Sampler(sample, dim, logdensity)


def _from_sites(study: _Model, guide, params) -> Sampler:
    """A guide of any kind: its draws of the constrained sites, unconstrained in double precision."""
    from numpyro import handlers

    fitted = handlers.substitute(guide, data=params)

    def one(key):
        trace = handlers.trace(handlers.seed(fitted, key)).get_trace(*study.args, **study.kwargs)
        return study.unconstrain(_sites_of(study, trace, params))

    def sample(key, count):
        with jax.enable_x64(True):
            draws = np.asarray(jax.lax.map(one, jax.random.split(key, count), batch_size=min(count, MAPPED_DRAWS)))
        lost = np.flatnonzero(~np.isfinite(draws).all(axis=0))
        if lost.size:
            raise InputError(
                f"guide draws {study.layout.coordinates()[lost[0]]} on the very edge of its support, where the unconstrained value is "
                "infinite; let the guide sample an unconstrained value and transform it"
            )
        return draws

    try:
        draws = sample(jax.random.key(0), PROBE_DRAWS)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"guide failed on these params and arguments: {first_line(error)}; do they belong together?") from error
    constant = np.flatnonzero(np.ptp(draws, axis=0) == 0)
    if constant.size:
        raise InputError(
            f"guide gives {study.layout.coordinates()[constant[0]]} the same value in every draw; a point estimate has no spread to judge: "
            "give that site a distribution, or fix it in the model"
        )
    return Sampler(sample, study.layout.dim)
