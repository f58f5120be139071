"""A flow of flowjax, fitted to a log density and judged.  pip install taddaa flowjax;  python regression_flowjax.py"""

import jax
import jax.numpy as jnp
import numpy as np
from flowjax.distributions import Normal
from flowjax.flows import masked_autoregressive_flow
from flowjax.train import fit_to_key_based_loss
from flowjax.train.losses import ElboLoss

import taddaa

# Stopping distances of cars by their speed (17 of the 50 cars of Ezekiel 1930), both standardised.
SPEED = np.array([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24.0])
DISTANCE = np.array([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92.0])
SPEED, DISTANCE = ((values - values.mean()) / values.std() for values in (SPEED, DISTANCE))


def logdensity(x):
    """x is (intercept, slope, log sigma), with standard normal priors."""
    residual = DISTANCE - x[0] - x[1] * SPEED
    return -0.5 * jnp.sum(x**2) - 0.5 * jnp.sum(residual**2) * jnp.exp(-2 * x[2]) - len(SPEED) * x[2]


def problem():
    flow = masked_autoregressive_flow(jax.random.key(0), base_dist=Normal(jnp.zeros(3)), flow_layers=2, nn_width=10)
    loss = ElboLoss(logdensity, num_samples=50)
    flow, _ = fit_to_key_based_loss(jax.random.key(1), flow, loss_fn=loss, steps=500, learning_rate=0.01, show_progress=False)
    return taddaa.Target(logdensity, dim=3, names=["intercept", "slope", "log_sigma"]), flow


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
