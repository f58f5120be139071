"""A small real problem with a mean-field fit whose means are fine and whose variances are not; the demo's model and words.

Crowder (1978, Applied Statistics 27, table 3): how many seeds of two types of Orobanche germinated in two root extracts.
A logistic regression with the usual dummy coding makes its four coefficients strongly dependent, which a mean-field
approximation cannot express.
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from ..report.parts import Row
from ..report.report import Report
from ..report.right_value import right_value
from ..verdict.outcome import ERROR

NAMES = ("intercept", "seed 73", "cucumber", "seed 73 × cucumber")
GERMINATED = np.array([99.0, 49.0, 201.0, 75.0])  # seed 75 in bean, 73 in bean, 75 in cucumber, 73 in cucumber
SEEDS = np.array([272.0, 123.0, 295.0, 141.0])
DESIGN = np.array([[1.0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]])
PRIOR_SD = 2.0
NODES = 20  # of Gauss-Hermite quadrature, in one dimension


class MeanField(NamedTuple):
    """Means and standard deviations of independent normal coefficients."""

    mean: np.ndarray
    sd: np.ndarray


def fit() -> MeanField:
    """The best mean-field normal approximation: the ELBO, by quadrature over each linear predictor, at its maximum."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()

    def negative_elbo(packed):
        mean, sd = packed[:4], np.exp(packed[4:])
        centre, spread = DESIGN @ mean, np.sqrt(DESIGN**2 @ sd**2)
        predictor = centre[:, None] + spread[:, None] * nodes
        value = GERMINATED @ centre - SEEDS @ (np.logaddexp(0, predictor) @ weights)
        value += -((mean**2 + sd**2) / (2 * PRIOR_SD**2)).sum() + np.log(sd).sum()
        chance = special.expit(predictor)
        slope = GERMINATED - SEEDS * (chance @ weights)
        curvature = SEEDS * ((chance * (1 - chance)) @ weights)
        by_mean = DESIGN.T @ slope - mean / PRIOR_SD**2
        by_log_sd = -(DESIGN**2).T @ curvature * sd**2 - sd**2 / PRIOR_SD**2 + 1
        return -value, -np.concatenate([by_mean, by_log_sd])

    found = optimize.minimize(
        negative_elbo, np.concatenate([np.zeros(4), -2 * np.ones(4)]), jac=True, method="BFGS", options={"gtol": 1e-6}
    )
    return MeanField(found.x[:4], np.exp(found.x[4:]))


def problem() -> dict:
    """What `taddaa.diagnose` takes: as the `problem()` of a file for `taddaa run`."""
    import jax
    import jax.numpy as jnp

    from .. import Gaussian, Mean, Target, Variance

    def logdensity(beta, data):
        predictor = data["design"] @ beta
        likelihood = data["germinated"] @ predictor - data["seeds"] @ jnp.logaddexp(0, predictor)
        return likelihood - jnp.sum(beta**2) / (2 * PRIOR_SD**2)

    def chance(beta):
        return jax.nn.sigmoid(jnp.sum(beta))

    name = "P(seed 73 grows in cucumber)"
    data = {"design": DESIGN, "germinated": GERMINATED, "seeds": SEEDS}
    return {
        "target": Target(logdensity, dim=4, names=NAMES, data=data),
        "approximation": Gaussian(*fit()),
        "functionals": [Mean(), Variance(), Mean(of=chance, name=name), Variance(of=chance, name=name)],
    }


def true_variances() -> np.ndarray:
    """The posterior's variances and, last, that of the chance: four-dimensional quadrature, possible only as d is tiny."""

    def negative(beta):
        predictor = DESIGN @ beta.T
        return -(GERMINATED @ predictor - SEEDS @ np.logaddexp(0, predictor)) + (beta**2).sum(axis=-1) / (2 * PRIOR_SD**2)

    mode = optimize.minimize(negative, np.zeros(4), method="BFGS").x
    chance = special.expit(DESIGN @ mode)
    precision = (DESIGN.T * (SEEDS * chance * (1 - chance))) @ DESIGN + np.eye(4) / PRIOR_SD**2
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    white = np.stack(np.meshgrid(*[nodes] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    volume = np.prod(np.stack(np.meshgrid(*[weights] * 4, indexing="ij"), axis=-1).reshape(-1, 4), axis=1)
    points = mode + white @ np.linalg.inv(np.linalg.cholesky(precision))
    mass = volume * np.exp(negative(mode[None]) - negative(points) + (white**2).sum(axis=1) / 2)
    mass /= mass.sum()
    values = np.column_stack([points, special.expit(points.sum(axis=1))])
    return mass @ (values - mass @ values) ** 2


INTRODUCTION = """\
831 seeds of two types were laid in two root extracts, and 424 germinated (Crowder 1978). A Bayesian logistic regression
explains the chances by four coefficients. We fitted it by mean-field variational inference: independent normal
distributions, the quick and common choice. It looks fine by itself. Can its numbers be used?

TADDAA starts Markov chains at draws of that fit, lets them move towards the true posterior for a moment, and looks at
what moved.
"""


def closing(report: Report) -> str:
    """What a newcomer should take home, in the report's own numbers beside the truth."""
    exact = dict(zip([*NAMES, report.rows[-1].parameter], true_variances(), strict=True))
    lines = ["This problem is small enough to compute the truth (by four-dimensional quadrature). Variances were wrong by a factor of", ""]
    for row in report.rows:
        if row.functional == "variance":
            truth = exact[row.parameter]
            wrong = np.log(truth / row.approximation)
            side = "too small" if wrong > 0 else "too large"
            found = f"at least {np.exp(row.bound):.2f}" if row.verdict == ERROR else row.verdict
            lines.append(f"  {row.parameter:<30}{found:<16} in truth {np.exp(abs(wrong)):.2f} ({side})" + _beside(row, truth))
    lines += [
        "",
        "So: take this fit's means, not its uncertainties. The coefficients are far less certain than it says, and the prediction",
        "that adds them up is more certain. A bound says how wrong at least; report.corrected has the right values to use instead.",
        "",
        "Your own model: write problem() in a file and run `taddaa run FILE.py`, or call taddaa.diagnose(target, approximation).",
    ]
    return "\n".join(lines)


def _beside(row: Row, truth: float) -> str:
    right = right_value(row)
    return f"; right value {right}, in truth {truth:.5g}" if right else ""
