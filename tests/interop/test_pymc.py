"""from_pymc: order, scale and names are PyMC's; ADVI, Laplace, Pathfinder and SVGD; refusals in one sentence."""

import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest
from eight import EFFECT, ERROR, MEAN, SD, plain_logdensity, points, same_up_to_constant, verdicts

import taddaa
from frameworks import need

pm = need("pymc")
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTensor and ArviZ warn about themselves; ours are asserted


def schools(coords=None):
    with pm.Model(coords=coords) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        eta = pm.Normal("eta", 0, 1, shape=8) if coords is None else pm.Normal("eta", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * eta, dims=None if coords is None else "school")
        pm.Normal("y", theta, ERROR, observed=EFFECT)
    return model


def meanfield(model, mean, sd):
    """PyMC's own approximation object with these parameters, as if ADVI had found them."""
    approx = pm.MeanField(model=model)
    approx.params_dict["mu"].set_value(np.asarray(mean, float))
    approx.params_dict["rho"].set_value(np.log(np.expm1(np.asarray(sd, float))))
    return approx


@pytest.fixture(scope="module")
def eight_schools():
    model = schools()
    return model, meanfield(model, MEAN, SD)


def conjugate():
    """Its posterior is normal on the unconstrained scale, and its names are not in alphabetical order."""
    with pm.Model() as model:
        pm.LogNormal("scale", 0.3, 0.5)
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Normal("y", beta, 0.5, observed=np.array([1.0, -2.0]))
    return model


CONJUGATE_MEAN = np.array([0.3, 0.8, -1.6])
CONJUGATE_SD = np.array([0.5, np.sqrt(0.2), np.sqrt(0.2)])


def test_logdensity_is_the_models_own_at_100_points(eight_schools):
    model, approx = eight_schools
    target, _ = taddaa.from_pymc(approx)
    own = model.compile_logp()
    expected = np.array([own({"mu": x[0], "tau_log__": x[1], "eta": x[2:]}) for x in points()])
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(target.logdensity)(points()))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert same_up_to_constant(found, [plain_logdensity(x) for x in points()])


def test_large_data_is_an_argument_and_no_constant():
    rng = np.random.default_rng(0)
    predictors, group, outcome = rng.normal(size=(3000, 2)), rng.integers(0, 4, 3000), rng.normal(size=3000)
    with pm.Model() as model:
        shared = pm.Data("shared", predictors)
        offset = pm.Normal("offset", 0, 1, shape=4)
        slope = pm.Normal("slope", 0, 1, shape=2)
        fitted = pm.Deterministic("fitted", shared[:3] @ slope)
        pm.Normal("y", offset[group] + shared @ slope, 2.0, observed=outcome)
    target, _ = taddaa.from_pymc(meanfield(model, np.zeros(6), np.ones(6)))
    assert sorted(array.shape for array in target.data) == [(3000,), (3000,), (3000, 2)]
    own, rows = model.compile_logp(), rng.normal(size=(20, 6))
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(target.logdensity, (0, None))(rows, target.data))
        shown = target.constrain(rows[0], target.data)
        program = jax.jit(target.logdensity).lower(rows[0], target.data).as_text()
    np.testing.assert_allclose(found, [own({"offset": x[:4], "slope": x[4:]}) for x in rows], rtol=1e-12)
    np.testing.assert_allclose(shown["fitted"], predictors[:3] @ rows[0][4:], rtol=1e-12)
    assert len(program) < 30_000  # 15,000 numbers would be more
    assert fitted.name in target.labels[-1]


