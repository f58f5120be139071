"""What others use to judge an approximation as a whole, from importance weights at draws of q.

Beside k-hat and ELBO these are the Wasserstein bounds of Huggins et al. (2020), "Validated variational inference via practical
posterior error bounds". They need q's density; their bounds are upper bounds, on the flat coordinates.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from ..problem.approximation import Approximation, Gaussian, StudentT
from .weights import Weights, elbo_of, smoothed

LARGEST_K = 0.7  # above it importance weights, and all that is computed from them, cannot be trusted
COMPARATORS = {
    "k_hat": "PSIS k-hat",
    "elbo": "ELBO",
    "w1": "Wasserstein-1 ≤",
    "w2": "Wasserstein-2 ≤",
    "mean_error": "mean error ≤",
    "sd_error": "sd error ≤",
    "covariance_error": "covariance error ≤",
}


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


def comparators_of(approximation: Approximation, weights: Weights | None, evidence: float = -math.inf) -> Comparators:
    """All comparators of one approximation; `evidence` is a lower bound on log ∫p better than this approximation's ELBO."""
    if weights is None:
        return Comparators(math.nan, math.nan, reason="the approximation's density is not known")
    log_weights, k = smoothed(weights.log_weights)
    elbo = elbo_of(weights.log_weights)
    if not k <= LARGEST_K:
        return Comparators(k, elbo, reason=f"k-hat is above {LARGEST_K}, where the Wasserstein bounds are not valid")
    if not np.isfinite(max(elbo, evidence)):
        return Comparators(k, elbo, reason="the ELBO is not finite: the target has no density at some draws of the approximation")
    divergence = two_divergence_bound(log_weights, max(elbo, evidence))
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
