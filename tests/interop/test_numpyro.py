"""from_numpyro: order, scale and names are NumPyro's; what cannot be judged is refused in one sentence."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eight import EFFECT, ERROR, MEAN, SD, plain_logdensity, points, same_up_to_constant

import taddaa
from frameworks import need
from taddaa.problem.framework import as_problem

numpyro = need("numpyro")
dist = need("numpyro.distributions")
autoguide = need("numpyro.infer.autoguide")


def schools(effect, error):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        eta = numpyro.sample("eta", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * eta)
        numpyro.sample("y", dist.Normal(theta, error), obs=effect)


def schools_params() -> dict:
    parts = {"mu": slice(0, 1), "tau": slice(1, 2), "eta": slice(2, 10)}
    shape = {"mu": (), "tau": (), "eta": (8,)}
    return {
        f"{name}_auto_{what}": jnp.asarray(values[part]).reshape(shape[name])
        for name, part in parts.items()
        for what, values in (("loc", MEAN), ("scale", SD))
    }


def scrambled():
    """Not in alphabetical order, of every kind of support, one of which depends on another site."""
    zeta = numpyro.sample("zeta", dist.HalfNormal(2.0))
    numpyro.sample("unit", dist.Uniform(0.0, zeta))
    alpha = numpyro.sample("alpha", dist.Normal(jnp.arange(3.0), 1.0).to_event(1))
    numpyro.sample("weights", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])))
    numpyro.deterministic("total", alpha.sum() * zeta)


SCRAMBLED_DIM = 1 + 1 + 3 + 2
X, NOISE = np.random.default_rng(1).normal(size=(30, 2)), np.random.default_rng(2).normal(size=30)
Y = X @ np.array([1.0, -2.0]) + NOISE


def conjugate(x, y):
    """Its posterior is normal on the unconstrained scale: `scale` has no data."""
    numpyro.sample("scale", dist.LogNormal(0.3, 0.5))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ beta, 1.0), obs=y)


def conjugate_params() -> dict:
    covariance = np.linalg.inv(X.T @ X + np.eye(2))
    tril = np.zeros((3, 3))
    tril[0, 0], tril[1:, 1:] = 0.5, np.linalg.cholesky(covariance)
    return {"auto_loc": jnp.asarray(np.concatenate([[0.3], covariance @ X.T @ Y])), "auto_scale_tril": jnp.asarray(tril)}


def fitted(model, guide, *args):
    """Where an optimiser would begin: good enough to compare two ways to say the same."""
    svi = numpyro.infer.SVI(model, guide, numpyro.optim.Adam(0.01), numpyro.infer.Trace_ELBO())
    return svi.get_params(svi.init(jax.random.key(0), *args))


def test_logdensity_is_the_models_own_at_100_points():
    target, _ = taddaa.from_numpyro(schools, autoguide.AutoNormal(schools), schools_params(), EFFECT, ERROR)
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(lambda x: target.logdensity(x, target.data)))(points())
    assert same_up_to_constant(found, [plain_logdensity(x) for x in points()])


def test_scrambled_sites_keep_their_own_coordinates():
    """Against NumPyro's potential, given by name; the constrained values and deterministics too."""

    def guide():
        numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
        numpyro.sample("alpha", dist.Normal(jnp.array([5.0, 6.0, 7.0]), 0.1).to_event(1))
        numpyro.sample("unit", dist.Uniform(0.0, numpyro.sample("zeta", dist.HalfNormal(1.0))))

    target, approximation = taddaa.from_numpyro(scrambled, guide, {})
    potential_energy, constrain_fn = numpyro.infer.util.potential_energy, numpyro.infer.util.constrain_fn
    with jax.enable_x64(True):
        draws = jax.random.normal(jax.random.key(1), (100, SCRAMBLED_DIM))
        named = {"zeta": draws[:, 0], "unit": draws[:, 1], "alpha": draws[:, 2:5], "weights": draws[:, 5:7]}
        own, theirs = jax.jit(jax.vmap(target.logdensity)), -jax.jit(jax.vmap(partial(potential_energy, scrambled, (), {})))(named)
        np.testing.assert_allclose(own(draws), theirs, rtol=1e-12)
        assert not np.any(np.isclose(own(draws[:, ::-1]), theirs))  # another order of the coordinates would show
        values, expected = (
            jax.jit(jax.vmap(target.constrain))(draws),
            jax.jit(jax.vmap(partial(constrain_fn, scrambled, (), {}, return_deterministic=True)))(named),
        )
    assert target.labels[:3] == ("zeta", "unit", "alpha[0]") and target.labels[-1] == "total"
    for name in ("zeta", "unit", "alpha", "weights", "total"):
        np.testing.assert_allclose(values[name], expected[name], rtol=1e-12)
    np.testing.assert_allclose(approximation.sample(np.random.default_rng(0), 500)[:, 2:5].mean(axis=0), [5, 6, 7], atol=0.1)


