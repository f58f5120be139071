"""The family of terms: slopes are derivatives, coefficients those of the density, and equations believed as they fit."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from hierarchies import DIM, HEARD, NOISE, centred, evaluated
from taddaa.surrogate.terms import ALONE, KNOTS, SOFT, Frame, Part, Surrogate, _factored, bent, rising

D = 5


def everything(seed: int = 0, places: int = 200) -> Surrogate:
    """Terms of all kinds, under scales of two coordinates, with arbitrary coefficients: gradients that are noise."""
    rng = np.random.default_rng(seed)
    x = 3.0 + rng.standard_normal((places, D)) * np.array([0.5, 1.0, 2.0, 0.3, 1.5])
    first, second, third = Part.empty(D), Part.empty(D, 0, -2.0), Part.empty(D, 1, 1.0)
    first.linear[:], first.products[:], first.bends[[2, 4]] = True, True, True
    second.linear[[1, 2, 3]], second.bends[3] = True, True
    for i, j in [(2, 2), (2, 3), (1, 3), (1, 1)]:
        second.products[[i, j], [j, i]] = True
    third.linear[4], third.products[[4, 2], [2, 4]], third.products[0, 0] = True, True, True
    return Surrogate(x, rng.standard_normal((places, D)), np.ones(places), Frame.of(x), [first, second, third])


def hierarchy(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Places around a centred one with their gradients."""
    x = rng.standard_normal((count, DIM)) * np.r_[0.5, 0.5, np.full(DIM - 2, 0.8)] + 0.5
    return x, evaluated(centred)(x)[1]


def hierarchy_parts() -> list[Part]:
    first, scaled = Part.empty(DIM), Part.empty(DIM, 0, -2.0)
    first.linear[:], first.products[:] = True, np.eye(DIM, dtype=bool)
    scaled.linear[1:] = True
    scaled.products[1, :], scaled.products[:, 1] = True, True
    scaled.products[np.diag_indices(DIM)] = True
    scaled.products[0], scaled.products[:, 0] = False, False
    return [first, scaled]


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_the_derivative_of_the_value(seed):
    found = everything(seed)
    x, step = found.frame.outside(np.random.default_rng([1, seed]).standard_normal((50, D))), 1e-5
    assert len(found.terms) == D + D * (D + 1) // 2 + 2 * 5 + 1 + 3 + 4 + 5 + 1 + 1 + 2
    for c, by in enumerate(step * np.eye(D)):
        slope = (found.value(x + by) - found.value(x - by)) / (2 * step)
        np.testing.assert_allclose(found.gradient(x)[:, c], slope, rtol=1e-6, atol=1e-6 * np.abs(slope).max())


def test_the_value_is_what_the_arrays_say():
    """The formula of the family, written out, with the bends as integrals of their slopes."""
    found = everything()
    c, b, q, bends = found.arrays()
    frame, x = found.frame, found.frame.outside(np.random.default_rng(1).standard_normal((4, D)))

    def softplus(at, centre, width):
        return integrate.quad(lambda t: 1 / (1 + np.exp(-(t - centre) / width)), centre - 60 * width, at)[0]

    for place, value in zip(x, found.value(x), strict=True):
        z, total = (place - frame.centre) / frame.scale, 0.0
        for m, part in enumerate(found.parts):
            inner = c[m] + b[m] @ z + z @ q[m] @ z / 2
            for i, knot in np.argwhere(bends[m]):
                inner += bends[m, i, knot] * softplus(z[i], frame.middle[i] + frame.width[i] * KNOTS[knot], frame.width[i] * SOFT)
            total += inner * (np.exp(part.power * frame.scale[part.driver] * z[part.driver]) if part.driver >= 0 else 1.0)
        assert value == pytest.approx(total, rel=1e-6)


def test_bends_rise_from_flat_to_a_slope_of_one():
    t = np.linspace(-9, 9, 101)
    np.testing.assert_allclose(rising(t), (bent(t + 1e-5) - bent(t - 1e-5)) / 2e-5, atol=1e-8)
    np.testing.assert_allclose([bent(-40.0), bent(40.0) - 40], 0.0, atol=1e-12)
    assert rising(np.array(0.0)) == 0.5


