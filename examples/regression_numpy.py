"""A log density and gradient in plain NumPy (or C++, or anything else that runs on the host).  python regression_numpy.py"""

import numpy as np

import taddaa

# Stopping distance in feet of cars at a speed in miles an hour (17 of the 50 cars of Ezekiel 1930).
SPEED = np.array([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24.0])
DISTANCE = np.array([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92.0])
DESIGN = np.column_stack([np.ones_like(SPEED), SPEED - SPEED.mean()])


def logdensity_and_gradient(x):
    """Rows of x are (intercept, slope, log sigma); priors are normal(0, 100), normal(0, 10) and normal(3, 1)."""
    beta, log_sigma = x[:, :2], x[:, 2]
    precision = np.exp(-2 * log_sigma)
    residual = DISTANCE - beta @ DESIGN.T
    squares = np.sum(residual**2, axis=1)
    value = -0.5 * precision * squares - len(SPEED) * log_sigma
    value -= 0.5 * (beta[:, 0] / 100) ** 2 + 0.5 * (beta[:, 1] / 10) ** 2 + 0.5 * (log_sigma - 3) ** 2
    gradient = np.empty_like(x)
    gradient[:, :2] = precision[:, None] * (residual @ DESIGN) - beta / np.array([100.0, 10.0]) ** 2
    gradient[:, 2] = precision * squares - len(SPEED) - (log_sigma - 3)
    return value, gradient


def problem():
    approximation = taddaa.Gaussian(mean=[36.7, 3.6, 2.4], sd=[2.7, 0.5, 0.1])  # the spread of log sigma is too small
    return taddaa.from_callback(logdensity_and_gradient, 3, approximation, names=["intercept", "slope", "log_sigma"])


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
