"""Draws from a surrogate: its drivers by importance sampling of their marginal, and the rest given them.

Given the drivers, which are few, the rest is normal, or nearly so where it has bends: then Laplace's approximation gives the drivers'
marginal (Rue, Martino, Chopin 2009), and weights correct draws of the rest. Where the drivers are is found in rounds, each from a
mixture around the last, and tempered as long as few points have nearly all weight.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from .terms import KNOTS, MOST_LOG, SOFT, Surrogate, bent, rising

FREEDOM = 5.0  # of the mixture's t-distributions
ROUNDS, POINTS, LAST = 4, 200, 2000
EACH = 6  # draws of the rest at each point, in pairs around its mode
ENOUGH = 0.2  # of the points, that a round's weights must be worth
TEMPERS = 0.7 ** np.arange(1, 12)
CENTRES = 400  # of a mixture
ALIKE = 50  # the largest weights, one in so many, as long as draws only show where to ask
NEWTON = 8  # steps at most to the mode of the rest
ARRIVED = 1e-3  # in standardised coordinates
RIDGE = 1e-3  # of the draws' own precision, so that what the gradients leave open has an end
FAR = 2.0  # spreads beyond what gradients have seen, where a mode is none
FLAT = 10.0  # times its spread, beyond which a coordinate given others has no end: there Laplace's approximation would peak


class Drawn(NamedTuple):
    """Draws, how many independent ones of the drivers their weights are worth, and of how many."""

    x: np.ndarray
    worth: float
    points: int


class Given(NamedTuple):
    """Of the rest, given the drivers: log π's constant, h and P of constant + h·r − rᵀPr/2, and the bends' coefficients."""

    constant: float
    h: np.ndarray
    precision: np.ndarray
    bends: np.ndarray


class Marginal:
    """A surrogate whose drivers are told apart from the rest."""

    def __init__(self, surrogate: Surrogate):
        self.surrogate, self.drivers = surrogate, surrogate.drivers
        dim = surrogate.z.shape[1]
        self.rest = np.setdiff1d(np.arange(dim), self.drivers)
        self.c, self.b, self.q, bends = surrogate.arrays()
        # of each part, as rows, which a product with scales goes through once
        self.q_rest = self.q[:, self.rest][:, :, self.rest].reshape(len(self.c), -1)
        self.q_between = self.q[:, self.rest][:, :, self.drivers].reshape(len(self.c), -1)
        self.q_drivers = self.q[:, self.drivers][:, :, self.drivers]
        self.is_bent = np.flatnonzero(np.any(bends[:, self.rest], axis=(0, 2)))
        self.bends = bends[:, self.rest[self.is_bent]]
        frame = surrogate.frame
        self.middle, self.width = frame.middle[self.rest[self.is_bent]], frame.width[self.rest[self.is_bent]]
        z = surrogate.z[:, self.rest]
        self.centre = np.average(z, axis=0, weights=surrogate.weights)
        self.near = z.min(axis=0) - FAR * z.std(axis=0), z.max(axis=0) + FAR * z.std(axis=0)
        precision = 1 / np.average((z - self.centre) ** 2, axis=0, weights=surrogate.weights)
        self.ridge, self.flat = RIDGE * precision, np.sqrt(precision) / FLAT
        place = np.array([np.flatnonzero(self.drivers == part.driver)[0] if part.driver >= 0 else 0 for part in surrogate.parts])
        self.exponents = np.zeros((len(place), len(self.drivers)))
        if len(self.drivers):
            self.exponents[np.arange(len(place)), place] = surrogate.powers

    def draw(self, count: int, rng: np.random.Generator, reach: float, last: bool) -> Drawn:
        """From drivers as far beyond the surrogate's own draws as scales change by exp(`reach`)."""
        z = self.surrogate.z[:, self.drivers]
        steepest = np.abs(self.exponents).max(axis=0)
        low, high = z.min(axis=0) - reach / steepest, z.max(axis=0) + reach / steepest
        cloud, mode = z[-POINTS:], self.centre
        for number in range(ROUNDS + last):
            final = number == ROUNDS
            points, log_proposal = _spread(cloud, LAST if final else POINTS, rng, wide=number == 0)
            inside = ((points > low) & (points < high)).all(axis=1)
            points, log_proposal = points[inside], log_proposal[inside]
            found = [self.laplace(point, mode) for point in points]
            value = np.array([one[0] for one in found])
            if not np.isfinite(value).any():
                return Drawn(np.empty((0, self.surrogate.z.shape[1])), 0.0, len(points))
            mode = found[int(np.argmax(value))][1]
            weights = _tempered(value, log_proposal, final)
            if number == ROUNDS + last - 1:
                break
            cloud = points[_chosen(weights, POINTS, rng)]
        return self._resampled(points, np.log(np.maximum(weights, 1e-300)), found, count, rng, last)

    def laplace(self, drivers: np.ndarray, start: np.ndarray) -> tuple:
        """log marginal up to a constant, the rest's mode, the factor of its precision, and what it is given; −∞ where it has no peak."""
        given, mode = self._given(drivers), start
        if not len(self.is_bent):
            factor, failed = self._factored(given.precision)
            if failed:
                return -np.inf, start, factor, given
            mode = dpotrs(factor, given.h, lower=1)[0]
        else:
            at = self.is_bent
            for step in range(NEWTON):
                _, slope, turn = self._bends(given, mode[at])
                for curvature in (turn, np.minimum(turn, 0.0)):  # without that which has no peak, where there would be none
                    precision, right = given.precision.copy(), given.h.copy()
                    precision[at, at] -= curvature
                    right[at] += slope - curvature * mode[at]
                    factor, failed = self._factored(precision)
                    if not failed:
                        break
                if failed:
                    return -np.inf, start, factor, given
                before, mode = mode, dpotrs(factor, right, lower=1)[0]
                if step and np.max(np.abs(mode - before)) < ARRIVED:
                    break
        with np.errstate(over="ignore", invalid="ignore"):
            value = self._joint(given, mode[None])[0] - np.sum(np.log(np.diagonal(factor)))
        there = np.isfinite(value) and ((mode > self.near[0]) & (mode < self.near[1])).all()
        return (value if there else -np.inf), mode, factor, given

    def _factored(self, precision: np.ndarray) -> tuple[np.ndarray, bool]:
        """Its lower factor, and whether there is a direction without an end."""
        factor, failed = dpotrf(precision.T, lower=1)
        return factor, bool(failed) or bool((np.diagonal(factor) < self.flat).any())

    def _given(self, drivers: np.ndarray) -> Given:
        scales = np.exp(np.clip(self.exponents @ drivers, -MOST_LOG, MOST_LOG))
        precision = -(scales @ self.q_rest).reshape(len(self.rest), -1)
        precision[np.diag_indices_from(precision)] += self.ridge
        between = (scales @ self.q_between).reshape(len(self.rest), len(drivers))
        h = scales @ self.b[:, self.rest] + between @ drivers + self.ridge * self.centre
        alone = self.c + self.b[:, self.drivers] @ drivers + drivers @ (self.q_drivers @ drivers).T / 2
        return Given(float(scales @ alone), h, precision, np.tensordot(scales, self.bends, 1))

    def _joint(self, given: Given, rest: np.ndarray) -> np.ndarray:
        """The log density at some places of the rest."""
        value = given.constant + rest @ given.h - np.einsum("ni,ni->n", rest @ given.precision, rest) / 2
        return value + self._bends(given, rest[:, self.is_bent])[0].sum(axis=-1) if len(self.is_bent) else value

    def _bends(self, given: Given, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Value, slope and second derivative of each coordinate's."""
        t = ((rest - self.middle) / self.width)[..., None] - KNOTS
        up = rising(t)
        value, slope = (given.bends * bent(t)).sum(axis=-1) * self.width, (given.bends * up).sum(axis=-1)
        return value, slope, (given.bends * up * (1 - up)).sum(axis=-1) / (SOFT * self.width)

    def _resampled(self, points, log_weights, found, count: int, rng: np.random.Generator, last: bool) -> Drawn:
        """Draws of the rest at each point, weighted for what Laplace's approximation is not, as equal ones."""
        z = np.empty((len(points), EACH, self.surrogate.z.shape[1]))
        more = np.zeros((len(points), EACH))
        for number, (value, mode, factor, given) in enumerate(found):
            if not np.isfinite(value):
                more[number] = -np.inf
                continue
            noise = rng.standard_normal((EACH // 2, len(self.rest)))
            noise = np.concatenate([noise, -noise])
            rest = mode + dtrtrs(factor, noise.T, lower=1, trans=1)[0].T
            z[number][:, self.drivers], z[number][:, self.rest] = points[number], rest
            if len(self.is_bent):
                # the joint density over that of the draw, beside the marginal's own
                more[number] = self._joint(given, rest) + (noise**2).sum(axis=1) / 2 - np.sum(np.log(np.diagonal(factor))) - value
        whole = (log_weights[:, None] + more).ravel()
        if not last:
            whole = np.where(np.isfinite(whole), whole, -np.inf)
            whole = np.minimum(whole, np.sort(whole)[-max(1, len(whole) // ALIKE)])
        weights = _clipped(whole)
        by_point = np.bincount(np.repeat(np.arange(len(points)), EACH), weights)
        chosen = rng.permutation(_chosen(weights, count, rng))
        return Drawn(self.surrogate.frame.outside(z.reshape(-1, z.shape[2])[chosen]), float(1 / (by_point**2).sum()), len(points))


def _spread(cloud: np.ndarray, count: int, rng: np.random.Generator, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points from a mixture of t-distributions around the cloud, as narrow as its size allows, and their log density."""
    dim = cloud.shape[1]
    root = np.linalg.cholesky(np.atleast_2d(np.cov(cloud.T)) + 1e-12 * np.eye(dim))
    width = 1.0 if wide else 1.1 * (len(np.unique(cloud[:, 0])) / 3) ** (-1 / (dim + 4))
    centres = cloud[rng.permutation(len(cloud))[:CENTRES]]
    t = rng.standard_normal((count, dim)) / np.sqrt(rng.chisquare(FREEDOM, (count, 1)) / FREEDOM)
    points = centres[rng.integers(len(centres), size=count)] + width * t @ root.T
    inverse = np.linalg.inv(root).T
    apart = (points @ inverse)[:, None] - (centres @ inverse)[None]
    each = -(FREEDOM + dim) / 2 * np.log1p((apart**2).sum(axis=2) / width**2 / FREEDOM)
    return points, np.logaddexp.reduce(each, axis=1)


def _tempered(value: np.ndarray, log_proposal: np.ndarray, final: bool) -> np.ndarray:
    """Weights for the largest power of the density that leaves enough points their worth; for the density itself in the end."""
    weights = _clipped(value - log_proposal)
    for power in () if final else TEMPERS:
        if 1 / (weights**2).sum() >= ENOUGH * len(weights):
            break
        weights = _clipped(power * value - log_proposal)
    return weights


def _clipped(log_weights: np.ndarray) -> np.ndarray:
    """Normal weights, none larger than √n times their mean (Ionides 2008)."""
    log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    top = np.logaddexp.reduce(log_weights) - np.log(len(log_weights)) / 2
    weights = np.exp(np.minimum(log_weights, top) - top)
    return weights / weights.sum()


def _chosen(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Systematic resampling."""
    places = np.searchsorted(np.cumsum(weights), (np.arange(count) + rng.random()) / count)
    return np.minimum(places, len(weights) - 1)
