"""The user's functionals → `Questions`: which rows, of which quantities, and what the approximation answers."""

from collections.abc import Callable, Sequence

import numpy as np

from ..chains.machine.engine import Engine
from ..errors import InputError
from ..formulas.interval import Interval, exactly
from ..moves.metric import Diagonal
from ..problem.approximation import Approximation, Draws, Gaussian, Inflated
from ..problem.drawn import drawn
from ..problem.functional import Covariance, Functional
from ..problem.selection import by_default, chosen
from ..problem.target import Target, indexed
from .questions import Drawn, Known, Questions, RowGroup, Sampled

REFERENCE_DRAWS = 20_000  # of q, where a functional of it has no closed form
FAR = 10.0  # times as far from their median as q's draws lie
REFERENCE_NUMBERS = 40_000_000  # at most, draws × dimension
ROWS_AT_ONCE = 1000  # that are compared
NORMAL_KURTOSIS = 3.0
SLOPES_AT, MOST_SLOPES = 16, 4 * 10**6  # draws at which quantities' gradients are averaged; numbers in them


def ask(
    functionals: Sequence[Functional],
    engine: Engine,
    approximation: Approximation,
    rng: np.random.Generator,
    variance_interval: str,
    states: int,
    interval: str = "plain",
) -> Questions:
    """Resolve the user's functionals into rows, and find F(q): in closed form where it exists, else from many draws."""
    constant = _constant(engine, approximation)
    functions, groups, notes = _row_groups(engine.target, functionals, engine, constant)
    references: list[Callable[[float], Interval]] = []
    draws: Drawn | None = None
    for group in groups:
        known = _closed_form(group, engine.target, approximation)
        if known is not None:
            references.append(Known(exactly(known)))
            continue
        if draws is None:
            draws = _reference_draws(approximation, engine, functions, rng, interval)
            refuse_nan(groups, draws.quantities, "draws of the approximation")
        references.append(Sampled(group, draws, variance_interval, _exact(group, draws.own, approximation)))
    kurtosis = None
    if not isinstance(approximation, Gaussian) or draws is not None:
        draws = _reference_draws(approximation, engine, functions, rng, "plain") if draws is None else draws
        kurtosis = np.full(draws.quantities.shape[1], NORMAL_KURTOSIS)
        kurtosis[draws.others] = _kurtosis(draws.quantities[:, draws.others])
    return Questions(tuple(groups), functions, tuple(references), variance_interval, states, kurtosis, notes)


def refuse_nan(groups: Sequence[RowGroup], quantities: np.ndarray, where: str) -> None:
    """A functional must be a number wherever q puts draws."""
    with np.errstate(invalid="ignore", over="ignore"):
        if not np.isnan(quantities.sum()):  # of infinite ones it may be NaN too, and then each is looked at
            return
    for group in groups:
        bad = np.isnan(quantities[:, group.columns]).any(axis=1)
        if bad.any():
            what = f"of={group.labels[0]}" if group.functional.function else f"constrain's {group.labels[0]!r}"
            raise InputError(f"{what} returned NaN at {bad.sum()} of {len(bad)} {where}; make it a number there or leave it out")


def _kurtosis(draws: np.ndarray) -> np.ndarray:
    """Some rows at a time, which stay in a processor's cache."""
    with np.errstate(all="ignore"):
        middle, second, fourth = draws.mean(axis=0), np.zeros(draws.shape[1]), np.zeros(draws.shape[1])
        for first in range(0, len(draws), ROWS_AT_ONCE):
            squares = (draws[first : first + ROWS_AT_ONCE] - middle) ** 2
            second += squares.sum(axis=0)
            fourth += (squares**2).sum(axis=0)
        return np.nan_to_num(len(draws) * fourth / second**2, nan=1.0, posinf=1.0)


def _exact(group: RowGroup, own: np.ndarray, approximation: Approximation) -> np.ndarray:
    """Of each row F(q), where its quantity is a coordinate of q and F of that is known; NaN elsewhere."""
    found, known = np.full(len(group.labels), np.nan), group.functional.closed_form(approximation)
    if known is None or isinstance(group.functional, Covariance):
        return found
    coordinate = own[group.columns]
    return np.where(coordinate >= 0, known[coordinate], found)


def _closed_form(group: RowGroup, target: Target, approximation: Approximation) -> np.ndarray | None:
    if target.constrain is not None or group.functional.function is not None:
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