def test_a_frame_has_its_draws_at_zero_and_one_and_most_of_them_between_its_knots():
    x = 5 + np.random.default_rng(0).standard_normal((4000, 3)) @ np.diag([1, 20, 0.1])
    frame = Frame.of(x)
    z = frame.inside(x)
    np.testing.assert_allclose([z.mean(axis=0), z.std(axis=0)], [[0] * 3, [1] * 3], atol=1e-12)
    np.testing.assert_allclose(frame.outside(z), x)
    within = (z > frame.middle + KNOTS[0] * frame.width) & (z < frame.middle + KNOTS[-1] * frame.width)
    np.testing.assert_allclose(within.mean(axis=0), 0.96, atol=0.002)


def test_a_member_of_the_family_is_found_with_its_own_coefficients():
    """Elsewhere too: 60 gradients of a centred hierarchy give −e^(−2 x_0) (z_i − z_1)²/2 of each effect and each datum's own square."""
    rng = np.random.default_rng(0)
    x, gradients = hierarchy(rng, 60)
    found = Surrogate(x, gradients, np.ones(60), Frame.of(x), hierarchy_parts())
    c, b, q, _ = found.arrays()
    centre, scale = found.frame.centre, found.frame.scale
    shrunk = np.exp(-2 * centre[0])
    np.testing.assert_allclose(q[1, 1, 2:], shrunk * scale[1] * scale[2:], rtol=1e-5)
    np.testing.assert_allclose(np.diag(q[1])[2:], -shrunk * scale[2:] ** 2, rtol=1e-5)
    np.testing.assert_allclose(q[1, 1, 1], -shrunk * (DIM - 2) * scale[1] ** 2, rtol=1e-5)
    np.testing.assert_allclose(c[1], -shrunk * np.sum((centre[2:] - centre[1]) ** 2) / 2, rtol=1e-5)
    np.testing.assert_allclose(np.diag(q[0])[2:], -(scale[2:] ** 2) / NOISE**2, rtol=1e-5)
    np.testing.assert_allclose(b[0, 2:], scale[2:] * (HEARD - centre[2:]) / NOISE**2, rtol=1e-5)
    far = x[:20] + 2 * rng.standard_normal((20, DIM))
    values, slopes = evaluated(centred)(far)
    np.testing.assert_allclose(np.diff(found.value(far)), np.diff(values), rtol=1e-5)
    np.testing.assert_allclose(found.gradient(far), slopes, rtol=1e-5, atol=1e-5 * np.abs(slopes).max())


def test_what_the_ridge_takes_is_given_back():
    """Bends, squares and lines are nearly the same: their coefficients come back from their own gradients all the same."""
    made = everything()
    x, own = made.frame.outside(made.z), np.random.default_rng(0).standard_normal(len(made.terms))
    made.coefficients = own
    found = Surrogate(x, made.gradient(x), np.ones(len(x)), made.frame, made.parts)
    np.testing.assert_allclose(found.coefficients, own, atol=1e-6)
    assert np.all(found.error < 1e-10 * found.spread)


