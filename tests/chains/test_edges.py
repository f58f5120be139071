"""Trajectories gone wild are not an edge of the support; an edge with density is one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taddaa import Gaussian, Target, diagnose


def with_an_edge(x):
    return jnp.where(x[0] > 0, -x[0], -jnp.inf) - x[1] ** 2 / 2


def gone_wild(x):
    """Exact normals, but NaN from five standard deviations on, where the chains' proposals go and their states hardly do."""
    return jnp.where(jnp.sum(x**2) < 30.0, -jnp.sum(x**2) / 2, jnp.nan)


@pytest.mark.parametrize(
    ("target", "q", "edge"), [(with_an_edge, Gaussian([1.0, 0.0], [0.5, 1.0]), True), (gone_wild, Gaussian([0.0, 0.0], [1.0, 1.0]), False)]
)
def test_short_steps_tell_an_edge_from_trajectories_gone_wild(target, q, edge):
    walk = diagnose(Target(target, 2), q).continuation.walk
    with jax.enable_x64(True):
        walk.chains = walk.chains._replace(nonfinite=walk.chains.nonfinite + 0.01 * walk.proposals)  # as if one in a hundred had been
    walk._edge_at = (-1, False)
    before = walk.engine.meter.gradients
    with jax.enable_x64(True):
        assert walk.meets_an_edge == edge
    spent = walk.engine.meter.gradients - before
    assert 0 < spent <= 16 * len(walk.starts)
    assert walk.meets_an_edge == edge and walk.engine.meter.gradients == before + spent  # asked once


def test_no_steps_are_taken_where_every_proposal_was_finite():
    walk = diagnose(Target(lambda x: -jnp.sum(x**2) / 2, 2), Gaussian(np.zeros(2), np.ones(2))).continuation.walk
    before = walk.engine.meter.gradients
    walk._edge_at = (-1, False)
    assert not walk.meets_an_edge and walk.engine.meter.gradients == before
