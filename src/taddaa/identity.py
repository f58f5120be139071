"""Is it the same diagnosis? Asked by a checkpoint that is found again, and by processes that run one script together."""

import re
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .chains.checkpoint import Checkpoint
from .chains.machine.placement import description, program_text, refuse_disagreement
from .chains.walk import Walk
from .problem.approximation import Approximation, Draws
from .problem.target import Target, call_with_data
from .settings import Settings
from .verdict.questions import Questions
from .version import own_version


def identity(approximation: Approximation, settings: Settings, seed: int, questions: Questions, walk: Walk) -> dict[str, Any]:
    """What tells one diagnosis from another. The budget is left out: where a run ends does not change its way there."""
    chosen = {field.name: _plain(getattr(settings, field.name)) for field in fields(settings) if field.name != "budget"}
    rows = [f"{group.functional.label} of {label}" for group in questions.groups for label in group.labels]
    leaves = [f"{jnp.shape(leaf)} {jnp.result_type(leaf)}" for leaf in jax.tree.leaves(walk.engine.target.data)]
    return {
        "version of taddaa": own_version(),
        "seed": seed,
        "settings": {f"setting {name}": value for name, value in chosen.items()},
        "source of random numbers": walk.engine.noise_source,
        "list of parameters": ", ".join(walk.engine.target.labels),
        "list of functionals": ", ".join(rows),
        "shape of the data": ", ".join(leaves),
        "approximation": approximation.describe(),
        "starts": walk.starts,
        "functionals of the approximation": np.concatenate([interval(0.5).estimate for interval in questions.at_strictest(0.0).references]),
        "log densities at the starts": walk.engine.host(walk.chains.point.logdensity),
        "quantities at the starts": walk.origin.quantities,
    }


def refuse_other_inputs(
    target: Target, approximation, second, functionals, settings: Settings, seed: int, saved: Checkpoint, *, certify: bool
) -> None:
    """Several processes run this script together: have they been given the same?"""
    point = jax.ShapeDtypeStruct((target.dim,), jnp.result_type(float))
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), target.data)
    asked = [functional.function for functional in functionals if functional.function is not None]
    values = lambda x, data: [call_with_data(function, target.parameters(x, data), data) for function in asked]  # noqa: E731
    refuse_disagreement(
        {
            "the version of taddaa, jax or numpy": (own_version(), jax.__version__, np.__version__),
            "seed": seed,
            "settings": _plain(settings),
            "the names of target": target.labels,
            "data": [description(leaf) for leaf in jax.tree.leaves(target.data)],
            "logdensity": program_text(target.logdensity, *((point,) if target.data is None else (point, shapes))),
            "constrain": program_text(target.parameters, point, shapes),
            "functionals": (_plain(functionals), program_text(values, point, shapes)),
            "approximation": _drawn(approximation, seed),
            "certify": certify,
            "other_starts": "none" if second is None else _drawn(second, seed),
            "the file of checkpoint": saved.content,
        }
    )


def _drawn(approximation: Approximation, seed: int) -> list[Any]:
    """What an approximation shows of itself."""
    draws = approximation.draws if isinstance(approximation, Draws) else approximation.sample(np.random.default_rng([seed, 1]), 100)
    return [approximation.describe(), np.asarray(draws, float), approximation.mean(), approximation.covariance()]


def _plain(value: Any) -> str:
    """A setting in words that are the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
