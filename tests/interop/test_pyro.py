"""from_pyro: order, scale and names are Pyro's; normal guides in closed form, others by draws."""

import jax
import numpy as np
import pytest

import taddaa
from taddaa.problem.framework import as_problem

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
pyro = pytest.importorskip("pyro")
dist = pytest.importorskip("pyro.distributions")

Y = torch.tensor([1.0, -2.0])
MEAN, SD = np.array([0.3, 0.8, -1.6]), np.array([0.5, np.sqrt(0.2), np.sqrt(0.2)])


def model(y):
    """Its posterior is normal on the unconstrained scale, and its names are not in alphabetical order."""
    pyro.sample("scale", dist.LogNormal(0.3, 0.5))
    beta = pyro.sample("beta", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    with pyro.plate("data", 2):
        pyro.sample("y", dist.Normal(beta, 0.5), obs=y)


def set_meanfield(guide):
    """As if SVI had found them."""
    guide(Y)
    with torch.no_grad():
        for name, part in (("scale", slice(0, 1)), ("beta", slice(1, 3))):
            loc, sd = (torch.tensor(values[part], dtype=torch.float32) for values in (MEAN, SD))
            getattr(guide.locs, name).copy_(loc.reshape(getattr(guide.locs, name).shape))
            setattr(guide.scales, name, sd.reshape(getattr(guide.locs, name).shape))
    return guide


@pytest.fixture(scope="module")
def guide():
    pyro.clear_param_store()
    return set_meanfield(pyro.infer.autoguide.AutoNormal(model))


def test_logdensity_view_and_guide_are_pyros_own(guide):
    target, q = as_problem(model, guide, (Y,))
    assert target.labels == ("scale", "beta[0]", "beta[1]")
    np.testing.assert_allclose(q.mean(), MEAN, rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(q.covariance()), SD, rtol=1e-5)
    rows = np.random.default_rng(0).normal(MEAN, SD, (40, 3))
    with jax.enable_x64(True):
        values, gradients = jax.vmap(jax.value_and_grad(target.logdensity))(rows)
        shown = jax.vmap(target.constrain)(rows)
    exact = -0.5 * np.sum(((rows - MEAN) / SD) ** 2, axis=1)
    assert np.ptp(np.asarray(values) - exact) < 1e-9
    np.testing.assert_allclose(gradients, -(rows - MEAN) / SD**2, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(shown["scale"], np.exp(rows[:, 0]), rtol=1e-12)
    assert torch.get_default_dtype() == torch.float32


def test_all_rows_at_once_are_as_one_by_one():
    from taddaa.interop.pyro import _Model

    study = _Model(model, (Y.double(),), {})
    rows = np.random.default_rng(1).normal(size=(6, 3))
    together = study.evaluate(rows)
    assert study._batched
    study._batched = False
    for found, expected in zip(together, study.evaluate(rows), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_verdicts(guide):
    settings = taddaa.Settings(chains=100, iterations=60, budget=1)
    assert taddaa.diagnose(model, guide, data=(Y,), settings=settings).verdict != "error"
    target, _ = taddaa.from_pyro(model, guide, Y)
    assert taddaa.diagnose(target, taddaa.Gaussian(MEAN, 0.3 * SD), settings=settings).verdict == "error"


def test_other_guides():
    full = pyro.infer.autoguide.AutoMultivariateNormal(model)
    full(Y)
    with torch.no_grad():
        full.loc.copy_(torch.tensor(MEAN))
    _, q = taddaa.from_pyro(model, full, Y)
    np.testing.assert_allclose(q.mean(), MEAN, rtol=1e-6)
    assert q.covariance().shape == (3, 3)

    def by_hand(y):
        pyro.sample("beta", dist.Normal(torch.tensor([0.8, -1.6]), 0.2).to_event(1))
        pyro.sample("scale", dist.LogNormal(0.3, 0.5))

    _, q = taddaa.from_pyro(model, by_hand, Y)
    np.testing.assert_allclose(q.draws.mean(axis=0), MEAN, atol=5 * 0.5 / np.sqrt(len(q.draws)))
    np.testing.assert_allclose(q.draws.std(axis=0), [0.5, 0.2, 0.2], rtol=0.1)


def test_refusals(guide):
    with pytest.raises(taddaa.InputError, match=r"model failed when it was run once at line \d+ of test_pyro.py|model failed when"):
        taddaa.from_pyro(model, guide)
    with pytest.raises(taddaa.InputError, match="does not sample scale"):
        taddaa.from_pyro(model, lambda y: pyro.sample("beta", dist.Normal(torch.zeros(2), 1.0).to_event(1)), Y)
    with pytest.raises(taddaa.InputError, match="approximation is missing beside the Pyro model"):
        taddaa.diagnose(model)