def test_scrambled_variables_keep_their_own_coordinates():
    with pm.Model() as model:
        zeta = pm.HalfNormal("zeta", 2.0)
        alpha = pm.Normal("alpha", np.arange(3.0), 1.0, shape=3)
        pm.Uniform("unit", 0, zeta)
        pm.Dirichlet("weights", np.array([1.0, 2.0, 3.0]))
        pm.Deterministic("total", alpha.sum() * zeta)
    target, approximation = taddaa.from_pymc(meanfield(model, np.arange(7.0), np.full(7, 0.5)))
    draws = np.random.default_rng(0).normal(size=(100, 7))
    named = [{"zeta_log__": x[0], "alpha": x[1:4], "unit_interval__": x[4], "weights_simplex__": x[5:]} for x in draws]
    own = model.compile_logp()
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(target.logdensity)(draws))
        values = jax.vmap(target.constrain)(draws)
    np.testing.assert_allclose(found, [own(point) for point in named], rtol=1e-10)
    assert not np.any(np.isclose(found, [own(point) for point in named[::-1]]))
    np.testing.assert_allclose(values["total"], draws[:, 1:4].sum(axis=1) * np.exp(draws[:, 0]))
    np.testing.assert_allclose(values["weights"].sum(axis=1), 1)
    assert target.labels == ("zeta", *(f"alpha[{i}]" for i in range(3)), "unit", *(f"weights[{i}]" for i in range(3)), "total")
    np.testing.assert_array_equal(approximation.mean(), np.arange(7.0))


def test_eight_schools_have_the_same_verdicts_as_through_numpyro(eight_schools):
    numpyro_tests = pytest.importorskip("test_numpyro")
    ours = taddaa.diagnose(*taddaa.from_pymc(eight_schools[1]))
    guide = numpyro_tests.autoguide.AutoNormal(numpyro_tests.schools)
    theirs = taddaa.diagnose(*taddaa.from_numpyro(numpyro_tests.schools, guide, numpyro_tests.schools_params(), EFFECT, ERROR))
    assert verdicts(ours) == verdicts(theirs) and ours.verdict == "error"
    assert ours.labels == theirs.labels
    np.testing.assert_allclose(ours.moved_draws.mean(axis=0), theirs.moved_draws.mean(axis=0), rtol=1e-3)


def test_coords_are_the_rows_names():
    model = schools({"school": list("ABCDEFGH")})
    target, _ = taddaa.from_pymc(meanfield(model, MEAN, SD))
    assert target.labels[:4] == ("mu", "tau", "eta[A]", "eta[B]") and target.labels[-1] == "theta[H]"


def test_a_fit_that_is_right_shows_no_error_and_a_permuted_one_does():
    model = conjugate()
    target, approximation = taddaa.from_pymc(meanfield(model, CONJUGATE_MEAN, CONJUGATE_SD))
    assert taddaa.diagnose(target, approximation).verdict in ("no error found", "within tolerance")
    order = [2, 0, 1]
    permuted = taddaa.Gaussian(CONJUGATE_MEAN[order], CONJUGATE_SD[order])
    assert taddaa.diagnose(target, permuted).verdict == "error"


def test_full_rank_covariance_is_the_approximations_own():
    model = conjugate()
    with model:
        approx = pm.fit(50, method="fullrank_advi", random_seed=0, progressbar=False)
    _, approximation = taddaa.from_pymc(approx)
    draws = approx.sample_dict_fn(20_000, random_seed=1)
    flat = np.column_stack([draws["scale_log__"], draws["beta"]])
    np.testing.assert_allclose(approximation.mean(), flat.mean(axis=0), atol=5 * flat.std() / np.sqrt(20_000))
    np.testing.assert_allclose(approximation.covariance(), np.cov(flat.T), atol=8 * flat.var() / np.sqrt(20_000))


def test_laplace_is_matched_by_name():
    extras = need("pymc_extras")
    model = conjugate()
    with model:
        result = extras.fit_laplace(progressbar=False, random_seed=0, draws=50)
    _, approximation = taddaa.from_pymc(result, model=model)
    rows = ["scale_log__", "beta[0]", "beta[1]"]  # the model's order; the result has another
    assert list(result.fit["rows"].values) != rows
    np.testing.assert_array_equal(approximation.mean(), result.fit["mean_vector"].sel(rows=rows))
    np.testing.assert_allclose(approximation.covariance(), result.fit["covariance_matrix"].sel(rows=rows, columns=rows), atol=1e-12)
    np.testing.assert_allclose(approximation.mean()[1:], CONJUGATE_MEAN[1:], atol=1e-3)


