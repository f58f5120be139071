"""A posterior that sbi learned, judged by the likelihood that is known here.  pip install taddaa sbi;  python regression_sbi.py"""

import jax.numpy as jnp
import numpy as np
import torch
from sbi.inference import NPE

import taddaa

# Stopping distances of cars by their speed (17 of the 50 cars of Ezekiel 1930), both standardised.
SPEED = np.array([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24.0])
DISTANCE = np.array([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92.0])
SPEED, DISTANCE = ((values - values.mean()) / values.std() for values in (SPEED, DISTANCE))


def summaries(distance):
    """All that the data say about the parameters: least squares, and the logarithm of what is left."""
    speed = torch.tensor(SPEED, dtype=torch.float32)
    intercept, slope = distance.mean(dim=-1), (distance * speed).mean(dim=-1)
    left = distance - intercept[..., None] - slope[..., None] * speed
    return torch.stack([intercept, slope, left.std(dim=-1).log()], dim=-1)


def simulate(x):
    noise = torch.exp(x[:, 2:]) * torch.randn(len(x), len(SPEED))
    return summaries(x[:, :1] + x[:, 1:2] * torch.tensor(SPEED, dtype=torch.float32) + noise)


def logdensity(x):
    """x is (intercept, slope, log sigma), with standard normal priors."""
    residual = DISTANCE - x[0] - x[1] * SPEED
    return -0.5 * jnp.sum(x**2) - 0.5 * jnp.sum(residual**2) * jnp.exp(-2 * x[2]) - len(SPEED) * x[2]


def problem():
    torch.manual_seed(0)
    prior = torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3))
    x = prior.sample((2000,))
    inference = NPE(prior=prior).append_simulations(x, simulate(x))
    inference.train(max_num_epochs=30)
    posterior = inference.build_posterior().set_default_x(summaries(torch.tensor(DISTANCE, dtype=torch.float32)))
    return taddaa.Target(logdensity, dim=3, names=["intercept", "slope", "log_sigma"]), posterior


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
