"""A model and a fit of TensorFlow Probability on JAX.  pip install taddaa 'tfp-nightly[jax]';  python regression_tfp.py"""

import jax
import jax.numpy as jnp
import numpy as np
from tensorflow_probability.substrates import jax as tfp

import taddaa

# Stopping distances of cars by their speed (17 of the 50 cars of Ezekiel 1930), both standardised.
SPEED = np.array([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24.0])
DISTANCE = np.array([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92.0])
SPEED, DISTANCE = ((values - values.mean()) / values.std() for values in (SPEED, DISTANCE))
tfd = tfp.distributions


def logdensity(x):
    """x is (intercept, slope, log sigma), with standard normal priors."""
    prior = tfd.Normal(0.0, 1.0).log_prob(x).sum()
    return prior + tfd.Normal(x[0] + x[1] * SPEED, jnp.exp(x[2])).log_prob(DISTANCE).sum()


def problem():
    """A normal approximation at the mode, whose spreads are those of each parameter with the others held fixed."""
    found = tfp.optimizer.bfgs_minimize(jax.value_and_grad(lambda x: -logdensity(x)), initial_position=jnp.zeros(3))
    spread = 1 / jnp.sqrt(-jnp.diag(jax.hessian(logdensity)(found.position)))
    approximation = tfd.MultivariateNormalDiag(found.position, spread)
    return taddaa.Target(logdensity, dim=3, names=["intercept", "slope", "log_sigma"]), approximation


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
