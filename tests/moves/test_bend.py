"""Maps leave the target as it is: against automatic differentiation, detailed balance and stationarity; a wrong one must fail."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from test_kernel import detailed_balance_error

from known import Known, run_chains
from taddaa import HMC, MALA, RWMH, Barker, Target
from taddaa.chains.machine.engine import Engine
from taddaa.chains.machine.meter import Meter
from taddaa.moves import generator
from taddaa.moves.bend import CAP, Bend
from taddaa.moves.metric import Bent, as_covariance, entered_point, leave, places_of
from taddaa.problem.target import flat_values


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def some_bend(scale: float = 1.0) -> Bend:
    """Two levels in five dimensions: 0 drives 1, 0 and 1 drive 3 and 4, 2 only shifts; data say something of 1 and 3."""
    select = np.eye(5)[:, :3]
    stretch, shift = np.zeros((3, 5)), np.zeros((3, 5))
    stretch[0, 1], stretch[0, 3], stretch[1, 3], stretch[1, 4] = 0.7, -0.4, 0.5, 1.1
    shift[2, 1], shift[0, 4], shift[2, 3] = 0.3, -0.8, 0.6
    levels = np.array([[0, 1, 0, 0, 0], [0, 0, 0, 1, 1]], float)
    centre, width = np.array([0.1, -1.0, 2.0, 0.0, 0.5]), np.array([1.0, 0.5, 2.0, 3.0, 0.2])
    data = np.array([[0, 0.3, 0, 0.6, 0], [0, -0.2, 0, 0.4, 0.1], [0, 0.5, 0, -0.3, 0]])  # ρ, b, h
    return Bend(*(jnp.asarray(part) for part in (centre, width, select, scale * stretch, scale * shift, levels, *data)))


def logdensity(x):
    return -jnp.sum(jnp.sqrt(1 + x**2)) + jnp.tanh(x[0]) * jnp.tanh(x[3])


@pytest.mark.parametrize("spread", [0.3, 1.0, 8.0])  # as far out as where widths grow less
def test_there_and_back(spread):
    """Places, log densities and gradients in NumPy, against automatic differentiation of the whole in JAX."""
    w, bend = spread * np.random.default_rng(0).standard_normal((50, 5)), some_bend()
    metric = Bent(bend, np.diag(np.arange(1.0, 6.0)))
    x, _ = jax.vmap(bend.forward)(w)
    assert float(jnp.max(jnp.abs(x - w * bend.scale - bend.centre))) > spread / 3  # it does bend
    value, gradient = (np.asarray(part) for part in jax.vmap(jax.value_and_grad(logdensity))(x))
    inside = jax.vmap(jax.value_and_grad(lambda w: logdensity(bend.forward(w)[0]) + bend.forward(w)[1]))(w)
    close = partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-8)
    entered = entered_point(metric, np.asarray(x), value, gradient)
    for mine, theirs in zip(entered, (w, *inside, inside[1] * np.arange(1.0, 6.0)), strict=True):
        close(mine, theirs)
    for mine, theirs in zip(leave(metric, *entered[:3]), (x, value, gradient), strict=True):
        close(mine, theirs)
    close(places_of(metric, w), x)
    on_the_host = jax.tree.map(np.asarray, bend)  # as a checkpoint gives it back
    for same in (bend, on_the_host):
        close(jax.vmap(lambda w, g, same=same: same.there_and_back(w)[2](g))(jnp.asarray(w), gradient), inside[1])
    there, stretched, back = on_the_host.on_host().there_and_back(w)  # many rows, in NumPy
    close(there, x)
    close(value + stretched, inside[0])
    close(back(gradient), inside[1])


def deep_bend() -> Bend:
    """Three levels, of coordinates that are no neighbours, in six dimensions: 0 drives 3 and 5, 3 drives 1, and 1 with 0 drives 2 and 4."""
    select = np.eye(6)[:, [1, 0, 3]]
    stretch, shift = np.zeros((3, 6)), np.zeros((3, 6))
    stretch[1, [3, 5]], stretch[2, 1], stretch[0, [2, 4]], stretch[1, 4] = (0.6, -0.3), 0.5, (-0.4, 0.7), 0.2
    shift[1, 3], shift[2, 1], shift[0, 2], shift[2, 4] = 0.4, -0.7, 0.9, 0.3
    levels = np.array([[0, 0, 0, 1, 0, 1], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 1, 0]], float)
    centre, width = np.array([0.1, -1.0, 2.0, 0.0, 0.5, 1.0]), np.array([1.0, 0.5, 2.0, 3.0, 0.2, 1.5])
    data = np.array([[0, 0.3, 0, 0.6, 0.2, 0], [0, -0.2, 0.4, 0.4, 0.1, 0], [0, 0.5, 0, -0.3, 0, 0.2]])
    return Bend(*(jnp.asarray(part) for part in (centre, width, select, stretch, shift, levels, *data)))


def test_levels_of_coordinates_that_are_no_neighbours():
    """In NumPy, where each level's coordinates are taken by themselves, against automatic differentiation in JAX."""
    bend, rng = deep_bend(), np.random.default_rng(5)
    w, slope = rng.standard_normal((2, 30, 6))
    x, stretched = jax.vmap(bend.forward)(w)
    inside = jax.vmap(lambda w, r: jax.grad(lambda w: jnp.vdot(r, bend.forward(w)[0]) + bend.forward(w)[1])(w))(w, slope)
    volume = jnp.linalg.slogdet(jax.vmap(jax.jacobian(lambda w: bend.forward(w)[0]))(w))[1]
    host, close = bend.on_host(), partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-8)
    there, wider, back = host.there_and_back(w)
    for mine, theirs in ((there, x), (wider, stretched), (wider + np.sum(np.log(bend.scale)), volume), (back(slope), inside)):
        close(mine, theirs)
    for mine, theirs in zip(host.enter(there, slope), (w, stretched, inside), strict=True):
        close(mine, theirs)
    for mine, theirs in zip(host.leave(w, back(slope)), (x, stretched, slope), strict=True):
        close(mine, theirs)


