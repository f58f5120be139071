"""diagnose(model, fit) of each framework is what from_… gives; ArviZ's draws in and out; dims and coords keep their names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from frameworks import need
from taddaa.problem.framework import as_problem

numpyro = need("numpyro")
dist = need("numpyro.distributions")
autoguide = need("numpyro.infer.autoguide")
pm = need("pymc")
xarray = need("xarray")
pytestmark = pytest.mark.filterwarnings("ignore")
QUICK = taddaa.Settings(chains=60, budget=1)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X @ np.array([1.0, -2.0]) + RNG.normal(size=40)
COVARIANCE = np.linalg.inv(X.T @ X + np.eye(2))
CENTRE = COVARIANCE @ X.T @ Y
COORDS = {"coef": ["x1", "x2"]}


def same(found, expected):
    """Two problems with the same names, log density, view and draws."""
    (target, q), (other, p) = found, expected
    assert target.labels == other.labels and type(q) is type(p)
    draws = q.sample(np.random.default_rng(1), 5)
    np.testing.assert_array_equal(draws, p.sample(np.random.default_rng(1), 5))
    with jax.enable_x64(True):
        values = [jax.vmap(t.logdensity if t.data is None else lambda x, t=t: t.logdensity(x, t.data))(draws) for t in (target, other)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)


def regression(x, y):
    with numpyro.plate("coef", 2):
        b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(x @ b, 1.0), obs=y)


def pymc_regression():
    with pm.Model(coords=COORDS) as model:
        b = pm.Normal("b", 0, 1, dims="coef")
        pm.Normal("y", X @ b, 1.0, observed=Y)
    return model


def posterior(count=200, **more):
    draws = np.random.default_rng(2).multivariate_normal(CENTRE, COVARIANCE, (2, count))
    variables = {"b": (("chain", "draw", "coef"), draws), **more}
    return xarray.DataTree.from_dict({"posterior": xarray.Dataset(variables, coords=COORDS)}), draws.reshape(-1, 2)


def meanfield(model):
    approx = pm.MeanField(model=model)
    approx.params_dict["mu"].set_value(CENTRE)
    approx.params_dict["rho"].set_value(np.log(np.expm1(np.sqrt(np.diag(COVARIANCE)))))
    return approx


# PyMC -----------------------------------------------------------------------------------------------------------------


def test_a_pymc_approximation_alone_or_beside_its_model():
    model = pymc_regression()
    approx = meanfield(model)
    same(as_problem(approx, None), taddaa.from_pymc(approx))
    same(as_problem(model, approx), taddaa.from_pymc(approx))
    report = taddaa.diagnose(approx, settings=QUICK)
    assert [row.parameter for row in report.rows[:2]] == ["b[x1]", "b[x2]"]
    tree = report.to_datatree()
    np.testing.assert_array_equal(tree["posterior"]["b"].sel(coef="x1").values[0], report.moved["b[x1]"])
    stored = taddaa.Report.from_json(report.to_json()).to_datatree()
    np.testing.assert_array_equal(stored["starts"]["b"].sel(coef="x2"), tree["starts"]["b"].sel(coef="x2"))


def test_a_pymc_model_and_draws_of_any_kind():
    model = pymc_regression()
    tree, draws = posterior()
    for fit in (tree, tree["posterior"].to_dataset()):
        _, q = as_problem(model, fit)
        np.testing.assert_allclose(q.draws, draws)
    arviz = need("arviz")
    if hasattr(arviz, "InferenceData"):
        _, q = as_problem(model, arviz.InferenceData(posterior=tree["posterior"].to_dataset()))
        np.testing.assert_allclose(q.draws, draws)


def test_data_is_held_by_a_pymc_model():
    model = pymc_regression()
    with pytest.raises(taddaa.InputError, match=r"data is held by a PyMC model itself; set it with pm.set_data"):
        taddaa.diagnose(model, meanfield(model), data=(X, Y))


def test_a_model_alone():
    with pytest.raises(taddaa.InputError, match="approximation is missing beside the model"):
        taddaa.diagnose(pymc_regression())
    with pytest.raises(taddaa.InputError, match="approximation is missing, and dict is not a fit that holds its model"):
        taddaa.diagnose({})


def test_a_bambi_model_holds_a_pymc_model():
    class Model:
        __module__ = "bambi.models"
        backend = None

    bambi = Model()
    with pytest.raises(taddaa.InputError, match="a Bambi model that has not been built"):
        taddaa.diagnose(bambi, posterior()[0])
    bambi.backend = type("Backend", (), {"model": pymc_regression()})()
    target, q = as_problem(bambi, posterior()[0])
    assert target.labels == ("b[x1]", "b[x2]") and q.draws.shape == (400, 2)


# NumPyro --------------------------------------------------------------------------------------------------------------


def test_every_way_to_hand_over_a_numpyro_fit():
    guide = autoguide.AutoNormal(regression)
    svi = numpyro.infer.SVI(regression, guide, numpyro.optim.Adam(0.01), numpyro.infer.Trace_ELBO())
    result = svi.run(jax.random.key(0), 3, X, Y, progress_bar=False)
    expected = taddaa.from_numpyro(regression, guide, result.params, X, Y)
    for model, fit in ((regression, (guide, result)), (regression, (guide, result.params)), (svi, result), (guide, result.params)):
        target, q = as_problem(model, fit, (X, Y))
        assert target.labels == expected[0].labels
        np.testing.assert_array_equal(q.mean(), expected[1].mean())
    same(as_problem(svi, result, {"y": Y, "x": X}), expected)
    with pytest.raises(taddaa.InputError, match=r"SVIRunResult does not hold the guide: diagnose\(model, \(guide, result\)"):
        taddaa.diagnose(regression, result, data=(X, Y))
    assert expected[0].axes.ticks("b") == [(0, 1)] and expected[0].axes.variables[0].dims == ("coef",)


def test_a_numpyro_model_and_draws_with_dims():
    tree, draws = posterior()
    target, q = as_problem(regression, tree, (X, Y))
    np.testing.assert_allclose(q.draws, draws)
    assert target.labels == ("b[x1]", "b[x2]")
    report = taddaa.diagnose(regression, tree, data=(X, Y), settings=QUICK)
    assert report.to_datatree()["posterior"]["b"].sel(coef="x2").shape == (1, 60)
    with pytest.raises(taddaa.InputError, match="no draws of the model's b"):
        as_problem(regression, xarray.Dataset({"c": (("draw",), np.arange(30.0))}), (X, Y))
    with pytest.raises(taddaa.InputError, match=r"draws of 'b' of shape \(3,\), the model has \(2,\)"):
        as_problem(regression, xarray.Dataset({"b": (("draw", "coef"), np.ones((30, 3)))}), (X, Y))


def test_a_log_density_that_uses_numpyro_is_no_model():
    def logdensity(x):
        return dist.Normal(0, 1).log_prob(x).sum()

    normal = dist.Normal(jnp.zeros(2), 1.0).to_event(1)
    for q in (taddaa.Gaussian(np.zeros(2), np.ones(2)), normal):
        assert as_problem(logdensity, q) == (logdensity, q)
    with pytest.raises(taddaa.InputError, match="data is what a framework's model takes"):
        taddaa.diagnose(logdensity, normal, data=(X, Y))


# Stan -----------------------------------------------------------------------------------------------------------------


class StanModel:
    """What is asked of BridgeStan's model: a normal vector `b` of two, on its own scale."""

    __module__ = "bridgestan.model"

    def param_unc_num(self):
        return 2

    def param_names(self, include_tp=False):
        return ["b.1", "b.2"]

    def log_density_gradient(self, x):
        residual = np.asarray(x) - CENTRE
        gradient = -np.linalg.solve(COVARIANCE, residual)
        return float(residual @ gradient / 2), gradient

    def param_constrain(self, x, include_tp=False):
        return np.array(x)

    def param_unconstrain(self, x):
        return np.array(x)


