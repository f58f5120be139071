"""NumPyro's guides: what their parameters say about the flat unconstrained vector, in closed form where there is one."""

import warnings
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, place_of
from ..problem.approximation import Approximation, Draws, Gaussian, Sampler
from ..problem.target import first_line
from .layout import said

if TYPE_CHECKING:
    from .numpyro import Model

PROBE_DRAWS = 50  # of a hand-written guide, to refuse what cannot be sampled or does not vary
PARTICLE_DRAWS = 1000  # in all, of particles that are distributions
MAPPED_DRAWS = 1024  # of a guide at a time, so that memory stays bounded


def approximation_of(study: "Model", guide, params) -> Approximation:
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


def _refuse_other_guide(study: "Model", guide, params) -> None:
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
        raise _failed(error) from error


def _failed(error: Exception) -> InputError:
    return InputError(f"guide failed on these params and arguments{place_of(error)}: {first_line(error)}; do they belong together?")


def _sites_of(study: "Model", trace, params) -> dict:
    """The latent sites of a guide's trace, by name; refused if they are not the model's."""
    missing = [name for name, site in trace.items() if site["type"] == "param" and name not in params]
    if missing:
        raise InputError(f"params lacks the guide's {said(missing)}; pass what svi.run(...).params holds for this guide")
    values = {name: site["value"] for name, site in trace.items() if _is_latent(site) and name not in study.discrete}
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


def _from_autonormal(study: "Model", guide, params) -> Gaussian:
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


def _from_posterior(study: "Model", guide, posterior) -> Approximation:
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


def from_draws(study: "Model", draws: dict[str, np.ndarray]) -> Draws:
    """Draws of the constrained sites, unconstrained in double precision."""
    missing = [name for name in study.sites if name not in draws]
    if missing:
        raise InputError(f"approximation has no draws of the model's {said(missing)}; it has {said(draws)}")
    values = {name: jnp.asarray(draws[name], jnp.float64) for name in study.sites}
    for name, site in study.sites.items():
        if values[name].shape[1:] != site.shape:
            raise InputError(
                f"approximation has draws of {name!r} of shape {values[name].shape[1:]}, the model has {site.shape}; pass its data"
            )
    flat = np.asarray(jax.lax.map(study.unconstrain, values, batch_size=MAPPED_DRAWS))
    _refuse_edge(study, flat, "approximation has draws of")
    return Draws(flat)


def from_particles(study: "Model", stein, params: dict) -> Draws:
    """SteinVI: every particle is a guide with parameters of its own, and gives one draw, or some where it has a spread."""
    from numpyro import handlers
    from numpyro.infer.autoguide import AutoDelta

    own = {name for name in params if name in stein.guide_sites and not stein.non_mixture_params_fn(name)}
    shared = {name: value for name, value in params.items() if name not in own}
    particles = {name: jnp.asarray(params[name]) for name in own}
    each = 1 if isinstance(stein.guide, AutoDelta) else max(1, PARTICLE_DRAWS // stein.num_stein_particles)

    def one(key, mine):
        fitted = handlers.seed(handlers.substitute(stein.guide, data={**shared, **mine}), key)
        return study.unconstrain(_sites_of(study, handlers.trace(fitted).get_trace(*study.args, **study.kwargs), params))

    keys = jax.random.split(jax.random.key(0), (each, stein.num_stein_particles))
    draws = np.concatenate([np.asarray(jax.vmap(one)(row, particles)) for row in keys])
    _refuse_edge(study, draws, "approximation has particles of")
    warnings.warn(
        f"approximation is a set of {stein.num_stein_particles} particles that repel each other, not independent draws; intervals that "
        "treat them as independent may be too narrow or too wide",
        UserWarning,
        stacklevel=5,
    )
    return Draws(draws)


def _refuse_edge(study: "Model", draws: np.ndarray, what: str) -> None:
    lost = np.flatnonzero(~np.isfinite(draws).all(axis=0))
    if lost.size:
        raise InputError(
            f"{what} {study.layout.coordinates()[lost[0]]} on the very edge of its support, where the unconstrained value is "
            "infinite; let the guide sample an unconstrained value and transform it"
        )


def _from_sites(study: "Model", guide, params) -> Sampler:
    """A guide of any kind: its draws of the constrained sites, unconstrained in double precision."""
    from numpyro import handlers

    fitted = handlers.substitute(guide, data=params)

    def one(key):
        trace = handlers.trace(handlers.seed(fitted, key)).get_trace(*study.args, **study.kwargs)
        return study.unconstrain(_sites_of(study, trace, params))

    def sample(key, count):
        with jax.enable_x64(True):
            draws = np.asarray(jax.lax.map(one, jax.random.split(key, count), batch_size=min(count, MAPPED_DRAWS)))
        _refuse_edge(study, draws, "guide draws")
        return draws

    try:
        draws = sample(jax.random.key(0), PROBE_DRAWS)
    except InputError:
        raise
    except Exception as error:
        raise _failed(error) from error
    constant = np.flatnonzero(np.ptp(draws, axis=0) == 0)
    if constant.size:
        raise InputError(
            f"guide gives {study.layout.coordinates()[constant[0]]} the same value in every draw; a point estimate has no spread to judge: "
            "give that site a distribution, or fix it in the model"
        )
    return Sampler(sample, study.layout.dim)