@pytest.mark.parametrize("kind", ["AutoNormal", "AutoDiagonalNormal", "AutoMultivariateNormal", "AutoLowRankMultivariateNormal"])
def test_normal_guides_in_closed_form_are_the_guide(kind):
    guide = getattr(autoguide, kind)(conjugate, init_loc_fn=numpyro.infer.init_to_value(values={"beta": jnp.array([3.0, 4.0])}))
    params = fitted(conjugate, guide, X, Y)
    _, approximation = taddaa.from_numpyro(conjugate, guide, params, X, Y)
    draws = jax.jit(lambda key: guide.sample_posterior(key, params, sample_shape=(20_000,)))(jax.random.key(3))
    own = np.column_stack([np.log(draws["scale"]), draws["beta"]])
    covariance = approximation.covariance() if approximation.covariance().ndim == 2 else np.diag(approximation.covariance())
    assert isinstance(approximation, taddaa.Gaussian)
    np.testing.assert_allclose(approximation.mean(), own.mean(axis=0), atol=5 * own.std(axis=0).max() / np.sqrt(20_000))
    np.testing.assert_allclose(covariance, np.cov(own.T), atol=8 * own.var(axis=0).max() / np.sqrt(20_000))


def test_laplace_is_the_inverse_hessian():
    guide = autoguide.AutoLaplaceApproximation(conjugate)
    loc = conjugate_params()["auto_loc"]
    _, approximation = taddaa.from_numpyro(conjugate, guide, {"auto_loc": loc}, X, Y)
    np.testing.assert_allclose(approximation.covariance()[1:, 1:], np.linalg.inv(X.T @ X + np.eye(2)), rtol=1e-6)


def test_flow_with_an_inverse_has_a_density():
    guide = autoguide.AutoIAFNormal(conjugate, num_flows=1)
    _, approximation = taddaa.from_numpyro(conjugate, guide, fitted(conjugate, guide, X, Y), X, Y)
    draws = approximation.sample(np.random.default_rng(0), 50)
    assert draws.dtype == np.float64 and np.all(np.isfinite(approximation.logdensity(draws)))


@pytest.mark.slow
def test_flow_without_an_inverse_has_none():
    guide = autoguide.AutoBNAFNormal(conjugate, num_flows=1)
    _, approximation = taddaa.from_numpyro(conjugate, guide, fitted(conjugate, guide, X, Y), X, Y)
    draws = approximation.sample(np.random.default_rng(0), 50)
    assert np.all(np.isfinite(draws)) and approximation.logdensity(draws) is None


def hand_written(x, y):
    loc = numpyro.param("loc", jnp.zeros(2))
    numpyro.sample("beta", dist.Normal(loc, 0.2).to_event(1))
    numpyro.sample("scale", dist.LogNormal(0.3, 0.5))


