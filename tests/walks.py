"""A small run with a checkpoint, for tests that damage or kill it. Processes that are killed import it, so it runs nothing by itself."""

import json

import jax.numpy as jnp

from taddaa import Gaussian, Settings, Target, diagnose


def standard(x):
    return -0.5 * jnp.sum(x**2)


TARGET = Target(standard, 2, names=["a", "b"])
RIGHT = Gaussian([0.0, 0.0], [1.0, 0.5])
LONG = Settings(chains=20, iterations=16, budget=2, preconditioner="identity", kernel="rwmh")


def walked(path=None, **more) -> dict:
    """All that the report of a run says, except how long it took and when."""
    content = json.loads(diagnose(TARGET, RIGHT, settings=LONG, checkpoint=path, **more).to_json())
    del content["cost"], content["provenance"]["date"]
    return content
