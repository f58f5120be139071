"""NumPyro models with discrete latent sites: these are summed out, as NumPyro's own NUTS does it, with funsor."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ..errors import InputError, MissingExtra


def refuse_unsummable(name: str, site: dict[str, Any]) -> None:
    """A discrete site must have finitely many values, all of which can be tried at once."""
    what = f"model's latent site {name!r} is discrete ({kind(site['fn'])})"
    if not site["fn"].has_enumerate_support:
        raise InputError(
            f"{what} and its values cannot be listed, so that it cannot be summed out; gradients need a model without it, for example with "
            "its marginal distribution (a Poisson rate with a gamma prior is a NegativeBinomial2)"
        )
    if site["infer"].get("enumerate", "parallel") != "parallel":
        raise InputError(
            f"{what} and marked enumerate={site['infer']['enumerate']!r}; mark it infer={{'enumerate': 'parallel'}} to have it summed out"
        )


def summed_out(model: Callable, names: list[str], trace: dict[str, Any]) -> Callable:
    """The model whose log density, with `enum=True`, is summed over its discrete sites."""
    try:
        from numpyro.contrib.funsor import config_enumerate, enum
    except ImportError as error:
        raise MissingExtra(
            f"model's latent site {names[0]!r} is discrete and summed out by funsor, which is not installed: pip install funsor"
        ) from error
    _refuse_missing_plates(trace)
    depth = max((-frame.dim for site in trace.values() if site["type"] == "sample" for frame in site["cond_indep_stack"]), default=0)
    return enum(config_enumerate(model), -depth - 1)


def _refuse_missing_plates(trace: dict[str, Any]) -> None:
    """Axes outside of plates would be taken for the values of a discrete site."""
    for name, site in trace.items():
        if site["type"] != "sample" or site.get("_control_flow_done", False):
            continue
        value = jnp.shape(site["value"])
        shape = jnp.broadcast_shapes(site["fn"].batch_shape, value[: len(value) - len(site["fn"].event_shape)])
        plates = {frame.dim for frame in site["cond_indep_stack"]}
        bare = [axis for axis in range(-len(shape), 0) if shape[axis] > 1 and axis not in plates]
        if bare:
            raise InputError(
                f"model's site {name!r} has {shape[bare[0]]} values that are in no plate, which summing out discrete sites needs: "
                "put it under numpyro.plate, or call .to_event(1) on its distribution"
            )


def independent_of(discrete: dict[str, Any], constrain: Callable[..., dict[str, Any]]) -> frozenset[str]:
    """Names of what `constrain` gives whatever the discrete sites are; the rest has no value of its own once they are summed out."""
    from numpyro.ops.provenance import eval_provenance

    values = {name: jnp.zeros(jnp.shape(value), jnp.result_type(value)) for name, value in discrete.items()}
    found = eval_provenance(constrain, discrete=values)
    return frozenset(name for name, sources in found.items() if not sources)


def kind(distribution) -> str:
    """What the user wrote, inside what plates and batches make of it."""
    while hasattr(distribution, "base_dist"):
        distribution = distribution.base_dist
    return type(distribution).__name__
