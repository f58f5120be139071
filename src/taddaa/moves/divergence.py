"""The Fisher divergence that a map is learnt by, of positions and gradients, once it is known who drives whom; with its slope, in NumPy."""

from typing import NamedTuple

import numpy as np

from ..formulas.minimise import minimise
from .bend import CAP
from .pooling import Shape

RIDGE, MOST_STEPS = 1e-3, 60
LEAST_STEP = 1e-6  # by which a step must lower the loss, whose standard error is a thousand times that or more
BLOCK_NUMBERS = 15_000  # in the arrays of a block of states
ALL = slice(None)


class Edges(NamedTuple):
    """Which driver (row) stretches and which shifts which coordinate (column), (d, d) each; the turn that peeled each off, or −1."""

    stretches: np.ndarray
    shifts: np.ndarray
    turn: np.ndarray


class Divergence:
    """The Fisher divergence as a function of one vector: the free entries of A and B, and of a linear stage c and log δ.

    Each state's ‖δ∇log π_w + (w − c)/δ‖²/d enters as log(1 + ·), because chains in a neck have huge gradients.
    """

    def __init__(self, u: np.ndarray, r: np.ndarray, edges: Edges):
        self.u, self.r = u, r
        self.drivers = np.flatnonzero((edges.stretches | edges.shifts).any(axis=1))
        self.at = u[:, self.drivers]
        self.stretches, self.shifts = edges.stretches[self.drivers], edges.shifts[self.drivers]
        self.turns = [edges.turn == turn for turn in range(edges.turn.max() + 1)]
        self.child = edges.turn >= 0
        self.free = int(self.stretches.sum()), int(self.shifts.sum())
        self.size = sum(self.free) + 2 * u.shape[1]
        # Arrays that stay in the processor's cache, and for which the C library does not ask the system for memory each time.
        count = max(1, BLOCK_NUMBERS // u.shape[1])
        self.blocks = [slice(first, first + count) for first in range(0, len(u), count)]

    def unpacked(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """A and B, c and log δ."""
        stretch, shift = np.zeros(self.stretches.shape), np.zeros(self.shifts.shape)
        (first, second), dim = self.free, self.u.shape[1]
        stretch[self.stretches], shift[self.shifts] = theta[:first], theta[first : first + second]
        return stretch, shift, theta[-2 * dim : -dim], theta[-dim:]

    def started(self, before: np.ndarray | None, edges: Edges, r: np.ndarray) -> np.ndarray:
        """From the last turn's minimum; the new A from the slopes of log g² on the drivers, since force falls as e^−a."""
        d = self.u.shape[1]
        size = np.log(r**2 + 1e-6 * np.mean(r**2, axis=0))
        size -= size.mean(axis=0)
        stretch, shift, linear = np.zeros((d, d)), np.zeros((d, d)), np.zeros(2 * d)
        if before is not None:
            old = Divergence(self.u, self.r, edges)
            stretch[old.drivers], shift[old.drivers] = old.unpacked(before)[:2]
            linear = before[sum(old.free) :]
        for i in np.flatnonzero(self.child & (edges.turn < 0)):
            mine = self.stretches[:, i]
            centred = self.at[:, mine] - self.at[:, mine].mean(axis=0)
            stretch[self.drivers[mine], i] = np.clip(-0.5 * np.linalg.lstsq(centred, size[:, i], rcond=None)[0], -1.5, 1.5)
        return np.concatenate([stretch[self.drivers][self.stretches], shift[self.drivers][self.shifts], linear])

    def _forward(self, stretch, shift, rows=ALL):
        """What the loss and its slope share: tanh, e^a, the shifted u, and the gradients after each turn's pull-back."""
        at = self.at[rows]
        bent = np.tanh(at @ stretch / CAP)
        grow = np.where(self.child, np.exp(CAP * bent), 1.0)
        shifted = self.u[rows] - at @ shift
        flat = 1 - bent**2
        pulled, steps = self.r[rows].copy(), []
        for turn in self.turns:
            mine = np.where(turn, pulled, 0.0)
            force = mine * shifted * flat + np.where(turn, flat, 0.0)
            pulled[:, self.drivers] += force @ stretch.T + mine @ shift.T
            steps.append((mine, force))
        return bent, grow, shifted, flat, pulled, steps

    def _residual(self, stretch, shift, centre, log_scale, rows=ALL):
        parts = self._forward(stretch, shift, rows)
        _, grow, shifted, _, pulled, _ = parts
        w, slope, delta = shifted / grow, pulled * grow, np.exp(np.clip(log_scale, -20, 20))
        return slope * delta, (w - centre) / delta, w, slope, delta, parts

    def losses(self, theta: np.ndarray) -> np.ndarray:
        push, spread = self._residual(*self.unpacked(theta))[:2]
        return np.log1p(np.mean((push + spread) ** 2, axis=1))

    def pulled_back(self, theta: np.ndarray) -> np.ndarray:
        """Gradients with respect to what is left, the children being held at their w."""
        return self._forward(*self.unpacked(theta)[:2])[4]

    def value_and_slope(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        parts = self.unpacked(theta)
        values, slopes = zip(*(self._sums(*parts, rows) for rows in self.blocks), strict=True)
        edges, count, out = theta[: sum(self.free)], len(self.u), np.sum(slopes, axis=0) / len(self.u)
        ridge = RIDGE / self.u.shape[1]
        out[: len(edges)] += 2 * ridge * edges
        return float(sum(values) / count + ridge * edges @ edges), out

    def _sums(self, stretch, shift, centre, log_scale, rows: slice) -> tuple[float, np.ndarray]:
        """Over these states: of their losses, and of the losses' slopes."""
        push, spread, w, slope, delta, (bent, grow, shifted, flat, _, steps) = self._residual(stretch, shift, centre, log_scale, rows)
        residual = push + spread
        mean = np.mean(residual**2, axis=1)
        d_residual = 2 / (residual.shape[1] * (1 + mean))[:, None] * residual
        d_log_scale, d_centre = np.sum(d_residual * (push - spread), axis=0), -np.sum(d_residual, axis=0) / delta
        d_slope, d_w = d_residual * delta, d_residual / delta
        d_pulled, d_a = d_slope * grow, np.where(self.child, d_slope * slope - d_w * w, 0.0)
        d_shifted, d_flat = d_w / grow, np.zeros_like(w)
        d_stretch, d_shift = np.zeros_like(stretch), np.zeros_like(shift)
        for turn, (mine, force) in zip(self.turns[::-1], steps[::-1], strict=True):
            pull = d_pulled[:, self.drivers]
            d_force, d_mine = pull @ stretch, pull @ shift
            d_stretch += pull.T @ force
            d_shift += pull.T @ mine
            d_pulled += np.where(turn, d_mine + d_force * shifted * flat, 0.0)
            d_shifted += d_force * mine * flat
            d_flat += np.where(turn, d_force * (mine * shifted + 1), 0.0)
        d_bent = (CAP * d_a - 2 * bent * d_flat) * flat / CAP
        d_stretch += self.at[rows].T @ d_bent
        d_shift -= self.at[rows].T @ d_shifted
        return float(np.sum(np.log1p(mean))), np.concatenate([d_stretch[self.stretches], d_shift[self.shifts], d_centre, d_log_scale])

    def minimise(self, theta: np.ndarray, linear_only: bool = False) -> np.ndarray:
        fixed = self.free[0] if linear_only else 0  # A

        def objective(moving):
            value, slope = self.value_and_slope(np.concatenate([theta[:fixed], moving]))
            return value, slope[fixed:]

        with np.errstate(over="ignore", invalid="ignore"):
            return np.concatenate([theta[:fixed], minimise(objective, theta[fixed:], MOST_STEPS, LEAST_STEP)])

    def shape(self, theta: np.ndarray) -> Shape:
        d = self.u.shape[1]
        stretch, shift = np.zeros((d, d)), np.zeros((d, d))
        stretch[self.drivers], shift[self.drivers] = self.unpacked(theta)[:2]
        return Shape(stretch, shift, tuple(self.turns), *np.zeros((3, d)))
