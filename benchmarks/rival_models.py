"""Models that people fit with variational inference, as log densities of a flat vector, on made-up data; d = 10 to 203.

`of` are the quantities whose means are compared: the coordinates, or for a posterior with a symmetry what does not change with it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taddaa

BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("TADDAA_DATA", str(BESIDE))
GROUPS, STEPS, FEATURES, PLACES, RANK = 65, 150, 50, (20, 12), 2


@dataclass(frozen=True)
class Model:
    """A target, and how it is fitted; `truth_of` and `back` say which other target's draws become this one's."""

    make: Callable[[], taddaa.Target]
    of: Callable[[Any], Any] | None = None
    fit_steps: int = 10_000
    truth_of: str | None = None
    back: Callable[[Any], Any] | None = None


def normal(x, mean, sd):
    return -0.5 * jnp.sum(((x - mean) / sd) ** 2) - jnp.sum(jnp.log(sd) * jnp.ones_like(x))


def half_normal_log(u, sd):
    """The log density of u = log x where x is half-normal."""
    return -0.5 * jnp.sum((jnp.exp(u) / sd) ** 2) + jnp.sum(u)


def half_cauchy_log(u, scale):
    return -jnp.sum(jnp.log1p((jnp.exp(u) / scale) ** 2)) + jnp.sum(u)


def hierarchy(centred: bool) -> taddaa.Target:
    """Varying intercepts and slopes in 65 groups of very different sizes."""
    rng = np.random.default_rng(11)
    sizes = 1 + rng.poisson(rng.gamma(1.0, 8.0, GROUPS))
    group = np.repeat(np.arange(GROUPS), sizes)
    level, x = rng.standard_normal(GROUPS), (rng.random(len(group)) < 0.25).astype(float)
    intercept, slope = 1.2 + 0.4 * level + 0.3 * rng.standard_normal(GROUPS), -0.6 + 0.2 * rng.standard_normal(GROUPS)
    y = intercept[group] + slope[group] * x + 0.8 * rng.standard_normal(len(group))

    def logdensity(w, d):
        (mean, weight, mean_slope), logs, a, b = w[:3], w[3:6], w[6 : 6 + GROUPS], w[6 + GROUPS :]
        sd, sd_slope, noise = jnp.exp(logs)
        total = normal(jnp.stack([mean, mean_slope]), 0.0, 5.0) + normal(weight, 0.0, 2.0)
        total += half_normal_log(logs[:2], 1.0) + half_normal_log(logs[2:], 2.0)
        if centred:
            total += normal(a, mean + weight * d["level"], sd) + normal(b, mean_slope, sd_slope)
        else:
            total += normal(a, 0.0, 1.0) + normal(b, 0.0, 1.0)
            a, b = mean + weight * d["level"] + sd * a, mean_slope + sd_slope * b
        return total + normal(d["y"], a[d["group"]] + b[d["group"]] * d["x"], noise)

    return taddaa.Target(logdensity, dim=6 + 2 * GROUPS, data={"group": group, "level": level, "x": x, "y": y})


def centred_from(w):
    """A point of the non-centred hierarchy in the coordinates of the centred one."""
    level = jnp.asarray(hierarchy(True).data["level"])
    a = w[0] + w[1] * level + jnp.exp(w[3]) * w[6 : 6 + GROUPS]
    return jnp.concatenate([w[:6], a, w[2] + jnp.exp(w[4]) * w[6 + GROUPS :]])


def logistic() -> taddaa.Target:
    rng = np.random.default_rng(12)
    x = rng.standard_normal((400, 5)) @ rng.standard_normal((5, FEATURES)) + 0.7 * rng.standard_normal((400, FEATURES))
    x = np.column_stack([np.ones(400), x / x.std(axis=0)])
    weights = rng.standard_normal(FEATURES + 1) * (rng.random(FEATURES + 1) < 0.3)
    y = (rng.random(400) < 1 / (1 + np.exp(-x @ weights))).astype(float)

    def logdensity(w, d):
        logits = d["x"] @ w
        return d["y"] @ logits - jnp.sum(jax.nn.softplus(logits)) + normal(w[:1], 0.0, 5.0) + normal(w[1:], 0.0, 1.0)

    return taddaa.Target(logdensity, dim=FEATURES + 1, data={"x": x, "y": y})


def volatility() -> taddaa.Target:
    """A random walk of log scales with Student-t returns."""
    rng = np.random.default_rng(13)
    y = np.exp(np.cumsum(0.15 * rng.standard_normal(STEPS)) - 1) * rng.standard_t(8, STEPS)

    def logdensity(w, y):
        sigma, nu, h = jnp.exp(w[0]), jnp.exp(w[1]), w[2:]
        total = -20 * sigma + w[0] - 0.1 * nu + w[1] + normal(jnp.diff(h, prepend=0.0), 0.0, sigma)
        t = jax.scipy.special.gammaln((nu + 1) / 2) - jax.scipy.special.gammaln(nu / 2) - 0.5 * jnp.log(nu) - h
        return total + jnp.sum(t - (nu + 1) / 2 * jnp.log1p((y * jnp.exp(-h)) ** 2 / nu))

    return taddaa.Target(logdensity, dim=2 + STEPS, data=y)


def sparse_regression() -> taddaa.Target:
    """The regularised horseshoe."""
    rng = np.random.default_rng(14)
    x = rng.standard_normal((80, FEATURES))
    y = x[:, :5] @ np.array([2.0, -1.5, 1.0, 0.7, -0.5]) + rng.standard_normal(80)

    def logdensity(w, d):
        (noise, tau, slab), local, z = jnp.exp(w[:3]), jnp.exp(w[3 : 3 + FEATURES]), w[3 + FEATURES :]
        total = half_normal_log(w[:1], 2.0) + half_cauchy_log(w[1:2], 0.1) - 2 * w[2] - 4 / slab  # c² ~ InvGamma(2, 4)
        total += half_cauchy_log(w[3 : 3 + FEATURES], 1.0) + normal(z, 0.0, 1.0)
        beta = z * tau * local * jnp.sqrt(slab / (slab + (tau * local) ** 2))
        return total + normal(d["y"], d["x"] @ beta, noise)

    return taddaa.Target(logdensity, dim=3 + 2 * FEATURES, data={"x": x, "y": y})


def ordinal() -> taddaa.Target:
    rng = np.random.default_rng(15)
    x = rng.standard_normal((250, 6))
    x[:, 1] = 0.9 * x[:, 0] + 0.4 * x[:, 1]
    y = np.digitize(x @ np.array([0.8, -0.5, 0.3, 0.0, 0.0, 0.4]) + rng.logistic(size=250), [-2, -0.5, 0.5, 1.8])

    def logdensity(w, d):
        cuts = w[6] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.exp(w[7:]))])
        below = jax.nn.sigmoid(cuts - (d["x"] @ w[:6])[:, None])
        edges = jnp.concatenate([jnp.zeros((250, 1)), below, jnp.ones((250, 1))], axis=1)
        share = jnp.take_along_axis(jnp.diff(edges, axis=1), d["y"][:, None], axis=1)
        return jnp.sum(jnp.log(share + 1e-300)) + normal(w[:6], 0.0, 1.0) + normal(w[6:], 0.0, 2.0)

    return taddaa.Target(logdensity, dim=10, data={"x": x, "y": y})


def survival() -> taddaa.Target:
    """Weibull times with censoring and a frailty for each of 30 centres."""
    rng = np.random.default_rng(16)
    centre, x = rng.integers(0, 30, 200), rng.standard_normal((200, 6))
    scale = np.exp(1 + x @ np.array([0.5, -0.3, 0, 0.2, 0, 0]) + 0.4 * rng.standard_normal(30)[centre])
    time, stop = scale * rng.weibull(1.5, 200), rng.exponential(4, 200)

    def logdensity(w, d):
        shape, frailty = jnp.exp(w[0]), jnp.exp(w[8])
        late = jnp.log(d["t"]) - (w[1] + d["x"] @ w[2:8] + frailty * w[9:][d["centre"]])
        total = normal(w[:1], 0.0, 0.5) + normal(w[1:2], 0.0, 3.0) + normal(w[2:8], 0.0, 1.0) + half_normal_log(w[8:9], 1.0)
        died = d["died"] @ (w[0] + shape * late)
        return total + normal(w[9:], 0.0, 1.0) + died - jnp.sum(jnp.exp(shape * late))

    values = {"centre": centre, "x": x, "t": np.minimum(time, stop), "died": (time <= stop).astype(float)}
    return taddaa.Target(logdensity, dim=39, data=values)


def factors() -> taddaa.Target:
    """A matrix as a product of two thin ones: rotations of the factors change nothing."""
    rng = np.random.default_rng(17)
    rows, columns = PLACES
    y = rng.standard_normal((rows, RANK)) @ rng.standard_normal((RANK, columns)) + 0.5 * rng.standard_normal(PLACES)

    def logdensity(w, d):
        off = jnp.where(d["seen"], (d["y"] - product(w)) * jnp.exp(-w[-1]), 0.0)
        return -0.5 * jnp.sum(off**2) - jnp.sum(d["seen"]) * w[-1] + normal(w[:-1], 0.0, 1.0) + half_normal_log(w[-1:], 1.0)

    return taddaa.Target(logdensity, dim=RANK * (rows + columns) + 1, data={"y": y, "seen": rng.random(PLACES) < 0.8})


def product(w):
    rows, columns = PLACES
    return w[: RANK * rows].reshape(rows, RANK) @ w[RANK * rows : -1].reshape(columns, RANK).T


def of_the_paper(model: str, dataset: str) -> taddaa.Target:
    from taddaa.experiments import data, models  # with pandas, which no other model here needs

    return getattr(models, model)(getattr(data, dataset)())


def chances(w):
    """Each candy's probability of chocolate: the network's units may be swapped and their signs turned, which changes none of them."""
    from taddaa.experiments import data, models

    return jax.nn.sigmoid(models.network_logits(w, jnp.asarray(data.candy().x)))


MODELS: dict[str, Model] = {
    "ordinal": Model(ordinal),
    "candy": Model(lambda: of_the_paper("regression", "candy"), fit_steps=20_000),
    "survival": Model(survival),
    "survival-far": Model(survival, fit_steps=100, truth_of="survival"),  # a fit that has not converged
    "logistic": Model(logistic),
    "factors": Model(factors, of=lambda w: jnp.append(jnp.ravel(product(w)), w[-1])),
    "network": Model(lambda: of_the_paper("network", "candy"), of=chances, fit_steps=20_000),
    "horseshoe": Model(sparse_regression),
    "radon": Model(lambda: hierarchy(False)),
    "radon-centred": Model(lambda: hierarchy(True), truth_of="radon", back=centred_from),
    "volatility": Model(volatility),
    "leukemia": Model(lambda: of_the_paper("horseshoe", "leukemia"), fit_steps=20_000),
}
