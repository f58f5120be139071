"""What is compiled: log densities with their gradients, a block of iterations of chains, and the user's functions.

A block of iterations is a compiled loop, or on a CPU, where chains and dimensions are few, steps on the host between compiled
evaluations: compiling the loop takes longer than a short run does. Both make the same iteration.

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
from ...moves.kernel import Kernel, Noise, Outcome, Point, metropolis, namespace
from ...moves.metric import Bent, Metric, place_of
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
    evaluate: Any  # a compiled function
    advance: Any  # another, or one that steps on the host


def evaluator_of(target: Target) -> Callable:
    """Log densities and gradients at the rows of an array."""
    density = target.density

    @jax.jit
    def evaluate(draws, data):
        return jax.vmap(lambda x: jax.value_and_grad(density)(x, data))(draws)

    return evaluate


def programs_of(target: Target, kernel: Kernel, place: Placement) -> Programs:
    """The compiled programs of a target and a kernel. The target keeps them: its second diagnosis compiles nothing."""
    density = target.density

    @jax.jit
    def advance(chains: Chains, length, noise: Noise, metric: Metric, anchor: Anchor, membership, data):
        dtype = chains.log_step.dtype

        def moved(here: Point, z) -> Point:
            w = here.position + metric.push(z.astype(dtype))
            if kernel.uses_gradient:
                return evaluated(lambda x: jax.value_and_grad(density)(x, data), metric, w)
            x, stretched, _ = place_of(metric, w)
            return Point(w, density(x, data) + stretched, jnp.zeros_like(w), jnp.zeros_like(w))

        def iterate(i, carried):
            chains, told = carried
            now = jax.tree.map(lambda block: block[i], noise)
            one = lambda point, noise, step: metropolis(kernel, point, noise, step, moved)  # noqa: E731
            outcome = jax.vmap(one)(chains.point, now, jnp.exp(chains.log_step))
            position = jax.vmap(lambda w: place_of(metric, w)[0])(outcome.point.position)
            chains, latest = _onward(kernel, chains, outcome, position, anchor, membership)
            return chains, told.at[i].set(latest)

        room, dim = noise.accept.shape[0], chains.point.position.shape[1]
        chains, told = jax.lax.fori_loop(0, length, iterate, (chains, place.whole(jnp.zeros((room, 3 + 3 * dim), dtype))))
        return chains, place.whole(told)

    return Programs(target.compiled("evaluate", lambda: evaluator_of(target)), advance)


def stepwise_programs_of(target: Target, kernel: Kernel) -> Programs:
    """The same with steps on the host: only log densities with their gradients are compiled, whatever kernel and metric are."""
    evaluate = target.compiled("evaluate", lambda: evaluator_of(target))

    def advance(chains: Chains, length, noise: Noise, metric: Metric, anchor: Anchor, membership, data):
        chains, metric, anchor = jax.tree.map(np.asarray, (chains, metric, anchor))
        dtype, told = chains.log_step.dtype, []
        metric = metric._replace(bend=metric.bend.on_host(dtype)) if isinstance(metric, Bent) else metric

        def moved(here: Point, z) -> Point:
            w = here.position + metric.push(z.astype(dtype))
            return evaluated(lambda x: map(np.asarray, evaluate(x, data)), metric, w)

        with np.errstate(all="ignore"):  # what is not finite is rejected
            for i in range(length):
                now = Noise(*(block[i] for block in noise))
                outcome = metropolis(kernel, chains.point, now, np.exp(chains.log_step), moved)
                position = place_of(metric, outcome.point.position)[0]
                chains, latest = _onward(kernel, chains, outcome, position, anchor, membership)
                told.append(latest)
        return chains, np.array(told)

    return Programs(evaluate, advance)


def evaluated(value_and_gradient: Callable, metric: Metric, w) -> Point:
    """One chain, or in NumPy many, at w in coordinates of its own."""
    x, stretched, back = place_of(metric, w)
    value, gradient = value_and_gradient(x)
    gradient = back(gradient)
    return Point(w, value + stretched, gradient, metric.pull(gradient))


def _onward(kernel: Kernel, chains: Chains, outcome: Outcome, position, anchor: Anchor, membership) -> tuple[Chains, Any]:
    """The chains after an iteration, at these places in the user's flat space, with steps adapted; and a row of `Told`."""
    xp, dtype = namespace(chains.log_step), chains.log_step.dtype
    is_chain = membership.sum(axis=0)  # other rows stay finite too, and count 0 times
    summed = partial(jnp.dot, precision="highest") if xp is jnp else np.dot  # accelerators would round the factors of a product
    # Chains that started outside the support and have not found it yet say nothing about the step; a group of only such
    # chains keeps the one it has.
    is_inside = xp.isfinite(chains.point.logdensity).astype(dtype)
    probability, inside = summed(membership, is_inside * outcome.probability), summed(membership, is_inside)
    acceptance = xp.where(inside > 0, probability / xp.maximum(inside, 1), kernel.target_acceptance)
    moved = Chains(
        outcome.point,
        adapt_step(chains.log_step, summed(acceptance, membership), chains.clock, kernel),
        chains.clock + 1,
        chains.accepted + outcome.accepted,
        chains.nonfinite + outcome.nonfinite,
    )
    shifted = position - anchor.centre  # near zero, so that the sums lose no digits that matter
    each = is_chain[:, None] * shifted, is_chain[:, None] * shifted**2, anchor.starts * shifted
    few = probability.sum(), inside.sum(), summed(is_chain, chains.log_step)
    return moved, xp.concatenate([xp.stack(few), *(part.sum(axis=0) for part in each)])


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
