"""The user's functionals → `Questions`: which rows, of which quantities, and what the approximation answers."""

from collections.abc import Callable, Sequence

import numpy as np

from ..chains.machine.engine import Engine
from ..errors import InputError
from ..formulas.interval import Interval, exactly
from ..problem.approximation import Approximation, Draws, Gaussian
from ..problem.drawn import drawn
from ..problem.functional import Covariance, Functional
from ..problem.target import Target, indexed
from .questions import Known, Questions, RowGroup, Sampled

REFERENCE_DRAWS = 20_000  # of q, where a functional of it has no closed form
REFERENCE_NUMBERS = 40_000_000  # at most, draws × dimension


def ask(
    functionals: Sequence[Functional],
    engine: Engine,
    approximation: Approximation,
    rng: np.random.Generator,
    variance_interval: str,
    states: int,
) -> Questions:
    """Resolve the user's functionals into rows, and find F(q): in closed form where it exists, else from many draws."""
    functions, groups = _row_groups(engine.target, functionals, engine)
    references: list[Callable[[float], Interval]] = []
    draws: np.ndarray | None = None
    for group in groups:
        known = _closed_form(group, engine.target, approximation)
        if known is not None:
            references.append(Known(exactly(known)))
            continue
        if draws is None:
            draws = _reference_draws(approximation, engine, functions, rng)
            refuse_nan(groups, draws, "draws of the approximation")
        references.append(Sampled(group, draws, variance_interval))
    kurtosis = None
    if not isinstance(approximation, Gaussian) or draws is not None:
        kurtosis = _kurtosis(_reference_draws(approximation, engine, functions, rng) if draws is None else draws)
    return Questions(tuple(groups), functions, tuple(references), variance_interval, states, kurtosis)


def refuse_nan(groups: Sequence[RowGroup], quantities: np.ndarray, where: str) -> None:
    """A functional must be a number wherever q puts draws."""
    for group in groups:
        bad = np.isnan(quantities[:, group.columns]).any(axis=1)
        if bad.any():
            what = f"of={group.labels[0]}" if group.functional.of else f"constrain's {group.labels[0]!r}"
            raise InputError(f"{what} returned NaN at {bad.sum()} of {len(bad)} {where}; make it a number there or leave it out")


def _kurtosis(draws: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        centred = draws - draws.mean(axis=0)
        return np.nan_to_num((centred**4).mean(axis=0) / (centred**2).mean(axis=0) ** 2, nan=1.0, posinf=1.0)


def _closed_form(group: RowGroup, target: Target, approximation: Approximation) -> np.ndarray | None:
    if target.constrain is not None or group.functional.of is not None:
        return None
    known = group.functional.closed_form(approximation)
    if known is None:
        return None
    if not isinstance(group.functional, Covariance):
        return known[group.columns]
    first, second = group.columns
    if known.ndim == 2:
        return known[[first], [second]]
    return np.array([known[first] if first == second else 0.0])


def _reference_draws(approximation: Approximation, engine: Engine, functions, rng: np.random.Generator) -> np.ndarray:
    if isinstance(approximation, Draws):
        return engine.observe(approximation.draws, functions)
    count = max(engine.chains, min(REFERENCE_DRAWS, REFERENCE_NUMBERS // approximation.dim))
    return engine.observe(drawn(approximation, rng, count), functions)


def _row_groups(target: Target, functionals: Sequence[Functional], engine: Engine) -> tuple[tuple[Callable, ...], list[RowGroup]]:
    """Which columns of `Engine.observe` each functional reads, and the labels of its rows."""
    labels = target.labels
    offsets: dict[int, tuple[int, tuple[int, ...]]] = {}  # by identity: a user's callable need not be hashable
    functions: list[Callable] = []
    width, row, groups = len(labels), 0, []
    for functional in functionals:
        if functional.of is not None:
            if id(functional.of) not in offsets:
                shape = engine.shape_of(functional.of, _name_of(functional))
                offsets[id(functional.of)] = (width, shape)
                functions.append(functional.of)
                width += int(np.prod(shape))
            columns, names = _function_rows(functional, *offsets[id(functional.of)])
        elif isinstance(functional, Covariance):
            columns = np.array([_column(labels, which) for which in (functional.first, functional.second)])
            names = (functional.name or f"{labels[columns[0]]}, {labels[columns[1]]}",)
        else:
            columns, names = np.arange(len(labels)), labels
        groups.append(RowGroup(functional, columns, names, row + np.arange(len(names))))
        row += len(names)
    _refuse_twins(groups)
    return tuple(functions), groups


def _refuse_twins(groups: Sequence[RowGroup]) -> None:
    """Whoever compares two reports finds a row by its parameter and functional: no two may have both in common."""
    seen = set()
    for group in groups:
        for label in group.labels:
            if (label, group.functional.label) in seen:
                raise InputError(
                    f"functionals must differ in name, got the {group.functional.label} of {label!r} more than once; "
                    "leave one out, or give each function a name of its own: Mean(of=…, name='…')"
                )
            seen.add((label, group.functional.label))


def _function_rows(functional: Functional, offset: int, shape: tuple[int, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    columns = offset + np.arange(int(np.prod(shape)))
    name = _name_of(functional)
    if not isinstance(functional, Covariance):
        return columns, tuple(indexed(name, shape))
    if len(columns) != 2:
        raise InputError(f"Covariance(of=…) must return two values, got shape {shape}")
    return columns, (name,)


def _name_of(functional: Functional) -> str:
    return functional.name or getattr(functional.of, "__name__", "function").strip("<>")


def _column(labels: tuple[str, ...], which: str | int | None) -> int:
    if isinstance(which, str) and which in labels:
        return labels.index(which)
    if isinstance(which, (int, np.integer)) and not isinstance(which, bool) and -len(labels) <= which < len(labels):
        return int(which) % len(labels)
    raise InputError(f"Covariance names the parameter {which!r}, which is not among {', '.join(labels[:5])}{', …' * (len(labels) > 5)}")
