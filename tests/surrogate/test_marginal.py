"""Draws from a surrogate have its law: its drivers' marginal by quadrature, the rest given them, and nothing where it has no end."""

import numpy as np
import pytest
from scipy import integrate, stats

from hierarchies import evaluated, funnel
from taddaa.surrogate import marginal
from taddaa.surrogate.marginal import FLAT, RIDGE, Marginal, _chosen, _clipped, _spread, _tempered
from taddaa.surrogate.terms import Frame, Part, Surrogate

AT_ONCE = np.array([[0.0], [1.0], [0.0], [1.0]])


def made(parts: list[Part], coefficients: dict[tuple, float], x: np.ndarray) -> Surrogate:
    """Of terms (part, kind, i, j) with these coefficients, in coordinates that are already standardised; others are nothing."""
    dim = x.shape[1]
    noise = np.random.default_rng(len(x)).standard_normal(x.shape)
    found = Surrogate(x, noise, np.ones(len(x)), Frame(*AT_ONCE.repeat(dim, axis=1)), parts)
    at = {tuple(map(int, term)): number for number, term in enumerate(found.terms)}
    found.coefficients = np.zeros(len(at))
    for term, value in coefficients.items():
        found.coefficients[at[term]] = value
    return found


def bent_rest(seed: int = 0) -> Surrogate:
    """v ~ N(0, 1) more or less, and r | v wide with v, on one side of it steeper than on the other: far from normal."""
    first, scaled = Part.empty(2), Part.empty(2, 0, -1.0)
    first.linear[:], first.products[:], first.bends[1], scaled.products[1, 1] = True, True, True, True
    coefficients = {(0, 2, 0, 0): -1.0, (0, 1, 0, -1): -0.5, (0, 2, 0, 1): 0.2, (0, 2, 1, 1): -0.05}
    coefficients |= {(1, 2, 1, 1): -0.3, (0, 1, 1, -1): 0.7, (0, 3, 1, 2): -6.0}
    return made([first, scaled], coefficients, np.random.default_rng(seed).standard_normal((300, 2)) * [1.5, 1.5])


def two_drivers(seed: int = 0) -> Surrogate:
    """Scales of two normal coordinates, which also depend on the drivers and on each other."""
    first, one, two = Part.empty(4), Part.empty(4, 0, -2.0), Part.empty(4, 1, 1.0)
    first.linear[:], first.products[:], one.products[2, 2], two.products[3, 3] = True, True, True, True
    one.linear[2], two.linear[3] = True, True
    coefficients = {(0, 2, 0, 0): -2.0, (0, 2, 1, 1): -1.0, (0, 2, 0, 1): 0.5, (0, 1, 0, -1): -0.6, (0, 2, 2, 3): 0.1}
    coefficients |= {(0, 2, 0, 2): 0.4, (0, 2, 1, 3): -0.3, (0, 2, 2, 2): -0.3, (0, 2, 3, 3): -0.3, (1, 0, -1, -1): -0.1}
    coefficients |= {(1, 1, 2, -1): 0.2, (1, 2, 2, 2): -0.5, (2, 1, 3, -1): -0.3, (2, 2, 3, 3): -0.4, (2, 0, -1, -1): -0.2}
    return made([first, one, two], coefficients, np.random.default_rng(seed).standard_normal((300, 4)) * 1.5)


def ridged(found: Marginal, z: np.ndarray) -> np.ndarray:
    """The surrogate's log density with what keeps the rest where its draws are."""
    return found.surrogate.value(z) - ((z[:, found.rest] - found.centre) ** 2 / 2) @ found.ridge


@pytest.mark.parametrize("make", [bent_rest, two_drivers])
def test_what_is_given_of_the_rest_is_the_surrogates_value(make):
    found = Marginal(make())
    rng = np.random.default_rng(1)
    z = rng.standard_normal((20, len(found.centre) + len(found.drivers)))
    joint = [found._joint(found._given(one[found.drivers]), one[None, found.rest])[0] for one in z]
    np.testing.assert_allclose(np.diff(joint), np.diff(ridged(found, z)), rtol=1e-9, atol=1e-9)


