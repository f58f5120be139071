"""A distribution of distrax, fitted by hand and judged.  pip install taddaa distrax optax;  python regression_distrax.py"""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import optax

import taddaa

# Stopping distances of cars by their speed (17 of the 50 cars of Ezekiel 1930), both standardised.
SPEED = np.array([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24.0])
DISTANCE = np.array([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92.0])
SPEED, DISTANCE = ((values - values.mean()) / values.std() for values in (SPEED, DISTANCE))


def logdensity(x):
    """x is (intercept, slope, log sigma), with standard normal priors."""
    residual = DISTANCE - x[0] - x[1] * SPEED
    return -0.5 * jnp.sum(x**2) - 0.5 * jnp.sum(residual**2) * jnp.exp(-2 * x[2]) - len(SPEED) * x[2]


def normal(params):
    return distrax.MultivariateNormalDiag(params["mean"], jnp.exp(params["log_sd"]))


def loss(params, key):
    draws, log_q = normal(params).sample_and_log_prob(seed=key, sample_shape=(20,))
    return jnp.mean(log_q - jax.vmap(logdensity)(draws))


def problem():
    params = {"mean": jnp.zeros(3), "log_sd": jnp.full(3, -1.0)}
    optimiser = optax.adam(0.02)

    def step(carry, key):
        params, state = carry
        updates, state = optimiser.update(jax.grad(loss)(params, key), state)
        return (optax.apply_updates(params, updates), state), None

    (params, _), _ = jax.lax.scan(step, (params, optimiser.init(params)), jax.random.split(jax.random.key(0), 1000))
    return taddaa.Target(logdensity, dim=3, names=["intercept", "slope", "log_sigma"]), normal(params)


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
