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
import numpy as np

CAP = 20.0  # |v| at most: far beyond what was seen of the drivers, widths go on no further


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
    gain: Any = np.zeros(())  # by which the map lowers the loss that it was learnt by, beside a straight one

    def forward(self, w):
        """x and log |dx/dw| (up to a constant), for one w."""

        def at_level(u, stretched, level):
            a, shift = self._conditional(u @ self.select)
            return jnp.where(level > 0, w * jnp.exp(a) + shift, u), jnp.where(level > 0, a, stretched)

        w = jnp.asarray(w, jnp.result_type(w, self.centre))
        u, stretched = self._level_by_level(at_level, w, jnp.zeros_like(w))
        return self.centre + self.scale * u, jnp.sum(stretched)

    def back(self, w, x, gradient):
        """The gradient of log π(x(w)) + log |dx/dw| in w from that of log π in x, for one w; written out, it compiles sooner."""

        def at_level(slope, level):
            return (slope + self.said_of_drivers(u, w, slope, level > 0, jnp),)

        u = (x - self.centre) / self.scale
        a, _ = self._conditional(u @ self.select)
        # From above: what a coordinate's children say of it is known before its own turn.
        (slope,) = self._replace(levels=self.levels[::-1])._level_by_level(at_level, gradient * self.scale)
        return jnp.where(jnp.any(self.levels > 0, axis=0), slope * jnp.exp(a), slope)

    def _level_by_level(self, change, *carried):
        """A loop, which is compiled once; levels that nobody is at cost nothing."""

        levels = jnp.asarray(self.levels)

        def one(i, carried):
            level = levels[i]
            return jax.lax.cond(jnp.any(level > 0), lambda: change(*carried, level), lambda: carried)

        return jax.lax.fori_loop(0, len(levels), one, carried)

    def on_host(self) -> "OnHost":
        return OnHost(self)

    def _conditional(self, drivers, xp=jnp):
        """Log widths and places of the coordinates, given their drivers."""
        told = xp.exp(-2 * CAP * xp.tanh(drivers @ self.stretch / CAP))
        precision = (1 - self.known) * told + self.known
        return -0.5 * xp.log(precision), (told * (drivers @ self.shift + self.neck) + self.mouth) / precision

    def said_of_drivers(self, u, w, slope, children, xp):
        """What the slopes along some coordinates add to those along their drivers, by the chain rule through widths a and places."""
        drivers = u @ self.select
        bound = xp.tanh(drivers @ self.stretch / CAP)
        told, leans = xp.exp(-2 * CAP * bound), drivers @ self.shift + self.neck
        precision = (1 - self.known) * told + self.known
        place = (told * leans + self.mouth) / precision
        along_width = slope * w / xp.sqrt(precision) + 1  # also of the volume
        along_told = (slope * (leans - place * (1 - self.known)) - 0.5 * (1 - self.known) * along_width) / precision
        along_stretch = xp.where(children, -2 * told * (1 - bound**2) * along_told, 0.0)
        along_shift = xp.where(children, slope * told / precision, 0.0)
        return (along_stretch @ self.stretch.T + along_shift @ self.shift.T) @ self.select.T


class OnHost:
    """The same map, and the way back, of many rows in NumPy with derivatives written out: compiling them would take longer than they do."""

    def __init__(self, bend: Bend):
        self.bend = Bend(*(np.asarray(part, float) for part in bend))
        self.levels = [level > 0 for level in self.bend.levels]
        self.bent = np.any(self.levels, axis=0)

    def forward(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x and log |dx/dw|."""
        bend, u, stretched = self.bend, w.copy(), np.zeros_like(w)
        for level in self.levels:
            a, shift = bend._conditional(u @ bend.select, np)
            u[:, level], stretched[:, level] = (w * np.exp(a) + shift)[:, level], a[:, level]
        return bend.centre + bend.scale * u, stretched.sum(axis=1)

    def enter(self, x: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, log |dx/dw| and the gradient of log π(x(w)) + log |dx/dw|."""
        u = (x - self.bend.centre) / self.bend.scale
        a, shift = self.bend._conditional(u @ self.bend.select, np)
        w = np.where(self.bent, (u - shift) * np.exp(-a), u)
        slope = gradient * self.bend.scale
        for level in reversed(self.levels):  # what a coordinate's children say of it is known before its own turn
            slope += self.bend.said_of_drivers(u, w, slope, level, np)
        return w, a @ self.bent, np.where(self.bent, slope * np.exp(a), slope)

    def leave(self, w: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, log |dx/dw| and the gradient in x, from that in w."""
        x, stretched = self.forward(w)
        u = (x - self.bend.centre) / self.bend.scale
        a, _ = self.bend._conditional(u @ self.bend.select, np)
        slope = np.where(self.bent, slope * np.exp(-a), slope)
        return x, stretched, (slope - self.bend.said_of_drivers(u, w, slope, self.bent, np)) / self.bend.scale
