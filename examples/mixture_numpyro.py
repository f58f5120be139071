"""A mixture in NumPyro, its discrete site summed out.  pip install 'taddaa[numpyro]' funsor;  python mixture_numpyro.py"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.funsor import config_enumerate
from numpyro.infer import SVI, TraceEnum_ELBO, init_to_median
from numpyro.infer.autoguide import AutoNormal

import taddaa

# Minutes between eruptions of a geyser (30 of the 272 of Azzalini and Bowman 1990).
WAITING = np.array(
    [79, 54, 74, 62, 85, 55, 88, 85, 51, 85, 54, 84, 78, 47, 83, 52, 62, 84, 52, 79, 51, 47, 78, 69, 74, 83, 55, 76, 78, 79.0]
)


@config_enumerate
def model(waiting):
    share = numpyro.sample("share", dist.Beta(2, 2))
    centre = numpyro.sample("centre", dist.Normal(jnp.array([55.0, 80.0]), 10.0).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(10.0))
    with numpyro.plate("eruption", len(waiting)):
        long = numpyro.sample("long", dist.Bernoulli(share))
        numpyro.sample("waiting", dist.Normal(centre[long], spread), obs=waiting)


def problem():
    guide = AutoNormal(handlers.block(model, hide=["long"]), init_loc_fn=init_to_median)
    svi = SVI(model, guide, numpyro.optim.Adam(0.02), TraceEnum_ELBO(max_plate_nesting=1))
    fit = svi.run(jax.random.key(0), 3000, WAITING, progress_bar=False)
    return taddaa.from_numpyro(model, guide, fit.params, WAITING)


if __name__ == "__main__":
    print(taddaa.diagnose(*problem()))
