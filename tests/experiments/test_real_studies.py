"""The studies on real data from the first cell to the figures: small but real, and in full with known numbers in the place of chains."""

import json

import jax
import numpy as np
import pytest

from taddaa import Gaussian
from taddaa.experiments import load
from taddaa.experiments.posteriors import CANDY, LEUKEMIA, NETWORK, POSTERIORS, Posterior
from taddaa.experiments.run import reproduce
from taddaa.experiments.study import NOT_REPRODUCED, OURS, REPRODUCED, Store
from taddaa.experiments.vi import Fitted

# Small but real ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder for all studies, so that they share fits and truths as `reproduce all` does."""
    return tmp_path_factory.mktemp("paper")


@pytest.mark.parametrize(
    "name", ["candy", "cost", *(pytest.param(n, marks=pytest.mark.slow) for n in ("leukemia", "bnn", "ablation-leukemia"))]
)
def test_quick_study(name, out):
    begun = []
    found = reproduce(load(name), out, quick=True, tell=begun.append)
    stored = json.loads((out / f"{name}-quick.json").read_text())
    assert stored["claims"] == found["claims"] and begun
    all_is_shown(found, out)
    again = []
    assert reproduce(load(name), out, quick=True, tell=again.append)["results"] == found["results"]
    assert not again  # every cell was found


def all_is_shown(found, out):
    for figure in found["figures"]:
        assert 2_000 < (out / f"{figure['name']}.png").stat().st_size < 200_000 and figure["caption"]
    for claim in found["claims"]:
        assert claim["numbers"] and all(value is not None for value in claim["numbers"].values())


def test_fits_move_towards_the_truth(out):
    """The stored fit is the public one's: its log density at its mean beats that at 0."""
    fitted = CANDY.fit(Store(out / "shared"), quick=True).approximation
    assert isinstance(fitted, Gaussian)
    target = CANDY.target
    with jax.enable_x64(True):
        assert float(target.logdensity(fitted.mean(), target.data) - target.logdensity(np.zeros(11), target.data)) > 10


def test_posteriors_have_the_papers_dimensions():
    assert {name: each.target.dim for name, each in POSTERIORS.items()} == {"candy": 11, "candy-wide": 11, "leukemia": 203, "network": 85}
    assert [f.label for f in NETWORK.focus(NETWORK.target)] == ["mean", "q0.5"]
    assert len(LEUKEMIA.focus(LEUKEMIA.target)) == 7


# In full, with known numbers -----------------------------------------------------------------------------------------------------

MEAN_ERROR, VARIANCE = 0.5, 0.25  # of a fit to quantities that are all N(0, 1) in truth


def known_truth(self, store, run, quick):
    names = [*self.target.labels, *self.extra_names]
    zero, one = np.zeros(len(names)), np.ones(len(names))
    spread = np.random.default_rng(run).normal(size=(4, len(names))) / 100
    moments = {"mean": zero, "sd": one, "median": zero, "rhat": one, "ess": 4000 * one, "chain_means": spread}
    return {"names": names, **moments, "divergences": 0, "gradients": 1000, "seconds": 1.0}


def known_fit(self, store, quick):
    return Fitted(Gaussian(np.full(self.target.dim, MEAN_ERROR), np.full(self.target.dim, VARIANCE**0.5)), 10_000, True, 0.0)


def diagnosis_of(share):
    """Every bound is this share of the true error, with either method."""

    def diagnosis(self, store, method, kernel, *, every=False, quick=False, seed=0, **changes):
        def row(functional):
            q, moved, error = (VARIANCE, 1.0, -np.log(VARIANCE)) if functional == "variance" else (MEAN_ERROR, 0.0, MEAN_ERROR)
            numbers = {"approximation": q, "moved": moved, "lower": share * error, "upper": 2 * error, "bound": share * error, "rho2": 0.01}
            return {**numbers, "verdict": "error", "reason": ""}

        if every:
            asked = [(label, functional) for label in self.target.labels for functional in ("mean", "variance")]
        else:
            asked = [(functional.name, functional.label) for functional in self.focus(self.target)]
        run = {"rho2_max": 0.02, "path": [0.5, 0.1, 0.02], "failed": [], "iterations_run": 3, "gradients": 3000, "chains": 100}
        return {"rows": {f"{name} {functional}": row(functional) for name, functional in asked}, **run}

    return diagnosis


STUDIES = ("candy", "leukemia", "bnn", "ablation-leukemia")


@pytest.mark.parametrize(("name", "share", "verdict"), [*((n, 0.8, REPRODUCED) for n in STUDIES), ("bnn", 1.5, NOT_REPRODUCED)])
def test_full_study_of_known_numbers(name, share, verdict, tmp_path, monkeypatch):
    """Every cell, claim and figure of the full study; bounds above the true error are called wrong by the claims that ask for it."""
    for method, known in {"truth_run": known_truth, "fit": known_fit, "diagnosis": diagnosis_of(share)}.items():
        monkeypatch.setattr(Posterior, method, known)
    found = reproduce(load(name), tmp_path, quick=False)
    all_is_shown(found, tmp_path)
    assert found["table"]["rows"] and all(len(row) == len(found["table"]["columns"]) for row in found["table"]["rows"])
    valid = {claim["verdict"] for claim in found["claims"] if claim["method"] == OURS and "below the true error" in claim["text"]}
    assert valid == ({verdict} if name != "ablation-leukemia" else set())
