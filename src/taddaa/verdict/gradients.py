"""Does the gradient belong to the log density? A wrong one would sharpen intervals around a wrong value."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..chains.machine.engine import Engine

STATES = 32
STEP, LARGEST_ERROR = {"float64": 1e-2, "float32": 0.2}, {"float64": 0.02, "float32": 0.2}  # in log density; beside the expected change


def gradients_agree(engine: "Engine", positions: np.ndarray, gradients: np.ndarray) -> bool:
    """Central differences of the log density at some states, along random directions, against the gradients there."""
    rng, dtype = np.random.default_rng(0), str(engine.dtype)
    inside = np.flatnonzero(np.any(gradients != 0, axis=1))
    if not inside.size:
        return True
    chosen = rng.permutation(inside)[:STATES]
    x, g = positions[chosen], gradients[chosen].astype(float)
    way = np.std(positions, axis=0) * rng.standard_normal(x.shape)
    step = way * STEP[dtype] / np.maximum(np.linalg.norm(g * way, axis=1, keepdims=True), 1.0)  # short where the target is stiff
    expected = np.sum(g * step, axis=1)
    ahead, behind = (engine.evaluate(x + sign * step)[0].astype(float) for sign in (1, -1))
    with np.errstate(invalid="ignore"):
        error, size = np.abs((ahead - behind) / 2 - expected), np.abs(expected)
        # Rounding of the log density itself is no fault of the gradient's.
        rounding = 4 * np.finfo(engine.dtype).eps * np.maximum(np.abs(ahead), np.abs(behind))
        return bool(np.nanmedian(np.maximum(error - rounding, 0.0)) <= LARGEST_ERROR[dtype] * np.nanmedian(size))
