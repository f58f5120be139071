"""Discrete latent sites of NumPyro are summed out: the log density is the closed form's, and refusals name the site."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import taddaa
from frameworks import need
from taddaa.problem.framework import as_problem

numpyro = need("numpyro")
dist = need("numpyro.distributions")
autoguide = need("numpyro.infer.autoguide")
need("funsor")
pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
Y = np.concatenate([RNG.normal(-2, 1, 12), RNG.normal(2, 1, 20)])


def mixture(y):
    share = numpyro.sample("share", dist.Beta(2, 2))
    means = numpyro.sample("means", dist.Normal(jnp.array([-1.0, 1.0]), 2).to_event(1))
    numpyro.deterministic("gap", means[1] - means[0])
    with numpyro.plate("row", len(y)):
        which = numpyro.sample("which", dist.Bernoulli(share))
        centre = numpyro.deterministic("centre", means[which])
        numpyro.sample("y", dist.Normal(centre, 1), obs=y)


def chain(y):
    """A hidden Markov chain of two states in a loop."""
    stay = numpyro.sample("stay", dist.Beta(4, 2))
    state = 0
    for t, value in enumerate(y[:3]):
        state = numpyro.sample(f"state_{t}", dist.Bernoulli(jnp.where(state == 1, stay, 1 - stay)))
        numpyro.sample(f"y_{t}", dist.Normal(2.0 * state, 1), obs=value)


def params(**values) -> dict:
    return {f"{name}_auto_{what}": jnp.asarray(value[i]) for name, value in values.items() for i, what in enumerate(("loc", "scale"))}


FIT = params(share=(0.5, 0.4), means=([-2.0, 2.0], [0.3, 0.3]))


def guide_of(model, *hidden):
    return autoguide.AutoNormal(numpyro.handlers.block(model, hide=list(hidden)))


def values(target, points):
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(lambda x: target.logdensity(x, target.data))(jnp.asarray(points)))


def test_a_mixture_is_summed_over_its_components():
    target, q = taddaa.from_numpyro(mixture, guide_of(mixture, "which"), FIT, Y)
    points = q.sample(np.random.default_rng(1), 100)
    share = 1 / (1 + np.exp(-points[:, 0]))
    low, high = (stats.norm.pdf(Y, points[:, [1 + k]], 1) for k in range(2))
    likelihood = np.log((1 - share[:, None]) * low + share[:, None] * high).sum(axis=1)
    prior = stats.beta.logpdf(share, 2, 2) + np.log(share * (1 - share)) + stats.norm.logpdf(points[:, 1:], [-1, 1], 2).sum(axis=1)
    np.testing.assert_allclose(values(target, points), likelihood + prior, rtol=1e-10)


def test_a_chain_is_summed_over_its_paths():
    target, _ = taddaa.from_numpyro(chain, guide_of(chain, *(f"state_{t}" for t in range(3))), params(stay=(0.5, 0.5)), Y)
    points = [-1.0, 0.3, 2.0]
    expected = []
    for x in points:
        stay = 1 / (1 + np.exp(-x))
        forward, total = np.array([1.0, 0.0]), 1.0
        for value in Y[:3]:
            up = forward @ np.array([1 - stay, stay])
            forward = np.array([1 - up, up]) * stats.norm.pdf(value, [0.0, 2.0], 1)
            total, forward = total * forward.sum(), forward / forward.sum()
        expected.append(np.log(total) + stats.beta.logpdf(stay, 4, 2) + np.log(stay * (1 - stay)))
    np.testing.assert_allclose(values(target, np.array(points)[:, None]), expected, rtol=1e-10)


def test_what_depends_on_a_discrete_site_has_no_row_and_the_report_says_so():
    target, q = taddaa.from_numpyro(mixture, guide_of(mixture, "which"), FIT, Y)
    assert target.labels == ("share", "means[0]", "means[1]", "gap")
    report = taddaa.diagnose(target, q, settings=taddaa.Settings(chains=60, budget=1))
    assert any("discrete which is summed out, and what depends on it (centre) has no row" in note for note in report.notes)


def test_a_fit_by_enumeration_in_one_call():
    model = need("numpyro.contrib.funsor").config_enumerate(mixture)
    elbo = numpyro.infer.TraceEnum_ELBO(max_plate_nesting=1)
    svi = numpyro.infer.SVI(model, guide_of(model, "which"), numpyro.optim.Adam(0.05), elbo)
    result = svi.run(jax.random.key(0), 5, Y, progress_bar=False)
    for first, second in ((mixture, (svi.guide, result)), (svi, result)):
        target, q = as_problem(first, second, (Y,))
        assert target.labels == ("share", "means[0]", "means[1]", "gap")
        assert q.dim == 3 and target.origin.notes


def test_a_guide_may_sample_the_discrete_sites_too():
    def guide(y):
        numpyro.sample("share", dist.Beta(3, 2))
        numpyro.sample("means", dist.Normal(jnp.zeros(2), 1).to_event(1))
        with numpyro.plate("row", len(y)):
            numpyro.sample("which", dist.Bernoulli(0.5))

    _, q = taddaa.from_numpyro(mixture, guide, {}, Y)
    share = 1 / (1 + np.exp(-q.sample(np.random.default_rng(0), 1000)[:, 0]))
    assert abs(share.mean() - 0.6) < 5 * 0.2 / np.sqrt(1000)


def refused(match, model, *args, kind=taddaa.InputError):
    with pytest.raises(kind, match=match):
        taddaa.from_numpyro(model, guide_of(model, "which"), {}, *args)


def test_refusals_name_the_site():
    def poisson(y):
        which = numpyro.sample("which", dist.Poisson(numpyro.sample("rate", dist.Gamma(2, 1))))
        numpyro.sample("y", dist.Normal(which, 1), obs=y[0])

    def sequential(y):
        which = numpyro.sample("which", dist.Bernoulli(numpyro.sample("p", dist.Beta(2, 1))), infer={"enumerate": "sequential"})
        numpyro.sample("y", dist.Normal(which, 1), obs=y[0])

    def bare(y):
        which = numpyro.sample("which", dist.Bernoulli(numpyro.sample("p", dist.Beta(2, 1))))
        numpyro.sample("y", dist.Normal(which, 1), obs=y)

    def only(y):
        numpyro.sample("which", dist.Bernoulli(0.5))

    refused(r"latent site 'which' is discrete \(Poisson\) and its values cannot be listed", poisson, Y)
    refused("latent site 'which' is discrete .* marked enumerate='sequential'", sequential, Y)
    refused("site 'y' has 32 values that are in no plate", bare, Y)
    refused("no continuous latent sites", only, Y)


def test_a_guide_that_hides_sites_of_its_model():
    """Taken as the model, it would have its hidden sites drawn at random once and for all."""
    with pytest.raises(taddaa.InputError, match=r"inside numpyro.handlers.block, .* diagnose\(model, \(guide, params\), data=…\)"):
        taddaa.diagnose(guide_of(mixture, "which"), FIT, data=(Y,))


def test_without_funsor(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numpyro.contrib.funsor", None)
    refused("'which' is discrete and summed out by funsor, which is not installed: pip install funsor", mixture, Y, kind=ImportError)
