"""A hierarchical normal model, whose conditional laws are known: the regression on gradients finds them, and so the neck."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taddaa.moves import pooling
from taddaa.moves.bend import CAP, Bend
from taddaa.moves.pooling import Shape, _children, _least, _losses, _others, _solved, _with_others, narrowing, pooled, pulled_back
from taddaa.moves.straighten import bend_of, learn_bend

GROUPS = 12
PRECISION = np.r_[np.zeros(4), np.linspace(0.2, 1.2, GROUPS - 4)]  # what the data say of each group; of four nothing
DATA = np.random.default_rng(0).normal(0.3, 0.5, GROUPS)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def centred(x):
    """log τ, μ and θ_i: τ and μ have normal priors, θ_i | μ, τ and y_i | θ_i are normal."""
    log_tau, mu, theta = x[0], x[1], x[2:]
    prior = -(log_tau**2) / 2 - mu**2 / 2 - jnp.sum((theta - mu) ** 2) * jnp.exp(-2 * log_tau) / 2 - GROUPS * log_tau
    return prior - jnp.sum(PRECISION * (theta - DATA) ** 2) / 2


def states(count: int, seed: int, least: float = -10.0) -> tuple[np.ndarray, np.ndarray]:
    """θ given (log τ, μ) as it is under the model, with drivers of a law of their own; none where log τ is under `least`."""
    rng = np.random.default_rng(seed)
    log_tau, mu = np.maximum(rng.normal(-0.5, 0.6, count), least + 0.1 * rng.uniform(size=count)), rng.normal(0.3, 0.3, count)
    precision = np.exp(-2 * log_tau)[:, None] + PRECISION
    mean = (np.exp(-2 * log_tau)[:, None] * mu[:, None] + PRECISION * DATA) / precision
    x = np.column_stack([log_tau, mu, mean + rng.standard_normal((count, GROUPS)) / np.sqrt(precision)])
    return x, np.asarray(jax.vmap(jax.grad(centred))(x))


def test_the_whole_structure_comes_out_of_states_that_have_not_seen_the_neck():
    bend = learn_bend(*states(200, 1, least=-1.2))
    assert bend is not None
    scale, centre = np.asarray(bend.scale), np.asarray(bend.centre)
    children = np.asarray(bend.levels).sum(axis=0) > 0
    assert children[2:].sum() >= 10 and not children[:2].any()  # of twelve
    known, (tau, mu) = np.asarray(bend.known)[children], (int(np.argmax(np.asarray(bend.select)[k])) for k in (0, 1))
    np.testing.assert_allclose(np.asarray(bend.stretch)[tau, children], scale[0], rtol=0.05)  # widths follow τ itself
    np.testing.assert_allclose(np.asarray(bend.shift)[mu, children] / (1 - known), scale[1] / scale[children], rtol=0.05)
    np.testing.assert_allclose(np.asarray(bend.neck)[children] / (1 - known), (centre[1] - centre[children]) / scale[children], atol=0.05)
    precision = PRECISION[children[2:]]
    np.testing.assert_allclose(known, precision / (precision + np.exp(-2 * centre[0])), atol=0.05)
    # Deep in the neck, where no state was, the children's w are standard normal but for a constant scale.
    deep = np.random.default_rng(2)
    mu_there, tau_there = 0.3, -5.0
    theta = mu_there + np.exp(tau_there) * deep.standard_normal((400, GROUPS))
    there = np.column_stack([np.full(400, tau_there), np.full(400, mu_there), theta])
    w = bend.on_host().enter(there, 0 * there)[0][:, children]
    assert np.abs(w.mean(axis=0) / w.std(axis=0)).max() < 1.0
    np.testing.assert_allclose(w.std(axis=0), w.std(axis=0).mean(), rtol=0.4)


def arbitrary(seed: int) -> Shape:
    """Two turns in six dimensions."""
    rng = np.random.default_rng(seed)
    stretch, shift = np.zeros((6, 6)), np.zeros((6, 6))
    stretch[1, 2:5], stretch[0, 1], shift[0, 2:5], shift[5, 1] = rng.normal(0, 0.5, 3), 0.4, rng.normal(0, 0.5, 3), -0.3
    turns = tuple(np.isin(np.arange(6), at) for at in ([2, 3, 4], [1]))
    child = turns[0] | turns[1]
    return Shape(stretch, shift, turns, np.where(child, rng.uniform(0, 0.9, 6), 0), *np.where(child, rng.normal(0, 0.5, (2, 6)), 0))


def test_pulling_back_agrees_with_automatic_differentiation():
    shape, rng = arbitrary(3), np.random.default_rng(4)
    u, r = rng.standard_normal((20, 6)), rng.standard_normal((20, 6))
    bend: Bend = bend_of(shape, np.zeros(6), np.ones(6))
    w = bend.on_host().enter(u, 0 * u)[0]
    mine, slope = pulled_back(u, r, shape, 2)
    np.testing.assert_allclose(mine, w, atol=1e-12)
    by_jax = jax.vmap(jax.grad(lambda w, r: jnp.vdot(r, bend.forward(w)[0]) + bend.forward(w)[1]))(w, r)
    np.testing.assert_allclose(slope, by_jax, atol=1e-10)
    np.testing.assert_allclose(bend.on_host().enter(u, r)[2], by_jax, atol=1e-10)


def test_it_is_not_used_where_states_fit_it_worse():
    """A funnel whose children have a second mode each: gradients are not linear in them, and the regression is beside the point."""
    rng = np.random.default_rng(5)
    x = np.column_stack(
        [rng.normal(0, 0.5, 300), rng.normal(0, 0.5, 300), rng.choice([-1.0, 1.0], (300, 3)) * rng.normal(3, 0.3, (300, 3))]
    )
    two_modes = lambda x: -(x[0] ** 2) * 2 - x[1] ** 2 * 2 + jnp.sum(jnp.logaddexp(-((x[2:] - 3) ** 2) / 0.18, -((x[2:] + 3) ** 2) / 0.18))  # noqa: E731
    r = np.asarray(jax.vmap(jax.grad(two_modes))(x))
    stretch, shift = np.zeros((5, 5)), np.zeros((5, 5))
    stretch[0, 2:], shift[1, 2:] = 0.05, 0.01
    before = Shape(stretch, shift, (np.arange(5) > 1,), *np.zeros((3, 5)))
    assert pooled(x, r, before) is before


def test_numbers_that_no_regression_can_take_leave_the_map_as_it_is():
    before = arbitrary(6)._replace(known=np.zeros(6), neck=np.zeros(6), mouth=np.zeros(6))
    u = np.random.default_rng(7).standard_normal((40, 6))
    assert pooled(u, np.full((40, 6), np.inf), before) is before


def test_normal_equations_are_solved_as_by_numpy_and_bear_columns_that_coincide():
    rng = np.random.default_rng(3)
    columns, values = rng.standard_normal((2, 60, 4)) * [1.0, 1e4, 1e-3, 5.0], rng.standard_normal((2, 60))
    wanted = [np.linalg.lstsq(*pair, rcond=None)[0] for pair in zip(columns, values, strict=True)]

    def solved(columns):
        turned = columns.transpose(0, 2, 1)
        return _solved(turned @ columns, (turned @ values[..., None])[..., 0])

    np.testing.assert_allclose(solved(columns), wanted, rtol=1e-6)
    twice = np.concatenate([columns, columns[..., :1], np.zeros((2, 60, 1))], axis=2)
    for k in range(2):
        np.testing.assert_allclose(twice[k] @ solved(twice)[k], columns[k] @ wanted[k], rtol=1e-6, atol=1e-9)


def test_what_the_data_tie_a_child_to_is_found_as_by_regressing_each_coordinate(monkeypatch):
    """The one with the largest share of what is left, by NumPy's own algebra; and none where nothing is tied."""
    rng = np.random.default_rng(4)
    u = rng.standard_normal((300, 6))
    told = np.exp(-2 * 0.4 * u[:, 0])
    r = -(0.6 * told + 0.4) * u[:, 1] + 0.5 * told * u[:, 2] + 0.3 * u[:, 4] + 0.2 * rng.standard_normal(300)
    member = (1, np.array([2]), [])
    (child,) = _children(u, np.tile(r[:, None], 6), told, [member])
    assert _others(u, told, [child], [member]) == [[4]]
    weight = 1 / np.sqrt((1 - child.known) * told + child.known)
    base = weight[:, None] * np.column_stack([told * u[:, 1], told, u[:, 1], np.ones(300), told * u[:, 2]])
    left = weight[:, None] * u
    left -= base @ np.linalg.lstsq(base, left, rcond=None)[0]
    share = [(child.rest @ left[:, k]) ** 2 / (left[:, k] @ left[:, k] * (child.rest @ child.rest)) for k in (0, 2, 3, 4, 5)]
    assert np.argmax(share) == 3 and share[3] > 0.5
    (whole,) = _with_others(u, np.tile(r[:, None], 6), 0.4 * u[:, 0], [member])
    assert whole[2] == [4]
    known = (1, np.array([2]), [4])
    (child,) = _children(u, np.tile(r[:, None], 6), told, [known])
    assert _others(u, told, [child], [known]) == [[]]
    # Several at once, of different precisions and with nothing, one or two known: each as by itself.
    more = [(1, np.array([2]), []), (3, np.array([], int), []), (5, np.array([2]), []), known]
    forces = np.column_stack([r, *(-(a * told + 1 - a) * u[:, i] + b * u[:, 4] for i, a, b in ((3, 0.3, 0.0), (5, 0.9, 0.8)))])
    r = np.zeros((300, 6))
    r[:, [1, 3, 5]] = forces
    children = _children(u, r, told, more)
    assert len({round(child.known, 3) for child in children}) == 4
    alone = [_others(u, told, [child], [member])[0] for child, member in zip(children, more, strict=True)]
    for most in (10**5, 300):  # all together, and one at a time
        monkeypatch.setattr(pooling, "AT_ONCE", most)
        assert _others(u, told, children, more) == alone == [[4], [], [4], []]
        for mine, child in zip(_children(u, r, told, more), children, strict=True):
            assert mine.known == pytest.approx(child.known) and mine.loss == pytest.approx(child.loss)
    for member, child in zip(more, children, strict=True):
        (mine,) = _children(u, r, told, [member])
        assert mine.known == pytest.approx(child.known) and mine.shift == pytest.approx(child.shift[: len(member[1])])
    several = _losses(u, r, np.stack([told, np.sqrt(told)]), more)
    for of_both, factor in zip(several, (1.0, 0.5), strict=True):
        assert of_both == pytest.approx(np.mean([np.log1p(child.loss) for child in _children(u, r, told**factor, more)]))


