"""A log density in PyTorch, differentiated and batched by torch.func.  pip install taddaa torch;  python regression_pytorch.py"""

import torch

import taddaa

# Stopping distance in feet of cars at a speed in miles an hour (17 of the 50 cars of Ezekiel 1930).
SPEED = torch.tensor([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24], dtype=torch.float64)
DISTANCE = torch.tensor([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92], dtype=torch.float64)


def logdensity(x):
    """x is (intercept, slope, log sigma); priors are normal(0, 100), normal(0, 10) and normal(3, 1)."""
    scale = torch.tensor([100.0, 10.0, 1.0], dtype=torch.float64)
    prior = -0.5 * torch.sum(((x - torch.tensor([0.0, 0.0, 3.0], dtype=torch.float64)) / scale) ** 2)
    residual = DISTANCE - x[0] - x[1] * (SPEED - SPEED.mean())
    return prior - 0.5 * torch.sum(residual**2) * torch.exp(-2 * x[2]) - len(SPEED) * x[2]


batched = torch.func.vmap(torch.func.grad_and_value(logdensity))


def logdensity_and_gradient(x):
    gradients, values = batched(torch.from_numpy(x))
    return values.numpy(), gradients.numpy()


def problem():
    approximation = taddaa.Gaussian(mean=[36.7, 3.6, 2.4], sd=[2.7, 0.5, 0.1])  # the spread of log sigma is too small
    return taddaa.from_callback(logdensity_and_gradient, 3, approximation, names=["intercept", "slope", "log_sigma"])


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
