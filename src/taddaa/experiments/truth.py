"""The truth that a study compares with: long NUTS runs (NumPyro), repeated from other starts, with R-hat and effective sizes.

Only summaries are kept. A run is made once for a key of the model's source, the data and the run's own options.
"""

import hashlib
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import require
from ..problem.target import Target
from . import models
from .data import Dataset
from .study import Store

START_WIDTH = 2.0  # starts are uniform on ±2, as Stan's
GOOD_RHAT, GOOD_ESS = 1.01, 400


@dataclass(frozen=True)
class Nuts:
    """How long to run, and how."""

    chains: int  # at least two, for R-hat
    warmup: int
    draws: int
    dense: bool = True  # a full mass matrix
    accept: float = 0.8
    depth: int = 10  # of the tree, at most


@dataclass(frozen=True)
class Truth:
    """Independent runs' summaries of the same quantities."""

    names: list[str]
    runs: list[dict[str, Any]]  # mean, sd, median, rhat, ess: one value a quantity; chain_means; divergences, gradients, seconds

    def _pooled(self, what: str) -> np.ndarray:
        return np.mean([run[what] for run in self.runs], axis=0)

    @cached_property
    def mean(self) -> np.ndarray:
        return self._pooled("mean")

    @cached_property
    def sd(self) -> np.ndarray:
        """Within runs and between them."""
        between = np.var([run["mean"] for run in self.runs], axis=0)
        return np.sqrt(np.mean(np.square([run["sd"] for run in self.runs]), axis=0) + between)

    @cached_property
    def median(self) -> np.ndarray:
        return self._pooled("median")

    @cached_property
    def rhat(self) -> np.ndarray:
        """The worst run's."""
        return np.max([run["rhat"] for run in self.runs], axis=0)

    @cached_property
    def ess(self) -> np.ndarray:
        return np.sum([run["ess"] for run in self.runs], axis=0)

    @cached_property
    def disagreement(self) -> np.ndarray:
        """The largest distance of a run's mean from the average run's, in standard deviations."""
        return np.max(np.abs([run["mean"] - self.mean for run in self.runs]), axis=0) / self.sd

    def of(self, name: str) -> dict[str, float]:
        """One quantity's truth, and how far it is known."""
        i = self.names.index(name)
        return {each: float(getattr(self, each)[i]) for each in ("mean", "sd", "median", "rhat", "ess", "disagreement")}

    def good(self, name: str) -> bool:
        """Whether R-hat and the effective size allow to call it the truth."""
        found = self.of(name)
        return found["rhat"] <= GOOD_RHAT and found["ess"] >= GOOD_ESS


def key_of(model: str, data: Dataset, **changes: Any) -> dict[str, Any]:
    """Names a model and its data: the digest of all models' source, so that a changed model is never taken for the old one."""
    return {"model": model, "source": hashlib.sha256(inspect.getsource(models).encode()).hexdigest()[:16], "data": data.digest, **changes}


def nuts(
    store: Store, key: dict[str, Any], target: Target, run: int, options: Nuts, extra: Callable | None = None, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Summaries of one run: every parameter, then what `extra` makes of a flat vector and the data (called `names`)."""
    full = {"target": key, "run": run, "options": vars(options), "extra": list(names), "revision": 1}
    return store.once(f"nuts-{key['model']}-{run}", full, lambda: _run(target, run, options, extra, names))


def _run(target: Target, seed: int, options: Nuts, extra: Callable | None, names: Sequence[str]) -> dict[str, Any]:
    infer = require("numpyro.infer", "experiments")
    stats = require("arviz_stats.base", "experiments").array_stats
    begun = time.monotonic()
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, target.data)
        kernel = infer.NUTS(
            potential_fn=lambda x: -target.logdensity(x, data),
            dense_mass=options.dense,
            target_accept_prob=options.accept,
            max_tree_depth=options.depth,
        )
        sampler = infer.MCMC(
            kernel,
            num_warmup=options.warmup,
            num_samples=options.draws,
            num_chains=options.chains,
            chain_method="sequential",
            progress_bar=False,
        )
        key = jax.random.key(seed)
        starts = jax.random.uniform(jax.random.fold_in(key, 1), (options.chains, target.dim), minval=-START_WIDTH, maxval=START_WIDTH)
        sampler.run(key, init_params=starts, extra_fields=("num_steps", "diverging"))
        draws = sampler.get_samples(group_by_chain=True)
        if extra is not None:
            more = jax.jit(jax.vmap(jax.vmap(lambda x: jnp.atleast_1d(extra(x, data)))))(draws)
            draws = jnp.concatenate([draws, more], axis=-1)
        values, fields = np.asarray(draws), sampler.get_extra_fields()
    flat = values.reshape(-1, values.shape[-1])
    return {
        "names": [*target.labels, *names],
        "mean": flat.mean(axis=0),
        "sd": flat.std(axis=0, ddof=1),
        "median": np.median(flat, axis=0),
        "rhat": stats.rhat(values, chain_axis=0, draw_axis=1),
        "ess": stats.ess(values, chain_axis=0, draw_axis=1),
        "chain_means": values.mean(axis=1),
        "divergences": int(np.sum(np.asarray(fields["diverging"]))),
        "gradients": int(np.sum(np.asarray(fields["num_steps"]))),
        "seconds": time.monotonic() - begun,
    }