def test_the_generator_where_drivers_drive_drivers():
    """Their slopes differ from row to row from the first level on; against JAX's own Hessians."""
    bend, rng = deep_bend(), np.random.default_rng(6)
    factor, w, g = rng.standard_normal((6, 6)), *rng.standard_normal((2, 15, 6))
    matrix = factor @ factor.T
    places = lambda w: bend.forward(w)[0]  # noqa: E731
    slopes, bends = (np.asarray(jax.vmap(made(places))(w)) for made in (jax.jacobian, jax.hessian))
    drift, square = generator.of_places(bend, factor, w, g)
    np.testing.assert_allclose(drift, np.einsum("nkde,de->nk", bends, matrix) + np.einsum("nkd,de,ne->nk", slopes, matrix, g), rtol=1e-9)
    np.testing.assert_allclose(square, np.einsum("nkd,de,nke->nk", slopes, matrix, slopes), rtol=1e-9)


@pytest.mark.parametrize("at_once", [10**6, 40])
def test_the_generator_is_that_of_its_definition(at_once, monkeypatch):
    """Of parameters under a padded map, at once and in parts, against JAX's own Hessians; what depends on two coordinates has none."""
    monkeypatch.setattr(generator, "AT_ONCE", at_once)
    bend = padded(some_bend())
    constrain = lambda x: {"a": jnp.exp(x[1]), "b": x[2] ** 3, "both": x[0] * x[3], "c": x[3:]}  # noqa: E731
    rng = np.random.default_rng(3)
    factor, w, g = rng.standard_normal((5, 5)), *rng.standard_normal((2, 45, 5))
    matrix = factor @ factor.T
    target = Target(lambda x: -0.5 * jnp.sum(x**2), 5, constrain=constrain)
    viewer = Engine(target, Barker(), 50, 0, "float64", Meter(), 1).viewer
    values = viewer.observe(np.asarray(jax.vmap(bend.forward)(w)[0]))
    drift, square = viewer.generator(w, g, Bent(bend, factor), values)
    flat = lambda w: flat_values(constrain(bend.forward(w)[0]))  # noqa: E731
    slopes, bends = np.array(jax.vmap(jax.jacobian(flat))(w)), np.array(jax.vmap(jax.hessian(flat))(w))
    right = np.einsum("nkde,de->nk", bends, matrix) + np.einsum("nkd,de,ne->nk", slopes, matrix, g)
    assert np.isnan(drift[:, 2]).all() and np.isnan(square[:, 2]).all()
    for mine, theirs in ((drift, right), (square, np.einsum("nkd,de,nke->nk", slopes, matrix, slopes))):
        size = np.abs(theirs).max(axis=0)
        np.testing.assert_allclose((mine / size)[:, [0, 1, 3, 4]], (theirs / size)[:, [0, 1, 3, 4]], atol=1e-5)


def test_the_slope_at_the_middle():
    bend, factor = some_bend()._replace(centre=np.full(5, 1e9)), np.diag(np.arange(1.0, 6.0))
    slope = np.asarray(jax.jacobian(lambda w: bend.forward(w)[0])(jnp.zeros(5))) @ factor
    np.testing.assert_allclose(as_covariance(Bent(bend, factor)), slope @ slope.T, rtol=1e-7, atol=1e-8)


def padded(bend: Bend) -> Bend:
    """With a level that nobody is at and a driver that nobody has, as maps are: one compiled program serves them all."""
    more = {name: jnp.concatenate([getattr(bend, name), jnp.zeros((1, 5))]) for name in ("stretch", "shift")}
    levels = jnp.concatenate([jnp.zeros((1, 5)), bend.levels])
    return bend._replace(levels=levels, select=jnp.concatenate([bend.select, jnp.zeros((5, 1))], axis=1), **more)


