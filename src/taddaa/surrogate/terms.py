"""A family of log densities that is linear in its coefficients, so that gradients give them by least squares.

log π = Σ_m exp(a_m x_k) · (c_m + b_m·z + zᵀQ_m z/2 + Σ_i u_mi(z_i)), with z the standardised coordinates and a = 0 in the first part. A
hierarchy belongs to it: effects z_i around z_j on the scale exp(x_k) give exp(−2 x_k)(z_i − z_j)²/2. So do likelihoods of single
coordinates, by the smooth functions u. Each gradient is d equations, so that few are enough for thousands of coefficients.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

KNOTS = np.linspace(-2.0, 2.0, 5)  # of the bends, in half the width of the draws
SOFT = 0.8  # width of a bend, in the same
MOST_LOG = 30.0  # of a scale
RIDGES = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # of a unit diagonal: the first that is enough
EXACT = 1e-4, 1e-5  # of the typical coordinate's slopes, and of its own: residuals this small count alike
ALONE, LINEAR, PRODUCT, BEND = range(4)


class Frame(NamedTuple):
    """Where z is zero and one, and where the knots of each coordinate are."""

    centre: np.ndarray
    scale: np.ndarray
    middle: np.ndarray
    width: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> "Frame":
        centre, scale = x.mean(axis=0), x.std(axis=0)
        low, high = np.quantile((x - centre) / scale, [0.02, 0.98], axis=0)
        return cls(centre, scale, (low + high) / 2, (high - low) / 4)

    def inside(self, x: np.ndarray) -> np.ndarray:
        return (x - self.centre) / self.scale

    def outside(self, z: np.ndarray) -> np.ndarray:
        return self.centre + self.scale * z


@dataclass
class Part:
    """A scale exp(power · x_driver), none in the first part, and which terms it multiplies."""

    driver: int
    power: float
    alone: bool
    linear: np.ndarray  # (d,)
    products: np.ndarray  # (d, d), symmetric
    bends: np.ndarray  # (d,): all knots of a coordinate or none
    certain: bool = False  # whether its squares are there whatever gradients show of them

    @classmethod
    def empty(cls, dim: int, driver: int = -1, power: float = 0.0) -> "Part":
        return cls(driver, power, driver >= 0, np.zeros(dim, bool), np.zeros((dim, dim), bool), np.zeros(dim, bool))

    def copy(self) -> "Part":
        return Part(self.driver, self.power, self.alone, self.linear.copy(), self.products.copy(), self.bends.copy(), self.certain)

    def listed(self, number: int) -> np.ndarray:
        """Rows (part, kind, i, j) of its terms; j is the other coordinate of a product, the knot of a bend, and else −1."""
        (single,), (first, second) = np.nonzero(self.linear), np.nonzero(np.triu(self.products))
        bend, knot = np.nonzero(np.repeat(self.bends[:, None], len(KNOTS), axis=1))
        alone = np.full(int(self.alone), -1)
        kinds = [(ALONE, alone, alone), (LINEAR, single, np.full(len(single), -1)), (PRODUCT, first, second), (BEND, bend, knot)]
        return np.concatenate([np.stack(np.broadcast_arrays(number, kind, i, j), axis=1) for kind, i, j in kinds])


class Surrogate:
    """Parts, and their coefficients by weighted least squares from gradients at places."""

    def __init__(self, x: np.ndarray, gradients: np.ndarray, weights: np.ndarray, frame: Frame, parts: Sequence[Part]):
        self.frame, self.weights, self.parts = frame, weights, list(parts)
        self.z, self.slopes = frame.inside(x), gradients * frame.scale
        middle = np.average(self.slopes, axis=0, weights=weights)
        self.spread = np.sqrt(np.average((self.slopes - middle) ** 2, axis=0, weights=weights))
        self.trust = 1 / np.maximum(self.spread, 1e-9)  # in each coordinate's equations
        self.solve()

    @property
    def drivers(self) -> np.ndarray:
        return np.unique([part.driver for part in self.parts[1:]]).astype(int)

    @property
    def powers(self) -> np.ndarray:
        """Of each part's scale, in its driver's z."""
        return np.array([part.power * (self.frame.scale[part.driver] if part.driver >= 0 else 0.0) for part in self.parts])

    def with_part(self, part: Part) -> "Surrogate":
        """Another, with one more part."""
        other = copy(self)
        other.parts = [*self.parts, part]
        other.solve()
        return other

    def solve(self) -> None:
        """Coefficients, residuals, and how far each coordinate's equations are to be trusted the next time."""
        self.terms = np.concatenate([part.listed(number) for number, part in enumerate(self.parts)])
        scales, count, root = self._scales(self.z), len(self.terms), np.sqrt(self.weights)
        gram, right, equations = np.zeros((count, count)), np.zeros(count), []
        for c in range(self.z.shape[1]):
            ids, design = self._design(c, scales, self.z)
            weighted = design * (root * self.trust[c])[:, None]
            gram[np.ix_(ids, ids)] += weighted.T @ weighted
            right[ids] += weighted.T @ (self.slopes[:, c] * root * self.trust[c])
            equations.append((ids, design))
        unit = np.sqrt(np.diag(gram)) + 1e-12
        self.factor = _factored(gram / unit / unit[:, None])
        found = scipy.linalg.cho_solve(self.factor, right / unit)
        for _ in range(2):  # what the ridge has taken
            found += scipy.linalg.cho_solve(self.factor, right / unit - gram @ (found / unit) / unit)
        self.scaled, self.coefficients = found, found / unit
        self.left = np.stack([self.slopes[:, c] - design @ self.coefficients[ids] for c, (ids, design) in enumerate(equations)], axis=1)
        self.error = np.sqrt(np.average(self.left**2, axis=0, weights=self.weights))
        self.trust = 1 / np.maximum(self.error, EXACT[0] * np.median(self.spread) + EXACT[1] * self.spread)

    def significance(self) -> np.ndarray:
        """The squared t of each term."""
        inverse = scipy.linalg.solve_triangular(self.factor[0], np.eye(len(self.terms)), lower=True, check_finite=False)
        return self.scaled**2 / (inverse**2).sum(axis=0)

    def value(self, x: np.ndarray) -> np.ndarray:
        """The log density, up to a constant."""
        z = self.frame.inside(x)
        return (self._inner(self.terms, z) * self._scales(z)[:, self.terms[:, 0]]) @ self.coefficients

    def gradient(self, x: np.ndarray) -> np.ndarray:
        z = self.frame.inside(x)
        scales, found = self._scales(z), np.empty_like(z)
        for c in range(z.shape[1]):
            ids, design = self._design(c, scales, z)
            found[:, c] = design @ self.coefficients[ids]
        return found / self.frame.scale

    def arrays(self) -> list[np.ndarray]:
        """c (M,), b (M, d), Q (M, d, d) and the bends' coefficients (M, d, knots)."""
        dim, kind = self.z.shape[1], self.terms[:, 1]
        arrays = [np.zeros((len(self.parts), *shape)) for shape in ((), (dim,), (dim, dim), (dim, len(KNOTS)))]
        for array, each in zip(arrays, (ALONE, LINEAR, PRODUCT, BEND), strict=True):
            m, _, i, j = self.terms[kind == each].T
            array[(m, i, j)[: array.ndim]] = self.coefficients[kind == each]
            if each == PRODUCT:
                array[m, j, i] = array[m, i, j]
        return arrays

    def scale(self, part: Part) -> np.ndarray:
        """At the places it was learnt from (n,)."""
        k = part.driver
        return np.exp(np.clip(part.power * self.frame.scale[k] * self.z[:, k], -MOST_LOG, MOST_LOG)) if k >= 0 else np.ones(len(self.z))

    def _scales(self, z: np.ndarray) -> np.ndarray:
        """Of each part, (n, M)."""
        driven = z[:, [part.driver for part in self.parts]]  # the last column where there is none, times 0
        return np.exp(np.clip(driven * self.powers, -MOST_LOG, MOST_LOG))

    def _inner(self, terms: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Terms without their scales, (n, P)."""
        found, kind = np.ones((len(z), len(terms))), terms[:, 1]
        _, _, i, j = terms.T
        linear, product, bend = (kind == each for each in (LINEAR, PRODUCT, BEND))
        found[:, linear] = z[:, i[linear]]
        found[:, product] = z[:, i[product]] * z[:, j[product]] * np.where(i[product] == j[product], 0.5, 1.0)
        found[:, bend] = bent((z - self.frame.middle)[:, i[bend]] / self.frame.width[i[bend]] - KNOTS[j[bend]]) * self.frame.width[i[bend]]
        return found

    def _design(self, c: int, scales: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which terms have a slope along coordinate c, and these slopes (n, ·)."""
        part, kind, i, j = self.terms.T
        by_scale = np.array([each.driver == c for each in self.parts])[part]
        first, second = (i == c) & (kind != ALONE), (kind == PRODUCT) & (j == c) & (i != c)
        ids = np.flatnonzero(by_scale | first | second)
        slopes, kind, i, j = np.zeros((len(z), len(ids))), kind[ids], i[ids], j[ids]
        first, second, by_scale = first[ids], second[ids], by_scale[ids]
        slopes[:, first & (kind == LINEAR)] = 1.0
        slopes[:, first & (kind == PRODUCT)] = z[:, j[first & (kind == PRODUCT)]]
        slopes[:, second] = z[:, i[second]]
        bend = first & (kind == BEND)
        if bend.any():
            slopes[:, bend] = rising((z[:, [c]] - self.frame.middle[c]) / self.frame.width[c] - KNOTS[j[bend]])
        if by_scale.any():
            slopes[:, by_scale] += self._inner(self.terms[ids[by_scale]], z) * self.powers[part[ids[by_scale]]]
        return ids, slopes * scales[:, part[ids]]


def bent(t: np.ndarray) -> np.ndarray:
    """Zero far below a knot, and of slope one far above it."""
    return SOFT * np.logaddexp(0.0, t / SOFT)


def rising(t: np.ndarray) -> np.ndarray:
    """Its slope."""
    return 0.5 * (1 + np.tanh(t / (2 * SOFT)))


def _factored(gram: np.ndarray):
    for ridge in RIDGES:
        try:
            return scipy.linalg.cho_factor(gram + ridge * np.eye(len(gram)), lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("the terms of a surrogate cannot be told apart")