def test_the_ridge_is_a_small_part_of_the_draws_own_precision():
    found = Marginal(two_drivers())
    np.testing.assert_allclose(found.ridge, RIDGE / found.surrogate.z[:, 2:].var(axis=0))
    assert RIDGE <= 0.01


def test_bends_have_their_slope_and_curvature():
    found, at, step = Marginal(bent_rest()), np.linspace(-3, 3, 13)[:, None], 1e-4
    given = found._given(np.array([0.3]))
    (low, low_slope, _), (_, slope, turn), (high, high_slope, _) = (found._bends(given, at + by) for by in (-step, 0, step))
    np.testing.assert_allclose(slope.ravel(), (high - low).ravel() / (2 * step), atol=1e-6)
    np.testing.assert_allclose(turn.ravel(), (high_slope - low_slope).ravel() / (2 * step), atol=1e-6)


def test_given_its_drivers_a_normal_rest_is_integrated_exactly():
    """Laplace's approximation is none here: Gauss's quadrature over both coordinates differs by the same constant everywhere."""
    found = Marginal(two_drivers())
    nodes, weights = (14 * part for part in np.polynomial.legendre.leggauss(120))
    apart = []
    for drivers in ([0.0, 0.0], [0.7, -0.5], [-0.8, 1.0], [-0.2, 2.0]):
        value, mode, _, _ = found.laplace(np.array(drivers), found.centre)
        top = ridged(found, np.r_[drivers, mode][None])[0]
        rest = np.stack(np.meshgrid(mode[0] + nodes, mode[1] + nodes), axis=-1).reshape(-1, 2)
        z = np.column_stack([np.tile(drivers, (len(rest), 1)), rest])
        whole = np.outer(weights, weights).ravel() @ np.exp(ridged(found, z) - top)
        apart.append(np.log(whole) + top - value)
    np.testing.assert_allclose(apart, apart[0], atol=1e-6)


def by_quadrature(found: Marginal, low: float, high: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of two coordinates on a grid: the places, the drivers' marginal cut at these ends, and the joint probabilities."""
    v, r = np.linspace(low, high, 201), np.linspace(-20, 20, 801)
    z = np.stack(np.meshgrid(v, r, indexing="ij"), axis=-1).reshape(-1, 2)
    log = ridged(found, z).reshape(201, 801)
    joint = np.exp(log - log.max())
    joint /= joint.sum()
    return v, r, joint


def ends(found: Surrogate, k: int, reach: float) -> tuple[float, float]:
    steepest = max(abs(part.power) for part in found.parts if part.driver == k)
    return found.z[:, k].min() - reach / steepest, found.z[:, k].max() + reach / steepest


@pytest.mark.parametrize("seed", range(2))
def test_draws_have_the_law_of_a_rest_that_is_not_normal(seed):
    surrogate = bent_rest()
    found = Marginal(surrogate)
    v, r, joint = by_quadrature(found, *ends(surrogate, 0, 0.5))
    drawn = found.draw(8000, np.random.default_rng(seed), 0.5, True)
    by_v, by_r = np.cumsum(joint.sum(axis=1)), np.cumsum(joint.sum(axis=0))
    assert 500 < drawn.worth <= 2000
    allowed = 1.95 / np.sqrt(drawn.worth)  # Kolmogorov's, of one in a thousand
    for values, grid, law in ((drawn.x[:, 0], v, by_v), (drawn.x[:, 1], r, by_r)):
        assert np.abs(np.searchsorted(np.sort(values), grid, side="right") / 8000 - law).max() < allowed
    mean = joint.sum(axis=0) @ r
    sd = np.sqrt(joint.sum(axis=0) @ (r - mean) ** 2)
    assert drawn.x[:, 1].mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(drawn.worth))