@pytest.mark.parametrize("seed", range(4))
def test_gradients_show_who_is_narrowed_by_a_driver_and_who_is_not(seed):
    """Of a coordinate that the driver does not touch, or only shifts, nothing."""
    x, g = states(200, seed, least=-1.2)
    rng = np.random.default_rng([seed, 1])
    alone, shifted = rng.standard_normal((2, 200)) / np.sqrt(5)
    u = np.column_stack([x, alone, shifted + 0.8 * x[:, 0]])
    r = np.column_stack([g, -5 * alone, -5 * shifted]) + 0.3 * rng.standard_normal(u.shape)
    driver = np.array([0])
    own = np.arange(2, GROUPS + 4)
    sure = narrowing(u, r[:, own], own, u[:, 0], [[1]] * len(own), driver)
    assert sure[:GROUPS].min() > 15 and np.abs(sure[GROUPS:]).max() < 4.5
    assert narrowing(u[:20], r[:20, [2]], own[:1], u[:20, 0], [[1]], driver) == 0  # too few to tell
    # Each as by itself, though some lean on more than others.
    leans = [[], [1], [1, 4]]
    several = narrowing(u, r[:, [2, 3, 5]], np.array([2, 3, 5]), u[:, 0], leans, driver)
    for i, on, found in zip((2, 3, 5), leans, several, strict=True):
        assert narrowing(u, r[:, [i]], np.array([i]), u[:, 0], [on], driver)[0] == pytest.approx(found)
    assert narrowing(u, r[:, []], own[:0], u[:, 0], [], driver).size == 0