def _reference_draws(approximation: Approximation, engine: Engine, functions, rng: np.random.Generator, interval: str) -> Drawn:
    if isinstance(approximation, Draws):
        quantities = engine.viewer.observe(approximation.draws, functions)
        return Drawn(quantities, np.full(quantities.shape[1], -1))
    count = max(engine.chains, min(REFERENCE_DRAWS, REFERENCE_NUMBERS // approximation.dim))
    draws = drawn(approximation, rng, count)
    quantities = engine.viewer.observe(draws, functions)
    if interval == "plain" or not isinstance(approximation, Gaussian):
        return Drawn(quantities, np.full(quantities.shape[1], -1))
    found = Drawn(quantities, _own_coordinates(draws.astype(engine.dtype), quantities))
    return found._replace(along=_along(approximation, draws, found.others, quantities.shape[1], engine, functions))


def _own_coordinates(draws: np.ndarray, quantities: np.ndarray) -> np.ndarray:
    """Of each quantity, the coordinate that it is at all draws, as most parameters of most models are; −1 if it is none."""
    order = np.argsort(draws[0])
    likely = order[np.minimum(np.searchsorted(draws[0], quantities[0], sorter=order), len(order) - 1)]
    same = np.ones(len(likely), bool)
    for first in range(0, len(draws), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        same &= (quantities[rows] == draws[rows, likely]).all(axis=0)
    return np.where(same, likely, -1)


def _along(approximation: Gaussian, draws: np.ndarray, which: np.ndarray, quantities: int, engine: Engine, functions) -> np.ndarray | None:
    """The draws along these quantities' mean gradients, in standard deviations (n, k); NaN where one has none."""
    if quantities * draws.shape[1] > MOST_SLOPES or not which.size:
        return None
    covariance = approximation.covariance()
    spread = np.sqrt(covariance if covariance.ndim == 1 else np.diag(covariance))
    slopes = engine.viewer.slopes(draws[:SLOPES_AT], functions, Diagonal(spread), spread)[which]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # variances beyond what numbers can hold gain nothing
        variance = np.sum(slopes * (slopes * covariance if covariance.ndim == 1 else slopes @ covariance), axis=1)
        scaled = slopes / np.sqrt(variance)[:, None]
    return (draws - approximation.mean()) @ np.where(np.isfinite(scaled).all(axis=1, keepdims=True), scaled, np.nan).T


def _constant(engine: Engine, approximation: Approximation) -> np.ndarray:
    """Which of the user's parameters have one and the same value whatever x is: fixed entries of a factor, observed ones of a vector.

    They are looked at far beyond q's draws, where what only seems constant there varies.
    """
    labels = engine.target.labels
    if engine.target.constrain is None:
        return np.zeros(len(labels), bool)
    values = engine.viewer.observe(drawn(Inflated(approximation, FAR), np.random.default_rng(0), engine.chains))[:, : len(labels)]
    finite = np.isfinite(values)
    low, high = np.where(finite, values, np.inf).min(axis=0), np.where(finite, values, -np.inf).max(axis=0)
    rounding = 1000 * np.finfo(engine.dtype).eps * np.maximum(np.abs(low), np.abs(high))
    return finite.any(axis=0) & (high - low <= rounding)


def _row_groups(target: Target, functionals: Sequence[Functional], engine: Engine, constant: np.ndarray):
    """Which columns of `Engine.observe` each functional reads, and the labels of its rows; with notes on what has no row."""
    labels = target.labels
    offsets: dict[int, tuple[int, tuple[int, ...]]] = {}  # by identity: a user's callable need not be hashable
    functions: list[Callable] = []
    notes: list[str] = []
    width, row, groups = len(labels), 0, []
    for functional in functionals:
        if functional.function is not None:
            if id(functional.of) not in offsets:
                shape = engine.viewer.shape_of(functional.function, _name_of(functional))
                offsets[id(functional.of)] = (width, shape)
                functions.append(functional.function)
                width += int(np.prod(shape))
            columns, names = _function_rows(functional, *offsets[id(functional.of)])
        elif isinstance(functional, Covariance):
            columns = np.array([_column(labels, which) for which in (functional.first, functional.second)])
            names = (functional.name or f"{labels[columns[0]]}, {labels[columns[1]]}",)
        else:
            columns, said = _parameters(target, functional, constant)
            names, notes = tuple(labels[i] for i in columns), [*notes, *said]
        groups.append(RowGroup(functional, columns, names, row + np.arange(len(names))))
        row += len(names)
    _refuse_twins(groups)
    return tuple(functions), groups, tuple(dict.fromkeys(notes))


def _parameters(target: Target, functional: Functional, constant: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The parameters that a functional is of, but for constants."""
    note = ""
    if functional.names is not None:
        columns = chosen(target.labels, functional.names)
    else:
        columns, note = by_default(target)
    fixed = columns[constant[columns]]
    if len(fixed) == len(columns):
        raise InputError(f"{target.labels[fixed[0]]} has the same value whatever the parameters are, so there is nothing to judge")
    more = f" and {len(fixed) - 1} more" * (len(fixed) > 1)
    said = f"{target.labels[fixed[0]]}{more}: fixed by the model, so no row" if len(fixed) else ""
    return columns[~constant[columns]], [sentence for sentence in (note, said) if sentence]


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
