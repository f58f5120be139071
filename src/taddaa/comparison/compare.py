"""Several approximations of one target side by side: this package's bounds, and the comparators that others use.

The comparators judge an approximation as a whole, from importance weights w = p/q at draws of q: the Pareto k-hat of Vehtari et
al. (2024), the ELBO, and the Wasserstein bounds of Huggins et al. (2020), "Validated variational inference via practical
posterior error bounds". They need q's density; their bounds are upper bounds, on the flat coordinates.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import linalg, special

from ..chains.machine.engine import Engine
from ..chains.machine.meter import Meter
from ..chains.walk import Progress
from ..diagnosis import diagnose
from ..errors import InputError, require
from ..problem.approximation import Approximation, Gaussian, StudentT, as_approximation
from ..problem.functional import Functional
from ..problem.target import Target, as_target
from ..report.report import Report, Row
from ..settings import Settings
from ..verdict.outcome import ERROR, UNTRUSTED

WEIGHT_DRAWS = 10_000
MOST_NUMBERS = 40_000_000  # draws × dimension, at most
UNDERFLOW = -700.0  # a log weight, relative to the largest, that is 0 as a number
LARGEST_K = 0.7  # above it importance weights, and all that is computed from them, cannot be trusted
WHOLE = "whole approximation"
COMPARATORS = {
    "k_hat": "PSIS k-hat",
    "elbo": "ELBO",
    "w1": "Wasserstein-1 ≤",
    "w2": "Wasserstein-2 ≤",
    "mean_error": "mean error ≤",
    "sd_error": "sd error ≤",
    "covariance_error": "covariance error ≤",
}


class Weights(NamedTuple):
    """Draws of q and their log weights log p − log q, p unnormalised."""

    draws: np.ndarray
    log_weights: np.ndarray


@dataclass(frozen=True)
class Comparators:
    """What importance weights say of an approximation as a whole; NaN where a number is not available, with the reason."""

    k_hat: float
    elbo: float
    w1: float = math.nan
    w2: float = math.nan
    mean_error: float = math.nan
    sd_error: float = math.nan
    covariance_error: float = math.nan
    reason: str = ""


def k_hat(target: Target | Callable, approximation: Approximation | Any, seed: int = 0, *, draws: int = WEIGHT_DRAWS) -> float:
    """The Pareto k-hat of the importance weights p/q: above 0.7, q misses so much of p that weights cannot mend it.

    It judges the approximation as a whole, and needs its density (so not `taddaa.Draws`).

    Args:
        target: a `Target`, or a log density function of a flat vector.
        approximation: a `Gaussian`, `StudentT`, or a `Sampler` or distribution with a log density.
        seed: the same seed gives the same number.
        draws: how many draws of q.
    """
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 100:
        raise InputError(f"draws must be a whole number of at least 100, got {draws!r}")
    approximation, target = _matched(target, approximation)
    found = _weights(target, approximation, Settings(), seed, int(draws))
    if found is None:
        raise InputError(f"k-hat needs the approximation's log density, which {approximation.describe()} does not have")
    return _smoothed(found.log_weights)[1]


def compare(
    approximations: Mapping[str, Approximation | Any],
    target: Target | Callable,
    functionals: Sequence[Functional] | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> "Comparison":
    """Judge several approximations of one target on common random numbers, and rank them for each quantity.

    Args:
        approximations: names and what `diagnose` takes as an approximation.
        target, functionals, settings, seed, progress: as in `diagnose`; the same for all.
    """
    if not isinstance(approximations, Mapping) or not approximations:
        raise InputError(f"approximations must be a dict {{name: approximation}} with at least one, got {approximations!r}")
    matched = {str(name): _matched(target, each) for name, each in approximations.items()}
    first = next(iter(matched.values()))[1]  # one Target, so that everything is compiled once
    reports = {name: diagnose(first, q, functionals, settings, seed, progress=progress) for name, (q, _) in matched.items()}
    weights = {name: _weights(first, q, settings or Settings(), seed, WEIGHT_DRAWS) for name, (q, _) in matched.items()}
    elbos = [_elbo(found.log_weights) for found in weights.values() if found is not None]
    evidence = max((elbo for elbo in elbos if np.isfinite(elbo)), default=-math.inf)
    comparators = {name: comparators_of(q, weights[name], evidence) for name, (q, _) in matched.items()}
    return Comparison(reports, comparators)


# Comparators ----------------------------------------------------------------------------------------------------------------


def comparators_of(approximation: Approximation, weights: Weights | None, evidence: float = -math.inf) -> Comparators:
    """All comparators of one approximation; `evidence` is a lower bound on log ∫p better than this approximation's ELBO."""
    if weights is None:
        return Comparators(math.nan, math.nan, reason="the approximation's density is not known")
    smoothed, k = _smoothed(weights.log_weights)
    elbo = _elbo(weights.log_weights)
    if not k <= LARGEST_K:
        return Comparators(k, elbo, reason=f"k-hat is above {LARGEST_K}, where the Wasserstein bounds are not valid")
    if not np.isfinite(max(elbo, evidence)):
        return Comparators(k, elbo, reason="the ELBO is not finite: the target has no density at some draws of the approximation")
    divergence = two_divergence_bound(smoothed, max(elbo, evidence))
    second, fourth, norm = _moments(approximation, weights.draws)
    w1, w2 = wasserstein_bound(divergence, second, 1), wasserstein_bound(divergence, fourth, 2)
    reason = "" if np.isfinite(w2) else "the approximation's fourth moment does not exist, or the bound overflows"
    known = lambda value: value if np.isfinite(value) else math.nan  # noqa: E731
    return Comparators(k, elbo, known(w1), known(w2), known(min(w1, w2)), known(w2), known(2 * w2 * (math.sqrt(norm) + w2)), reason)


