"""from_stan: names, order and scale are Stan's. Most tests need a compiled program: `make test-stan`."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from eight import EFFECT, ERROR, MEAN, SD, plain_logdensity, points, same_up_to_constant, verdicts

import taddaa
from frameworks import need
from taddaa.interop import pystan

SCHOOLS = (Path(__file__).parents[2] / "examples" / "eight_schools.stan").read_text()

# Its posterior is normal on the unconstrained scale; the matrix and the rejection test what few programs have.
CONJUGATE = """
data { vector[2] y; }
parameters { real<lower=0> scale; vector[2] beta; matrix[2, 3] M; simplex[3] w; }
model {
  if (beta[1] > 100) reject("beta is too large");
  scale ~ lognormal(0.3, 0.5); beta ~ std_normal(); to_vector(M) ~ normal([1, 2, 3, 4, 5, 6], 0.5); y ~ normal(beta, 0.5);
}
"""
NORMAL_PART = np.array([0.3, 0.8, -1.6, 1, 2, 3, 4, 5, 6])
NORMAL_SD = np.array([0.5, np.sqrt(0.2), np.sqrt(0.2), *[0.5] * 6])


def compiled(program, data):
    from stan_compile import compile_stan

    bridgestan = need("bridgestan")
    need("httpstan")
    return bridgestan.StanModel(compile_stan(program), data, warn=False)


@pytest.fixture(scope="module")
def schools():
    return compiled(SCHOOLS, {"J": 8, "effect": EFFECT, "error": ERROR})


@pytest.fixture(scope="module")
def conjugate():
    return compiled(CONJUGATE, {"y": [1.0, -2.0]})


def constrained(model, rows):
    return np.array([model.param_constrain(np.ascontiguousarray(row), include_tp=True) for row in rows])


def table(model, rows):
    """As CmdStan writes it: other columns first, and names with dots turned to brackets."""
    labels = [name.replace(".", "[", 1).replace(".", ",") + "]" * ("." in name) for name in model.param_names(include_tp=True)]
    frame = pd.DataFrame(constrained(model, rows), columns=labels)
    frame.insert(0, "lp__", 0.0)
    return frame


@pytest.mark.stan
def test_logdensity_is_the_models_own_at_100_points(schools):
    target, _ = taddaa.from_stan(schools, taddaa.Gaussian(MEAN, SD))
    with jax.enable_x64(True):
        found, gradients = jax.jit(jax.vmap(jax.value_and_grad(target.logdensity)))(points())
    own = [schools.log_density_gradient(x) for x in points()]
    np.testing.assert_array_equal(found, [value for value, _ in own])
    np.testing.assert_array_equal(gradients, [gradient for _, gradient in own])
    assert same_up_to_constant(found, [plain_logdensity(x) for x in points()])
    assert not same_up_to_constant(found, [plain_logdensity(x[::-1]) for x in points()])  # another order would show


@pytest.mark.stan
def test_eight_schools_have_the_same_verdicts_as_through_numpyro(schools):
    numpyro_tests = pytest.importorskip("test_numpyro")
    ours = taddaa.diagnose(*taddaa.from_stan(schools, taddaa.Gaussian(MEAN, SD)))
    guide = numpyro_tests.autoguide.AutoNormal(numpyro_tests.schools)
    theirs = taddaa.diagnose(*taddaa.from_numpyro(numpyro_tests.schools, guide, numpyro_tests.schools_params(), EFFECT, ERROR))
    assert verdicts(ours) == verdicts(theirs) and ours.verdict == "error"
    assert ours.labels[:3] == ("mu", "tau", "eta[1]") and ours.labels[-1] == "theta[8]"
    np.testing.assert_allclose(ours.moved_draws.mean(axis=0), theirs.moved_draws.mean(axis=0), rtol=1e-3)


@pytest.mark.stan
def test_a_fit_that_is_right_shows_no_error_and_a_permuted_one_does(conjugate):
    rng = np.random.default_rng(0)
    stick = np.array([conjugate.param_unconstrain(np.concatenate([[1.0], np.zeros(8), w]))[9:] for w in rng.dirichlet(np.ones(3), 4000)])
    rows = np.column_stack([rng.normal(NORMAL_PART, NORMAL_SD, (4000, 9)), stick])
    target, approximation = taddaa.from_stan(conjugate, table(conjugate, rows))
    np.testing.assert_allclose(approximation.draws, rows, rtol=1e-6, atol=1e-6)
    verdicts = [row.verdict for row in taddaa.diagnose(target, approximation).rows]
    assert "error" not in verdicts and verdicts.count("untrusted") <= 1  # a lognormal's variance may be too uncertain to judge
    assert taddaa.diagnose(target, taddaa.Draws(rows[:, [1, 0, *range(2, 11)]])).verdict == "error"


@pytest.mark.stan
def test_matrices_have_their_own_indices(conjugate):
    """Stan stores them by column; M[1,2] is the third element in store and the second of the Python array."""
    rows = np.random.default_rng(0).normal(np.concatenate([NORMAL_PART, [0, 0]]), 0.5, (50, 11))
    target, _ = taddaa.from_stan(conjugate, taddaa.Draws(rows))
    with jax.enable_x64(True):
        values = {name: np.asarray(value) for name, value in jax.vmap(target.constrain)(rows).items()}
    assert target.labels[3:6] == ("M[1,1]", "M[1,2]", "M[1,3]")
    np.testing.assert_allclose(values["M"][:, 0, 1], rows[:, 5])
    np.testing.assert_allclose(values["w"].sum(axis=1), 1)


@pytest.mark.stan
def test_a_rejected_evaluation_is_minus_infinity_for_that_chain(conjugate):
    target, _ = taddaa.from_stan(conjugate, taddaa.Gaussian(np.zeros(11), np.ones(11)))
    rows = np.zeros((3, 11))
    rows[1, 1] = 101
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(target.logdensity)(rows))
    assert np.isneginf(found[1]) and np.all(np.isfinite(found[[0, 2]]))


@pytest.mark.stan
def test_draws_of_every_kind(schools):
    rows = taddaa.Gaussian(MEAN, SD).sample(np.random.default_rng(0), 100)
    frame = table(schools, rows)

    class Variational:
        column_names = tuple(frame.columns)
        variational_sample = frame.to_numpy()

    class Pathfinder:
        column_names = tuple(frame.columns)

        def draws(self):
            return frame.to_numpy()

    dotted = frame.rename(columns=lambda name: name.replace("[", ".").replace("]", "").replace(",", "."))
    for draws in (frame, frame[frame.columns[::-1]], dotted, Variational(), Pathfinder(), frame.to_numpy()[:, 1:11]):
        _, approximation = taddaa.from_stan(schools, draws)
        np.testing.assert_allclose(approximation.draws, rows, rtol=1e-9, atol=1e-9)


@pytest.mark.stan
@pytest.mark.filterwarnings("ignore")  # CmdStanPy's own
@pytest.mark.parametrize(("kind", "column"), [("variational", "log_p__"), ("pathfinder", "lp__"), ("laplace", "log_p__")])
def test_results_of_cmdstanpy_itself(schools, monkeypatch, kind, column):
    """Files that CmdStan 2.35 wrote for this program: its own log density at each draw is the oracle."""
    monkeypatch.chdir(Path(__file__).with_name("cmdstan"))  # a Laplace file names its mode's file
    result = need("cmdstanpy").from_csv(f"{kind}.csv")
    assert type(result).__name__ in ("CmdStanVB", "CmdStanPathfinder", "CmdStanLaplace")
    target, approximation = taddaa.from_stan(schools, result)
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(target.logdensity)(approximation.draws))
    table = result.variational_sample if kind == "variational" else result.draws()
    expected = table[:, result.column_names.index(column)]
    assert np.ptp(found - expected) < 1e-4 and np.ptp(expected) > 1  # the file has 8 digits


@pytest.mark.stan
def test_draws_that_cannot_be_used(schools):
    frame = table(schools, taddaa.Gaussian(MEAN, SD).sample(np.random.default_rng(0), 100))
    bad = {
        r"draws lacks 1 of the model's 10 parameters: eta\[3\]": frame.drop(columns="eta[3]"),
        r"draws lacks 2 of the model's 10 parameters: mu, tau": frame.rename(columns={"mu": "m", "tau": "t"}),
        r"draws must have shape \(draws, 10\)": frame.to_numpy()[:, :7],
        "draws must vary, but 'tau' has the same value": frame.assign(tau=1.0),
        "got NaN or infinity in column 'mu'": frame.assign(mu=np.nan),
        "draws row 0 is not a value of the model's parameters": frame.assign(tau=-frame["tau"]),
        "draws row 5 is on the edge of a support": frame.assign(tau=np.where(np.arange(100) == 5, 0.0, frame["tau"])),
        "draws must be distinct": frame.iloc[np.arange(100) % 10],
        "draws has dimension 3, but the model has 10": taddaa.Gaussian(np.zeros(3), np.ones(3)),
        "draws must be a CmdStanPy result": "fit.csv",
    }
    for match, draws in bad.items():
        with pytest.raises(taddaa.InputError, match=match) as caught:
            taddaa.from_stan(schools, draws)
        assert "\n" not in str(caught.value)


@pytest.mark.stan
@pytest.mark.filterwarnings("ignore")  # of httpstan's server about itself
def test_pystan_says_the_same_as_bridgestan(schools):
    stan = need("stan")
    model = stan.build(SCHOOLS, data={"J": 8, "effect": EFFECT.tolist(), "error": ERROR.tolist()})
    rows = points(20)
    target, approximation = taddaa.from_stan(model, table(schools, rows))
    np.testing.assert_allclose(approximation.draws, rows, rtol=1e-9, atol=1e-9)
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(target.logdensity)(rows))
        values = jax.vmap(target.constrain)(rows)
    np.testing.assert_allclose(found, [schools.log_density(x) for x in rows], rtol=1e-12)
    np.testing.assert_allclose(values["theta"], constrained(schools, rows)[:, 10:], rtol=1e-12)


def test_a_worker_ends_though_a_fork_holds_its_pipe():
    """As PyStan's own forks do once it has sampled; without being asked, the worker would wait for ever, and so would Python at its end."""
    worker = subprocess.Popen([sys.executable, "-m", "taddaa.interop.pystan"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder = subprocess.Popen(["sleep", "60"], pass_fds=[worker.stdin.fileno()])
    try:
        pystan._stop(worker)
    finally:
        holder.kill()
        holder.wait()
    assert worker.returncode == 0  # it was not killed


def test_models_that_are_none():
    class CmdStanModel:
        stan_file = "model.stan"

    with pytest.raises(taddaa.InputError, match="a CmdStanModel cannot give log densities"):
        taddaa.from_stan(CmdStanModel(), None)
    with pytest.raises(taddaa.InputError, match=r"model must be a bridgestan.StanModel or a PyStan 3 model, got int"):
        taddaa.from_stan(3, None)
