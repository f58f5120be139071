"""Terms are found that are there, and none that are not; what asks for them is what least squares would gain."""

import jax.numpy as jnp
import numpy as np
import pytest

from hierarchies import DIM, centred, evaluated, funnel
from taddaa.surrogate import learn
from taddaa.surrogate.learn import learnt, prune
from taddaa.surrogate.terms import BEND, KNOTS, PRODUCT, Frame, Part, Surrogate


def from_gradients(logdensity, x: np.ndarray, before: Surrogate | None = None) -> Surrogate:
    return learnt(x, evaluated(logdensity)(x)[1], np.ones(len(x)), before)


def places(seed: int, dim: int, count: int = 160, spread: float = 0.7) -> np.ndarray:
    return spread * np.random.default_rng(seed).standard_normal((count, dim))


def scales(found: Surrogate) -> list[tuple[int, float]]:
    return sorted((part.driver, part.power) for part in found.parts[1:])


def fits(found: Surrogate) -> bool:
    return bool(np.all(found.error < 1e-4 * found.spread))


@pytest.mark.parametrize("seed", range(4))
def test_a_gaussian_has_its_precision_and_nothing_else(seed):
    """A chain's: neighbours are told apart from all others."""
    dim = 12
    precision = np.eye(dim) * 1.3 - 0.6 * np.eye(dim, k=1) - 0.6 * np.eye(dim, k=-1)
    x = 4 + places(seed, dim)
    found = learnt(x, -x @ precision, np.ones(160))
    assert len(found.parts) == 1 and not found.parts[0].bends.any() and fits(found)
    np.testing.assert_array_equal(found.parts[0].products, precision != 0)


