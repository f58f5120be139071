"""The first look against closed forms: exact for Gaussians wherever the draws are, and doubtful where it cannot know."""

import numpy as np
import pytest

from taddaa.moves.metric import Dense, Diagonal
from taddaa.verdict.first_look import MOST_BENT, Look, bending, first_look, holds
from taddaa.verdict.sharpening import Evidence

COVARIANCE = np.array([[4.0, 1.8, 0.0], [1.8, 1.0, 0.3], [0.0, 0.3, 2.0]])
MEAN = np.array([1.0, -2.0, 30.0])


def gaussian_look(draws: np.ndarray, metric) -> Look:
    precision = np.linalg.inv(COVARIANCE)
    gradients = -(draws - MEAN) @ precision
    logdensity = -np.einsum("ni,ij,nj->n", draws - MEAN, precision, draws - MEAN) / 2
    evidence = Evidence(draws[:, None], gradients[:, None], metric, draws.shape[1], np.zeros((0, draws.shape[1])))
    return first_look(draws, logdensity, evidence)


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_gaussian_targets_are_known_exactly_from_draws_that_are_wrong(shift):
    draws = MEAN + shift + 0.3 * np.random.default_rng(0).standard_normal((400, 3))
    look = gaussian_look(draws, Dense(np.linalg.cholesky(COVARIANCE)))
    np.testing.assert_allclose(look.mean, MEAN, atol=1e-6)
    np.testing.assert_allclose(look.log_variance, np.log(np.diag(COVARIANCE)), atol=1e-6)
    assert look.bent < 1e-9 and not look.astray
    assert np.all(look.mean_doubt < 1e-4) and np.all(look.variance_doubt < 1e-4)


def test_without_the_right_directions_much_is_unexplained_and_doubted():
    draws = MEAN + 0.3 * np.random.default_rng(0).standard_normal((400, 3))
    gradients = -(draws - MEAN) @ np.linalg.inv(COVARIANCE)
    evidence = Evidence(draws[:, None], gradients[:, None], Diagonal(np.ones(3)), 0, np.zeros((3, 3)))
    vars(evidence)["kernel"] = None  # features of zero are all there is
    look = first_look(draws, np.zeros(400), evidence)
    assert np.all(look.variance_doubt > 0.5)


def test_a_quadratic_is_straight_whatever_its_curvature_and_a_quartic_is_not():
    x = np.random.default_rng(1).standard_normal((300, 2))
    for curvature in (0.1, 1.0, 50.0):
        assert bending(x, -curvature * x, -curvature * np.sum(x**2, axis=1) / 2, Diagonal(np.ones(2) / curvature**0.5)) < 1e-9
    # log π = −Σ x⁴/4 leaves (x − m)·∇log π/2 = −Σ x⁴/2 by Σ x⁴/4, if m is the true centre 0 (the metric hardly moves it).
    rest = np.sum(x**4, axis=1) / 4
    low, high = np.quantile(rest, [0.1, 0.9])
    found = bending(x, -(x**3), -np.sum(x**4, axis=1) / 4, Diagonal(np.full(2, 1e-9)))
    assert found == pytest.approx((high - low) / (2 * 1.2815515655), rel=0.15)


def test_steins_identity_holds_for_what_has_an_end_and_no_edge():
    rng = np.random.default_rng(2)
    x, inside = rng.standard_normal((400, 3)), np.zeros(400)
    assert holds(inside, -x)
    assert holds(inside, 1e8 - x)  # far away
    for constant in (0.0, 0.1, -1e8):  # flat along a coordinate, or exponential all the way
        assert not holds(inside, np.column_stack([-x[:, :2], np.full(400, constant)]))
    for outside, fine in ((4, True), (5, False)):
        assert holds(np.r_[np.full(outside, -np.inf), inside[outside:]], -x) == fine


def test_a_log_density_that_is_not_finite_somewhere_leads_astray():
    assert Look(*np.zeros((4, 1)), bent=np.nan).astray and Look(*np.zeros((4, 1)), bent=MOST_BENT + 0.1).astray
    assert not Look(*np.zeros((4, 1)), bent=MOST_BENT).astray
