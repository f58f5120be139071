"""Correlations against NumPy's."""

import numpy as np

from taddaa.formulas.correlation import squared_correlation


def test_squared_correlation_is_numpys():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((200, 3)) * [1.0, 1e150, 1e-150] + [0.0, 1e150, 0.0]
    moved = 0.5 * start + rng.standard_normal((200, 3)) * [1.0, 1e150, 1e-150]
    scaled = [np.array([1.0, 1e-150, 1e150]) * part for part in (start, moved)]
    expected = [np.corrcoef(scaled[0][:, i], scaled[1][:, i])[0, 1] ** 2 for i in range(3)]
    np.testing.assert_allclose(squared_correlation(start, moved), expected, rtol=1e-9)
    constant = np.ones((200, 1))
    np.testing.assert_array_equal(squared_correlation(constant, moved[:, :1]), 0.0)
