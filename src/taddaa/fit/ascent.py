"""Stochastic ascent of the ELBO, all restarts side by side, with a rule for when to stop.

Adam (optax) climbs at a learning rate until the ELBO rises no more, and the iterates are averaged; then again at a smaller rate
and for longer. The fit has converged when two successive averages agree: the idea of Welandawe et al. (2022), "Robust,
automated, and accurate black-box variational inference". Gradients leave out the score of q ("sticking the landing", Roeder et
al. 2017), so that their noise vanishes where q can equal the target.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import require
from .family import Family, distance

BLOCK = 100  # steps of one compiled program
FIRST_RATE, SHRINK = 0.1, 0.4  # of the learning rate: the first, and from one phase to the next
LEAST_GAIN = 1e-3  # a rise of the ELBO, in nats over a window, that is none
FINAL_DRAWS = 1000  # of the final ELBO


class FitProgress(NamedTuple):
    """What a fit's progress callback is told: the steps taken, the most there may be, and the best restart's ELBO."""

    stage: str
    step: int
    most: int
    elbo: float


class Ascent(NamedTuple):
    """Where the restarts came: averaged parameters (R, …), ELBOs of every step (R, T), and how it ended."""

    parameters: Any
    trace: np.ndarray
    elbo: np.ndarray
    change: np.ndarray  # (R,) between the last two averages
    converged: np.ndarray
    bad: int  # draws without a finite log density and gradient


class _Block(NamedTuple):
    average: Any
    elbo: np.ndarray  # (R, BLOCK)


def ascend(
    family: Family,
    density: Callable,
    data: Any,
    starts: Any,
    seed: int,
    draws: int,
    most: int,
    tolerance: float,
    progress: Callable[[FitProgress], None] | None,
) -> Ascent:
    """Climb from batched parameters `starts` until every restart has converged, or for `most` steps."""
    program = _program(family, density, draws)
    parameters, memory = starts, program.begin(starts)
    restarts = len(jax.tree.leaves(starts)[0])
    key, before, phase, bad = jax.random.key(seed), None, 0, 0
    trace: list[np.ndarray] = []
    change = np.full(restarts, np.inf)
    while True:
        rate, window = FIRST_RATE * SHRINK**phase, 2**phase
        blocks: list[_Block] = []
        while not _steady(blocks, window) and len(trace) * BLOCK < most:
            key, now = jax.random.split(key)
            parameters, memory, average, elbo, wrong = program.run(parameters, memory, jax.random.split(now, restarts), rate, data)
            blocks.append(_Block(jax.tree.map(np.asarray, average), np.asarray(elbo)))
            trace.append(blocks[-1].elbo)
            bad += int(np.sum(wrong))
            if progress is not None:
                progress(FitProgress(f"learning rate {rate:.2g}", len(trace) * BLOCK, most, float(np.max(blocks[-1].elbo.mean(axis=1)))))
        after = before if not blocks else jax.tree.map(lambda *parts: np.mean(parts, axis=0), *(b.average for b in blocks[-window:]))
        if before is not None and blocks:
            change = distance(family.features(before), family.features(after))
        before, phase = after, phase + 1
        if np.all(change < tolerance) or len(trace) * BLOCK >= most:
            break
        parameters = jax.tree.map(jnp.asarray, after)
    elbo = np.asarray(program.elbo(jax.tree.map(jnp.asarray, after), jax.random.split(jax.random.key(seed + 1), restarts), data))
    return Ascent(after, np.concatenate(trace, axis=1), elbo, change, (change < tolerance) & np.isfinite(elbo), bad)


def _steady(blocks: list[_Block], window: int) -> bool:
    """Whether, for every restart, the last `window` blocks have an ELBO no higher than the `window` before, given their noise."""
    if len(blocks) < 2 * window:
        return False
    late, early = (np.concatenate([b.elbo for b in part], axis=1) for part in (blocks[-window:], blocks[-2 * window : -window]))
    error = np.sqrt((late.var(axis=1) + early.var(axis=1)) / late.shape[1])
    return bool(np.all(late.mean(axis=1) - early.mean(axis=1) < np.maximum(2 * error, LEAST_GAIN)))


class _Program(NamedTuple):
    begin: Callable
    run: Callable
    elbo: Callable


@lru_cache(maxsize=32)
def _program(family: Family, density: Callable, draws: int) -> _Program:
    adam = require("optax", "fit").scale_by_adam(b2=0.99)  # forgets the steep beginning within a hundred steps

    def gradient(parameters, noise, data):
        """The ELBO's estimate and its gradient in the family's own units; draws without a finite value are left out."""
        still = jax.lax.stop_gradient(parameters)
        value, slope = jax.vmap(lambda x: jax.value_and_grad(density)(x, data))(family.draw(parameters, noise))
        good = jnp.isfinite(value) & jnp.all(jnp.isfinite(slope), axis=-1)
        value, slope = jnp.where(good, value, 0.0), jnp.where(good[:, None], slope, 0.0)
        count = jnp.maximum(jnp.sum(good), 1)

        def surrogate(step):
            x = family.draw(family.move(parameters, step), noise)
            return jnp.sum(good * (jnp.sum(slope * x, axis=-1) - family.logdensity(still, x))) / count

        elbo = jnp.sum(good * (value - family.logdensity(still, family.draw(still, noise)))) / count
        found = jax.grad(surrogate)(jax.tree.map(jnp.zeros_like, parameters))
        return elbo, jax.tree.map(lambda part: jnp.where(jnp.isfinite(part), part, 0.0), found), jnp.sum(~good)

    def run(parameters, memory, key, rate, data):
        dim = parameters[0].shape[-1]

        def step(carried, key):
            parameters, memory, total, bad = carried
            elbo, slope, wrong = gradient(parameters, family.noise(key, draws, dim), data)
            update, memory = adam.update(slope, memory)
            parameters = family.move(parameters, jax.tree.map(lambda part, share: rate * share * part, update, family.rates(parameters)))
            return (parameters, memory, jax.tree.map(jnp.add, total, parameters), bad + wrong), elbo

        empty = jax.tree.map(jnp.zeros_like, parameters)
        (parameters, memory, total, bad), elbo = jax.lax.scan(step, (parameters, memory, empty, 0), jax.random.split(key, BLOCK))
        return parameters, memory, jax.tree.map(lambda part: part / BLOCK, total), elbo, bad

    def elbo(parameters, key, data):
        x = family.draw(parameters, family.noise(key, FINAL_DRAWS, parameters[0].shape[-1]))
        value = jax.lax.map(lambda each: density(each, data), x, batch_size=min(FINAL_DRAWS, 100))
        return jnp.mean(jnp.where(jnp.isnan(value), -jnp.inf, value) - family.logdensity(parameters, x))

    return _Program(
        jax.vmap(adam.init), jax.jit(jax.vmap(run, in_axes=(0, 0, 0, None, None))), jax.jit(jax.vmap(elbo, in_axes=(0, 0, None)))
    )
