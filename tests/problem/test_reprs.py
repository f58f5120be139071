"""What a notebook shows of targets and approximations: what they are, and no addresses."""

import numpy as np

from taddaa import Draws, Gaussian, Sampler, StudentT, Target


def logdensity(x):
    return -0.5 * (x**2).sum()


def test_reprs_say_what_it_is():
    shown = {
        "<Gaussian of dimension 2: mean [0, 1.5], sd [1, 2]>": Gaussian([0.0, 1.5], [1.0, 2.0]),
        "<Gaussian of dimension 2: mean [0, 0], sd [1, 3]>": Gaussian([0.0, 0.0], covariance=[[1.0, 0.5], [0.5, 9.0]]),
        "<Gaussian of dimension 6: mean [0, 0, 0, 0, …], sd [1, 1, 1, 1, …]>": Gaussian(np.zeros(6), np.ones(6)),
        "<Sampler of dimension 3>": Sampler(lambda rng, n: rng.normal(size=(n, 3)), 3),
        "<Target logdensity of dimension 2: alpha, beta>": Target(logdensity, 2, names=["alpha", "beta"]),
        "<Target logdensity of dimension 9>": Target(logdensity, 9),
    }
    for text, thing in shown.items():
        assert repr(thing) == text
    for thing in (Draws(np.random.default_rng(0).normal(size=(50, 2))), StudentT(np.zeros(2), np.ones(2), 4.0)):
        assert repr(thing).startswith("<") and " at 0x" not in repr(thing) and "of dimension 2" in repr(thing)
