"""The way up to a mode by L-BFGS (SciPy), and the Gaussians along it: what Laplace and Pathfinder are made of."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, optimize

from ..errors import InputError, require
from ..problem.constants import with_own_constants
from ..problem.target import Target, first_line

HISTORY = 10  # pairs that L-BFGS remembers
FIRST_CLIMB, MOST_CLIMB = 100, 300  # its iterations: in the user's units, and after scaling where those were not enough
EQUILIBRATIONS, PROBES, PROBE_STEP = 5, 4, 1e-4  # of the scaling: rounds, directions in each, their length
LOCAL_DRAWS = 25  # for the ELBO of each Gaussian along the path
CHUNK = 16  # points of a path at a time, so that one compiled program serves every path
NEWTON_STEPS = 10
NEWTON_DECREMENT = 1e-10  # nats still to be gained at a mode, at most
SMALLEST_EIGENVALUE = 1e-10  # of the Hessian scaled to unit diagonal


class Programs(NamedTuple):
    """A log density compiled for one fit's needs; `density(x, data)` in any case."""

    density: Callable
    value_and_grad: Callable
    hessian: Callable


@lru_cache(maxsize=32)
def programs(logdensity: Callable, has_data: bool) -> Programs:
    own = with_own_constants(logdensity)

    def density(x, data):
        return own(x, data) if has_data else own(x)

    return Programs(density, jax.jit(jax.value_and_grad(density)), jax.jit(jax.hessian(density)))


class Path(NamedTuple):
    """Points on the way up, with their log densities and gradients, the last the highest; and what they cost."""

    points: np.ndarray  # (S, d)
    values: np.ndarray
    gradients: np.ndarray
    evaluations: int
    scale: np.ndarray  # (d,) the units in which L-BFGS went
    arrived: bool  # within the iterations it was given


def climb(target: Target, data: Any, start: np.ndarray) -> Path:
    """L-BFGS from `start`; where it has not arrived after a while, it goes on from there in units that fit the target."""
    evaluate = programs(target.logdensity, target.data is not None).value_and_grad
    first = _lbfgs(evaluate, data, start, np.ones(target.dim), FIRST_CLIMB)
    if first.arrived:
        return first
    here = first.points[-1]
    scale, spent = _units(lambda x: np.asarray(evaluate(jnp.asarray(x), data)[1], float), here)
    second = _lbfgs(evaluate, data, here, scale, MOST_CLIMB)
    return second._replace(evaluations=first.evaluations + spent + second.evaluations)


def _units(gradient: Callable, point: np.ndarray) -> tuple[np.ndarray, int]:
    """Units in which every row of the Hessian has length 1 (Ruiz 2001), from differences of gradients; and how many those took.

    The rows' lengths are root mean squares of the Hessian times random signs (Dauphin et al. 2015, "Equilibrated adaptive
    learning rates"), in which a negative curvature counts like a positive one.
    """
    rng, scale = np.random.default_rng(0), np.ones(len(point))
    for _ in range(EQUILIBRATIONS):
        squares = np.zeros(len(point))
        for _ in range(PROBES):
            step = PROBE_STEP * scale * rng.choice([-1.0, 1.0], len(point))
            squares += (scale * (gradient(point + step) - gradient(point - step)) / (2 * PROBE_STEP)) ** 2
        length = np.sqrt(squares / PROBES)
        usable = np.isfinite(length) & (length > 0)
        scale = np.where(usable, scale / np.sqrt(np.where(usable, length, 1.0)), scale)
    return scale, 2 * PROBES * EQUILIBRATIONS


def _lbfgs(evaluate: Callable, data: Any, start: np.ndarray, scale: np.ndarray, most: int) -> Path:
    """L-BFGS in units of `scale`; where the log density is not finite, the line search turns back."""
    seen: dict[bytes, tuple[float, np.ndarray]] = {}
    count, ceiling = 0, 1e300

    def negative(scaled):
        nonlocal count, ceiling
        count += 1
        x = scaled * scale
        value, gradient = (np.asarray(part, float) for part in evaluate(jnp.asarray(x), data))
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            return ceiling, np.zeros_like(x)
        if count == 1:
            ceiling = float(np.abs(value)) * 10 + 1e6
        seen[x.tobytes()] = (float(value), gradient)
        return -float(value), -gradient * scale

    begin = np.array(start, float) / scale
    way = [begin * scale]
    optimize.minimize(
        negative,
        begin,
        jac=True,
        method="L-BFGS-B",
        callback=lambda scaled: way.append(scaled * scale),
        options={"maxcor": HISTORY, "maxiter": most, "ftol": 1e-12, "gtol": 1e-8},
    )
    way = [x for x in way if x.tobytes() in seen]
    values, gradients = zip(*(seen[x.tobytes()] for x in way), strict=True)
    return Path(np.stack(way), np.array(values), np.stack(gradients), count, scale, len(way) <= most)


class Mode(NamedTuple):
    """A mode with the Hessian's Gaussian, or the sentence that says why there is none."""

    point: np.ndarray
    value: float
    covariance: np.ndarray | None
    decrement: float  # nats that a Newton step would still gain
    refusal: str
    gradients: int