def test_a_stan_model_and_draws():
    tree, draws = posterior()
    target, q = as_problem(StanModel(), tree)
    np.testing.assert_array_equal(q.draws, draws)
    assert target.labels == ("b[1]", "b[2]")  # Stan's own names
    report = taddaa.diagnose(StanModel(), tree, settings=QUICK)
    np.testing.assert_array_equal(report.to_datatree()["posterior"]["b"].sel(coef="x2").values[0], report.moved["b[2]"])
    gaussian = taddaa.Gaussian(CENTRE, covariance=COVARIANCE)
    assert as_problem(StanModel(), gaussian)[1] is gaussian
    with pytest.raises(taddaa.InputError, match="data is for a CmdStanModel"):
        taddaa.diagnose(StanModel(), tree, data={"y": 1})


def test_a_cmdstan_model_goes_through_bridgestan_with_its_data(monkeypatch, tmp_path):
    class CmdStanModel:
        __module__ = "cmdstanpy.model"
        stan_file = "model.stan"

    class Fit:
        __module__ = "cmdstanpy.stanfit.vb"
        column_names = ("lp__", "b[1]", "b[2]")
        variational_sample = np.column_stack([np.zeros(400), posterior()[1]])

    opened = []
    monkeypatch.setattr(need("bridgestan"), "StanModel", lambda file, data: opened.append((file, data)) or StanModel())
    with pytest.raises(taddaa.InputError, match=r"data is needed beside a CmdStanModel, .* diagnose\(model, fit, data=data\)"):
        taddaa.diagnose(CmdStanModel(), Fit())
    _, q = as_problem(CmdStanModel(), Fit(), {"y": 1})
    np.testing.assert_array_equal(q.draws, posterior()[1])
    file = tmp_path / "data.json"
    file.write_text("{}")
    Fit.metadata = type("Metadata", (), {"cmdstan_config": {"data_file": str(file)}})()  # as where the fit was given a file
    as_problem(CmdStanModel(), Fit())
    assert opened == [("model.stan", {"y": 1}), ("model.stan", str(file))]


