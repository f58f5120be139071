"""from_callback with PyTorch: the eight schools written with torch.distributions, batched and differentiated by torch.func."""

import jax
import numpy as np
import pytest
from eight import EFFECT, ERROR, MEAN, SD, plain_logdensity, points, same_up_to_constant, verdicts

import taddaa
from frameworks import need

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # PyTorch's own, about itself


@pytest.fixture(autouse=True)
def torch_is_here():
    need("torch")


APPROXIMATION = taddaa.Gaussian(MEAN, SD)
NAMES = ["mu", "log_tau", *(f"eta[{i}]" for i in range(8))]


def logdensity(x):
    import torch
    from torch.distributions import HalfCauchy, Normal

    effect, error = torch.from_numpy(EFFECT), torch.from_numpy(ERROR)
    tau = torch.exp(x[1])
    zero, one, five = (torch.tensor(value, dtype=torch.float64) for value in (0.0, 1.0, 5.0))
    prior = Normal(zero, five, validate_args=False).log_prob(x[0]) + HalfCauchy(five, validate_args=False).log_prob(tau) + x[1]
    prior = prior + Normal(zero, one, validate_args=False).log_prob(x[2:]).sum()
    return prior + Normal(x[0] + tau * x[2:], error, validate_args=False).log_prob(effect).sum()


def batched(x):
    import torch

    gradients, values = torch.func.vmap(torch.func.grad_and_value(logdensity))(torch.from_numpy(x))
    return values, gradients  # tensors will do


def evaluated(fn, rows):
    target, _ = taddaa.from_callback(fn, len(MEAN), APPROXIMATION, names=NAMES)
    with jax.enable_x64(True):
        return [np.asarray(part) for part in jax.jit(jax.vmap(jax.value_and_grad(target.logdensity)))(rows)]


def test_the_log_density_is_the_frameworks_own():
    import torch

    values, gradients = evaluated(batched, points())
    one_by_one = [torch.func.grad_and_value(logdensity)(torch.from_numpy(x)) for x in points()]
    np.testing.assert_allclose(values, [value.numpy() for _, value in one_by_one], rtol=1e-12)
    np.testing.assert_allclose(gradients, [gradient.numpy() for gradient, _ in one_by_one], rtol=1e-9, atol=1e-9)
    assert same_up_to_constant(values, [plain_logdensity(x) for x in points()])
    assert not same_up_to_constant(values, [plain_logdensity(x[::-1]) for x in points()])  # another order would show


def test_the_verdicts_are_those_of_the_same_target_in_jax():
    def in_jax(x):
        tau = jax.numpy.exp(x[1])
        prior = -0.5 * (x[0] / 5) ** 2 - jax.numpy.log1p((tau / 5) ** 2) + x[1] - 0.5 * jax.numpy.sum(x[2:] ** 2)
        return prior - 0.5 * jax.numpy.sum(((EFFECT - x[0] - tau * x[2:]) / ERROR) ** 2)

    report = taddaa.diagnose(*taddaa.from_callback(batched, len(MEAN), APPROXIMATION, names=NAMES))
    assert verdicts(report) == verdicts(taddaa.diagnose(taddaa.Target(in_jax, len(MEAN), names=NAMES), APPROXIMATION))
    assert {f"{row.functional} of {row.parameter}" for row in report.rows if row.verdict == "error"} >= {"variance of log_tau"}


def test_tensors_that_still_carry_gradients_are_refused_in_one_sentence():
    import torch

    def attached(x):
        x = torch.from_numpy(x).requires_grad_()
        values = torch.stack([logdensity(row) for row in x])
        return values, torch.autograd.grad(values.sum(), x)[0]

    with pytest.raises(taddaa.InputError, match=r"log densities as numbers.*detach"):
        taddaa.from_callback(attached, len(MEAN), APPROXIMATION)