def test_weights_correct_what_laplace_gets_wrong():
    """The drawn rest given the driver, where the normal around its mode is far off."""
    found, rng = Marginal(bent_rest()), np.random.default_rng(3)
    point = np.array([[1.5]])
    one = found.laplace(point[0], found.centre)
    r = np.linspace(-40, 40, 8001)
    density = np.exp(ridged(found, np.column_stack([np.full(8001, 1.5), r])))
    density /= density.sum()
    mean, sd = density @ r, np.sqrt(density @ r**2 - (density @ r) ** 2)
    drawn = found._resampled(point.repeat(3000, axis=0), np.zeros(3000), [one] * 3000, 8000, rng, True)
    assert abs(one[1][0] - mean) > 0.25 * sd
    assert abs(drawn.x[:, 1].mean() - mean) < 0.15 * abs(one[1][0] - mean)


def test_the_largest_weights_are_alike_but_for_the_last_draws():
    found, rng = Marginal(two_drivers()), np.random.default_rng(0)
    points = rng.standard_normal((200, 2))
    modes, steep = [found.laplace(point, found.centre) for point in points], 40 * points[:, 0]
    asked, last = (found._resampled(points, steep, modes, 4000, rng, final) for final in (False, True))
    share = 1 / marginal.ALIKE
    assert last.worth < 0.5 * share * len(points) and asked.worth == pytest.approx(share * len(points), rel=0.25)
    assert last.x[:, 0].mean() > asked.x[:, 0].mean() > np.quantile(points[:, 0], 1 - share) - 0.1


def test_noise_comes_in_pairs_around_the_mode():
    found = Marginal(two_drivers())
    points = np.array([[0.0, 0.0], [0.5, -0.5]])
    modes = [found.laplace(point, found.centre) for point in points]
    drawn = found._resampled(points, np.zeros(2), modes, 2 * marginal.EACH, np.random.default_rng(0), True)
    assert drawn.worth == pytest.approx(2)
    for point, (_, mode, _, _) in zip(points, modes, strict=True):
        mine = drawn.x[(drawn.x[:, :2] == point).all(axis=1)]
        assert len(np.unique(mine, axis=0)) == marginal.EACH
        np.testing.assert_allclose(mine[:, 2:].mean(axis=0), mode, atol=1e-12)


def test_draws_of_two_drivers_have_their_law():
    """By importance sampling of the whole, with a million draws of a normal."""
    surrogate = two_drivers()
    found, rng = Marginal(surrogate), np.random.default_rng(4)
    drawn = found.draw(8000, rng, 0.5, True)
    (low_0, high_0), (low_1, high_1) = ends(surrogate, 0, 0.5), ends(surrogate, 1, 0.5)
    z = stats.t.rvs(6, size=(200_000, 4), random_state=rng) * [0.8, 1.2, 1.2, 1.5]
    z[:, 2:] += [0.3, -0.2]
    log = ridged(found, z) - stats.t.logpdf((z - [0, 0, 0.3, -0.2]) / [0.8, 1.2, 1.2, 1.5], 6).sum(axis=1)
    log[(z[:, 0] < low_0) | (z[:, 0] > high_0) | (z[:, 1] < low_1) | (z[:, 1] > high_1)] = -np.inf
    weights = np.exp(log - log.max())
    assert 1 / np.sum((weights / weights.sum()) ** 2) > 20_000
    mean = np.average(z, axis=0, weights=weights)
    covariance = np.cov(z.T, aweights=weights)
    sd = np.sqrt(np.diag(covariance))
    assert drawn.worth > 1000
    assert np.all(np.abs(drawn.x.mean(axis=0) - mean) < 4 * sd / np.sqrt(drawn.worth))
    assert np.all(np.abs(np.cov(drawn.x.T) - covariance) < 6 * np.outer(sd, sd) / np.sqrt(drawn.worth))