@pytest.mark.parametrize("power", [-2.0, -1.0, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_scale_is_found_with_its_power(seed, power):
    def logdensity(x):
        return -(x[0] ** 2) / 2 - jnp.sum(x[1:] ** 2) * jnp.exp(power * x[0]) / 2 + 3 * power * x[0]

    found = from_gradients(logdensity, places(seed, 7))
    assert scales(found) == [(0, power)] and fits(found)


def test_a_hierarchy_is_found_with_its_data():
    found = from_gradients(centred, places(0, DIM))
    assert scales(found) == [(0, -2.0)] and fits(found) and not any(part.bends.any() for part in found.parts)
    scaled = found.parts[1].products
    assert scaled[1, 1:].all() and np.diag(scaled)[2:].all() and np.triu(scaled[2:, 2:], 1).sum() == 0


def test_two_scales_of_two_groups_and_one_above_both():
    def logdensity(x):
        first, second = x[3:8], x[8:13]
        inner = jnp.sum(first**2) * jnp.exp(-2 * x[1]) / 2 + jnp.sum((second - x[0]) ** 2) * jnp.exp(-2 * x[2]) / 2
        return -jnp.sum(x[:3] ** 2) / 2 - inner - 5 * x[1] - 5 * x[2] - jnp.sum((x[3:] - 1) ** 2) / 2

    found = from_gradients(logdensity, places(1, 13))
    assert scales(found) == [(1, -2.0), (2, -2.0)] and fits(found)
    own = {part.driver: np.flatnonzero(np.diag(part.products)).tolist() for part in found.parts[1:]}
    assert own == {1: [3, 4, 5, 6, 7], 2: [0, 8, 9, 10, 11, 12]}


@pytest.mark.parametrize("driven", [2, 3])
def test_a_scale_is_of_three_at_least(driven):
    """Of two, an interaction is as likely."""

    def logdensity(x):
        wide = x[1 : 1 + driven]
        return -(x[0] ** 2) / 2 - jnp.sum(wide**2) * jnp.exp(-2 * x[0]) / 2 - driven * x[0] - jnp.sum(x[1 + driven :] ** 2) / 2

    assert scales(from_gradients(logdensity, places(2, 5))) == ([(0, -2.0)] if driven == 3 else [])


def test_likelihoods_that_are_no_squares_are_bends_and_no_scales():
    def logdensity(x):
        return -jnp.sum(x**2) / 2 - 3 * jnp.sum(jnp.logaddexp(0.0, 2 * x[:3]))

    found = from_gradients(logdensity, places(3, 6, spread=1.0))
    assert len(found.parts) == 1
    assert found.parts[0].bends.tolist() == [True] * 3 + [False] * 3
    new = places(4, 6, spread=1.0)
    slopes = evaluated(logdensity)(new)[1]
    close = np.abs(new) < 2
    assert np.abs(found.gradient(new) - slopes)[close].max() < 0.1 * slopes.std()


@pytest.mark.parametrize("power", [1.0, -1.0])
def test_a_scale_has_a_shape_of_its_own(power):
    """Its prior's, as of a gamma's logarithm: a constant under another power of the scale."""

    def logdensity(x):
        return funnel(x) + x[0] ** 2 / 2 + power * 2 * x[0] - 2 * jnp.exp(power * x[0])

    found = from_gradients(logdensity, places(5, 8))
    others = {-1.0, power}
    assert {part.power for part in found.parts[1:]} == others and {part.driver for part in found.parts[1:]} == {0} and fits(found)


def test_what_was_found_before_is_kept_and_its_surrogate_left_as_it_was():
    before = from_gradients(centred, places(6, DIM))
    kept = before.coefficients.copy(), [part.copy() for part in before.parts]
    found = from_gradients(centred, 0.5 + places(7, DIM, 40), before)  # too few to begin with
    assert scales(found) == [(0, -2.0)] and fits(found)
    found.parts[0].products[:] = False
    np.testing.assert_array_equal(before.coefficients, kept[0])
    for part, then in zip(before.parts, kept[1], strict=True):
        np.testing.assert_array_equal(part.products, then.products)


def test_the_frame_follows_the_draws_and_not_those_that_hardly_count():
    before = from_gradients(centred, places(8, DIM))
    x = np.concatenate([3 + places(9, DIM, 100, 0.2), places(10, DIM, 60)])
    weights = np.r_[np.ones(100), np.full(60, 1e-3)]
    found = learnt(x, evaluated(centred)(x)[1], weights, before)
    np.testing.assert_allclose(found.frame.outside(np.zeros(DIM)), x[:100].mean(axis=0))
    np.testing.assert_allclose(found.frame.scale, x[:100].std(axis=0))


def test_pruning_takes_out_what_noise_brought_in_and_nothing_else():
    rng, dim = np.random.default_rng(11), 8
    x, precision = places(11, dim, 200, 1.0), np.eye(dim)
    precision[0, 1] = precision[1, 0] = 0.5
    gradients = -x @ precision + 0.1 * rng.standard_normal((200, dim))
    first = Part.empty(dim)
    first.linear[:], first.products[:] = True, True
    found = Surrogate(x, gradients, np.ones(200), Frame.of(x), [first])
    found.solve()
    prune(found)
    np.testing.assert_array_equal(found.parts[0].products, precision != 0)
    assert found.parts[0].linear.all() and (found.terms[:, 1] == PRODUCT).sum() == dim + 1


def test_a_terms_score_is_the_loss_that_it_alone_would_take():
    """Along the trusted residuals, of a product or linear term; under a scale of what its mean does not say already."""
    rng, dim, k, power = np.random.default_rng(12), 5, 1, -2.0
    x, weights = places(12, dim, 50, 1.0), rng.uniform(0.5, 2, 50)
    first = Part.empty(dim)
    first.linear[:] = True
    found = Surrogate(x, rng.standard_normal((50, dim)), weights, Frame.of(x), [first])
    z = found.z
    for part in (first, Part.empty(dim, k, power)):
        scale = np.exp(power * found.frame.scale[k] * z[:, k]) if part.driver >= 0 else np.ones(50)
        along = scale - np.sum(weights * scale) / weights.sum() * (part.driver >= 0)
        steep = power * found.frame.scale[k] * scale if part.driver >= 0 else 0 * scale

        def gained(inner, slopes, along=along, steep=steep):
            """By one term, whose slopes along its coordinates are these, and along the driver its scale's."""
            design = np.zeros((50, dim))
            for i, slope in slopes:
                design[:, i] += along * slope
            design[:, k] += steep * inner
            kernel = weights[:, None] * found.trust**2
            return np.sum(kernel * design * found.left) ** 2 / np.sum(kernel * design**2)

        products, linear = learn._scores(found, part)
        free = [i for i in range(dim) if part.driver < 0 or i != k]
        for i in free:
            assert linear[i] == pytest.approx(gained(z[:, i], [(i, 1.0)]), rel=1e-9)
            assert products[i, i] == pytest.approx(gained(z[:, i] ** 2 / 2, [(i, z[:, i])]), rel=1e-9)
            for j in free[: free.index(i)]:
                assert products[i, j] == pytest.approx(gained(z[:, i] * z[:, j], [(i, z[:, j]), (j, z[:, i])]), rel=1e-9)
        if part.driver >= 0:
            assert not products[k].any() and not products[:, k].any() and linear[k] == 0


def test_what_asks_for_a_driver_is_a_width_that_changes_with_it():
    """The score of z_k (z_i² − 1)/2 by its own gradient."""
    rng, dim = np.random.default_rng(13), 4
    x, weights = places(13, dim, 60, 1.0), rng.uniform(0.5, 2, 60)
    first = Part.empty(dim)
    first.linear[:] = True
    found = Surrogate(x, rng.standard_normal((60, dim)), weights, Frame.of(x), [first])
    asked, z, kernel = learn._driven(found), found.z, weights[:, None] * found.trust**2
    for i, k in [(0, 1), (2, 1), (3, 0)]:
        design = np.zeros((60, dim))
        design[:, i], design[:, k] = z[:, k] * z[:, i], (z[:, i] ** 2 - 1) / 2
        expected = np.sum(kernel * design * found.left) ** 2 / np.sum(kernel * design**2)
        assert asked[i, k] == pytest.approx(expected, rel=1e-9)
    assert not np.diag(asked).any()


def test_a_scale_that_is_known_is_there_though_nothing_asks_for_it(monkeypatch):
    def logdensity(x):
        return -(x[0] ** 2) / 2 - 6 * x[0] - jnp.sum(x[1:] ** 2) * jnp.exp(-2 * x[0]) / 2 - jnp.sum((x[1:] - 1) ** 2)

    monkeypatch.setattr(learn, "_add_driver", lambda *_: False)
    x, known = places(16, 7), Part.empty(7, 0, -2.0)
    known.products[range(1, 7), range(1, 7)] = known.certain = True
    found, without = (learnt(x, evaluated(logdensity)(x)[1], np.ones(len(x)), None, parts) for parts in ([known], []))
    assert fits(found) and scales(found)[0] == (0, -2.0) and not fits(without)


def test_squares_that_are_certain_are_not_pruned():
    x = places(18, 8)
    first, certain, other = Part.empty(8), Part.empty(8, 0, -2.0), Part.empty(8, 1, -2.0)
    first.linear[:], first.products[:] = True, np.eye(8, dtype=bool)
    certain.products[range(2, 8), range(2, 8)] = certain.certain = True
    other.products[range(2, 8), range(2, 8)] = True
    noise = 0.1 * np.random.default_rng(19).standard_normal(x.shape)
    found = Surrogate(x, -x + noise, np.ones(len(x)), Frame.of(x), [first, certain, other])
    prune(found)
    assert found.parts[1].products.diagonal()[2:].all() and not found.parts[2].products.all()
    assert found.parts[2].products.sum() < 3 and found.parts[1].copy().certain


@pytest.mark.parametrize(("dim", "most"), [(4, 3), (6, 5), (9, learn.MOST_DRIVERS)])
def test_drivers_leave_a_coordinate_that_is_none(dim, most, monkeypatch):
    def add(found, _):
        found.parts = [*found.parts, Part.empty(dim, len(found.drivers), 1.0)]
        found.solve()
        return True

    monkeypatch.setattr(learn, "_add_driver", add)
    assert len(from_gradients(lambda x: -x @ x / 2, places(0, dim)).drivers) == most


def test_what_becomes_a_driver_has_no_bends_under_any_scale():
    """Draws are those of drivers given which the rest is drawn: a bend of theirs would be nobody's."""
    x = places(0, 8)
    first, scaled = Part.empty(8), Part.empty(8, 0, -2.0)
    first.linear[:], first.products[:], first.bends[1:3] = True, np.eye(8, dtype=bool), True
    scaled.linear[1:], scaled.bends[1:3] = True, True

    def logdensity(x):
        return -jnp.sum(x[:2] ** 2) / 2 - jnp.sum(x[2:] ** 2) * jnp.exp(-2 * x[1]) / 2

    found = Surrogate(x, evaluated(logdensity)(x)[1], np.ones(len(x)), Frame.of(x), [first, scaled])
    assert learn._add_driver(found, 0.3) and 1 in found.drivers
    assert not any(part.bends[1] for part in found.parts) and any(part.bends[2] for part in found.parts)


def test_drivers_are_few_whatever_there_is():
    """Eight scales of three each."""
    groups = 8

    def logdensity(x):
        log, z = x[:groups], x[groups:].reshape(groups, 3)
        return -jnp.sum(x[:groups] ** 2) / 2 - jnp.sum(z**2 * jnp.exp(-2 * log[:, None])) / 2 - 3 * jnp.sum(log)

    found = from_gradients(logdensity, places(14, 4 * groups, 200))
    assert 1 <= len(found.drivers) <= learn.MOST_DRIVERS and set(found.drivers) <= set(range(groups))


def test_a_drivers_own_terms_are_its_scales_constant():
    """No bends of drivers, of which the marginal knows nothing, nor products with them under their own scale."""
    found = from_gradients(lambda x: centred(x) - 2 * jnp.logaddexp(0.0, 2 * x[0]), places(15, DIM))
    assert found.drivers.tolist() == [0]
    part, kind, i, j = found.terms.T
    assert not np.any((kind == BEND) & (i == 0)) and not np.any((part > 0) & (kind == PRODUCT) & ((i == 0) | (j == 0)))
    assert len(KNOTS) * sum(each.bends.sum() for each in found.parts) == (kind == BEND).sum()