def test_padding_changes_nothing():
    bend, w = some_bend(), jnp.asarray([0.3, -1.2, 0.8, 1.5, -0.4])
    wider = padded(bend)
    for mine, theirs in zip(jax.tree.leaves(wider.forward(w)), jax.tree.leaves(bend.forward(w)), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    rows = np.asarray(w)[None]
    for mine, theirs in zip(wider.on_host().enter(rows, 2 * rows), bend.on_host().enter(rows, 2 * rows), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-14)


def test_the_volume_is_that_of_the_jacobian():
    """Up to the constant Σ log s."""
    w, bend = jnp.asarray([0.3, -1.2, 0.8, 1.5, -0.4]), some_bend()
    volume = jnp.linalg.slogdet(jax.jacobian(lambda w: bend.forward(w)[0])(w))[1]
    assert float(bend.forward(w)[1] + jnp.sum(jnp.log(bend.scale))) == pytest.approx(float(volume), abs=1e-12)


def test_widths_stay_bounded_far_outside():
    """Where no driver has been seen, the map goes on no further than e^±CAP."""
    x, stretched = some_bend().forward(jnp.asarray([1e6, 0.0, 0.0, 0.0, 0.0]))
    assert np.all(np.isfinite(x)) and abs(float(stretched)) <= 3 * CAP


# The kernels under a map ------------------------------------------------------------------------------------------------


def funnel(x):
    return -0.5 * x[0] ** 2 - 0.5 * x[1] ** 2 * jnp.exp(-2 * x[0]) - x[0]


def funnel_draws(rng, count):
    first = rng.standard_normal(count)
    return np.stack([first, np.exp(first) * rng.standard_normal(count)], axis=1)


FUNNEL = Known(funnel, funnel_draws, 2)


def funnel_bend(stretch=0.7) -> Bend:
    """Not quite the right one, which would be 1."""
    one = np.array([[0.0, stretch]])
    shift, select, levels = np.array([[0.0, 0.2]]), np.array([[1.0], [0.0]]), np.array([[0.0, 1.0]])
    return Bend(*(jnp.asarray(part) for part in (np.zeros(2), np.ones(2), select, one, shift, levels, *np.zeros((3, 2)))))


@pytest.mark.parametrize("kernel", [RWMH(), MALA(), Barker()], ids=lambda k: k.label)
def test_detailed_balance_in_the_maps_coordinates(kernel):
    bend = funnel_bend()
    inside = Known(lambda w: funnel(bend.forward(w)[0]) + bend.forward(w)[1], None, 2)
    assert detailed_balance_error(kernel, inside, np.array([[1.0, 0.0], [0.3, 0.8]])) < (1e-6 if isinstance(kernel, Barker) else 1e-8)


def departure(kernel, bend) -> float:
    """Started exactly in the funnel, through the engine: the smallest KS p-value over several functions, times their number."""
    rng = np.random.default_rng(3)
    starts, reference = funnel_draws(rng, 4000), funnel_draws(rng, 40_000)
    moved, _ = run_chains(FUNNEL, kernel, starts, Bent(bend, jnp.eye(2)), 30, seed=3, step=0.5)
    assert np.mean(np.any(moved != starts, axis=1)) > 0.9
    functions = [lambda x: x[:, 0], lambda x: x[:, 1], lambda x: x[:, 1] * np.exp(-x[:, 0]), lambda x: np.abs(x[:, 1])]
    return len(functions) * min(stats.ks_2samp(f(moved), f(reference)).pvalue for f in functions)


@pytest.mark.parametrize("kernel", [RWMH(), MALA(), Barker(), HMC()], ids=lambda k: k.label)
def test_chains_under_a_map_stay_in_the_target(kernel):
    assert departure(kernel, funnel_bend()) > 0.01 / 4


class Unaccounted(NamedTuple):
    """A map that forgets its volume."""

    bend: Bend

    def __getattr__(self, name):
        return getattr(self.bend, name)

    def there_and_back(self, w):
        x = lambda w: self.bend.forward(w)[0]  # noqa: E731
        return x(w), 0.0 * jnp.sum(w), lambda gradient: jax.vjp(x, w)[1](gradient)[0]

    def on_host(self):
        return self

    def enter(self, x, gradient):
        w, _, _ = self.bend.on_host().enter(x, gradient)
        return w, np.zeros(len(x)), np.asarray(jax.vmap(lambda w, g: self.there_and_back(w)[2](g))(jnp.asarray(w), gradient))

    def leave(self, w, slope):
        return self.bend.on_host().forward(w)[0], np.zeros(len(w)), slope  # gradients are not looked at


@pytest.mark.parametrize("kernel", [MALA(), Barker()], ids=lambda k: k.label)
def test_a_map_that_forgets_its_volume_leaves_the_target(kernel):
    assert departure(kernel, Unaccounted(funnel_bend())) < 1e-8
