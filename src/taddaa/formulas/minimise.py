"""Minima of smooth functions: L-BFGS in many dimensions, parabolas in one.

SciPy has both, but its `optimize` takes longer to import (0.1 s) than a map takes to learn; the tests compare with it.
"""

from collections.abc import Callable

import numpy as np

HISTORY = 10  # pairs that L-BFGS remembers
FLAT = 1e-5  # the largest slope at a minimum
DOWN, LEVEL = 1e-3, 0.9  # Wolfe's conditions: what the slope promises is kept in part, and what is left of it is less
MOST_TRIED = 20  # lengths of a step
GOLDEN = (3 - 5**0.5) / 2

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


def minimise(objective: Objective, start: np.ndarray, steps: int, least: float = 2e-9) -> np.ndarray:
    """Near a local minimum of a function that gives its value and slope (Nocedal and Wright 2006, 7.4).

    After so many steps at most, or one that gains less than the `least`, as a part of the value (or of one).
    """
    x, (value, slope) = start, objective(start)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(steps):
        if not np.max(np.abs(slope), initial=0.0) > FLAT:
            break
        way = _newtons(slope, pairs)
        found = _stepped(objective, x, value, slope, way, 1.0 if pairs else min(1.0, 1 / float(np.linalg.norm(way))))
        if found is None:
            if not pairs:
                break
            pairs = []  # what was learnt misleads
            continue
        moved, turned = found[0] - x, found[2] - slope
        gain, (x, value, slope) = value - found[1], found
        if moved @ turned > np.finfo(float).eps * (turned @ turned):
            pairs = [*pairs, (moved, turned)][-HISTORY:]
        if gain <= least * max(abs(value), 1.0):
            break
    return x


def _newtons(slope: np.ndarray, pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Newton's step, with the inverse curvature that the pairs of steps and changes of slope tell; steepest descent without any."""
    way, taken = -slope, []
    for moved, turned in reversed(pairs):
        taken.append((moved @ way) / (moved @ turned))
        way = way - taken[-1] * turned
    if pairs:
        moved, turned = pairs[-1]
        way = way * ((moved @ turned) / (turned @ turned))
    for (moved, turned), before in zip(pairs, reversed(taken), strict=True):
        way = way + (before - (turned @ way) / (moved @ turned)) * moved
    return way


def _stepped(
    objective: Objective, x: np.ndarray, value: float, slope: np.ndarray, way: np.ndarray, length: float
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """A point on the way at which Wolfe's conditions hold, or at least the first, with its value and slope; None where none is found."""
    promised = float(slope @ way)
    if not promised < 0:
        return None
    low, high, beyond = (0.0, value, promised), np.inf, None
    lowest = None  # a point that keeps the promise, but is still steep
    for _ in range(MOST_TRIED):
        there = x + length * way
        new_value, new_slope = objective(there)
        along = float(new_slope @ way)
        if not (np.isfinite(new_value) and np.isfinite(along)):
            high, beyond = length, None
        elif new_value > value + DOWN * length * promised or new_value >= low[1]:
            high, beyond = length, (length, new_value, along)
        elif along < LEVEL * promised:
            low, lowest = (length, new_value, along), (there, float(new_value), new_slope)
        else:
            return there, float(new_value), new_slope
        if np.isinf(high):
            length *= 4
            continue
        inside = (low[0] + high) / 2 if beyond is None else _cubic(low, beyond)
        margin = 0.1 * (high - low[0])
        length = float(np.clip(inside, low[0] + margin, high - margin))
        if not low[0] < length < high:  # no number is left between them
            break
    return lowest


def _cubic(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    """Where the cubic through two values with their slopes is least; their middle where it has no minimum."""
    (p, f, f_slope), (q, g, g_slope) = a, b
    mean = f_slope + g_slope - 3 * (g - f) / (q - p)
    root = mean * mean - f_slope * g_slope
    if not root >= 0:
        return (p + q) / 2
    root = np.sqrt(root)
    under = g_slope - f_slope + 2 * root
    return q - (q - p) * (g_slope + root - mean) / under if under > 0 else (p + q) / 2


def least_within(function: Callable[[float], float], points: list[tuple[float, float]], close: float, most: int) -> tuple[float, float]:
    """Where a function is least and its value there, to within `close` or with so many more values, from three with their values.

    The three are in order, and the one in the middle is lowest. Each new one is where the parabola through them is least, or one that
    shortens the longer side where that is too near to tell anything, or where parabolas creep up from one side.
    """
    widths = [np.inf, np.inf]  # before the last two
    for _ in range(most):
        (a, f_a), (b, f_b), (c, f_c) = points
        if c - a <= 2 * close:
            break
        left, right = (b - a) * (f_b - f_c), (b - c) * (f_b - f_a)
        new = b - 0.5 * ((b - a) * left - (b - c) * right) / (left - right) if left != right else b
        creeps, widths = c - a > widths[0] / 2, [widths[1], c - a]
        if creeps or not (a < new < c) or abs(new - b) < close / 2:
            new = b + GOLDEN * (c - b) if c - b > b - a else b - GOLDEN * (b - a)
        value = function(new)
        value = np.inf if np.isnan(value) else value  # worse than any
        first, second = sorted([(new, value), (b, f_b)])
        points = [points[0], first, second] if first[1] <= second[1] else [first, second, points[2]]
    return points[1]