def test_hand_written_guide_comes_back_unconstrained():
    params = {"loc": jnp.array([1.0, -2.0])}
    _, approximation = taddaa.from_numpyro(conjugate, hand_written, params, X, Y)
    draws = approximation.sample(np.random.default_rng(0), 4000)  # scale's logarithm first: the model's order, not the guide's
    np.testing.assert_allclose(draws.mean(axis=0), [0.3, 1.0, -2.0], atol=0.05)
    np.testing.assert_allclose(draws.std(axis=0), [0.5, 0.2, 0.2], rtol=0.1)


def test_tails_survive_in_double_precision():
    def guide():
        value = numpyro.sample("raw", dist.Normal(20.0, 1.0), infer={"is_auxiliary": True})
        numpyro.sample("p", dist.Delta(jax.nn.sigmoid(value)))

    _, approximation = taddaa.from_numpyro(lambda: numpyro.sample("p", dist.Uniform(0, 1)), guide, {})
    assert abs(approximation.sample(np.random.default_rng(0), 2000).mean() - 20) < 0.2  # single precision ends near 16


def test_a_fit_that_is_right_shows_no_error_and_a_permuted_one_does():
    guide = autoguide.AutoMultivariateNormal(conjugate)
    target, approximation = taddaa.from_numpyro(conjugate, guide, conjugate_params(), X, Y)
    report = taddaa.diagnose(target, approximation)
    assert report.verdict in ("no error found", "within tolerance")
    assert report.labels == ("scale", "beta[0]", "beta[1]")
    order = [2, 0, 1]
    permuted = taddaa.Gaussian(approximation.mean()[order], covariance=approximation.covariance()[np.ix_(order, order)])
    assert taddaa.diagnose(target, permuted).verdict == "error"


def test_functions_of_named_parameters_and_deterministics():
    functionals = [
        taddaa.Mean(of=lambda p: p["theta"][0] - p["theta"][1], name="contrast"),
        taddaa.Quantile(0.9, of=lambda p: p["tau"], name="tau"),
    ]
    problem = taddaa.from_numpyro(schools, autoguide.AutoNormal(schools), schools_params(), EFFECT, ERROR)
    report = taddaa.diagnose(*problem, functionals=functionals, settings=taddaa.Settings(chains=100, budget=1))
    assert [row.parameter for row in report.rows] == ["contrast", "tau"]
    assert np.all(report.moved["tau"] > 0)
    moved = report.moved
    np.testing.assert_allclose(moved["theta[3]"], moved["mu"] + moved["tau"] * moved["eta[3]"])


def test_arrays_are_data_unless_the_model_needs_their_values():
    target, _ = taddaa.from_numpyro(schools, autoguide.AutoNormal(schools), schools_params(), EFFECT, ERROR)
    assert len(target.data) == 2

    def counts(group, y):
        with numpyro.plate("groups", int(np.max(group)) + 1):
            a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a[group], 1), obs=y)

    group, y = np.array([0, 1, 1, 2]), np.array([0.1, 0.2, 0.3, 0.4])
    guide = autoguide.AutoNormal(counts)
    target, _ = taddaa.from_numpyro(counts, guide, fitted(counts, guide, group, y), group, y)
    assert target.data is None and target.dim == 3


# Bad input ------------------------------------------------------------------------------------------------------------


def refused(match, model, guide, params, *args):
    with pytest.raises(taddaa.InputError, match=match) as caught:
        taddaa.from_numpyro(model, guide, params, *args)
    assert "\n" not in str(caught.value)


def test_guide_of_another_model():
    refused(
        "guide does not match the model: it does not sample the model's mu", schools, hand_written, {"loc": jnp.zeros(2)}, EFFECT, ERROR
    )
    guide = autoguide.AutoNormal(conjugate)
    params = fitted(conjugate, guide, X, Y)
    refused("guide does not match the model: it does not sample the model's mu", schools, guide, params, EFFECT, ERROR)


