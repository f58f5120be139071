"""Coordinates in which the narrow parts of a target are as wide as the rest: a sparse triangular map.

In a funnel one parameter (a scale, say) drives how wide others are, and no common step suits both its neck and its mouth.
With x = m + s·u, a few drivers among the u, and v_i = c · tanh(Σ_k A_ki u_k / c), k over the drivers of i, which come at lower levels,

    u_i = w_i · exp(a_i) + (e^{−2v_i} (Σ_k B_ki u_k + b_i) + h_i) / p_i,    exp(−2a_i) = p_i = (1 − ρ_i) e^{−2v_i} + ρ_i.

Chains that walk in w take steps as long as the neck is wide there. Where ρ = b = h = 0, a = v and the shift is Σ B u. Otherwise the
precision p adds what the drivers say and, a share ρ in the middle, what the data say: deep in the neck u_i leans on Σ B u + b and is as
narrow as e^v, in the mouth it is as the data have it. That is partial pooling, as every hierarchical model has it. Any fixed map
leaves the target invariant. How A and B are learnt is in `straighten`, how ρ, b and h are in `pooling`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .kernel import namespace

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

    def forward(self, w) -> tuple[Any, Any]:
        """x and log |dx/dw| (up to a constant); of one w in JAX, or of many rows in NumPy."""
        return self.there_and_back(w)[:2]

    def there_and_back(self, w) -> tuple[Any, Any, Callable]:
        """The same, and a function from the gradient of log π in x to that of log π(x(w)) + log |dx/dw| in w; written out."""
        xp, levels = namespace(w), self.levels
        w = xp.asarray(w, xp.result_type(w, self.centre))

        def outward(carried, level):
            known = self.of_drivers(carried[0] @ self.select)
            return xp.where(level > 0, w / xp.sqrt(known.precision) + known.place, carried[0]), known

        # What is known at the last level is known of all: none of that level drives another.
        u, known = level_by_level(xp, levels, outward, (w, Known(*[xp.ones_like(w)] * len(Known._fields))))
        back = lambda gradient: self.inward(known, w / xp.sqrt(known.precision), gradient)  # noqa: E731
        return self.centre + self.scale * u, self.stretched(known), back

    @property
    def bent(self):
        """Which coordinates have drivers."""
        return (self.levels > 0).any(axis=0)

    def stretched(self, known: "Known"):
        """log |dx/dw|, up to a constant."""
        xp = namespace(known.precision)
        return -0.5 * xp.where(self.bent, xp.log(known.precision), 0.0).sum(axis=-1)

    def inward(self, known: "Known", away, gradient):
        """The gradient in w, from that of log π in x, where coordinates are so far `away` from their places."""
        xp = namespace(gradient)
        # From above: what a coordinate's children say of it is known before its own turn.
        add = lambda slope, level: slope + self.said_of_drivers(known, away, slope, level > 0)  # noqa: E731
        slope = level_by_level(xp, self.levels[::-1], add, gradient * self.scale)
        return xp.where(self.bent, slope / xp.sqrt(known.precision), slope)

    def on_host(self) -> "OnHost":
        return OnHost(self)

    def unpadded(self) -> "Bend":
        """The same in NumPy, without drivers that nobody has: only compiled programs need few sizes."""
        bend = Bend(*(np.asarray(part) for part in self))
        used = bend.select.any(axis=0)
        return bend._replace(select=bend.select[:, used], stretch=bend.stretch[used], shift=bend.shift[used])

    def of_drivers(self, drivers) -> "Known":
        """Of all coordinates, given where their drivers are."""
        xp = namespace(drivers)
        bound = xp.tanh(drivers @ self.stretch / CAP)
        told, leans = xp.exp(-2 * CAP * bound), drivers @ self.shift + self.neck
        precision = (1 - self.known) * told + self.known
        return Known(bound, told, leans, precision, (told * leans + self.mouth) / precision)

    def said_of_drivers(self, known: "Known", away, slope, children):
        """What the slopes along some coordinates, so far from their places, add to those along their drivers: by the chain rule."""
        xp, (bound, told, leans, precision, place) = namespace(slope), known
        along_width = slope * away + 1  # also of the volume
        along_told = (slope * (leans - place * (1 - self.known)) - 0.5 * (1 - self.known) * along_width) / precision
        along_stretch = xp.where(children, -2 * told * (1 - bound**2) * along_told, 0.0)
        along_shift = xp.where(children, slope * told / precision, 0.0)
        return (along_stretch @ self.stretch.T + along_shift @ self.shift.T) @ self.select.T


class Known(NamedTuple):
    """Of coordinates whose drivers are known: tanh(Σ A u / c), e^−2v, what they lean on, p and their places."""

    bound: Any
    told: Any
    leans: Any
    precision: Any
    place: Any


def level_by_level(xp, levels, change: Callable, carried):
    """Those that nobody is at cost nothing. In JAX a loop, which is compiled once."""
    if xp is np:
        for level in levels:
            carried = change(carried, level) if level.any() else carried
        return carried
    levels = jnp.asarray(levels)

    def one(i, carried):
        return jax.lax.cond(jnp.any(levels[i] > 0), lambda: change(carried, levels[i]), lambda: carried)

    return jax.lax.fori_loop(0, len(levels), one, carried)


class OnHost:
    """The map in NumPy, and the way into its coordinates, of many rows: compiling them would take longer than they do."""

    def __init__(self, bend: Bend):
        self.bend = Bend(*(np.asarray(part, float) for part in bend)).unpadded()

    def forward(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x and log |dx/dw|."""
        return self.bend.forward(w)

    def enter(self, x: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, log |dx/dw| and the gradient of log π(x(w)) + log |dx/dw|."""
        u = (x - self.bend.centre) / self.bend.scale
        known = self.bend.of_drivers(u @ self.bend.select)
        away = u - known.place
        w = np.where(self.bend.bent, away * np.sqrt(known.precision), u)
        return w, self.bend.stretched(known), self.bend.inward(known, away, gradient)

    def leave(self, w: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, log |dx/dw| and the gradient in x, from that in w."""
        x, stretched = self.forward(w)
        u = (x - self.bend.centre) / self.bend.scale
        known = self.bend.of_drivers(u @ self.bend.select)
        slope = np.where(self.bend.bent, slope * np.sqrt(known.precision), slope)
        return x, stretched, (slope - self.bend.said_of_drivers(known, u - known.place, slope, self.bend.bent)) / self.bend.scale
