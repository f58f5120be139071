"""Coordinates in which the narrow parts of a target are as wide as the rest: a sparse triangular map.

In a funnel one parameter (a scale, say) drives how wide others are, and no common step suits both its neck and its mouth.
With x = m + s·u, a few drivers among the u, and v_i = c · tanh(Σ_k A_ki u_k / c), k over the drivers of i, which come at lower levels,

    u_i = w_i · exp(a_i) + (e^{−2v_i} (Σ_k B_ki u_k + b_i) + h_i) / p_i,    exp(−2a_i) = p_i = (1 − ρ_i) e^{−2v_i} + ρ_i.

Chains that walk in w take steps as long as the neck is wide there. Where ρ = b = h = 0, a = v and the shift is Σ B u. Otherwise the
precision p adds what the drivers say and, a share ρ in the middle, what the data say: deep in the neck u_i leans on Σ B u + b and is as
narrow as e^v, in the mouth it is as the data have it. That is partial pooling, as every hierarchical model has it. Any fixed map
leaves the target invariant. How A and B are learnt is in `straighten`, how ρ, b and h are in `pooling`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

CAP = 12.0  # |v| at most: far beyond what was seen of the drivers, widths go on no further


class Bend(NamedTuple):
    """The map's numbers. All are float arrays, so that one compiled program serves every map of the same size."""

    centre: Any  # (d,)
    scale: Any  # (d,)
    select: Any  # (d, K): columns of the identity, which pick the drivers
    stretch: Any  # (K, d): A
    shift: Any  # (K, d): B
    levels: Any  # (L, d): 1 for the coordinates at each level, the lowest first; those at none are as they are
    known: Any  # (d,): ρ
    neck: Any  # (d,): b
    mouth: Any  # (d,): h

    def forward(self, w):
        """x and log |dx/dw| (up to a constant), for one w."""

        def at_level(u, stretched, level):
            a, shift = self._conditional(u @ self.select)
            return jnp.where(level > 0, w * jnp.exp(a) + shift, u), jnp.where(level > 0, a, stretched)

        w = jnp.asarray(w, jnp.result_type(w, self.centre))
        u, stretched = w, jnp.zeros_like(w)
        for level in self.levels:  # those that nobody is at cost nothing
            u, stretched = jax.lax.cond(jnp.any(level > 0), at_level, lambda *as_is: as_is[:2], u, stretched, level)
        return self.centre + self.scale * u, jnp.sum(stretched)

    def inverse(self, x):
        """w, for one x: drivers are known there, so that no level waits for another."""
        u = (x - self.centre) / self.scale
        a, shift = self._conditional(u @ self.select)
        return jnp.where(jnp.sum(self.levels, axis=0) > 0, (u - shift) * jnp.exp(-a), u)

    def _conditional(self, drivers):
        """Log widths and places of the coordinates, given their drivers."""
        told = jnp.exp(-2 * CAP * jnp.tanh(drivers @ self.stretch / CAP))
        precision = (1 - self.known) * told + self.known
        return -0.5 * jnp.log(precision), (told * (drivers @ self.shift + self.neck) + self.mouth) / precision

    def slope(self, w, gradient):
        """∇_w of log π(x(w)) + log |dx/dw|, from the gradient in x."""
        _, pull = jax.vjp(self.forward, w)
        return pull((gradient, jnp.ones((), gradient.dtype)))[0]

    def unslope(self, w, slope):
        """The gradient in x, from that in w."""
        own = self.slope(w, jnp.zeros_like(slope))
        _, pull = jax.vjp(self.inverse, self.forward(w)[0])
        return pull(slope - own)[0]
