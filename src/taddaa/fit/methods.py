"""Mean-field, full-rank, Student t, Laplace, Pathfinder: each from several starts.

Signatures are written out, although much the same, because editors and `help` show them.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, stats

from ..errors import InputError, require
from ..problem.approximation import Approximation, Gaussian, Sampler
from ..problem.target import Target
from .ascent import FINAL_DRAWS, FitProgress, ascend
from .family import Family, Features, FullRank, MeanField, Tails
from .path import FIRST_CLIMB, MOST_CLIMB, Local, best_local, find_mode, programs
from .result import Fit, gather
from .start import Options, climb_all

FALLBACK_SD = 0.1
DENSE_DIM = 2000  # up to which Pathfinder's covariance is written out
MOST_LEFT = 1e-3  # nats that may be left to gain at a mode


def meanfield(
    target: Target,
    *,
    restarts: int = 4,
    starts: Any = None,
    spread: float = 2.0,
    draws: int = 10,
    steps: int = 20_000,
    tolerance: float = 0.1,
    seed: int = 0,
    progress: Callable[[FitProgress], None] | None = None,
) -> Fit:
    """Independent normal coordinates that maximise the ELBO.

    Args:
        target: a `Target`.
        restarts: fit from so many diverse starts (in opposite pairs) and compare where they end.
        starts: the starts themselves, (restarts, dim), if you know better.
        spread: the standard deviation of the starts around 0.
        draws: of q, for each gradient step.
        steps: of each restart, at most (in blocks of 100).
        tolerance: the fit has converged when two successive averages of its iterates, the later at a smaller learning rate,
            differ by less: in standard deviations, log standard deviations and correlations.
        seed: the same seed gives the same fit.
        progress: called with a `FitProgress` now and then.
    """
    return _variational(MeanField(), target, Options(restarts, starts, spread, seed, progress, draws, steps, tolerance))


def fullrank(
    target: Target,
    *,
    restarts: int = 4,
    starts: Any = None,
    spread: float = 2.0,
    draws: int = 10,
    steps: int = 20_000,
    tolerance: float = 0.1,
    seed: int = 0,
    progress: Callable[[FitProgress], None] | None = None,
) -> Fit:
    """A normal distribution with any covariance that maximises the ELBO. Arguments as in `meanfield`."""
    return _variational(FullRank(), target, Options(restarts, starts, spread, seed, progress, draws, steps, tolerance))


def student_t(
    target: Target,
    *,
    df: float | None = None,
    restarts: int = 4,
    starts: Any = None,
    spread: float = 2.0,
    draws: int = 10,
    steps: int = 20_000,
    tolerance: float = 0.1,
    seed: int = 0,
    progress: Callable[[FitProgress], None] | None = None,
) -> Fit:
    """Independent Student t coordinates that maximise the ELBO, their degrees of freedom too unless `df` fixes them.

    Other arguments as in `meanfield`.
    """
    if df is not None and not (isinstance(df, (int, float)) and not isinstance(df, bool) and 0 < df < np.inf):
        raise InputError(f"df must be a positive number, or None to fit it, got {df!r}")
    return _variational(Tails(df), target, Options(restarts, starts, spread, seed, progress, draws, steps, tolerance))


def laplace(
    target: Target,
    *,
    restarts: int = 4,
    starts: Any = None,
    spread: float = 2.0,
    seed: int = 0,
    progress: Callable[[FitProgress], None] | None = None,
) -> Fit:
    """The normal distribution at the mode with the log density's own curvature there: L-BFGS, then Newton.

    A mode whose Hessian is singular or indefinite is refused. Arguments as in `meanfield`.
    """
    options = Options(restarts, starts, spread, seed, progress)
    with jax.enable_x64(True):
        data, paths = climb_all(target, options)
        modes = [find_mode(target, data, path) for path in paths]
        spent = sum(mode.gradients for mode in modes)
        kept = [i for i, mode in enumerate(modes) if mode.covariance is not None]
        if not kept:
            raise InputError(max(modes, key=lambda mode: mode.value).refusal)
        fits = [Gaussian(modes[i].point, covariance=modes[i].covariance) for i in kept]
        elbos = np.array([_elbo(target, data, fit, options.seed) for fit in fits])
    sd = np.stack([np.sqrt(np.diag(modes[i].covariance)) for i in kept])  # type: ignore[arg-type]
    features = Features(np.stack([modes[i].point for i in kept]), sd * stats.norm.ppf(0.75))
    # The highest mode is the Laplace approximation, whatever its ELBO.
    best = int(np.argmax([modes[i].value for i in kept]))
    notes = [f"{len(modes) - len(kept)} of {len(modes)} restarts ended where the Hessian is not positive definite"] * (
        len(kept) < len(modes)
    )
    left = [modes[i].decrement for i in kept]
    if left[best] > MOST_LEFT:
        notes.append(f"the mode was not reached: a Newton step would still gain {left[best]:.2g}")
    converged = np.array(left) <= MOST_LEFT
    return gather(fits, elbos, paths[kept[best]].values, spent, converged, features, best, notes)


def pathfinder(
    target: Target,
    *,
    restarts: int = 4,
    starts: Any = None,
    spread: float = 2.0,
    seed: int = 0,
    progress: Callable[[FitProgress], None] | None = None,
) -> Fit:
    """Pathfinder (Zhang et al. 2022): the best of the Gaussians that L-BFGS sees on its way up. Arguments as in `meanfield`.

    Where L-BFGS has not arrived after 100 iterations, it goes on in units that fit the target's curvature there. Not resampled
    by importance weights: the result is a Gaussian with closed forms.
    """
    options = Options(restarts, starts, spread, seed, progress)
    with jax.enable_x64(True):
        data, paths = climb_all(target, options)
        found = [(path, best_local(target, data, path, options.seed)) for path in paths]
        kept = [(path, local) for path, local in found if local is not None]
        if not kept:
            raise InputError("pathfinder: no Gaussian along the way has a finite ELBO; pass other starts, or use taddaa.fit.meanfield")
        fits = [_pathfinder_approximation(local) for _, local in kept]
        elbos = np.array([_elbo(target, data, fit, options.seed) for fit in fits])
    features = Features(np.stack([local.mean for _, local in kept]), np.stack([local.sd for _, local in kept]) * stats.norm.ppf(0.75))
    best = int(np.argmax(elbos))
    notes = [f"{len(paths) - len(kept)} of {len(paths)} restarts found no Gaussian with a finite ELBO"] * (len(kept) < len(paths))
    converged = np.isfinite(elbos) & np.array([path.arrived for path, _ in kept])
    if not converged[best]:
        notes.append(
            f"L-BFGS did not arrive in {FIRST_CLIMB + MOST_CLIMB} iterations, so the fit may be poor; try taddaa.fit.fullrank or meanfield"
        )
    spent = sum(path.evaluations for path in paths)
    return gather(fits, elbos, kept[best][1].elbos, spent, converged, features, best, notes)


# What they share ------------------------------------------------------------------------------------------------------------


def _variational(family: Family, target: Target, options: Options) -> Fit:
    """Start each restart at the best Gaussian of its path, and climb the ELBO from there."""
    require("optax", "fit")
    with jax.enable_x64(True):
        data, paths = climb_all(target, options)
        locals_ = [best_local(target, data, path, options.seed) for path in paths]
        begin = [
            (path.points[0], np.full(target.dim, FALLBACK_SD)) if local is None else (local.mean, local.sd)
            for path, local in zip(paths, locals_, strict=True)
        ]
        starts = jax.vmap(family.start)(*(jnp.asarray(np.stack(part)) for part in zip(*begin, strict=True)))
        density = programs(target.logdensity, target.data is not None).density
        climbed = ascend(family, density, data, starts, options.seed, options.draws, options.steps, options.tolerance, options.progress)
        count = len(paths)
        each = [jax.tree.map(lambda part: part[i], climbed.parameters) for i in range(count)]
        fits, features = [family.approximation(one) for one in each], family.features(climbed.parameters)
    best = int(np.argmax(np.nan_to_num(climbed.elbo, nan=-np.inf)))
    notes = []
    if not climbed.converged[best]:
        change = climbed.change[best]
        why = f"the last two averages differ by {change:.2g}" if np.isfinite(change) else "too few to compare two averages"
        notes.append(f"not converged after {climbed.trace.shape[1]:,} steps: {why} (tolerance {options.tolerance:g}); give more steps")
    if climbed.bad:
        notes.append(f"the log density or its gradient was not finite at {climbed.bad:,} draws, which were left out")
    spent = sum(path.evaluations for path in paths) + climbed.trace.size * options.draws
    return gather(fits, climbed.elbo, climbed.trace[best], spent, climbed.converged, features, best, notes)


def _elbo(target: Target, data: Any, fit: Approximation, seed: int) -> float:
    draws = fit.sample(np.random.default_rng([seed, 12]), FINAL_DRAWS)
    density = programs(target.logdensity, target.data is not None).density
    value = np.asarray(jax.lax.map(lambda x: density(x, data), jnp.asarray(draws), batch_size=100), float)
    own = fit.logdensity(draws)
    return float("nan") if own is None else float(np.mean(np.where(np.isnan(value), -np.inf, value) - own))


def _pathfinder_approximation(local: Local) -> Approximation:
    """A Gaussian, written out; in high dimension a sampler that keeps its low rank."""
    if len(local.mean) <= DENSE_DIM:
        return Gaussian(local.mean, covariance=local.covariance)
    root = np.sqrt(local.alpha)
    basis, triangle = np.linalg.qr(local.beta / root[:, None])
    factor = np.linalg.cholesky(np.eye(len(triangle)) + triangle @ local.gamma @ triangle.T)

    def sample(key, count):
        white = np.asarray(jax.random.normal(key, (count, len(root))), float)
        inner = white @ basis
        return local.mean + root * (white + (inner @ factor.T - inner) @ basis.T)

    def logdensity(x):
        scaled = (np.asarray(x) - local.mean) / root
        inner = scaled @ basis
        white = scaled + (linalg.solve_triangular(factor, inner.T, lower=True).T - inner) @ basis.T
        return stats.norm.logpdf(white).sum(axis=-1) - np.log(root).sum() - np.log(np.diag(factor)).sum()

    return Sampler(sample, len(root), logdensity, mean=local.mean)