@pytest.mark.parametrize("last", [True, False])
def test_a_funnels_draws_are_a_funnels(last):
    """Learnt from draws around its mouth alone: v ~ N(0, 1), and x/exp(v/2) too; of a batch, which may be tempered, wider."""
    x = np.random.default_rng(5).standard_normal((160, 6)) * 0.7
    parts = [Part.empty(6), Part.empty(6, 0, -1.0)]
    parts[0].linear[:], parts[0].products[0, 0], parts[1].products[:] = True, True, np.diag([False] + [True] * 5)
    parts[1].linear[1:] = True
    found = Surrogate(x, evaluated(funnel)(x)[1], np.ones(160), Frame.of(x), parts)
    drawn = Marginal(found).draw(8000, np.random.default_rng(6), 2.0, last)
    v = drawn.x[:, 0]
    if not last:
        assert v.std() > 0.9 and drawn.worth <= marginal.POINTS
        return
    assert np.abs(stats.ecdf(v).cdf.evaluate(np.linspace(-2, 2, 41)) - stats.norm.cdf(np.linspace(-2, 2, 41))).max() < 0.045
    assert v.var() == pytest.approx(1, abs=0.13)
    scaled = drawn.x[:, 1:] * np.exp(-v / 2)[:, None]
    assert np.abs(scaled.mean(axis=0)).max() < 0.1 and np.abs(scaled.std(axis=0) - 1).max() < 0.06


@pytest.mark.parametrize("reach", [0.2, 2.0])
def test_no_draw_is_beyond_reach(reach):
    """An improper driver's draws would go anywhere."""
    surrogate = bent_rest()
    surrogate.coefficients[(surrogate.terms == [0, 2, 0, 0]).all(axis=1)] = 0.0
    low, high = ends(surrogate, 0, reach)
    v = Marginal(surrogate).draw(2000, np.random.default_rng(7), reach, True).x[:, 0]
    assert low < v.min() < low + 0.3 and v.max() < high


def normal_rest(width: float, mean: float = 0.0) -> Marginal:
    """v ~ N(0, 1), a normal coordinate that does not care, and one under v's scale."""
    first, scaled = Part.empty(3), Part.empty(3, 0, -1.0)
    first.linear[:], first.products[:], scaled.products[2, 2] = True, np.eye(3, dtype=bool), True
    coefficients = {(0, 2, 0, 0): -1.0, (0, 2, 1, 1): -1 / width**2, (0, 1, 1, -1): mean / width**2, (1, 2, 2, 2): -1.0}
    return Marginal(made([first, scaled], coefficients, np.random.default_rng(8).standard_normal((300, 3))))


@pytest.mark.parametrize("side", [-1, 1])
def test_a_mode_far_beyond_what_gradients_have_seen_is_none(side):
    seen = normal_rest(1.0).surrogate.z[:, 1]
    end = (seen.max() if side > 0 else seen.min()) + side * marginal.FAR * seen.std()
    for mean, there in ((0.0, True), (end - 0.2 * side, True), (end + 0.2 * side, False), (3 * end, False)):
        value, mode, _, _ = normal_rest(1.0, mean).laplace(np.zeros(1), np.zeros(2))
        assert mode[0] == pytest.approx(mean, rel=0.01, abs=1e-3)
        assert np.isfinite(value) if there else value == -np.inf


def test_a_rest_without_an_end_has_no_peak():
    """Nor one much wider than all that gradients have seen: there Laplace's approximation would be a peak of the marginal."""
    assert np.isfinite(normal_rest(0.5 * FLAT).laplace(np.zeros(1), np.zeros(2))[0])
    assert normal_rest(2 * FLAT).laplace(np.zeros(1), np.zeros(2))[0] == -np.inf
    upward = normal_rest(1.0)
    upward.q_rest = -upward.q_rest
    assert upward.laplace(np.zeros(1), np.zeros(2))[0] == -np.inf
    drawn = upward.draw(100, np.random.default_rng(0), 2.0, True)
    assert drawn.x.shape == (0, 3) and drawn.worth == 0


