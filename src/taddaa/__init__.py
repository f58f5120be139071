"""TADDAA: is your approximate posterior any good, for the numbers you care about?

Names are loaded when first used, so that the command line answers `--help` without waiting for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import fit
    from .approximation import Approximation, Draws, Gaussian, Sampler, StudentT
    from .comparison import Comparison, compare, k_hat
    from .diagnosis import diagnose
    from .errors import InputError, LostProcess, MissingExtra
    from .functional import Covariance, Functional, Mean, Quantile, Variance
    from .interop.callback import from_callback
    from .interop.numpyro import from_numpyro
    from .interop.pymc import from_pymc
    from .interop.stan import from_stan
    from .kernel import HMC, MALA, RWMH, Barker
    from .precondition import Fisher, FromApproximation, Identity
    from .report import DiagnosisError, Report
    from .settings import Settings
    from .target import Target

_HOME = {
    "Approximation": "approximation",
    "Barker": "kernel",
    "Comparison": "comparison",
    "Covariance": "functional",
    "DiagnosisError": "report",
    "Draws": "approximation",
    "Fisher": "precondition",
    "FromApproximation": "precondition",
    "Functional": "functional",
    "Gaussian": "approximation",
    "HMC": "kernel",
    "Identity": "precondition",
    "InputError": "errors",
    "LostProcess": "errors",
    "MALA": "kernel",
    "Mean": "functional",
    "MissingExtra": "errors",
    "Quantile": "functional",
    "RWMH": "kernel",
    "Report": "report",
    "Sampler": "approximation",
    "Settings": "settings",
    "StudentT": "approximation",
    "Target": "target",
    "Variance": "functional",
    "compare": "comparison",
    "diagnose": "diagnosis",
    "from_callback": "interop.callback",
    "from_numpyro": "interop.numpyro",
    "from_pymc": "interop.pymc",
    "from_stan": "interop.stan",
    "k_hat": "comparison",
}

__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str):
    if name == "fit":
        return import_module(".fit", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'taddaa' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOME, "fit"})
