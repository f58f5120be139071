"""What the user asked, row by row, and what the chains' late states answer: intervals of movement and bounds.

`Questions` is made once; `judge` turns snapshots into a `Judgement`, arrays with one entry a row.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..chains.machine.engine import Engine
from ..errors import InputError
from ..formulas.distributions import normal_cdf, normal_quantile
from ..formulas.interval import Interval, bound, exactly, excess_width, joined, movement, widened
from ..problem.approximation import Approximation, Draws, Gaussian
from ..problem.functional import Covariance, Functional
from ..problem.target import Target, indexed

REFERENCE_DRAWS = 20_000  # of q, where a functional of it has no closed form
REFERENCE_NUMBERS = 40_000_000  # at most, draws × dimension
PIECE = 500  # rows judged at a time
LEAST_SEEN = 10  # chains that must differ from the rest for a mean or variance to have an interval
FOUND_PROBABILITY = 0.95  # with which an error of the size `detectable` is found
ONE_SIGMA = 2 * normal_cdf(1.0) - 1


class Judgement(NamedTuple):
    """One entry a row. All but `approximation` and `moved` are on the movement's scale (log variance for variances)."""

    approximation: np.ndarray
    moved: np.ndarray
    reference: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    bound: np.ndarray
    relative_bound: np.ndarray
    detectable: np.ndarray
    relative_detectable: np.ndarray
    unit: np.ndarray  # what `relative_…` is measured in
    unknown: np.ndarray  # the functional is not a finite number, or
    unseen: np.ndarray  # too few chains show anything but one and the same value
    fixed: np.ndarray  # one and the same number wherever it was looked at: a constant, or an event never seen


@dataclass(frozen=True)
class RowGroup:
    """A functional and the quantities it is applied to: one row for each label."""

    functional: Functional
    columns: np.ndarray
    labels: tuple[str, ...]
    rows: np.ndarray

    def window(self, quantities: Sequence[np.ndarray]) -> np.ndarray:
        """(N, W, k) from W snapshots."""
        return np.stack([values[:, self.columns] for values in quantities], axis=1)

    def pieces(self) -> Iterator["RowGroup"]:
        """The same rows, few enough at a time that windows of them stay small in high dimension."""
        if len(self.columns) != len(self.labels) or len(self.columns) <= PIECE:
            yield self
            return
        for first in range(0, len(self.columns), PIECE):
            part = slice(first, first + PIECE)
            yield RowGroup(self.functional, self.columns[part], self.labels[part], self.rows[part])

    def per_row(self, values: np.ndarray) -> np.ndarray:
        """From one value a quantity to one a row: a covariance takes the larger of its two."""
        mine = values[self.columns]
        return mine if len(mine) == len(self.labels) else mine.max(keepdims=True)