def test_the_rest_has_the_mode_of_its_density():
    found, r = Marginal(bent_rest()), np.linspace(-12, 12, 24001)
    for driver in (-1.0, 0.0, 1.5):
        best = r[np.argmax(ridged(found, np.column_stack([np.full(len(r), driver), r])))]
        for start in (-1.5, 0.0, 0.5):
            assert found.laplace(np.array([driver]), np.array([start]))[1][0] == pytest.approx(best, abs=0.02)


def test_points_of_a_mixture_have_the_density_that_is_said():
    """Ratios of integrals of three normal densities, which all are one."""
    rng = np.random.default_rng(9)
    cloud = rng.standard_normal((200, 2)) @ np.array([[1.0, 0.5], [0.0, 0.3]])
    for wide in (True, False):
        points, log = _spread(cloud, 20_000, rng, wide)
        ratios = []
        for centre, sd in ([0.0, 0.0], 0.3), ([0.8, 0.4], 0.3), ([-0.8, -0.4], 0.2):
            ratios.append(np.mean(np.exp(stats.norm.logpdf(points, centre, sd).sum(axis=1) - log)))
        np.testing.assert_allclose(np.array(ratios) / ratios[0], 1.0, atol=0.08)
        assert points.std(axis=0)[0] / cloud.std(axis=0)[0] > (1.3 if wide else 1.02)


def test_no_weight_is_larger_than_root_n_times_the_mean_and_others_are_as_they_are():
    plain = np.r_[np.arange(1, 100.0), 2000.0]
    weights = _clipped(np.log(plain))
    cut = np.minimum(plain, 10 * plain.mean())
    assert cut[-1] < 2000 and cut[-2] == 99
    np.testing.assert_allclose(weights, cut / cut.sum())
    np.testing.assert_allclose(_clipped(np.log(plain[:-1]) - 900), plain[:-1] / plain[:-1].sum())
    for few in (np.r_[np.zeros(98), -np.inf, np.nan], np.r_[0.0, np.full(199, -np.inf)]):  # nowhere else
        somewhere = _clipped(few)
        assert not somewhere[~np.isfinite(few)].any() and somewhere.sum() == pytest.approx(1)


def test_weights_are_tempered_until_they_are_worth_a_fifth_and_not_in_the_end():
    value, proposal = -np.linspace(0, 300, 200), np.linspace(0, 1, 200)
    weights = _tempered(value, proposal, False)
    assert 0.2 * 200 <= 1 / np.sum(weights**2) < 0.4 * 200
    np.testing.assert_array_equal(_tempered(value, proposal, True), _clipped(value - proposal))
    even = -np.linspace(0, 1, 200)
    np.testing.assert_array_equal(_tempered(even, proposal, False), _clipped(even - proposal))
    slope = np.polyfit(value[20:], np.log(weights[20:]) + proposal[20:], 1)[0]  # the proposal's density is not tempered
    assert np.any(np.isclose(slope, marginal.TEMPERS, rtol=1e-6))


def test_resampling_takes_each_as_often_as_its_weight_says():
    weights = np.random.default_rng(10).dirichlet(np.full(30, 0.3))
    counts = np.bincount(_chosen(weights, 500, np.random.default_rng(11)), minlength=30)
    assert counts.sum() == 500 and np.all(np.abs(counts - 500 * weights) < 1)
    assert not np.isin(_chosen(np.r_[0.0, 0.5, 0.0, 0.5, 0.0], 100, np.random.default_rng(12)), [0, 2, 4]).any()


def test_quadrature_and_grid_agree():
    """The truth that draws are held against, itself by SciPy."""
    found = Marginal(bent_rest())
    v, _, joint = by_quadrature(found, -1.0, 1.0)
    whole = [integrate.quad(lambda at, v=v: np.exp(ridged(found, np.array([[v, at]]))[0]), -30, 30, limit=200)[0] for v in (v[0], v[150])]
    assert joint.sum(axis=1)[150] / joint.sum(axis=1)[0] == pytest.approx(whole[1] / whole[0], rel=1e-5)
