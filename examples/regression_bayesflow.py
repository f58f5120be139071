"""A posterior that BayesFlow learned, judged by a known likelihood.  pip install taddaa bayesflow;  python regression_bayesflow.py"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import bayesflow
import jax.numpy as jnp
import keras
import numpy as np

import taddaa

# Stopping distances of cars by their speed (17 of the 50 cars of Ezekiel 1930), both standardised.
SPEED = np.array([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24.0])
DISTANCE = np.array([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92.0])
SPEED, DISTANCE = ((values - values.mean()) / values.std() for values in (SPEED, DISTANCE))
RNG = np.random.default_rng(0)


def summaries(distance):
    """All that the data say about the parameters: least squares, and the logarithm of what is left."""
    intercept, slope = distance.mean(), (distance * SPEED).mean()
    left = distance - intercept - slope * SPEED
    return np.array([intercept, slope, np.log(left.std())])


def prior():
    return {"x": RNG.normal(size=3)}


def observe(x):
    return {"seen": summaries(x[0] + x[1] * SPEED + np.exp(x[2]) * RNG.normal(size=len(SPEED)))}


def logdensity(x):
    """x is (intercept, slope, log sigma), with standard normal priors."""
    residual = DISTANCE - x[0] - x[1] * SPEED
    return -0.5 * jnp.sum(x**2) - 0.5 * jnp.sum(residual**2) * jnp.exp(-2 * x[2]) - len(SPEED) * x[2]


def problem():
    keras.utils.set_random_seed(0)
    workflow = bayesflow.BasicWorkflow(
        simulator=bayesflow.make_simulator([prior, observe]),
        inference_network=bayesflow.networks.CouplingFlow(depth=2),
        inference_variables="x",
        inference_conditions="seen",
    )
    workflow.fit_offline(workflow.simulate(2000), epochs=20, batch_size=100, verbose=0)
    draws = workflow.sample(conditions={"seen": summaries(DISTANCE)[None]}, num_samples=4000)["x"][0]
    return taddaa.Target(logdensity, dim=3, names=["intercept", "slope", "log_sigma"]), taddaa.Draws(draws)


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
