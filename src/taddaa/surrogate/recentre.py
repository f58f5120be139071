"""From effects in units of their scale back to effects: a hierarchy that is written without centring becomes one with, which terms can say.

Where z_i enters the likelihood only as exp(x_k) z_i, and has a standard normal prior, ∂_k log π is a function of x_k alone plus
Σ_i z_i (∂_i log π + z_i), whatever the likelihood is. So a regression without noise finds which z_i these are, or that there are none.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from .terms import Part

POWERS = (-2.0, -1.0, 1.0, 2.0)  # of the scale, in its own prior's slope
FEWEST = 3  # effects
EXACT = 1e-3  # by how much coefficients may differ from 0 and 1, and residuals from 0, as part of the slopes' spread
ABOUT = 0.4  # by how much they may before the scale's prior is known
SPARE = 5  # more places than coefficients


class Recentring(NamedTuple):
    """y_i = exp(x_k) x_i for the effects i of each scale k."""

    effects: dict[int, np.ndarray]

    @classmethod
    def found(cls, x: np.ndarray, gradients: np.ndarray) -> "Recentring":
        """From gradients at places (n, d)."""
        n, dim = x.shape
        effects: dict[int, np.ndarray] = {}
        if n < dim + len(POWERS) + 1 + SPARE:
            return cls(effects)
        features = x * (gradients + x)
        features = features - features.mean(axis=0)
        size = features.std(axis=0)
        scaled = features / np.where(size > 0, size, 1.0)
        inverse = np.linalg.pinv(scaled.T @ scaled, hermitian=True)
        own = np.maximum(np.diag(inverse), 1e-300)
        taken = np.zeros(dim, bool)
        for k in range(dim):
            slope = gradients[:, k] - gradients[:, k].mean()
            first = inverse @ (scaled.T @ slope)
            first = (first - inverse[:, k] * (first[k] / own[k])) / np.where(size > 0, size, 1.0)  # without k's own
            if np.sum(np.abs(first - 1) < ABOUT) < FEWEST:
                continue
            mine = _effects(k, x[:, k], slope, features)
            if mine.size >= FEWEST and not taken[mine].any() and not taken[k]:
                effects[k] = mine
                taken[mine] = True
        return cls(effects)

    def inward(self, x: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places, log densities and gradients in the new coordinates."""
        y, values, slopes = x.copy(), values.copy(), gradients.copy()
        for k, i in self.effects.items():
            y[:, i] = np.exp(x[:, [k]]) * x[:, i]
            values -= len(i) * x[:, k]
            slopes[:, i] = np.exp(-x[:, [k]]) * gradients[:, i]
            slopes[:, k] -= (x[:, i] * gradients[:, i]).sum(axis=1) + len(i)
        return y, values, slopes

    def parts(self, dim: int) -> list[Part]:
        """What is known of the new coordinates: the effects' prior, exp(−2 x_k) y_i²/2."""
        found = []
        for k, i in self.effects.items():
            part = Part.empty(dim, k, -2.0)
            part.products[i, i] = part.certain = True
            found.append(part)
        return found

    def outward(self, y: np.ndarray) -> np.ndarray:
        x = y.copy()
        for k, i in self.effects.items():
            x[:, i] = np.exp(-y[:, [k]]) * y[:, i]
        return x


def _effects(k: int, scale: np.ndarray, slope: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Those of scale k; none unless they explain its slope wholly."""
    others = np.flatnonzero(np.arange(features.shape[1]) != k)
    log = scale - scale.mean()
    prior = np.stack([log, *(np.exp(np.clip(power * log, -30.0, 30.0)) for power in POWERS)], axis=1)
    design = np.concatenate([features[:, others], prior - prior.mean(axis=0)], axis=1)
    size = design.std(axis=0)
    design = design / np.where(size > 0, size, 1.0)
    found = scipy.linalg.lstsq(design, slope, cond=1e-12, lapack_driver="gelsy", check_finite=False)[0]
    left, coefficients = slope - design @ found, (found / np.where(size > 0, size, 1.0))[: len(others)]
    one = np.abs(coefficients - 1) < EXACT
    whole = left.std() <= EXACT * slope.std() and np.all(one | (np.abs(coefficients) < EXACT))
    return others[one] if whole else np.empty(0, int)