def test_guide_of_another_shape():
    def wider(x, y):
        numpyro.sample("beta", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("scale", dist.LogNormal(0, 1))

    refused(r"site 'beta' has shape \(3,\) in the guide and \(2,\)", conjugate, wider, {}, X, Y)


def test_params_of_another_guide():
    refused("params lacks the guide's auto_loc, auto_scale_tril", conjugate, autoguide.AutoMultivariateNormal(conjugate), {}, X, Y)
    refused("params must be the dict", conjugate, hand_written, None, X, Y)


def test_point_estimates():
    refused("a point without spread", conjugate, autoguide.AutoDelta(conjugate), {}, X, Y)

    def point(x, y):
        numpyro.sample("beta", dist.Delta(jnp.zeros(2), event_dim=1))
        numpyro.sample("scale", dist.LogNormal(0, 1))

    refused(r"guide gives beta\[0\] the same value in every draw", conjugate, point, {}, X, Y)


def test_singular_laplace():
    def flat():
        numpyro.sample("x", dist.Normal(0, 1))
        numpyro.sample("free", dist.ImproperUniform(dist.constraints.real, (), ()))

    refused("is singular", flat, autoguide.AutoLaplaceApproximation(flat), {"auto_loc": jnp.zeros(2)})


def test_subsampling():
    def sub():
        with numpyro.plate("rows", 100, subsample_size=10):
            numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=jnp.zeros(10))

    refused("plate 'rows' takes 10 of 100 rows", sub, hand_written, {})


def test_discrete_latents():
    def mixture():
        which = numpyro.sample("which", dist.Poisson(0.3))
        numpyro.sample("x", dist.Normal(which, 1.0))

    refused("latent site 'which' is discrete", mixture, hand_written, {})


def test_models_own_params_are_needed():
    def with_param():
        numpyro.sample("x", dist.Normal(numpyro.param("shift", 0.0), 1.0))

    def guide():
        numpyro.sample("x", dist.Normal(3.0, 1.0))

    refused("params lacks 'shift'", with_param, guide, {})
    target, _ = taddaa.from_numpyro(with_param, guide, {"shift": jnp.array(3.0)})
    assert target.logdensity(jnp.array([3.0])) > target.logdensity(jnp.array([0.0]))


def test_a_guides_parameter_named_as_a_site_does_not_fix_that_site():
    def guide():
        numpyro.sample("x", dist.Normal(numpyro.param("y", 5.0), numpyro.param("z", 1.0)))

    def model():
        numpyro.sample("x", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(0.0, 1.0))

    refused("it does not sample the model's y", model, guide, {"y": jnp.array(5.0), "z": jnp.array(1.0)})


def test_wrong_arguments():
    refused("model failed when it was run once: TypeError", schools, autoguide.AutoNormal(schools), schools_params(), EFFECT)


@pytest.mark.parametrize("held", [False, True])
def test_after_a_run_in_single_precision(held):
    """NUTS makes JAX remember an index as 32 bits wide; the model may take it as an argument or hold it."""
    rng = np.random.default_rng(5)
    group, y = rng.integers(0, 3, 20), rng.normal(size=20)

    def grouped(group, y):
        with numpyro.plate("groups", 3):
            effect = numpyro.sample("effect", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(effect[group], 1), obs=y)

    model, args = (lambda: grouped(group, y), ()) if held else (grouped, (group, y))
    mcmc = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=2, num_samples=2, progress_bar=False)
    mcmc.run(jax.random.key(0), *args)
    params = {"effect_auto_loc": jnp.zeros(3), "effect_auto_scale": jnp.ones(3)}
    target, _ = taddaa.from_numpyro(model, autoguide.AutoNormal(model), params, *args)
    assert target.labels == ("effect[0]", "effect[1]", "effect[2]")
    assert ("(20,)" in target.origin.data) is not held
    laplace = autoguide.AutoLaplaceApproximation(model)  # it holds what it was fitted with
    svi = numpyro.infer.SVI(model, laplace, numpyro.optim.Adam(0.01), numpyro.infer.Trace_ELBO())
    result = svi.run(jax.random.key(0), 2, *args, progress_bar=False)
    _, q = taddaa.from_numpyro(model, laplace, result, *args)
    np.testing.assert_allclose(q.covariance(), np.diag(1 / (1 + np.bincount(group))), atol=1e-6)
    svi.run(jax.random.key(0), 2, *args, progress_bar=False)  # and goes on as before


