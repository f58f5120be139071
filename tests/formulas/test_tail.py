"""The tail index against what is known of Student's t and of light tails."""

import numpy as np
import pytest

from taddaa.formulas.tail import tail_index


@pytest.mark.parametrize("df", [1.0, 2.0, 4.0])
def test_tail_index_of_student_is_one_over_its_degrees_of_freedom(df):
    draws = np.random.default_rng(1).standard_t(df, (100_000, 3))
    np.testing.assert_allclose(tail_index(draws, share=0.01), 1 / df, atol=0.12)


def test_tail_index_of_light_tails_is_small():
    rng = np.random.default_rng(2)
    assert np.all(tail_index(rng.standard_normal((4000, 3))) < 0.2)
    assert np.all(tail_index(rng.uniform(size=(4000, 3))) < 0.0)
