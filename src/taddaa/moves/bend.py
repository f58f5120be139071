"""Coordinates in which the narrow parts of a target are as wide as the rest: a sparse triangular map.

In a funnel one parameter (a scale, say) drives how wide others are, and no common step suits both its neck and its mouth.
With x = m + s·u, a few drivers among the u, and

    u_i = w_i · exp(a_i) + Σ_k B_ki u_k,    a_i = c · tanh(Σ_k A_ki u_k / c),    k over the drivers of i, which come at lower levels,

chains that walk in w take steps as long as the neck is wide there. Any fixed map leaves the target invariant. How A and B are learnt
is in `straighten`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

CAP = 4.0  # |a| at most: beyond what was seen of the drivers, widths go on no further


class Bend(NamedTuple):
    """The map's numbers. All are float arrays, so that one compiled program serves every map of the same size."""

    centre: Any  # (d,)
    scale: Any  # (d,)
    select: Any  # (d, K): columns of the identity, which pick the drivers
    stretch: Any  # (K, d): A
    shift: Any  # (K, d): B
    levels: Any  # (L, d): 1 for the coordinates at each level, the lowest first; those at none are as they are

    def forward(self, w):
        """x and log |dx/dw| (up to a constant), for one w."""
        u, stretched = w, jnp.zeros_like(w)
        for level in self.levels:
            drivers = u @ self.select
            a = _capped(drivers @ self.stretch)
            u = jnp.where(level > 0, w * jnp.exp(a) + drivers @ self.shift, u)
            stretched = jnp.where(level > 0, a, stretched)
        return self.centre + self.scale * u, jnp.sum(stretched)

    def inverse(self, x):
        """w, for one x: drivers are known there, so that no level waits for another."""
        u = (x - self.centre) / self.scale
        drivers = u @ self.select
        moved = (u - drivers @ self.shift) * jnp.exp(-_capped(drivers @ self.stretch))
        return jnp.where(jnp.sum(self.levels, axis=0) > 0, moved, u)

    def slope(self, w, gradient):
        """∇_w of log π(x(w)) + log |dx/dw|, from the gradient in x."""
        _, pull = jax.vjp(self.forward, w)
        return pull((gradient, jnp.ones((), gradient.dtype)))[0]

    def unslope(self, w, slope):
        """The gradient in x, from that in w."""
        own = self.slope(w, jnp.zeros_like(slope))
        _, pull = jax.vjp(self.inverse, self.forward(w)[0])
        return pull(slope - own)[0]


def _capped(a):
    return CAP * jnp.tanh(a / CAP)
