"""Chains are left out only where the target surely has no mass."""

import numpy as np
import pytest

from taddaa.chains.arrival import Seen, arrived


@pytest.mark.parametrize("dim", [1, 2, 10, 150])
def test_no_chain_of_a_gaussian_is_left_out(dim):
    draws = np.random.default_rng(dim).standard_normal((300, 387, dim))
    assert all(arrived(-0.5 * np.sum(x**2, axis=1), dim).all() for x in draws)


def test_no_chain_of_a_heavy_tailed_or_funnel_shaped_target_is_left_out():
    rng = np.random.default_rng(1)
    for _ in range(200):
        cauchy = rng.standard_cauchy((387, 3))
        assert arrived(-np.log1p(cauchy**2).sum(axis=1), 3).all()
        first, rest = rng.standard_normal(387), rng.standard_normal((387, 29))
        assert arrived(-0.5 * first**2 - 0.5 * np.sum(rest**2, axis=1) - 14.5 * first, 30).all()  # spread by the driver, not by misfortune


def test_chains_that_are_lost_are_left_out_unless_many():
    logdensity = -0.5 * np.sum(np.random.default_rng(2).standard_normal((400, 5)) ** 2, axis=1)
    logdensity[:3] = -1000.0
    assert list(np.flatnonzero(~arrived(logdensity, 5))) == [0, 1, 2]
    logdensity[:60] = -1000.0
    assert arrived(logdensity, 5).all()
    assert arrived(np.full(20, -np.inf), 5).all()


@pytest.mark.parametrize(
    ("later", "most", "kept"), [(32, 16, 16), (16, 16, 16), (4, 16, 4), (20, 16, 16), (31, 16, 16), (1, 16, 1), (0, 16, 0)]
)
def test_thinned_snapshots_are_evenly_spread_from_the_beginning_to_the_last(later, most, kept):
    seen = Seen(None, list(range(later + 1)), np.ones(1), 0)
    found = seen.thinned(most).snapshots
    assert found[0] == 0 and found[-1] == later and len(found) == kept + 1
    assert not later or np.ptp(np.diff(found)) <= 1