# Targets --------------------------------------------------------------------------------------------------------------


def test_a_target_and_draws_by_name():
    tree, draws = posterior(other=(("chain", "draw"), np.random.default_rng(3).normal(size=(2, 200))))
    for names in (["b[x2]", "b[x1]"], ["b[1]", "b[0]"]):
        _, q = as_problem(taddaa.Target(lambda x: -x @ x, 2, names=names), tree)
        np.testing.assert_array_equal(q.draws, draws[:, ::-1])
    with pytest.raises(taddaa.InputError, match="approximation has no draws of c; it has b"):
        as_problem(taddaa.Target(lambda x: -x @ x, 2, names=["c", "b[x1]"]), tree)
    with pytest.raises(taddaa.InputError, match="target has constrain"):
        as_problem(taddaa.Target(lambda x: -x @ x, 2, constrain=jnp.exp), tree)
    one, draws = posterior()
    np.testing.assert_array_equal(as_problem(lambda x: -x @ x, one)[1].draws, draws)


def test_dims_and_coords_of_a_target_of_our_own():
    target = taddaa.Target(
        lambda x: -0.5 * jnp.sum(x**2),
        7,
        constrain=lambda x: {"b": x[:6].reshape(2, 3), "s": jnp.exp(x[6])},
        dims={"b": ["group", "coef"]},
        coords={"group": ["a,1", "a[2]"]},
    )
    assert target.labels[:4] == ("b[a,1,0]", "b[a,1,1]", "b[a,1,2]", "b[a[2],0]") and target.labels[-1] == "s"
    report = taddaa.diagnose(target, taddaa.Gaussian(np.zeros(7), np.ones(7)), settings=QUICK)
    found = report.to_datatree()["posterior"]["b"].sel(group="a[2]", coef=1)
    np.testing.assert_array_equal(found.values[0], report.moved["b[a[2],1]"])


@pytest.mark.parametrize(
    ("dims", "coords", "match"),
    [
        ({"b": ["one", "two"]}, {}, "dims must name each axis of 'b', whose shape is .2,., got"),
        ({"b": ["coef"]}, {"coef": ["x1"]}, "coords has 1 labels of 'coef', but 'b' has 2 places along it"),
    ],
)
def test_dims_that_do_not_fit(dims, coords, match):
    target = taddaa.Target(lambda x: -x @ x, 2, constrain=lambda x: {"b": x}, dims=dims, coords=coords)
    with pytest.raises(taddaa.InputError, match=match):
        taddaa.diagnose(target, taddaa.Gaussian(np.zeros(2), np.ones(2)))


def test_labels_that_do_not_tell_places_apart_are_counted():
    target = taddaa.Target(lambda x: -x @ x, 2, constrain=lambda x: {"b": x}, dims={"b": ["c"]}, coords={"c": ["same", "same"]})
    assert target.labels == ("b[0]", "b[1]")