def test_an_error_in_the_model_tells_where():
    def model(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mean, 1), obs=y["no such column"])

    refused(r"at line \d+ of test_numpyro.py \(.*no such column.*\): KeyError", model, autoguide.AutoNormal(model), {}, {"y": 1.0})


@pytest.mark.filterwarnings("ignore")
def test_the_particles_of_steinvi_are_draws():
    """The particles are set by hand, so that the answer is known: on the unconstrained scale of a positive site."""
    einstein = need("numpyro.contrib.einstein")

    def model():
        numpyro.sample("scale", dist.LogNormal(0.3, 0.5))

    stein = einstein.SteinVI(model, autoguide.AutoDelta(model), numpyro.optim.Adam(0.01), einstein.RBFKernel(), num_stein_particles=30)
    params = stein.get_params(stein.init(jax.random.key(0)))
    placed = np.exp(np.random.default_rng(0).normal(0.3, 0.5, 30))
    result = einstein.steinvi.SteinVIRunResult({name: jnp.asarray(placed) for name in params}, None, None)
    with pytest.warns(UserWarning, match="a set of 30 particles"):
        target, q = as_problem(stein, result)
    np.testing.assert_allclose(np.sort(q.draws[:, 0]), np.sort(np.log(placed)), atol=1e-6)
    assert target.labels == ("scale",)


def test_a_list_of_guides():
    def model():
        numpyro.sample("one", dist.Normal(0, 1))
        numpyro.sample("two", dist.LogNormal(0, 1))

    guides = autoguide.AutoGuideList(model)
    block, seed = numpyro.handlers.block, numpyro.handlers.seed
    guides.append(autoguide.AutoNormal(block(seed(model, 0), hide=["two"]), prefix="a"))
    guides.append(autoguide.AutoNormal(block(seed(model, 0), hide=["one"]), prefix="b"))
    svi = numpyro.infer.SVI(model, guides, numpyro.optim.Adam(0.01), numpyro.infer.Trace_ELBO())
    svi.init(jax.random.key(0))
    params = {"one_a_loc": 1.0, "one_a_scale": 0.5, "two_b_loc": -2.0, "two_b_scale": 0.2}
    _, q = taddaa.from_numpyro(model, guides, {name: jnp.asarray(value) for name, value in params.items()})
    draws = q.sample(np.random.default_rng(0), 4000)
    np.testing.assert_allclose(draws.mean(axis=0), [1.0, -2.0], atol=5 * 0.5 / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=0), [0.5, 0.2], rtol=0.06)


def test_what_enters_a_plate_is_named_in_refusals():
    def mixture(y):
        with numpyro.plate("rows", 4):
            numpyro.sample("which", dist.Poisson(0.3))

    refused(
        r"latent site 'which' is discrete \(Poisson\) and its values cannot be listed",
        mixture,
        autoguide.AutoNormal(mixture),
        {},
        np.zeros(4),
    )

    def minibatch(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", 4, subsample_size=2) as rows:
            numpyro.sample("y", dist.Normal(mean, 1), obs=y[rows])  # a NumPy array cannot be indexed while JAX traces

    refused("plate 'rows' takes 2 of 4 rows at random", minibatch, autoguide.AutoNormal(minibatch), {}, np.zeros(4))