def two_divergence_bound(log_weights: np.ndarray, evidence: float) -> float:
    """An upper bound on the Rényi 2-divergence log E_q[(p/q)²] of normalised p: 2 (CUBO₂ − ELBO).

    CUBO₂ = ½ log E_q[w²]; any lower bound on the log evidence may stand for the ELBO (Huggins et al. 2020, section 4).
    """
    cubo = (special.logsumexp(2 * log_weights) - math.log(len(log_weights))) / 2
    return max(2 * (cubo - evidence), 0.0)


def wasserstein_bound(divergence: float, moment: float, order: int) -> float:
    """W_p(p, q) ≤ 2 E_q[‖x − E x‖^2p]^(1/2p) (exp D₂ − 1)^(1/2p) (Huggins et al. 2020, polynomial moments).

    A bound ε on W₂ bounds the distance of the means and of each standard deviation by ε, and the covariances' distance in
    spectral norm by 2 ε (‖Σ_q‖^½ + ε); a bound on W₁ bounds that of the means.
    """
    with np.errstate(over="ignore"):
        return float(2 * (moment * np.expm1(divergence)) ** (0.5 / order))


def _moments(approximation: Approximation, draws: np.ndarray) -> tuple[float, float, float]:
    """E‖x − E x‖², E‖x − E x‖⁴ and ‖Σ‖₂ of q: in closed form for Gaussian and Student t, else of the draws."""
    covariance = approximation.covariance()
    if isinstance(approximation, Gaussian) and covariance is not None:
        values = np.sort(covariance) if covariance.ndim == 1 else np.linalg.eigvalsh(covariance)
        return float(values.sum()), float(values.sum() ** 2 + 2 * np.sum(values**2)), float(values[-1])
    if isinstance(approximation, StudentT) and covariance is not None:
        df = approximation.df
        if np.any(df <= 2):
            return math.inf, math.inf, math.inf
        fourth = covariance**2 * np.where(df > 4, 3 * (df - 2) / np.where(df > 4, df - 4, 1.0), np.inf)
        return float(covariance.sum()), float(covariance.sum() ** 2 + np.sum(fourth - covariance**2)), float(covariance.max())
    centred = draws - draws.mean(axis=0)
    squares = np.sum(centred**2, axis=1)
    gram = centred.T @ centred if len(draws) > draws.shape[1] else centred @ centred.T
    largest = linalg.eigvalsh(gram / len(draws), subset_by_index=[len(gram) - 1, len(gram) - 1])[0]
    return float(squares.mean()), float(np.mean(squares**2)), float(largest)


def _elbo(log_weights: np.ndarray) -> float:
    return float(np.mean(log_weights))


