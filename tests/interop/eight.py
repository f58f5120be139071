"""The eight schools (Rubin 1981), not centred, with one mean-field approximation for all frameworks."""

import numpy as np

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

# On the unconstrained scale: mu, log tau, eta. The spread of log tau is half of what the posterior has.
MEAN = np.array([4.49, 0.85, 0.29, 0.11, -0.08, 0.07, -0.20, -0.12, 0.31, 0.08])
SD = np.array([3.11, 0.40, 0.96, 0.93, 1.02, 0.96, 0.94, 0.93, 0.94, 0.98])


def plain_logdensity(x: np.ndarray) -> float:
    """Written by hand, up to a constant: the oracle of all frameworks."""
    mu, log_tau, eta = x[0], x[1], x[2:]
    tau = np.exp(log_tau)
    prior = -0.5 * (mu / 5) ** 2 - np.log1p((tau / 5) ** 2) + log_tau - 0.5 * np.sum(eta**2)
    return prior - 0.5 * np.sum(((EFFECT - mu - tau * eta) / ERROR) ** 2)


def points(count: int = 100) -> np.ndarray:
    return np.random.default_rng(7).normal(MEAN, 1.5 * SD, (count, len(MEAN)))


def verdicts(report) -> list[tuple[str, str]]:
    """(functional, verdict) of each row, in order: names are each framework's own."""
    return [(row.functional, row.verdict) for row in report.rows]


def same_up_to_constant(found: np.ndarray, expected: np.ndarray) -> bool:
    difference = np.asarray(found) - np.asarray(expected)
    return bool(np.ptp(difference) < 1e-9 * np.max(np.abs(expected)))


def moments() -> dict[str, tuple[float, float]]:
    """Posterior mean and standard deviation of mu and log tau: given tau all else is normal, and tau is integrated over a grid."""
    log_tau = np.linspace(-15, 8, 40_001)
    variance = ERROR[:, None] ** 2 + np.exp(2 * log_tau)
    precision = 1 / 25 + np.sum(1 / variance, axis=0)
    mu = np.sum(EFFECT[:, None] / variance, axis=0) / precision
    prior = log_tau - np.log1p(np.exp(2 * log_tau) / 25)
    apart = -0.5 * np.sum(np.log(variance) + EFFECT[:, None] ** 2 / variance, axis=0)
    likelihood = apart - 0.5 * np.log(precision) + 0.5 * precision * mu**2
    weight = np.exp(prior + likelihood - np.max(prior + likelihood))
    weight /= weight.sum()
    mean_mu, mean_tau = np.sum(weight * mu), np.sum(weight * log_tau)
    sd_mu = np.sqrt(np.sum(weight * (1 / precision + (mu - mean_mu) ** 2)))
    return {"mu": (float(mean_mu), float(sd_mu)), "tau": (float(mean_tau), float(np.sqrt(np.sum(weight * (log_tau - mean_tau) ** 2))))}