def test_a_weight_of_two_is_a_place_twice():
    rng = np.random.default_rng(2)
    x, gradients = hierarchy(rng, 80)
    gradients = gradients + rng.standard_normal(gradients.shape)
    frame, often = Frame.of(x), rng.integers(1, 4, 80)
    once = Surrogate(x, gradients, often.astype(float), frame, hierarchy_parts())
    again = Surrogate(np.repeat(x, often, axis=0), np.repeat(gradients, often, axis=0), np.ones(often.sum()), frame, hierarchy_parts())
    np.testing.assert_allclose(once.coefficients, again.coefficients, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(once.error, again.error, rtol=1e-6)
    np.testing.assert_allclose(once.spread, again.spread, rtol=1e-12)


def test_equations_that_fit_are_not_spoilt_by_those_that_do_not():
    """Of three coordinates of a Gaussian the last one's slopes are noise: the others still tell what they share with it."""
    rng = np.random.default_rng(3)
    precision = np.array([[2.0, 0.3, 0.5], [0.3, 1.0, -0.4], [0.5, -0.4, 1.5]])
    x = rng.standard_normal((100, 3))
    gradients = -x @ precision
    gradients[:, 2] += 5 * rng.standard_normal(100)
    first = Part.empty(3)
    first.linear[:], first.products[:] = True, True
    found = Surrogate(x, gradients, np.ones(100), Frame(*np.array([[0.0], [1.0], [0.0], [1.0]]).repeat(3, axis=1)), [first])
    for _ in range(3):
        found.solve()
    shared = found.arrays()[2][0][:2]
    np.testing.assert_allclose(shared, -precision[:2], atol=1e-5)
    assert found.error[2] > 3 and np.all(found.error[:2] < 1e-4)


def test_a_terms_squared_t_is_what_its_loss_would_cost():
    """In the equations' weighted squares, each divided by its trust."""
    found = everything(4, places=60)
    trust = found.trust.copy()
    found.solve()  # with this trust
    design = np.empty((len(found.terms), *found.z.shape))
    kept = found.coefficients
    for p in range(len(kept)):
        found.coefficients = np.eye(len(kept))[p]
        design[p] = found.gradient(found.frame.outside(found.z)) * found.frame.scale * trust
    found.coefficients = kept
    design, right = design.reshape(len(kept), -1).T, (found.slopes * trust).ravel()
    unit = np.linalg.norm(design, axis=0)

    def cost(chosen):
        fit = np.linalg.lstsq((design / unit)[:, chosen], right, rcond=None)[0]
        return np.sum((right - (design / unit)[:, chosen] @ fit) ** 2)

    everyone = np.arange(len(kept))
    asked = [p for p in everyone if found.terms[p, 1] != 3]  # bends are nearly collinear: there the ridge counts
    lost = [cost(everyone[everyone != p]) - cost(everyone) for p in asked]
    np.testing.assert_allclose(found.significance()[asked], lost, rtol=2e-3, atol=1e-4)


def test_terms_that_say_the_same_share_what_they_say():
    """A coordinate given twice: its coefficients are not told apart, but the slopes are right."""
    x = np.random.default_rng(5).standard_normal((50, 2))
    x = np.concatenate([x, x[:, :1]], axis=1)
    first = Part.empty(3)
    first.linear[:], first.products[:] = True, True
    found = Surrogate(x, -x, np.ones(50), Frame.of(x), [first])
    np.testing.assert_allclose(found.gradient(x), -x, atol=1e-6)


@pytest.mark.parametrize("below", [0.0, 1e-9, 1e-5, 1e-3])
def test_equations_a_little_below_definite_are_solved(below):
    turn = np.linalg.qr(np.random.default_rng(6).standard_normal((3, 3)))[0]
    lower = np.tril(_factored(turn @ np.diag([-below, 1.0, 2.0]) @ turn.T)[0])
    added = np.linalg.eigvalsh(lower @ lower.T) - [-below, 1.0, 2.0]
    assert np.ptp(added) < 1e-12 and below < added[0] <= max(100.1 * below, 1e-10 + 1e-14)


def test_equations_that_are_no_squares_are_refused():
    with pytest.raises(np.linalg.LinAlgError, match="told apart"):
        _factored(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_trying_a_part_leaves_the_surrogate_as_it_was():
    x, gradients = hierarchy(np.random.default_rng(7), 60)
    first, scaled = hierarchy_parts()
    found = Surrogate(x, gradients, np.ones(60), Frame.of(x), [first])
    before = found.coefficients.copy(), found.trust.copy(), found.error.copy()
    more = found.with_part(scaled)
    assert [part.driver for part in more.parts] == [-1, 0] and len(found.parts) == 1
    assert (more.terms[:, 1] == ALONE).sum() == 1 and more.error[2:].max() < 1e-3 * before[2][2:].min()
    for now, then in zip((found.coefficients, found.trust, found.error), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_copied_part_shares_nothing():
    part = Part.empty(3, 1, -2.0)
    other = part.copy()
    other.linear[0] = other.products[0, 0] = other.bends[0] = True
    assert not (part.linear.any() or part.products.any() or part.bends.any())
    assert (other.driver, other.power, other.alone) == (1, -2.0, True) and not Part.empty(3).alone


def test_a_scale_far_out_is_no_overflow():
    found = everything()
    assert np.isfinite(found.value(np.full((1, D), -1e3))).all()
    assert jnp.isfinite(found.gradient(np.full((1, D), -1e3))).all()
