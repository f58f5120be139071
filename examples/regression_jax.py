"""A log density in JAX, with names, data and the user's own scale.  python regression_jax.py"""

import jax.numpy as jnp
import numpy as np

import taddaa

# Stopping distance in feet of cars at a speed in miles an hour (17 of the 50 cars of Ezekiel 1930).
SPEED = np.array([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24.0])
DISTANCE = np.array([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92.0])


def logdensity(x, data):
    """x is (intercept, slope, log sigma); priors are normal(0, 100), normal(0, 10) and normal(3, 1)."""
    prior = -0.5 * jnp.sum(((x - jnp.array([0.0, 0.0, 3.0])) / jnp.array([100.0, 10.0, 1.0])) ** 2)
    residual = data["distance"] - x[0] - x[1] * (data["speed"] - data["speed"].mean())
    return prior - 0.5 * jnp.sum(residual**2) * jnp.exp(-2 * x[2]) - residual.size * x[2]


def constrain(x):
    return {"intercept": x[0], "slope": x[1], "sigma": jnp.exp(x[2])}


def problem():
    target = taddaa.Target(logdensity, dim=3, data={"speed": SPEED, "distance": DISTANCE}, constrain=constrain)
    return target, taddaa.Gaussian(mean=[36.7, 3.6, 2.4], sd=[2.7, 0.5, 0.1])  # the spread of log sigma is too small


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
