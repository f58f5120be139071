"""`diagnose(model, fit)` with a model and a fit of another framework: which adapter reads them. Frameworks are imported only there."""

from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any

from ..errors import InputError
from .approximation import Approximation
from .target import Target

# The package that an argument's type comes from → the file of interop whose `read(model, fit, data)` takes it. Where the model and
# the fit come from two of them, the first in this list reads both.
ADAPTERS = {
    "numpyro": "numpyro",
    "pyro": "pyro",
    "bambi": "pymc",
    "pymc": "pymc",
    "pymc_extras": "pymc",
    "bridgestan": "stan",
    "stan": "stan",
    "cmdstanpy": "stan",
    "arviz": "posterior",
    "arviz_base": "posterior",
    "xarray": "posterior",
}


def as_problem(target: Any, approximation: Any, data: Any = None) -> tuple[Any, Any]:
    """(Target, approximation) of a framework's own model and fit; what is ours already stays as it is."""
    given = isinstance(approximation, Approximation) or (hasattr(approximation, "sample") and hasattr(approximation, "log_prob"))
    # A log density may well use a framework's distributions; beside an approximation that stands for itself it is no model.
    found = set() if isinstance(target, FunctionType) and given else _packages(target)
    found |= set() if given else _packages(approximation)
    adapter = next((ADAPTERS[package] for package in ADAPTERS if package in found), None)
    if adapter is not None:
        return import_module(f"...interop.{adapter}", __name__).read(target, approximation, data)
    if approximation is None:
        raise InputError(
            f"approximation is missing, and {type(target).__name__} is not a fit that holds its model, as PyMC's approximations do; "
            "pass diagnose(target, approximation)"
        )
    if data is not None:
        raise InputError("data is what a framework's model takes; of a log density it is part of the target: taddaa.Target(…, data=…)")
    return target, approximation


def _packages(value: Any) -> set[str]:
    """The packages that a value is of: by its type, or by what a function or the parts of a tuple use."""
    if isinstance(value, partial):
        return _packages(value.func)
    if isinstance(value, FunctionType):
        used = [value.__globals__.get(name) for name in value.__code__.co_names]
        used += [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        return {package for item in used for package in [_home(item)] if package in ("numpyro", "pyro")}
    if isinstance(value, Target):
        return set()
    kinds = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    if isinstance(value, (tuple, list)):
        kinds |= {package for item in value for package in _packages(item)}
    return kinds & set(ADAPTERS)


def _home(item: Any) -> str:
    """Of a module or a function, its package."""
    name = getattr(item, "__name__", "") if type(item).__name__ == "module" else getattr(item, "__module__", "")
    return str(name or "").partition(".")[0]


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