def find_mode(target: Target, data: Any, path: Path) -> Mode:
    """Newton's method from the path's end: quadratic, so a few steps reach the mode to rounding."""
    program = programs(target.logdensity, target.data is not None)
    point, value, gradient, spent = path.points[-1], path.values[-1], path.gradients[-1], path.evaluations
    for _ in range(NEWTON_STEPS):
        try:
            hessian = -np.asarray(program.hessian(jnp.asarray(point), data), float)
        except Exception as error:
            raise InputError(f"laplace needs second derivatives, which this logdensity does not give: {first_line(error)}") from error
        spent += target.dim
        if not hessian.any() and np.ptp(path.gradients, axis=0).any():
            raise InputError(
                "laplace needs second derivatives, and this logdensity's are all zero although its gradient changes (a host function "
                "has none to give); use taddaa.fit.meanfield"
            )
        covariance, refusal = _inverse(hessian)
        if covariance is None:
            return Mode(point, float(value), None, np.inf, refusal, spent)
        step = covariance @ gradient
        decrement = float(step @ gradient) / 2
        if decrement < NEWTON_DECREMENT:
            break
        found, slope = (np.asarray(part, float) for part in program.value_and_grad(jnp.asarray(point + step), data))
        spent += 1
        if not found >= value:
            break
        point, value, gradient = point + step, found, slope
    return Mode(point, float(value), covariance, decrement, "", spent)


def _inverse(hessian: np.ndarray) -> tuple[np.ndarray | None, str]:
    """The inverse of −∇² log density, if that is positive definite; its diagonal is scaled to 1 first, as units must not matter."""
    remedy = "reparametrise, add a prior, or use taddaa.fit.meanfield"
    if not np.all(np.isfinite(hessian)):
        return None, f"laplace: the Hessian of the log density at the mode is not finite; {remedy}"
    diagonal = np.diag(hessian)
    if np.any(diagonal <= 0):
        where = int(np.argmin(diagonal))
        kind = "flat" if diagonal[where] == 0 else "curved upwards"
        return None, f"laplace: the log density is {kind} along coordinate {where} at the mode, so no Gaussian fits there; {remedy}"
    scale = 1 / np.sqrt(diagonal)
    values, vectors = linalg.eigh(hessian * np.outer(scale, scale))
    if values[0] < SMALLEST_EIGENVALUE:
        kind = "singular" if values[0] > -SMALLEST_EIGENVALUE else "indefinite"
        return None, f"laplace: the Hessian at the mode is {kind} (smallest scaled eigenvalue {values[0]:.2g}); {remedy}"
    root = scale[:, None] * vectors / np.sqrt(values)
    return root @ root.T, ""


class Local(NamedTuple):
    """The best Gaussian along a path: diag(alpha) + beta gamma betaᵀ around `mean`; ELBOs of all points."""

    mean: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    gamma: np.ndarray
    elbos: np.ndarray

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(self.alpha + np.sum((self.beta @ self.gamma) * self.beta, axis=1))

    @property
    def covariance(self) -> np.ndarray:
        dense = np.diag(self.alpha) + self.beta @ self.gamma @ self.beta.T
        return (dense + dense.T) / 2


def best_local(target: Target, data: Any, path: Path, seed: int) -> Local | None:
    """Pathfinder (Zhang et al. 2022): of the Gaussians that L-BFGS sees along its path, the one with the largest ELBO."""
    lbfgs = require("blackjax.optimizers.lbfgs", "fit")
    dim, count = target.dim, len(path.points)
    alpha, windows = path.scale**2, []
    steps: list[np.ndarray] = []
    turns: list[np.ndarray] = []
    for i in range(count):
        if i:
            step, turn = path.points[i] - path.points[i - 1], path.gradients[i - 1] - path.gradients[i]
            if step @ turn > 1e-12 * np.linalg.norm(path.scale * turn) ** 2:
                steps, turns = [*steps, step][-HISTORY:], [*turns, turn][-HISTORY:]
                alpha = _next_alpha(alpha, step, turn)
        empty = np.zeros((HISTORY - len(steps), dim))
        windows.append((alpha, np.concatenate([empty, *(s[None] for s in steps)]), np.concatenate([empty, *(t[None] for t in turns)])))
    program = _local_program(lbfgs, programs(target.logdensity, target.data is not None).density)
    parts = []
    for first in range(0, count, CHUNK):
        rows = np.minimum(np.arange(first, first + CHUNK), count - 1)
        stacked = [np.stack([windows[i][k] for i in rows]) for k in range(3)]
        keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), jnp.asarray(rows))
        found = program(keys, path.points[rows], path.gradients[rows], *stacked, data)
        parts.append([np.asarray(part)[: min(CHUNK, count - first)] for part in found])
    elbo, mean, beta, gamma = (np.concatenate(part) for part in zip(*parts, strict=True))
    elbo = np.where(np.isfinite(elbo), elbo, -np.inf)
    best = int(np.argmax(elbo))
    if not np.isfinite(elbo[best]):
        return None
    return Local(mean[best], windows[best][0], beta[best], gamma[best], elbo)


def _next_alpha(alpha: np.ndarray, step: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The diagonal of the inverse Hessian after one more pair (Zhang et al. 2022, algorithm 3)."""
    a, b, c = np.sum(alpha * turn**2), turn @ step, np.sum(step**2 / alpha)
    found = 1 / (a / (b * alpha) + turn**2 / b - a * step**2 / (b * c * alpha**2))
    return found if np.all(np.isfinite(found)) and np.all(found > 0) else alpha


@lru_cache(maxsize=32)
def _local_program(lbfgs, density: Callable) -> Callable:
    def one(key, point, gradient, alpha, steps, turns, data):
        beta, gamma = lbfgs.lbfgs_inverse_hessian_factors(steps.T, turns.T, alpha)
        draws, logq = lbfgs.bfgs_sample(key, LOCAL_DRAWS, point, gradient, alpha, beta, gamma)
        logp = jax.vmap(lambda x: density(x, data))(draws)
        mean = point + alpha * gradient + beta @ (gamma @ (beta.T @ gradient))
        return jnp.mean(logp - logq), mean, beta, gamma

    return jax.jit(jax.vmap(one, in_axes=(0, 0, 0, 0, 0, 0, None)))