def test_constrained_draws_are_unconstrained():
    """Pathfinder gives constrained draws only; here its result is imitated, so that the answer is known."""
    xarray = need("xarray")
    model = conjugate()
    draws = np.random.default_rng(0).normal(CONJUGATE_MEAN, CONJUGATE_SD, (400, 3))
    posterior = xarray.Dataset(
        {
            "beta": (("chain", "draw", "which"), draws[None, :, 1:]),
            "scale": (("chain", "draw"), np.exp(draws[None, :, 0])),
            "other": (("chain", "draw"), draws[None, :, 0]),
        }
    )

    class Result:
        pass

    result = Result()
    result.posterior = posterior
    _, approximation = taddaa.from_pymc(result, model=model)
    np.testing.assert_allclose(approximation.draws, draws, rtol=1e-12)
    result.posterior = posterior.drop_vars("beta")
    refused("it lacks beta", result, model)


@pytest.mark.slow
def test_pathfinder_itself():
    extras = need("pymc_extras")
    model = conjugate()
    with model:
        result = extras.fit_pathfinder(num_paths=2, num_draws=300, random_seed=0, progressbar=False, display_summary=False)
    _, approximation = taddaa.from_pymc(result, model=model)
    np.testing.assert_allclose(approximation.draws.mean(axis=0), CONJUGATE_MEAN, atol=0.3)


def test_svgd_particles_are_passed_once_with_a_warning():
    model = conjugate()
    with model:
        approx = pm.fit(2, method="svgd", inf_kwargs={"n_particles": 40}, random_seed=0, progressbar=False)
    with pytest.warns(UserWarning, match="a set of 40 particles"):
        _, approximation = taddaa.from_pymc(approx)
    assert approximation.draws.shape == (40, 3)


# Models that JAX does not know --------------------------------------------------------------------------------------


def square_op():
    """An operation of the user's own, with a gradient and without a JAX form."""
    import pytensor.tensor as pt
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

    class Square(Op):
        def make_node(self, x):
            x = pt.as_tensor_variable(x)
            return Apply(self, [x], [x.type()])

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.asarray(inputs[0] ** 2)

        def grad(self, inputs, gradients):
            return [2 * inputs[0] * gradients[0]]

        def pullback(self, inputs, outputs, gradients):
            return self.grad(inputs, gradients)

    return Square()