def _smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto-smoothed log weights, on the scale they had, and k-hat (arviz-stats expects the weights' negative).

    k-hat is −∞ where all weights are equal, and ∞ where a few draws hold so much of the weight that no tail can be fitted.
    """
    array_stats = require("arviz_stats.base", "compare").array_stats
    top = np.max(log_weights)
    if np.ptp(log_weights) < 1e-10 * max(1.0, abs(top)):
        return log_weights, -math.inf  # q is p: there is no tail
    tail = math.ceil(min(0.2 * len(log_weights), 3 * math.sqrt(len(log_weights))))  # the draws that k-hat is fitted to
    if np.sort(log_weights)[-(3 * tail) // 4] - top < UNDERFLOW:
        return log_weights, math.inf  # the fit would divide by weights that are 0, and give a harmless number
    normalised, k = array_stats.psislw(-(log_weights - top))
    # What is returned is normalised; the lower weights, which smoothing leaves alone, say by how much.
    normalised = np.asarray(normalised, float)
    finite = np.isfinite(log_weights)
    middle = finite & (log_weights <= np.median(log_weights[finite]))
    shift = np.median(log_weights[middle] - normalised[middle])
    return normalised + shift, float(k)


def _weights(target: Target, approximation: Approximation, settings: Settings, seed: int, count: int) -> Weights | None:
    """Weights at draws of q, through the programs that a diagnosis compiles; a log density of NaN counts as −inf."""
    count = int(min(count, max(MOST_NUMBERS // target.dim, 100)))
    draws = np.asarray(approximation.sample(np.random.default_rng([seed, 21]), count), float)
    own = approximation.logdensity(draws)
    if own is None:
        return None
    with jax.enable_x64(settings.precision == "float64"):
        target.check()
        engine = Engine(target, settings.kernel, settings.plan(target.dim).chains, seed, settings.precision, Meter(), settings.groups)
        value = np.asarray(engine.evaluate(draws)[0], float)
    value = np.where(np.isnan(value), -np.inf, value)
    if not np.any(np.isfinite(value)):
        raise InputError(
            f"logdensity is not finite at any of {count} draws of the approximation; do they use the same coordinates and support?"
        )
    return Weights(draws, value - own)


def _matched(target: Target | Callable, approximation: Approximation | Any) -> tuple[Approximation, Target]:
    approximation = as_approximation(approximation)
    target = as_target(target, approximation.dim)
    if target.dim != approximation.dim:
        raise InputError(f"target has dim = {target.dim}, but the approximation has dimension {approximation.dim}")
    return approximation, target


# The result -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `taddaa.compare`: a report and comparators for each name. Print it, or take `to_dataframe()`."""

    reports: dict[str, Report]
    comparators: dict[str, Comparators]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.reports)

    def ranks(self) -> list[dict[str, int | None]]:
        """For each row of the reports, 1 + how many approximations have a surely smaller error; None where untrusted.

        Surely smaller: the largest error that its interval allows is below the other's bound. Ties share a rank.
        """
        return [_ranks(dict(zip(self.names, rows, strict=True))) for rows in self._rows()]

    def best(self, parameter: str, functional: str) -> tuple[str, ...]:
        """The names that no other surely beats for this quantity."""
        for rows, ranks in zip(self._rows(), self.ranks(), strict=True):
            if (rows[0].parameter, rows[0].functional) == (parameter, functional):
                return tuple(name for name, rank in ranks.items() if rank == 1)
        raise InputError(f"there is no row {functional!r} of {parameter!r} in this comparison")

    def comparator(self, field: str) -> tuple[dict[str, float], dict[str, int | None]]:
        """One comparator (a field of `Comparators`) of every approximation, and their ranks by it."""
        values = {name: getattr(found, field) for name, found in self.comparators.items()}
        return values, _order(field, values)

    def to_dataframe(self):
        """Quantities, then comparators, by approximation: `bound`, `relative_bound`, `verdict`, `rank` below each name.

        A comparator's number stands in the column `bound`; where it is not available, `verdict` holds the reason.
        """
        import pandas

        columns = ("bound", "relative_bound", "verdict", "rank")
        index, cells = [], []
        for rows, ranks in zip(self._rows(), self.ranks(), strict=True):
            index.append((rows[0].parameter, rows[0].functional))
            cells.append([v for n, r in zip(self.names, rows, strict=True) for v in (r.bound, r.relative_bound, r.verdict, ranks[n])])
        for field, label in COMPARATORS.items():
            index.append((WHOLE, label))
            values, order = self.comparator(field)
            told = {name: "" if not math.isnan(value) else self.comparators[name].reason for name, value in values.items()}
            cells.append([v for name in self.names for v in (values[name], math.nan, told[name], order[name])])
        header = pandas.MultiIndex.from_product([self.names, columns], names=["approximation", None])
        table = pandas.DataFrame(cells, index=pandas.MultiIndex.from_tuples(index, names=["parameter", "functional"]), columns=header)
        return table.astype({(name, "rank"): "Int64" for name in self.names})

    def _rows(self) -> list[tuple[Row, ...]]:
        return list(zip(*(report.rows for report in self.reports.values()), strict=True))

    def __str__(self) -> str:
        from .text import comparison_text

        return comparison_text(self)

    __repr__ = __str__


def _ranks(rows: dict[str, Row]) -> dict[str, int | None]:
    trusted = {name: row for name, row in rows.items() if row.verdict != UNTRUSTED}
    most = {name: max(abs(row.lower), abs(row.upper)) for name, row in trusted.items()}
    found: dict[str, int | None] = {}
    for name, row in rows.items():
        beaten_by = sum(most[other] < row.bound for other in trusted if other != name) if row.verdict == ERROR else 0
        found[name] = 1 + beaten_by if name in trusted else None
    return found


def _order(field: str, values: dict[str, float]) -> dict[str, int | None]:
    """Comparators by size: a large ELBO is good, everything else is good when small."""
    sign = -1 if field == "elbo" else 1
    return {
        name: None if math.isnan(value) else 1 + sum(sign * other < sign * value for other in values.values() if not math.isnan(other))
        for name, value in values.items()
    }
