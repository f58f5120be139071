"""TADDAA: is your approximate posterior any good, for the numbers you care about?

Names are loaded when first used, so that the command line answers `--help` without waiting for JAX.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import fit, testing
    from .chains.machine.cache import cache
    from .comparison.compare import Comparison, compare
    from .comparison.many import Many, diagnose_many
    from .comparison.weights import k_hat
    from .diagnosis import diagnose
    from .errors import InputError, LostProcess, MissingExtra
    from .glancing import glance
    from .interop.callback import from_callback
    from .interop.numpyro import from_numpyro
    from .interop.pymc import from_pymc
    from .interop.pyro import from_pyro
    from .interop.stan import from_stan
    from .moves.kernel import HMC, MALA, RWMH, Barker, Relay
    from .moves.precondition import Fisher, FromApproximation, Identity
    from .problem.approximation import Approximation, Draws, Gaussian, Sampler, StudentT
    from .problem.functional import Covariance, Functional, Mean, Quantile, Variance
    from .problem.target import Target
    from .report.glance import Glance
    from .report.report import DiagnosisError, Report
    from .settings import Settings
    from .show import plot

_HOME = {
    "Approximation": "problem.approximation",
    "Barker": "moves.kernel",
    "Comparison": "comparison.compare",
    "Covariance": "problem.functional",
    "DiagnosisError": "report.report",
    "Draws": "problem.approximation",
    "Fisher": "moves.precondition",
    "FromApproximation": "moves.precondition",
    "Functional": "problem.functional",
    "Glance": "report.glance",
    "Gaussian": "problem.approximation",
    "HMC": "moves.kernel",
    "Identity": "moves.precondition",
    "InputError": "errors",
    "LostProcess": "errors",
    "MALA": "moves.kernel",
    "Many": "comparison.many",
    "Mean": "problem.functional",
    "MissingExtra": "errors",
    "Quantile": "problem.functional",
    "RWMH": "moves.kernel",
    "Relay": "moves.kernel",
    "Report": "report.report",
    "Sampler": "problem.approximation",
    "Settings": "settings",
    "StudentT": "problem.approximation",
    "Target": "problem.target",
    "Variance": "problem.functional",
    "cache": "chains.machine.cache",
    "compare": "comparison.compare",
    "diagnose": "diagnosis",
    "diagnose_many": "comparison.many",
    "from_callback": "interop.callback",
    "from_numpyro": "interop.numpyro",
    "from_pymc": "interop.pymc",
    "from_pyro": "interop.pyro",
    "from_stan": "interop.stan",
    "glance": "glancing",
    "k_hat": "comparison.weights",
}
_MODULES = {"fit": "fit", "plot": "show.plot", "testing": "testing"}

__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str):
    with _without_collecting():
        if name in _MODULES:
            value = import_module(f".{_MODULES[name]}", __name__)
        elif name in _HOME:
            value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        elif name == "__version__":
            value = import_module(".version", __name__).own_version()
        else:
            raise AttributeError(f"module 'taddaa' has no attribute {name!r}")
    globals()[name] = value
    return value


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Loading modules makes no garbage, but so many objects that Python would look for some among all of JAX's: a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def __dir__():
    return sorted({*globals(), *_HOME, *_MODULES, "__version__"})
