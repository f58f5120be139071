"""A report knows where its chains stand, in the process that ran them and nowhere else."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from taddaa import Gaussian, Report, Settings


@pytest.fixture(scope="module")
def report():
    approximation = Gaussian(np.array([0.5, 0.0]), np.ones(2))
    return taddaa.diagnose(lambda x: -0.5 * jnp.sum(x**2), approximation, settings=Settings(chains=100), seed=3)


def test_the_chains_stand_where_the_report_saw_them_last(report):
    there = report.continuation
    with jax.enable_x64(True):
        now = np.asarray(there.walk.engine.flat(there.walk.chains, there.walk.metric).position)
    np.testing.assert_allclose(now, report.moved_draws)
    assert (there.walk.iteration, there.seed, there.settings.chains) == (report.cost.iterations, 3, 100)


def test_elsewhere_it_does_not_know(report):
    assert Report.from_json(report.to_json()).continuation is None
    again = pickle.loads(pickle.dumps(report))
    assert again.continuation is None
    assert again.to_json() == report.to_json()