@dataclass(frozen=True)
class Questions:
    """Every row that will be reported, and the approximation's own answer to it."""

    groups: tuple[RowGroup, ...]
    functions: tuple[Callable, ...]
    references: tuple[Callable[[float], Interval], ...]  # for each group: level → interval of F(q)
    variance_interval: str
    states: int
    kurtosis: np.ndarray | None  # of each quantity under q, where it may be heavy-tailed

    @property
    def rows(self) -> int:
        return sum(len(group.labels) for group in self.groups)

    def per_row(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([group.per_row(values) for group in self.groups])

    @property
    def reference_draws(self) -> np.ndarray | None:
        """The quantities at the draws that stand for q where a functional of it has no closed form."""
        return next((reference.quantities for reference in self.references if isinstance(reference, _Sampled)), None)

    def moved(self, late: Sequence[np.ndarray], level: float) -> list[Interval]:
        """For each group, the interval of F at the late states."""
        late = late[-self.states :]
        with np.errstate(invalid="ignore", over="ignore"):  # infinite quantities make rows unknown, not warnings
            return [joined([self._interval(piece, late, level) for piece in group.pieces()]) for group in self.groups]

    def _interval(self, group: RowGroup, late: Sequence[np.ndarray], level: float) -> Interval:
        window = group.window(late)
        found = group.functional.interval(window, level, self.variance_interval)
        if self.kurtosis is None or group.functional.label != "variance" or self.variance_interval != "bonett":
            return found
        return widened(found, excess_width(window, self.kurtosis[group.columns]))

    def summarise(self, quantities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each row's estimate and standard error at one snapshot."""
        found = self.moved([quantities], ONE_SIGMA)
        return np.concatenate([i.estimate for i in found]), np.concatenate([(i.upper - i.lower) / 2 for i in found])

    def judge(self, late: Sequence[np.ndarray], level: float) -> Judgement:
        """Intervals, each at `level`, of how far every row moved, and the bounds that follow."""
        moved = self.moved(late, level)
        with np.errstate(invalid="ignore", over="ignore"):
            reference = [interval(level) for interval in self.references]
            moves = [movement(m, r) for m, r in zip(moved, reference, strict=True)]
            unit = np.concatenate([g.functional.unit(late[-1][:, g.columns].std(axis=0, ddof=1)) for g in self.groups])
        estimate, lower, upper = (np.concatenate([getattr(move, part) for move in moves]) for part in Interval._fields)
        same = self._constant(late)
        estimate, lower, upper = (np.where(same, 0.0, part) for part in (estimate, lower, upper))
        unseen = ~same & self._unseen(late)
        unknown = ~np.isfinite(estimate) | np.isnan(lower) | np.isnan(upper) | unseen
        lower, upper = np.where(unknown, -np.inf, lower), np.where(unknown, np.inf, upper)
        bounds = bound(lower, upper)
        # An error is found with 95 % probability if it exceeds the half-width by 1.64 standard errors.
        # What was never seen to vary may do so where no chain came: no size of error would surely have shown.
        fixed = same & ~self._exact
        half = np.where(unknown | fixed, np.inf, np.maximum(upper - estimate, estimate - lower))
        detectable = half * (1 + normal_quantile(FOUND_PROBABILITY) / normal_quantile((1 + level) / 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            relative_bound = np.where(bounds > 0, bounds / unit, 0.0)
            relative_detectable = np.where(same, 0.0, np.where(np.isfinite(detectable), detectable / unit, np.inf))
        return Judgement(
            approximation=self._shown(reference),
            moved=self._shown(moved),
            reference=np.concatenate([interval.estimate for interval in reference]),
            lower=lower,
            upper=upper,
            bound=bounds,
            relative_bound=relative_bound,
            detectable=detectable,
            relative_detectable=relative_detectable,
            unit=unit,
            unknown=unknown,
            unseen=unseen,
            fixed=fixed,
        )

    def _constant(self, late: Sequence[np.ndarray]) -> np.ndarray:
        """Rows of quantities that are one and the same number under q and at the late states, as a matrix's fixed zeros are."""
        draws = self.reference_draws
        if draws is None:
            return np.zeros(self.rows, bool)
        same = np.all(draws == draws[0], axis=0)
        for values in late:
            same &= np.all(values == draws[0], axis=0)
        return self.per_row(same)

    def _unseen(self, late: Sequence[np.ndarray]) -> np.ndarray:
        """Rows of rare events: an interval from a handful of them is no interval."""
        differs = np.zeros(late[-1].shape, bool)
        common = np.median(late[-1], axis=0)
        for values in late[-self.states :]:
            differs |= values != common
        return self.per_row(differs.sum(axis=0) < LEAST_SEEN) & ~self._exact

    @property
    def _exact(self) -> np.ndarray:
        """Rows of quantiles, whose intervals hold for any distribution, rare events included."""
        return np.concatenate([np.full(len(g.labels), g.functional.label.startswith("q")) for g in self.groups])

    def _shown(self, intervals: list[Interval]) -> np.ndarray:
        return np.concatenate([g.functional.shown(i.estimate) for g, i in zip(self.groups, intervals, strict=True)])


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
            references.append(_Known(exactly(known)))
            continue
        if draws is None:
            draws = _reference_draws(approximation, engine, functions, rng)
            refuse_nan(groups, draws, "draws of the approximation")
        references.append(_Sampled(group, draws, variance_interval))
    kurtosis = None
    if not isinstance(approximation, Gaussian) or draws is not None:
        kurtosis = _kurtosis(_reference_draws(approximation, engine, functions, rng) if draws is None else draws)
    return Questions(tuple(groups), functions, tuple(references), variance_interval, states, kurtosis)


def unseen_probability(chains: int) -> float:
    """The probability of an event that this many independent chains all miss one time in twenty: about 3/N."""
    return float(1 - (1 - FOUND_PROBABILITY) ** (1 / chains))


def refuse_nan(groups: Sequence[RowGroup], quantities: np.ndarray, where: str) -> None:
    """A functional must be a number wherever q puts draws."""
    for group in groups:
        bad = np.isnan(quantities[:, group.columns]).any(axis=1)
        if bad.any():
            what = f"of={group.labels[0]}" if group.functional.of else f"constrain's {group.labels[0]!r}"
            raise InputError(f"{what} returned NaN at {bad.sum()} of {len(bad)} {where}; make it a number there or leave it out")


@dataclass(frozen=True)
class _Known:
    interval: Interval

    def __call__(self, level: float) -> Interval:
        return self.interval


@dataclass(frozen=True)
class _Sampled:
    group: RowGroup
    quantities: np.ndarray
    variance_interval: str

    def __call__(self, level: float) -> Interval:
        pieces = self.group.pieces()
        return joined([p.functional.interval(p.window([self.quantities]), level, self.variance_interval) for p in pieces])


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
    return engine.observe(np.asarray(approximation.sample(rng, count), float), functions)


def _row_groups(target: Target, functionals: Sequence[Functional], engine: Engine) -> tuple[tuple[Callable, ...], list[RowGroup]]:
    """Which columns of `Engine.observe` each functional reads, and the labels of its rows."""
    labels = target.labels
    offsets: dict[Callable, tuple[int, tuple[int, ...]]] = {}
    width, row, groups = len(labels), 0, []
    for functional in functionals:
        if functional.of is not None:
            if functional.of not in offsets:
                shape = engine.shape_of(functional.of, _name_of(functional))
                offsets[functional.of] = (width, shape)
                width += int(np.prod(shape))
            columns, names = _function_rows(functional, *offsets[functional.of])
        elif isinstance(functional, Covariance):
            columns = np.array([_column(labels, which) for which in (functional.first, functional.second)])
            names = (functional.name or f"{labels[columns[0]]}, {labels[columns[1]]}",)
        else:
            columns, names = np.arange(len(labels)), labels
        groups.append(RowGroup(functional, columns, names, row + np.arange(len(names))))
        row += len(names)
    return tuple(offsets), groups


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
    if isinstance(which, (int, np.integer)) and -len(labels) <= which < len(labels):
        return int(which) % len(labels)
    raise InputError(f"Covariance names the parameter {which!r}, which is not among {', '.join(labels[:5])}{', …' * (len(labels) > 5)}")
