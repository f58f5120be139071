"""Eight schools in NumPyro: a mean-field fit, judged.  pip install 'taddaa[numpyro]';  python eight_schools_numpyro.py"""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

import taddaa

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def model(effect, error):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(effect)):
        eta = numpyro.sample("eta", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * eta)
        numpyro.sample("y", dist.Normal(theta, error), obs=effect)


def problem():
    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.01), Trace_ELBO(num_particles=10))
    fit = svi.run(jax.random.key(0), 3000, EFFECT, ERROR, progress_bar=False)
    return taddaa.from_numpyro(model, guide, fit.params, EFFECT, ERROR)


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