def test_how_sure_a_narrowing_is_agrees_with_weighted_least_squares():
    """The t value of told · u_i, with the precisions that it finds as weights, by NumPy's own algebra."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 3))
    told = np.exp(-2 * 0.4 * x[:, 0])
    r = -(0.5 * told + 0.3) * x[:, 1] + 0.2 * x[:, 0] + 0.8 * rng.standard_normal(300)
    (found,) = narrowing(x, r[:, None], np.array([1]), 0.4 * x[:, 0], [[]], np.array([0]))
    columns = np.column_stack([told * x[:, 1], told, x[:, 1], np.ones(300), x[:, 0]])
    weight = np.ones(300) / np.sqrt(told)
    for _ in range(4):
        beta = np.linalg.lstsq(columns * weight[:, None], -r * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.exp(-2 * CAP * np.tanh(0.4 * x[:, 0] / CAP)) * beta[0] + beta[2])
    fit = columns * weight[:, None]
    rest = -r * weight - fit @ beta
    error = np.sqrt(np.linalg.inv(fit.T @ fit)[0, 0] * rest @ rest / 295)
    assert beta[2] > 0
    assert found == pytest.approx(beta[0] / error, rel=0.02)


@pytest.mark.parametrize("about", [None, 0.7, 1.4])
@pytest.mark.parametrize("best", [0.3, 0.75, 1.0, 1.6, 3.0])
def test_the_best_factor_is_found_though_it_lies_beyond_those_tried_first(best, about):
    assert _least(lambda factors: [np.log(factor / best) ** 2 for factor in factors], about) == pytest.approx(best, abs=0.02)
    falling, rising = _least(lambda factors: [-factor for factor in factors], about), _least(lambda factors: factors, about)
    assert 3 < falling <= 5 and 0.2 <= rising < 0.4  # and not without end
