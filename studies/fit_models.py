"""NumPyro models that people fit with variational inference, on made-up data."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

GROUPS, STEPS, FEATURES, CENTRES = 60, 140, 45, 25
DISTRICTS, SCHOOLS, CLASSES, PEOPLE, QUESTIONS, MONTHS = 6, 30, 25, 50, 14, 96


@dataclass(frozen=True)
class FitModel:
    """A model and its arguments; `sampled` is an equivalent one that NUTS can sample, `judged` the sites that have one posterior."""

    model: Callable
    arguments: tuple
    sampled: Callable | None = None
    judged: tuple[str, ...] = ()  # all of them if empty


def wide(name: str, size: int, scale: float = 1.0):
    return numpyro.sample(name, dist.Normal(0, scale).expand([size]).to_event(1))


def ordinal(x, y):
    slopes = wide("slopes", x.shape[1])
    cuts = numpyro.sample("cuts", dist.TransformedDistribution(dist.Normal(0, 2).expand([4]), dist.transforms.OrderedTransform()))
    numpyro.sample("y", dist.OrderedLogistic(x @ slopes, cuts), obs=y)


def ordinal_data() -> tuple:
    rng = np.random.default_rng(21)
    x = rng.standard_normal((240, 6))
    x[:, 3] = 0.9 * x[:, 2] + 0.4 * x[:, 3]
    y = np.digitize(x @ np.array([0.7, 0.0, 0.6, -0.4, 0.0, 0.3]) + rng.logistic(size=240), [-2.0, -0.6, 0.4, 1.7])
    return x, y


def logistic(x, y):
    numpyro.sample("y", dist.Bernoulli(logits=numpyro.sample("base", dist.Normal(0, 5)) + x @ wide("slopes", x.shape[1])), obs=y)


def logistic_data() -> tuple:
    rng = np.random.default_rng(22)
    x = rng.standard_normal((380, 5)) @ rng.standard_normal((5, FEATURES)) + 0.7 * rng.standard_normal((380, FEATURES))
    x /= x.std(axis=0)
    slopes = rng.standard_normal(FEATURES) * (rng.random(FEATURES) < 0.3)
    return x, (rng.random(380) < 1 / (1 + np.exp(0.4 - x @ slopes))).astype(float)


def survival(centre, x, time, died):
    """Weibull times with censoring and a frailty of each centre."""
    shape, base = numpyro.sample("shape", dist.LogNormal(0, 0.5)), numpyro.sample("base", dist.Normal(0, 3))
    slopes, spread = wide("slopes", x.shape[1]), numpyro.sample("spread", dist.HalfNormal(1))
    scale = base + x @ slopes + spread * wide("frailty", CENTRES)[centre]
    late = jnp.log(time) - scale
    numpyro.factor("likelihood", jnp.sum(died * (jnp.log(shape) - scale + (shape - 1) * late) - jnp.exp(shape * late)))


def survival_data() -> tuple:
    rng = np.random.default_rng(23)
    centre, x = rng.integers(0, CENTRES, 180), rng.standard_normal((180, 5))
    scale = np.exp(1 + x @ np.array([0.5, -0.3, 0.0, 0.2, 0.0]) + 0.4 * rng.standard_normal(CENTRES)[centre])
    time, stop = scale * rng.weibull(1.5, 180), rng.exponential(4, 180)
    return centre, x, np.minimum(time, stop), (time <= stop).astype(float)


def hierarchy(group, level, x, y, centred=False):
    """Varying intercepts and slopes in groups of very different sizes."""
    mean, weight = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("weight", dist.Normal(0, 2))
    mean_slope, noise = numpyro.sample("mean_slope", dist.Normal(0, 5)), numpyro.sample("noise", dist.HalfNormal(2))
    sd, sd_slope = numpyro.sample("sd", dist.HalfNormal(1)), numpyro.sample("sd_slope", dist.HalfNormal(1))
    with numpyro.plate("groups", GROUPS):
        if centred:
            a = numpyro.sample("a", dist.Normal(mean + weight * level, sd))
            b = numpyro.sample("b", dist.Normal(mean_slope, sd_slope))
        else:
            a = numpyro.deterministic("a", mean + weight * level + sd * numpyro.sample("za", dist.Normal(0, 1)))
            b = numpyro.deterministic("b", mean_slope + sd_slope * numpyro.sample("zb", dist.Normal(0, 1)))
    numpyro.sample("y", dist.Normal(a[group] + b[group] * x, noise).to_event(1), obs=y)


def hierarchy_data() -> tuple:
    rng = np.random.default_rng(24)
    group = np.repeat(np.arange(GROUPS), 1 + rng.poisson(rng.gamma(1.0, 8.0, GROUPS)))
    level, x = rng.standard_normal(GROUPS), (rng.random(len(group)) < 0.25).astype(float)
    a, b = 1.2 + 0.4 * level + 0.3 * rng.standard_normal(GROUPS), -0.6 + 0.25 * rng.standard_normal(GROUPS)
    return group, level, x, a[group] + b[group] * x + 0.8 * rng.standard_normal(len(group))


def volatility(y):
    sigma, nu = numpyro.sample("sigma", dist.Exponential(20.0)), numpyro.sample("nu", dist.Exponential(0.1))
    h = numpyro.sample("h", dist.GaussianRandomWalk(scale=sigma, num_steps=len(y)))
    numpyro.sample("y", dist.StudentT(nu, 0.0, jnp.exp(h)).to_event(1), obs=y)


def volatility_data() -> tuple:
    rng = np.random.default_rng(25)
    return (np.exp(np.cumsum(0.15 * rng.standard_normal(STEPS)) - 1) * rng.standard_t(8, STEPS),)


def horseshoe(x, y):
    """Regularised."""
    size = x.shape[1]
    noise, tau = numpyro.sample("noise", dist.HalfNormal(2)), numpyro.sample("tau", dist.HalfCauchy(0.1))
    slab = numpyro.sample("slab", dist.InverseGamma(2, 4))
    local = numpyro.sample("local", dist.HalfCauchy(1).expand([size]).to_event(1))
    scale = tau * local * jnp.sqrt(slab / (slab + (tau * local) ** 2))
    numpyro.sample("y", dist.Normal(x @ numpyro.deterministic("slopes", wide("z", size) * scale), noise).to_event(1), obs=y)


def horseshoe_data() -> tuple:
    rng = np.random.default_rng(26)
    x = rng.standard_normal((80, FEATURES))
    return x, x[:, :5] @ np.array([2.0, -1.5, 1.0, 0.7, -0.5]) + rng.standard_normal(80)


def factors(y, seen):
    """A matrix as a product of two thin ones, which may be turned: what is judged does not change with that."""
    left, right = (numpyro.sample(name, dist.Normal(0, 1).expand([size, 2]).to_event(2)) for name, size in zip("UV", y.shape, strict=True))
    noise, fitted = numpyro.sample("noise", dist.HalfNormal(1)), left @ right.T
    numpyro.deterministic("cells", fitted[:3, :3])
    numpyro.sample("y", dist.Normal(fitted, noise).mask(seen).to_event(2), obs=y)


def factors_data() -> tuple:
    rng = np.random.default_rng(27)
    return rng.standard_normal((18, 2)) @ rng.standard_normal((2, 12)) + 0.5 * rng.standard_normal((18, 12)), rng.random((18, 12)) < 0.8


def centred(group, level, x, y):
    hierarchy(group, level, x, y, centred=True)


def districts(district, size, passed, centred=True):
    """Three levels: schools in districts, and few districts."""
    mean = numpyro.sample("mean", dist.Normal(0, 1.5))
    sd, sd_school = numpyro.sample("sd", dist.HalfNormal(1)), numpyro.sample("sd_school", dist.HalfNormal(1))
    if centred:
        a = numpyro.sample("a", dist.Normal(mean, sd).expand([DISTRICTS]).to_event(1))
        b = numpyro.sample("b", dist.Normal(a[district], sd_school).to_event(1))
    else:
        a = numpyro.deterministic("a", mean + sd * wide("za", DISTRICTS))
        b = numpyro.deterministic("b", a[district] + sd_school * wide("zb", SCHOOLS))
    numpyro.sample("passed", dist.Binomial(size, logits=b).to_event(1), obs=passed)


def districts_free(district, size, passed):
    districts(district, size, passed, centred=False)


def districts_data() -> tuple:
    rng = np.random.default_rng(28)
    district, size = rng.integers(0, DISTRICTS, SCHOOLS), rng.integers(5, 45, SCHOOLS)
    b = 0.8 * rng.standard_normal(DISTRICTS)[district] + 0.45 * rng.standard_normal(SCHOOLS)
    return district, size, rng.binomial(size, 1 / (1 + np.exp(-b)))


def slopes(group, x, y, centred=True):
    """Three slopes a group, which vary together; those of the last vary little."""
    mean, sd = wide("mean", 3, 3.0), numpyro.sample("sd", dist.HalfNormal(1).expand([3]).to_event(1))
    related, noise = numpyro.sample("related", dist.LKJCholesky(3, 2.0)), numpyro.sample("noise", dist.HalfNormal(2))
    factor = sd[:, None] * related
    if centred:
        b = numpyro.sample("b", dist.MultivariateNormal(mean, scale_tril=factor).expand([CLASSES]).to_event(1))
    else:
        z = numpyro.sample("z", dist.Normal(0, 1).expand([CLASSES, 3]).to_event(2))
        b = numpyro.deterministic("b", mean + z @ factor.T)
    numpyro.sample("y", dist.Normal(jnp.sum(x * b[group], axis=1), noise).to_event(1), obs=y)


def slopes_free(group, x, y):
    slopes(group, x, y, centred=False)


def slopes_data() -> tuple:
    rng = np.random.default_rng(32)
    factor = np.linalg.cholesky(np.array([[1.0, 0.5, -0.3], [0.5, 1.0, 0.0], [-0.3, 0.0, 1.0]]))
    b = np.array([1.0, 0.5, -0.5]) + rng.standard_normal((CLASSES, 3)) @ factor.T * np.array([0.7, 0.4, 0.25])
    group = np.repeat(np.arange(CLASSES), 8)
    x = np.column_stack([np.ones(len(group)), rng.standard_normal((len(group), 2))])
    return group, x, np.sum(x * b[group], axis=1) + 0.8 * rng.standard_normal(len(group))


def answers(right):
    """Item response with two parameters a question."""
    spread, mean = numpyro.sample("spread", dist.HalfNormal(1)), numpyro.sample("mean", dist.Normal(0, 2))
    sd = numpyro.sample("sd", dist.HalfNormal(2))
    sharpness, ability = wide("sharpness", QUESTIONS), wide("ability", PEOPLE)
    hard = numpyro.sample("hard", dist.Normal(mean, sd).expand([QUESTIONS]).to_event(1))
    logits = jnp.exp(spread * sharpness) * (ability[:, None] - hard)
    numpyro.sample("right", dist.Bernoulli(logits=logits).to_event(2), obs=right)


def answers_data() -> tuple:
    rng = np.random.default_rng(29)
    logits = np.exp(0.3 * rng.standard_normal(QUESTIONS)) * (rng.standard_normal((PEOPLE, 1)) - rng.standard_normal(QUESTIONS))
    return ((rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(float),)


def trend(y):
    """A level that wanders and returns, and a season."""
    step, noise = numpyro.sample("step", dist.HalfNormal(1)), numpyro.sample("noise", dist.HalfNormal(1))
    returns, season = numpyro.sample("returns", dist.Beta(8, 2)), wide("season", 12)
    first = numpyro.sample("first", dist.Normal(0, 2))
    shocks = numpyro.sample("shocks", dist.Normal(0, step).expand([MONTHS - 1]).to_event(1))

    def onward(level, shock):
        level = returns * level + shock
        return level, level

    level = jnp.concatenate([first[None], jax.lax.scan(onward, first, shocks)[1]])
    numpyro.sample("y", dist.Normal(level + season[jnp.arange(MONTHS) % 12], noise).to_event(1), obs=y)


def trend_data() -> tuple:
    rng = np.random.default_rng(30)
    months = np.arange(MONTHS)
    return (np.cumsum(0.3 * rng.standard_normal(MONTHS)) + np.sin(np.pi * months / 6) + 0.5 * rng.standard_normal(MONTHS),)


def counts(site, year, x, y):
    """Negative binomial, with crossed effects as they come."""
    base, over = numpyro.sample("base", dist.Normal(0, 2)), numpyro.sample("over", dist.Gamma(2, 0.5))
    sd_site, sd_year = numpyro.sample("sd_site", dist.HalfNormal(1)), numpyro.sample("sd_year", dist.HalfNormal(1))
    of_site = numpyro.sample("of_site", dist.Normal(0, sd_site).expand([20]).to_event(1))
    of_year = numpyro.sample("of_year", dist.Normal(0, sd_year).expand([12]).to_event(1))
    rate = jnp.exp(base + x @ wide("slopes", x.shape[1]) + of_site[site] + of_year[year])
    numpyro.sample("y", dist.NegativeBinomial2(rate, over).to_event(1), obs=y)


def counts_data() -> tuple:
    rng = np.random.default_rng(31)
    site, year, x = rng.integers(0, 20, 300), rng.integers(0, 12, 300), rng.standard_normal((300, 4))
    rate = 1 + x @ np.array([0.4, -0.2, 0.0, 0.1]) + 0.5 * rng.standard_normal(20)[site] + 0.3 * rng.standard_normal(12)[year]
    return site, year, x, rng.poisson(np.exp(rate) * rng.gamma(3, 1 / 3, 300))


FIT_MODELS = {
    "ordinal": FitModel(ordinal, ordinal_data()),
    "survival": FitModel(survival, survival_data()),
    "logistic": FitModel(logistic, logistic_data()),
    "factors": FitModel(factors, factors_data(), judged=("noise", "cells")),
    "horseshoe": FitModel(horseshoe, horseshoe_data()),
    "hierarchy": FitModel(hierarchy, hierarchy_data()),
    "hierarchy, centred": FitModel(centred, hierarchy_data(), sampled=hierarchy),
    "volatility": FitModel(volatility, volatility_data()),
    "districts": FitModel(districts, districts_data(), sampled=districts_free),
    "slopes": FitModel(slopes, slopes_data(), sampled=slopes_free, judged=("mean", "sd", "noise", "b")),
    "answers": FitModel(answers, answers_data()),
    "trend": FitModel(trend, trend_data()),
    "counts": FitModel(counts, counts_data()),
}
