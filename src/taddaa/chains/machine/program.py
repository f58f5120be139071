"""What is compiled: log densities with their gradients, a block of iterations of chains, and the user's functions.

Programs know nothing of threads and rounds. Their arguments are arrays with one row a chain, some of which may be no chains
but fill the last device or group: these are members of no group, and so are in no sum.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...moves.adapt import adapt_step
from ...moves.kernel import Kernel, Noise, Point, metropolis
from ...moves.metric import Metric, gradient_at, place_of
from ...problem.constants import with_own_constants
from ...problem.target import Target, call_with_data, flat_values
from .placement import Placement


class Chains(NamedTuple):
    """All that is carried from one iteration to the next."""

    point: Point  # batched: (N, d), (N,), (N, d), (N, d)
    log_step: Any  # (N,) the same within a group
    clock: Any  # iterations since the metric last changed
    accepted: Any  # (N,) moves in the latest round
    nonfinite: Any  # (N,) non-finite proposals, ever


class Anchor(NamedTuple):
    """The starts' centre, and the standardised starts, whose product with the states gives their correlation."""

    centre: Any
    starts: Any


class Told(NamedTuple):
    """What a program tells of each iteration: sums over its chains."""

    probability: Any  # (T,) of acceptance, of chains inside the support
    inside: Any  # (T,) how many these are
    log_step: Any  # (T,)
    moments: Any  # (T, 3, d), for ρ²

    @staticmethod
    def read(rows: np.ndarray) -> "Told":
        """From one row an iteration: a program with one array to fill is compiled sooner."""
        probability, inside, log_step = rows[:, :3].T
        return Told(probability, inside, log_step, rows[:, 3:].reshape(len(rows), 3, -1))


class Programs(NamedTuple):
    evaluate: Any  # compiled functions
    advance: Any


def density_of(target: Target) -> Callable:
    """The log density (x, data), in the precision of x. JAX keeps trace and derivatives of what is jitted, for all programs of a target."""

    return target.compiled("density", lambda: _density(target.logdensity, target.data is not None))


def _density(logdensity: Callable, has_data: bool) -> Callable:
    """It must not know the target, which keeps it: data would live as long as both."""
    own = with_own_constants(logdensity)

    @partial(jax.jit, inline=True)
    def density(x, data):
        return jnp.asarray(own(x, data) if has_data else own(x), x.dtype)

    return density


def programs_of(target: Target, kernel: Kernel, place: Placement) -> Programs:
    """The compiled programs of a target and a kernel. The target keeps them: its second diagnosis compiles nothing."""
    density = density_of(target)

    @jax.jit
    def evaluate(draws, data):
        return jax.vmap(lambda x: jax.value_and_grad(density)(x, data))(draws)

    @jax.jit
    def advance(chains: Chains, length, noise: Noise, metric: Metric, anchor: Anchor, membership, data, arrived):
        dtype, moves = chains.log_step.dtype, kernel.told(arrived, chains.point.position.shape[1])
        is_chain = jnp.sum(membership, axis=0)  # other rows stay finite too, and count 0 times
        summed = partial(jnp.dot, precision="highest")  # accelerators would round the factors of a product

        def evaluate_one(w) -> Point:
            x, stretched = place_of(metric, w)
            if not kernel.uses_gradient:
                return Point(w, density(x, data) + stretched, jnp.zeros_like(w), jnp.zeros_like(w))
            value, gradient = jax.value_and_grad(density)(x, data)
            gradient = gradient_at(metric, w, x, gradient)
            return Point(w, value + stretched, gradient, metric.pull(gradient))

        def iterate(i, carried):
            chains, told = carried
            now = jax.tree.map(lambda block: block[i], noise)
            push = lambda z: metric.push(z.astype(dtype))  # noqa: E731
            one = lambda point, noise, step: metropolis(moves, point, noise, step, push, evaluate_one)  # noqa: E731
            outcome = jax.vmap(one)(chains.point, now, jnp.exp(chains.log_step))
            # Chains that started outside the support and have not found it yet say nothing about the step; a group of only such
            # chains keeps the one it has.
            is_inside = jnp.isfinite(chains.point.logdensity).astype(dtype)
            probability, inside = summed(membership, is_inside * outcome.probability), summed(membership, is_inside)
            acceptance = jnp.where(inside > 0, probability / jnp.maximum(inside, 1), moves.target_acceptance)
            moved = Chains(
                outcome.point,
                adapt_step(chains.log_step, summed(acceptance, membership), chains.clock, moves.target_acceptance),
                chains.clock + 1,
                chains.accepted + outcome.accepted,
                chains.nonfinite + outcome.nonfinite,
            )
            position = jax.vmap(lambda w: place_of(metric, w)[0])(moved.point.position)
            shifted = position - anchor.centre  # near zero, so that the sums lose no digits that matter
            each = is_chain[:, None] * shifted, is_chain[:, None] * shifted**2, anchor.starts * shifted
            few = jnp.sum(probability), jnp.sum(inside), summed(is_chain, chains.log_step)
            latest = jnp.concatenate([jnp.stack(few), *(jnp.sum(part, axis=0) for part in each)])
            return moved, told.at[i].set(latest)

        room, dim = noise.accept.shape[0], chains.point.position.shape[1]
        chains, told = jax.lax.fori_loop(0, length, iterate, (chains, place.whole(jnp.zeros((room, 3 + 3 * dim), dtype))))
        return chains, place.whole(told)

    return Programs(evaluate, advance)


def observer(target: Target, functions: tuple[Callable, ...]) -> Callable:
    seen = with_own_constants(partial(quantities, target, functions))

    @jax.jit
    def observe(draws, data):
        return jax.vmap(lambda x: seen(x, data))(draws)

    return observe


def quantities(target: Target, functions: tuple[Callable, ...], x, data):
    """The user's parameters, and then the values of functions of them, at one point."""
    parameters = target.parameters(x, data)
    values = [jnp.ravel(jnp.asarray(call_with_data(function, parameters, data))) for function in functions]
    return jnp.concatenate([flat_values(parameters), *values])


@jax.jit
def slopes_under(metric: Metric, gradients):
    """Whitened gradients, one row a chain."""
    return jax.vmap(metric.pull)(gradients)
