"""Two chains that move together: each by itself is a MALA chain, and once they have met they are one.

The normal numbers of their proposals are coupled (reflection-maximal: Bou-Rabee, Eberle and Zimmer 2020; Jacob, O'Leary and Atchadé
2020): as often as any coupling can, both propose the same point, and otherwise the second's is the mirror image of the first's. One
uniform number accepts or rejects both. Written for one pair in whitened coordinates, in which the preconditioner is the identity.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .kernel import MALA, Noise, Outcome, Point, metropolis


class Pair(NamedTuple):
    """Where two chains stand, and whether they have met."""

    first: Point
    second: Point
    met: Any


class PairNoise(NamedTuple):
    """The random numbers of one iteration of one pair; what is the second's own is used only while it walks by itself."""

    normal: Any  # (2, d)
    uniform: Any  # (): do both propose the same?
    scale: Any  # (): of the step in this iteration
    accept: Any  # (2,)


class PairOutcome(NamedTuple):
    """What happened to one pair in one iteration."""

    pair: Pair
    probability: Any  # (2,) of acceptance
    nonfinite: Any  # (2,)


def coupled_normals(apart, normal, uniform):
    """(whether both propose the same point, the second's normal numbers), if the first's are `normal`.

    `apart` is the first's mean less the second's, in units of the proposals' standard deviation. The second's numbers are standard
    normal too: e + apart with probability min(1, φ(e + apart)/φ(e)), which is the same point; else e mirrored along `apart`.
    """
    same = jnp.log(uniform) < 0.5 * (jnp.sum(normal**2) - jnp.sum((normal + apart) ** 2))
    along = apart / jnp.maximum(jnp.linalg.norm(apart), jnp.finfo(apart.dtype).tiny)
    mirrored = normal - 2 * jnp.sum(along * normal) * along
    return same, jnp.where(same, normal + apart, mirrored)


def move_together(pair: Pair, noise: PairNoise, step, alone, evaluate: Callable[[Any], Point]) -> PairOutcome:
    """One MALA iteration of both chains; where `alone`, each with random numbers of its own.

    `evaluate` takes both proposals (2, d) at once: two calls of libraries side by side in one program may wait for each other for ever.
    """
    step, alone = step * noise.scale, jnp.asarray(alone)
    root, normal = jnp.sqrt(step), noise.normal[0]
    mean_of = lambda point: point.position + 0.5 * step * point.slope  # noqa: E731
    mean, other_mean = mean_of(pair.first), mean_of(pair.second)
    same, other_normal = coupled_normals((mean - other_mean) / root, normal, noise.uniform)
    same, other_normal = same & ~alone, jnp.where(alone, noise.normal[1], other_normal)
    proposal = mean + root * normal
    other_proposal = jnp.where(same, proposal, other_mean + root * other_normal)  # to the last bit, so that chains can meet
    proposed = evaluate(jnp.stack([proposal, other_proposal]))
    other_accept = jnp.where(alone, noise.accept[1], noise.accept[0])
    first = _moved(pair.first, _part(proposed, 0), normal, noise.accept[0], step)
    second = _moved(pair.second, _part(proposed, 1), other_normal, other_accept, step)
    met = ~alone & (pair.met | jnp.all(first.point.position == second.point.position))
    # The same point evaluated twice may differ in its last digits.
    together = jax.tree.map(lambda one, other: jnp.where(met, one, other), first.point, second.point)
    both = lambda name: jnp.stack([getattr(first, name), getattr(second, name)])  # noqa: E731
    return PairOutcome(Pair(first.point, together, met), both("probability"), both("nonfinite"))


def _moved(point: Point, proposed: Point, normal, accept, step) -> Outcome:
    """MALA with the normal numbers that led to a proposal, whose density is known already."""
    noise = Noise(normal, jnp.zeros(0), accept)
    return metropolis(MALA(), point, noise, step, lambda here, z: proposed)


def _part(points: Point, which: int) -> Point:
    return jax.tree.map(lambda part: part[which], points)
