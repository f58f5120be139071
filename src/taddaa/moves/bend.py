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
        """x and log |dx/dw| (up to a constant), of one w, in JAX."""
        return self.there_and_back(w)[:2]

    def there_and_back(self, w) -> tuple[Any, Any, Callable]:
        """The same, and a function from the gradient of log π in x to that of log π(x(w)) + log |dx/dw| in w; written out.

        Loops over levels are compiled once, and levels that nobody is at cost nothing. `OnHost` does the same of many w.
        """
        levels, w = jnp.asarray(self.levels), jnp.asarray(w, jnp.result_type(w, self.centre))

        def at_each(order, change, carried):
            one = lambda level, carried: jax.lax.cond(jnp.any(level > 0), lambda: change(carried, level), lambda: carried)  # noqa: E731
            return jax.lax.fori_loop(0, len(levels), lambda i, carried: one(levels[order(i)], carried), carried)

        def outward(carried, level):
            known = self.of_drivers(carried[0] @ self.select)
            return jnp.where(level > 0, w / known.root + known.place, carried[0]), known

        # What is known at the last level is known of all: none of that level drives another.
        u, known = at_each(lambda i: i, outward, (w, Known(*[jnp.ones_like(w)] * len(Known._fields))))
        bent = (levels > 0).any(axis=0)

        def inward(slope, level):
            at_level = self._replace(stretch=jnp.where(level > 0, self.stretch, 0.0), shift=jnp.where(level > 0, self.shift, 0.0))
            return slope + at_level.said_of_drivers(known, w / known.root, slope) @ self.select.T

        def back(gradient):
            # From above: what a coordinate's children say of it is known before its own turn.
            slope = at_each(lambda i: len(levels) - 1 - i, inward, gradient * self.scale)
            return jnp.where(bent, slope / known.root, slope)

        return self.centre + self.scale * u, -jnp.where(bent, jnp.log(known.root), 0.0).sum(axis=-1), back

    def on_host(self, dtype: Any = float) -> "OnHost":
        return OnHost(self, dtype)

    def of_drivers(self, drivers) -> "Known":
        """Of all coordinates, given where their drivers are."""
        xp = namespace(drivers)
        bound = xp.tanh(drivers @ self.stretch / CAP)
        told, leans = xp.exp(-2 * CAP * bound), drivers @ self.shift + self.neck
        precision = (1 - self.known) * told + self.known
        return Known(bound, told, leans, precision, xp.sqrt(precision), (told * leans + self.mouth) / precision)

    def said_of_drivers(self, known: "Known", away, slope):
        """What the slopes along coordinates, so far from their places, add to those along their drivers: by the chain rule."""
        along_width = slope * away + 1  # also of the volume
        along_told = (slope * (known.leans - known.place * (1 - self.known)) - 0.5 * (1 - self.known) * along_width) / known.precision
        along_stretch = -2 * known.told * (1 - known.bound**2) * along_told
        return along_stretch @ self.stretch.T + (slope * known.told / known.precision) @ self.shift.T


class Known(NamedTuple):
    """Of coordinates whose drivers are known: tanh(Σ A u / c), e^−2v, what they lean on, p and its root, and their places."""

    bound: Any
    told: Any
    leans: Any
    precision: Any
    root: Any
    place: Any


class OnHost:
    """The map in NumPy, of many rows at once: compiling it would take longer than it does. Each level's coordinates by themselves."""

    def __init__(self, bend: Bend, dtype: Any = float):
        bend = Bend(*(np.asarray(part, dtype) for part in bend))
        used = bend.select.any(axis=0)  # drivers that nobody has are there for compiled programs, which want few sizes
        self.bend = bend._replace(select=bend.select[:, used], stretch=bend.stretch[used], shift=bend.shift[used])
        self.drivers = self.bend.select.argmax(axis=0)
        self.levels = [(columns, self._alone(columns)) for columns in map(_columns, bend.levels > 0) if columns is not None]

    def _alone(self, columns) -> Bend:
        """What is known of some coordinates."""
        names = ("stretch", "shift", "known", "neck", "mouth")
        return self.bend._replace(**{name: np.ascontiguousarray(getattr(self.bend, name)[..., columns]) for name in names})

    def forward(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x and log |dx/dw|."""
        return self.there_and_back(w)[:2]

    def there_and_back(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, Callable]:
        """The same, and the function from gradients in x to those in w."""
        u, seen = np.array(w, self.bend.centre.dtype), []
        for columns, part in self.levels:
            known = part.of_drivers(u[:, self.drivers])
            away = u[:, columns] / known.root
            u[:, columns] = away + known.place
            seen.append((known, away))
        return self.bend.centre + self.bend.scale * u, _stretched(seen, u), lambda gradient: self._inward(seen, gradient)

    def _inward(self, seen: "list[tuple[Known, np.ndarray]]", gradient: np.ndarray) -> np.ndarray:
        """From above: what a coordinate's children say of it is known before its own turn."""
        slope = gradient * self.bend.scale
        for (columns, part), (known, away) in zip(reversed(self.levels), reversed(seen), strict=True):
            mine = slope[:, columns]
            slope[:, self.drivers] += part.said_of_drivers(known, away, mine)
            slope[:, columns] = mine / known.root
        return slope

    def enter(self, x: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, log |dx/dw| and the gradient of log π(x(w)) + log |dx/dw|."""
        w, seen = self._seen_from(x)
        for (columns, _), (known, away) in zip(self.levels, seen, strict=True):
            w[:, columns] = away * known.root
        return w, _stretched(seen, w), self._inward(seen, gradient)

    def leave(self, w: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, log |dx/dw| and the gradient in x, from that in w."""
        x, stretched = self.forward(w)
        slope, said = np.array(slope, float), 0.0
        seen = list(zip(self.levels, self._seen_from(x)[1], strict=True))
        for (columns, _), (known, _) in seen:
            slope[:, columns] *= known.root
        for (columns, part), (known, away) in seen:
            said = said + part.said_of_drivers(known, away, slope[:, columns])
        slope[:, self.drivers] -= said
        return x, stretched, slope / self.bend.scale

    def _seen_from(self, x: np.ndarray) -> "tuple[np.ndarray, list[tuple[Known, np.ndarray]]]":
        """u, and of each level what its drivers tell and how far its coordinates are from their places."""
        u = (x - self.bend.centre) / self.bend.scale
        known = [part.of_drivers(u[:, self.drivers]) for _, part in self.levels]
        return u, [(each, u[:, columns] - each.place) for (columns, _), each in zip(self.levels, known, strict=True)]


def _columns(chosen: np.ndarray) -> "slice | np.ndarray | None":
    """Of a mask; neighbours as a slice, which copies nothing."""
    places = np.flatnonzero(chosen)
    if not places.size:
        return None
    return slice(places[0], places[-1] + 1) if len(places) == places[-1] + 1 - places[0] else places


def _stretched(seen: "list[tuple[Known, np.ndarray]]", rows: np.ndarray) -> np.ndarray:
    """log |dx/dw|, up to a constant."""
    return -sum((np.log(known.root).sum(axis=1) for known, _ in seen), np.zeros(len(rows), rows.dtype))
