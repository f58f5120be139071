"""Correlations against NumPy's."""

import numpy as np

from taddaa.formulas.correlation import squared_correlation, squared_correlations


def test_squared_correlation_is_numpys():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((200, 3)) * [1.0, 1e150, 1e-150] + [0.0, 1e150, 0.0]
    moved = 0.5 * start + rng.standard_normal((200, 3)) * [1.0, 1e150, 1e-150]
    scaled = [np.array([1.0, 1e-150, 1e150]) * part for part in (start, moved)]
    expected = [np.corrcoef(scaled[0][:, i], scaled[1][:, i])[0, 1] ** 2 for i in range(3)]
    np.testing.assert_allclose(squared_correlation(start, moved), expected, rtol=1e-9)
    constant = np.ones((200, 1))
    np.testing.assert_array_equal(squared_correlation(constant, moved[:, :1]), 0.0)


def test_of_all_pairs_too_and_zero_where_a_column_is_infinite_or_constant():
    rng = np.random.default_rng(1)
    columns, others = rng.standard_normal((50, 2)), rng.standard_normal((50, 4))
    others[:, 0] += columns[:, 1]
    found = squared_correlations(columns, others)
    np.testing.assert_allclose(found, np.corrcoef(columns.T, others.T)[:2, 2:] ** 2)
    others[3, 1], others[:, 2] = np.inf, 7.0
    changed = squared_correlations(columns, others)
    assert not changed[:, 1:3].any()
    np.testing.assert_allclose(changed[:, [0, 3]], found[:, [0, 3]])
