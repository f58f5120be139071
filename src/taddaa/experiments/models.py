"""The paper's real-data posteriors as targets: logistic regression, regularised horseshoe, two-layer network.

Each model is a log density of a flat vector and of the data (sections 4.3 to 4.5; docs/method.md has the corrections).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..problem.target import Target
from .data import Dataset

WIDE = 100.0  # the prior standard deviation that stands for a flat prior: every crisped-rice candy is chocolate, so that the
# likelihood alone does not bound that coefficient, and a flat prior has no posterior at all
UNITS = 5  # in each hidden layer of the network
WEIGHT_SD = 2.0  # of the network's weights
INTERCEPT_SD = 10.0
EXPECTED_NONZERO = 1.0  # coefficients, in the global scale τ₀ = 2 p₀ / ((p − p₀) √n)
SLAB_SHAPE, SLAB_SCALE = 2.0, 8.0  # c² ~ InvGamma(2, 8)


def bernoulli_logits(y, logits):
    """The log likelihood of zeros and ones."""
    return y @ logits - jnp.sum(jax.nn.softplus(logits))


def _regression(beta, data):
    return bernoulli_logits(data["y"], data["x"] @ beta) - 0.5 * jnp.sum((beta / data["prior_sd"]) ** 2)


def regression(candy: Dataset, prior_sd: float = 1.0) -> Target:
    """Logistic regression without an intercept, N(0, prior_sd²) on each coefficient (section 4.3)."""
    names = [f"beta{i} {column}" for i, column in enumerate(candy.columns, 1)]
    return Target(_regression, dim=len(names), names=names, data={"x": candy.x, "y": candy.y, "prior_sd": np.array(prior_sd)})


class Horseshoe(NamedTuple):
    """The horseshoe's parameters, in the order of the flat vector; all on scales without limits."""

    intercept: jax.Array
    z: jax.Array
    log_tau: jax.Array
    log_lambda: jax.Array
    log_slab: jax.Array

    @classmethod
    def of(cls, flat) -> "Horseshoe":
        features = (flat.shape[-1] - 3) // 2
        return cls(flat[0], flat[1 : 1 + features], flat[1 + features], flat[2 + features : -1], flat[-1])

    def coefficients(self):
        """β = z τ λ̃ with λ̃² = c²λ²/(c² + τ²λ²), in logarithms: λ can be of any size."""
        log_scale = self.log_tau + self.log_lambda
        return self.z * jnp.exp(log_scale - 0.5 * jax.nn.softplus(2 * log_scale - self.log_slab))


def _log_half_cauchy(log_ratio):
    """Of the logarithm of a half-Cauchy variable over its scale, up to a constant."""
    return log_ratio - jax.nn.softplus(2 * log_ratio)


def _horseshoe(flat, data):
    at = Horseshoe.of(flat)
    logits = at.intercept + data["x"] @ at.coefficients()
    prior = -0.5 * (at.intercept / INTERCEPT_SD) ** 2 - 0.5 * at.z @ at.z
    prior += _log_half_cauchy(at.log_tau - data["log_tau0"]) + jnp.sum(_log_half_cauchy(at.log_lambda))
    prior += -SLAB_SHAPE * at.log_slab - SLAB_SCALE * jnp.exp(-at.log_slab)
    return bernoulli_logits(data["y"], logits) + prior


def horseshoe(leukemia: Dataset) -> Target:
    """Logistic regression with a regularised horseshoe prior, non-centred, d = 203 (section 4.4)."""
    rows, features = leukemia.x.shape
    tau0 = 2 * EXPECTED_NONZERO / ((features - EXPECTED_NONZERO) * np.sqrt(rows))
    each = range(1, features + 1)
    names = ["beta0", *(f"z{j}" for j in each), "log tau", *(f"log lambda{j}" for j in each), "log c2"]
    data = {"x": leukemia.x, "y": leukemia.y, "log_tau0": np.log(tau0)}
    return Target(_horseshoe, dim=len(names), names=names, data=data)


def local_scale(gene: int):
    """λ of one gene (from 1) on its own scale, as a function of the horseshoe's flat vector."""

    def scale(flat):
        return jnp.exp(Horseshoe.of(flat).log_lambda[gene - 1])

    return scale


def network_logits(weights, x):
    """The network's output for the rows of x, from its weights as a flat vector."""
    inputs = x.shape[-1]
    alpha, beta, gamma = jnp.split(weights, [inputs * UNITS, inputs * UNITS + UNITS * UNITS])
    hidden = jnp.tanh(x @ alpha.reshape(inputs, UNITS))
    return jnp.tanh(hidden @ beta.reshape(UNITS, UNITS)) @ gamma


def _network(weights, data):
    return bernoulli_logits(data["y"], network_logits(weights, data["x"])) - 0.5 * jnp.sum((weights / WEIGHT_SD) ** 2)


def log_loss(weights, data):
    """The network's mean cross-entropy over the data: the paper's functional of the weights."""
    return -bernoulli_logits(data["y"], network_logits(weights, data["x"])) / len(data["y"])


def network(candy: Dataset) -> Target:
    """Two hidden layers of five tanh units without biases, N(0, 2²) weights, d = 11·5 + 5·5 + 5 = 85 (section 4.5)."""
    inputs = candy.x.shape[1]
    names = [f"alpha[{i},{j}]" for i in range(inputs) for j in range(UNITS)]
    names += [f"beta[{i},{j}]" for i in range(UNITS) for j in range(UNITS)] + [f"gamma[{j}]" for j in range(UNITS)]
    return Target(_network, dim=len(names), names=names, data={"x": candy.x, "y": candy.y})
