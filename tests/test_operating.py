"""A fast seeded slice of `make calibrate`: what the verdicts must reach, on targets with known truth.

The eight schools here are the textbook's (Rubin 1981); where the reference posteriors of the calibration study are present,
they are used as well.
"""

import functools
import importlib.util
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from taddaa import Fisher, Gaussian, Settings, Target, diagnose

MATERIAL, OVER = 0.3, 0.1


def _problems():
    path = Path(__file__).parent.parent / "studies" / "problems.py"
    spec = importlib.util.spec_from_file_location("problems", path)
    module = sys.modules["problems"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


problems = _problems()
TARGETS = [problems.gaussian(10, 0.7), problems.gaussian(30, 0.95), problems.student(5, 5.0), problems.banana(), problems.funnel(2)]


def judged(problem, kind, seed):
    """(functional, true error, bound in posterior units, verdict) of each row."""
    approximation = problem.approximations()[kind](seed)
    report = diagnose(problem.target, approximation, seed=seed)
    errors = np.concatenate(problem.errors(kind, approximation))
    unit = np.concatenate([problem.sd, np.ones(len(problem.sd))])
    rows = [(row.functional, error, row.bound / u, row.verdict) for row, error, u in zip(report.rows, errors, unit, strict=True)]
    return rows, report.cost.gradients / (report.provenance.chains * report.cost.planned_iterations)


@pytest.fixture(scope="module", params=[1, pytest.param(4, marks=pytest.mark.slow)])
def slice_of_all(request):
    kinds = ["mean-field", "shifted", "too wide", "too narrow"]
    return {(p.name, kind, seed): judged(p, kind, seed) for p in TARGETS for kind in kinds for seed in range(request.param)}


def test_no_material_error_is_silently_missed(slice_of_all):
    for key, (rows, _) in slice_of_all.items():
        for functional, error, bound, verdict in rows:
            assert not (error > MATERIAL and bound < error / 5 and verdict == "no error found"), (key, functional, error)


def test_false_bounds_are_rare(slice_of_all):
    rows = [row for found, _ in slice_of_all.values() for row in found]
    false = [row for row in rows if row[3] == "error" and row[2] > row[1] + OVER]
    assert len(false) <= 0.005 * len(rows) + 3 * np.sqrt(0.005 * len(rows)), false


def test_bounds_are_tight(slice_of_all):
    pooled = {
        kind: [row for key, (rows, _) in slice_of_all.items() if key[1] == kind for row in rows] for kind in ("mean-field", "shifted")
    }
    variances = [bound / error for functional, error, bound, _ in pooled["mean-field"] if functional == "variance" and error > MATERIAL]
    means = [bound / error for functional, error, bound, _ in pooled["shifted"] if functional == "mean" and error > MATERIAL]
    assert np.median(variances) > 0.8
    assert np.quantile(variances, 0.1) > 0.6
    assert np.median(means) > 0.78
    assert np.quantile(means, 0.1) > 0.65


def test_gradients_spent(slice_of_all):
    assert np.mean([spent for _, spent in slice_of_all.values()]) < 2.5


@pytest.mark.parametrize("seeds", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_exact_approximations(seeds, rows_limit=0.05):
    """Reports with any error verdict: at most 5 %, as a binomial test over all replications would doubt it."""
    alarms, untrusted, total = 0, 0, 0
    exact = (problems.gaussian(10, 0.7), problems.student(5, 5.0), problems.banana())
    for problem in exact:
        for seed in range(seeds):
            rows, _ = judged(problem, "exact", seed)
            alarms += any(row[3] == "error" for row in rows)
            untrusted += sum(row[3] == "untrusted" for row in rows)
            total += len(rows)
    assert alarms <= stats.binom.ppf(0.999, len(exact) * seeds, 0.05)
    assert untrusted <= rows_limit * total


@pytest.mark.parametrize("dim", [256, pytest.param(1000, marks=pytest.mark.slow)])
def test_high_dimension(dim):
    problem = problems.gaussian(dim, 0.7)
    rows, spent = judged(problem, "mean-field", 0)
    assert np.median([bound / error for functional, error, bound, _ in rows if functional == "variance"]) > 0.75
    assert spent < 2.1  # one round, or by chance a second


SCHOOLS = {"y": np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), "sigma": np.array([15.0, 10, 16, 11, 9, 11, 10, 18])}


def eight_schools(x, data):
    """Centred, with log τ as a coordinate: μ ~ N(0, 5), τ ~ half-Cauchy(5)."""
    mu, log_tau, theta = x[0], x[1], x[2:]
    prior = -0.5 * (mu / 5) ** 2 - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau
    return (
        prior
        - 0.5 * jnp.sum(((theta - mu) / jnp.exp(log_tau)) ** 2)
        - 8 * log_tau
        - 0.5 * jnp.sum(((data["y"] - theta) / data["sigma"]) ** 2)
    )


# Means and standard deviations of mu and log tau, from posteriordb's reference draws.
SCHOOLS_TRUTH = {"x[0]": (4.41, 3.31), "x[1]": (0.81, 1.17)}


SQUARE = [(seed, log_tau) for seed in range(3) for log_tau in (0.3, 1.0, 2.0)]


FAST_OF_SQUARE = SQUARE[:2]  # of the second, chains leave the neck with steps that all others accept


@pytest.mark.parametrize(
    ("seed", "log_tau"), [pytest.param(*each, marks=[] if each in FAST_OF_SQUARE else [pytest.mark.slow]) for each in SQUARE]
)
def test_the_centred_eight_schools_is_straightened(seed, log_tau):
    """The touchstone: in the user's coordinates chains leave the neck and do not come back, and no row may state anything."""
    mean, sd = np.r_[4.4, log_tau, np.full(8, 4.9)], np.r_[1.5, 0.6, np.full(8, 2.5)]
    target, fit = Target(eight_schools, 10, data=SCHOOLS), Gaussian(mean, sd)
    unbent = diagnose(target, fit, seed=seed, settings=Settings(preconditioner=Fisher(straighten=False)))
    assert {row.verdict for row in unbent.rows} == {"untrusted"}
    report = diagnose(target, fit, seed=seed)
    assert np.mean([row.verdict == "untrusted" for row in report.rows]) <= 0.1
    for row in report.rows:
        if row.parameter in SCHOOLS_TRUTH and row.verdict == "error":
            centre, spread = SCHOOLS_TRUTH[row.parameter]
            truth = abs(row.approximation - centre) if row.functional == "mean" else abs(np.log(row.approximation / spread**2))
            assert row.bound <= truth + OVER * (spread if row.functional == "mean" else 1)


@functools.cache
def posteriors() -> dict:
    return {problem.name: problem for problem in problems.reference_posteriors()}


FAST = ("kidscore_interaction", "arK")
SLOW = (
    *("eight_schools_centered", "eight_schools_noncentered", "garch11", "hmm_example"),
    *("gp_pois_regr", "mesquite", "blr", "kilpisjarvi"),
)


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_reference_posteriors(name):
    """No false bound and no silent miss over real posteriors, mean-field and shifted."""
    if not posteriors():
        pytest.skip("the reference posteriors are not here (set TADDAA_TRUTH)")
    assert set(posteriors()) == {*FAST, *SLOW}
    for kind in ("mean-field", "shifted"):
        for functional, error, bound, verdict in judged(posteriors()[name], kind, 0)[0]:
            assert not (verdict == "error" and bound > error + OVER), (kind, functional, error, bound)
            assert not (verdict == "no error found" and error > MATERIAL and bound < error / 5), (kind, functional, error)
