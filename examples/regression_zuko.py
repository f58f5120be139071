"""A flow of zuko, fitted to a log density in PyTorch and judged.  pip install taddaa torch zuko;  python regression_zuko.py"""

import torch
import zuko

import taddaa

# Stopping distances of cars by their speed (17 of the 50 cars of Ezekiel 1930), both standardised.
SPEED = torch.tensor([4, 7, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 20, 24], dtype=torch.float64)
DISTANCE = torch.tensor([2, 22, 10, 26, 28, 20, 26, 34, 60, 26, 32, 40, 56, 46, 48, 56, 92], dtype=torch.float64)
SPEED, DISTANCE = ((values - values.mean()) / values.std() for values in (SPEED, DISTANCE))


def logdensity(x):
    """x is (intercept, slope, log sigma), with standard normal priors."""
    residual = DISTANCE - x[0] - x[1] * SPEED
    return -0.5 * torch.sum(x**2) - 0.5 * torch.sum(residual**2) * torch.exp(-2 * x[2]) - len(SPEED) * x[2]


gradients_and_values = torch.func.vmap(torch.func.grad_and_value(logdensity))


def logdensity_and_gradient(x):
    gradients, values = gradients_and_values(torch.from_numpy(x))
    return values.numpy(), gradients.numpy()


def problem():
    torch.manual_seed(0)
    flow = zuko.flows.MAF(3, transforms=2, hidden_features=(10, 10)).double()
    optimiser = torch.optim.Adam(flow.parameters(), lr=0.01)
    for _ in range(500):
        draws, log_q = flow().rsample_and_log_prob((50,))
        loss = torch.mean(log_q - torch.func.vmap(logdensity)(draws))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return taddaa.from_callback(logdensity_and_gradient, 3, flow(), names=["intercept", "slope", "log_sigma"])


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
