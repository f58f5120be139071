"""Eight schools in Pyro: a mean-field guide, judged.  pip install 'taddaa[pyro]';  python eight_schools_pyro.py"""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

import taddaa

EFFECT = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def model(effect, error):
    mu = pyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(5.0))
    with pyro.plate("school", len(effect)):
        eta = pyro.sample("eta", dist.Normal(0.0, 1.0))
        pyro.sample("y", dist.Normal(mu + tau * eta, error), obs=effect)


def problem():
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    guide = AutoNormal(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO(num_particles=5, vectorize_particles=True))
    for _ in range(1500):
        svi.step(EFFECT, ERROR)
    return taddaa.from_pyro(model, guide, EFFECT, ERROR)


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