def test_a_model_without_a_jax_form_runs_on_the_host():
    with pm.Model(coords={"which": ["a", "b"]}) as model:
        scale = pm.LogNormal("scale", 0.3, 0.5)
        beta = pm.Normal("beta", 0, 1, dims="which")
        pm.Deterministic("both", beta * scale, dims="which")
        pm.Potential("term", -2 * pm.math.sum(square_op()(beta - np.array([1.0, -2.0]))))
    # The term is that of y ~ Normal(beta, 0.5), so the posterior is the conjugate one.
    target, approximation = taddaa.from_pymc(meanfield(model, CONJUGATE_MEAN, CONJUGATE_SD))
    assert "has no JAX form" in target.origin.notes[0] and target.labels[-1] == "both[b]"
    rows = np.random.default_rng(0).normal(CONJUGATE_MEAN, CONJUGATE_SD, (50, 3))
    exact = -0.5 * np.sum(((rows - CONJUGATE_MEAN) / CONJUGATE_SD) ** 2, axis=1)
    with jax.enable_x64(True):
        found, gradient = jax.vmap(jax.value_and_grad(target.logdensity))(rows)
        shown = jax.vmap(target.constrain)(rows)
    assert same_up_to_constant(found, exact)
    np.testing.assert_allclose(gradient, -(rows - CONJUGATE_MEAN) / CONJUGATE_SD**2, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(shown["both"], rows[:, 1:] * np.exp(rows[:, :1]), rtol=1e-12)
    settings = taddaa.Settings(chains=100, iterations=60, budget=1)
    assert taddaa.diagnose(target, approximation, settings=settings).verdict != "error"
    assert taddaa.diagnose(target, taddaa.Gaussian(CONJUGATE_MEAN, 0.3 * CONJUGATE_SD), settings=settings).verdict == "error"
    xarray = need("xarray")
    draws = xarray.Dataset({"scale": ("draw", np.exp(rows[:, 0])), "beta": (("draw", "which"), rows[:, 1:])})
    np.testing.assert_allclose(taddaa.from_pymc(draws, model=model)[1].draws, rows, rtol=1e-12)


# Data ---------------------------------------------------------------------------------------------------------------


def regression_with_data():
    rng = np.random.default_rng(3)
    predictor = rng.normal(size=60)
    with pm.Model() as model:
        x, y = pm.Data("x", predictor), pm.Data("y", 2 * predictor + rng.normal(size=60))
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("seen", x * slope, 1.0, observed=y, shape=x.shape)
    return model


def set_test_data(model, count):
    rng = np.random.default_rng(4)
    with model:
        pm.set_data({"x": rng.normal(size=count), "y": np.zeros(count)})


@pytest.fixture(scope="module")
def fitted_regression():
    model = regression_with_data()
    with model:
        return model, pm.fit(2000, random_seed=0, progressbar=False)


def test_data_set_after_the_fit_is_noticed(fitted_regression):
    model, approx = fitted_regression
    own = {name: model[name].get_value() for name in ("x", "y")}
    target, _ = taddaa.from_pymc(approx)  # untouched data pass without a word
    assert target.origin.notes == () and target.origin.data.startswith("x (60,), y (60,); digest ")
    for count in (7, 60):
        set_test_data(model, count)
        refused("approx was not fitted to the data that its model holds now .x, y.: its loss was .*pm.set_data", approx)
        with pytest.warns(UserWarning, match="was not fitted to the data"):
            changed, _ = taddaa.from_pymc(approx, model=model)
        assert changed.origin.notes and changed.origin.data != target.origin.data
    with model:
        pm.set_data(own)
    assert taddaa.from_pymc(approx)[0].origin == target.origin


def test_what_a_fit_does_not_tell_is_a_note_and_the_data_are_in_the_report():
    model = regression_with_data()
    report = taddaa.diagnose(*taddaa.from_pymc(meanfield(model, [1.8], [0.13])))
    assert any("the fit does not tell whether it was made with the same" in note for note in report.notes)
    assert report.provenance.data == taddaa.Report.from_json(report.to_json()).provenance.data != ""
    assert f"pymc {pm.__version__}" in report.provenance.versions
    fixed, _ = taddaa.from_pymc(meanfield(conjugate(), CONJUGATE_MEAN, CONJUGATE_SD))  # nothing that could have been changed
    assert fixed.origin.notes == () and fixed.origin.data.startswith("y (2,); digest ")


def test_stored_data_of_a_result_must_be_the_models():
    extras = need("pymc_extras")
    model = regression_with_data()
    with model:
        result = extras.fit_laplace(progressbar=False, random_seed=0, draws=50)
    assert taddaa.from_pymc(result, model=model)[0].origin.notes == ()
    set_test_data(model, 60)
    refused("approx was fitted with x of shape .60,., digest", result, model)


# Bad input ------------------------------------------------------------------------------------------------------------


def refused(match, approx, model=None):
    with pytest.raises(taddaa.InputError, match=match) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taddaa.from_pymc(approx, model=model)
    assert "\n" not in str(caught.value)


def test_not_a_fit(eight_schools):
    refused("approx must be what pm.fit", object(), eight_schools[0])
    refused("model is needed", object())
    refused("model must be a pymc.Model, got str", eight_schools[1], "model")


def test_fit_of_another_model(eight_schools):
    refused("approx does not match the model: it has no scale_log__", eight_schools[1], conjugate())


def test_discrete_free_variables():
    with pm.Model() as model:
        pm.Bernoulli("which", 0.3)
        pm.Normal("x", 0, 1)
    refused("free variable 'which' is discrete", object(), model)


def test_minibatches():
    with pm.Model() as model:
        data = pm.Minibatch(np.random.default_rng(0).normal(size=100), batch_size=10)
        pm.Normal("y", pm.Normal("m", 0, 1), 1, observed=data, total_size=100)
    refused("drawn at random .pm.Minibatch.", object(), model)


def test_nothing_to_judge():
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=1.0)
    refused("no free variables", object(), model)


PRETENDED = """
import jax
import pymc.sampling.jax
from taddaa.chains.machine.placement import Placement

assert jax.device_count() == 100, jax.device_count()
print(Placement.of(200, None).mesh)
"""


def test_the_hundred_devices_that_pymc_pretends_are_not_used():
    """Chains that were spread over them waited for each other, with a host model until JAX ended the process."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PRETENDED], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "None", done.stderr[-2000:]
