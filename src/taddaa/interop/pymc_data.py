"""Is a PyMC fit judged against the data that it was fitted to? `pm.set_data` changes a model in place, for predictions most often."""

import warnings
from typing import Any

import jax
import numpy as np

from ..errors import InputError
from ..problem.approximation import Approximation, Gaussian
from ..problem.origin import described
from ..problem.target import Target

LAST_LOSSES, FRESH_LOSSES = 100, 500
LEAST_LOSSES = 20
# Two sets of losses of one distribution exceed each other half of the time, and 100 and 500 of them show more than
# this only after a change (its standard error is 0.03).
APART = 0.75
REMEDY = "set the data that were fitted again (pm.set_data) before the diagnosis"


def settable(model) -> dict[str, np.ndarray]:
    """The model's `pm.Data` containers, with the values that they hold now."""
    from pytensor.compile import SharedVariable

    lengths = set(model.dim_lengths.values())
    return {
        str(variable.name): np.asarray(variable.get_value())
        for variable in model.named_vars.values()
        if isinstance(variable, SharedVariable) and variable not in lengths
    }


def observations(model) -> dict[str, np.ndarray]:
    """What the model's observed variables are conditioned on, where these are plain values."""
    from pytensor.tensor import TensorConstant

    found = {}
    for variable in model.observed_RVs:
        value = model.rvs_to_values[variable]
        if isinstance(value, TensorConstant):
            found[variable.name] = np.asarray(value.data)
    return found


def data_line(model) -> str:
    """The model's data for the report's provenance."""
    return described({**settable(model), **observations(model)})


def refuse_stored_difference(model, approx) -> None:
    """A result that keeps its data (`constant_data`, `observed_data`) must have the model's."""
    for group, now in (("constant_data", settable(model)), ("observed_data", {**observations(model)})):
        stored: Any = getattr(approx, group, None)
        for name in getattr(stored, "data_vars", ()):
            then = np.asarray(stored[name])
            if name in now and not _same(then, now[name]):
                raise InputError(
                    f"approx was fitted with {name} of shape {then.shape}, digest {described({name: then})[-12:]}, and the model now holds "
                    f"shape {now[name].shape}, digest {described({name: now[name]})[-12:]}; {REMEDY}"
                )


def _same(then: np.ndarray, now: np.ndarray) -> bool:
    if then.shape != now.shape:
        return False
    if then.dtype.kind in "fiub" and now.dtype.kind in "fiub":
        return bool(np.allclose(then, now, rtol=1e-6, atol=0, equal_nan=True))
    return bool(np.all(then == now))


def notes_on_data(model, approx, target: Target, approximation: Approximation, meant: bool) -> tuple[str, ...]:
    """PyMC's fits do not keep their data, but their losses: those of the last iterations must be the model's present ones.

    Args:
        meant: whether the user named the model; then a difference is a warning and a note, for it may be wanted.
    """
    names = list(settable(model))
    if not names or getattr(approx, "constant_data", None) is not None:
        return ()
    losses = np.asarray(getattr(approx, "hist", ()), float)[-LAST_LOSSES:]
    if len(losses) < LEAST_LOSSES or not np.all(np.isfinite(losses)) or not isinstance(approximation, Gaussian):
        return (
            f"this is judged against the data that the model holds now ({', '.join(names[:6])}): the fit does not tell whether it was "
            "made with the same",
        )
    present = _present_losses(target, approximation)
    above = np.mean(present[:, None] > losses) if np.all(np.isfinite(present)) else 1.0
    if 1 - APART <= above <= APART:
        return ()
    sentence = (
        f"approx was not fitted to the data that its model holds now ({', '.join(names[:6])}): its loss was {np.median(losses):.4g} at the "
        f"end of the fit and is {np.median(present):.4g} with these; {REMEDY}"
    )
    if not meant:
        raise InputError(f"{sentence}, or name the model if you mean this: diagnose(model, approx)")
    warnings.warn(sentence, UserWarning, stacklevel=5)
    return (sentence,)


def _present_losses(target: Target, approximation: Gaussian) -> np.ndarray:
    """log q − log p at draws of q: single-draw estimates of the negative ELBO, as PyMC's history holds them."""
    draws = approximation.sample(np.random.default_rng(0), FRESH_LOSSES)
    logdensity: Any = target.logdensity if target.data is None else (lambda x: target.logdensity(x, target.data))
    with jax.enable_x64(True):
        return approximation.logdensity(draws) - np.asarray(jax.jit(jax.vmap(logdensity))(draws))
