"""What the user asked, row by row, and the approximation's own answer to it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..formulas.beside import log_variance_beside, mean_beside, quantile_beside
from ..formulas.distributions import normal_cdf
from ..formulas.interval import Interval, excess_width, joined, narrower, widened, with_unseen_tail
from ..formulas.pieces import PIECE, in_threads
from ..formulas.tail import tail_index
from ..problem.functional import Functional, Mean, Quantile, Variance

REFERENCE_PIECE = 16  # quantities at a time of many draws, so that a processor's cache holds them
ONE_SIGMA = 2 * normal_cdf(1.0) - 1


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

    def pieces(self, size: int = PIECE) -> Iterator["RowGroup"]:
        """The same rows, few enough at a time that windows of them stay small in high dimension."""
        if len(self.columns) != len(self.labels) or len(self.columns) <= size:
            yield self
            return
        for first in range(0, len(self.columns), size):
            part = slice(first, first + size)
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
    notes: tuple[str, ...] = ()  # on what has no row

    @property
    def rows(self) -> int:
        return sum(len(group.labels) for group in self.groups)

    def per_row(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([group.per_row(values) for group in self.groups])

    def quantities_of(self, rows: np.ndarray, count: int) -> np.ndarray:
        """Which of `count` quantities the rows (a mask) are about."""
        found = np.zeros(count, bool)
        for group in self.groups:
            mine = rows[group.rows]
            found[group.columns[mine] if len(group.columns) == len(mine) else group.columns[np.repeat(mine, 2)]] = True
        return found

    @cached_property
    def reference_tails(self) -> np.ndarray | None:
        """The tail index of each quantity under q, where draws stand for it; a normal q's own coordinates have no heavy tails."""
        drawn = self._drawn
        if drawn is None:
            return None
        index, others = np.full(drawn.quantities.shape[1], -np.inf), drawn.others
        pieces = [others[first : first + REFERENCE_PIECE] for first in range(0, len(others), REFERENCE_PIECE)]
        for piece, found in zip(pieces, in_threads(lambda piece: tail_index(drawn.quantities[:, piece]), pieces), strict=True):
            index[piece] = found
        return index

    @property
    def reference_draws(self) -> np.ndarray | None:
        """The quantities at the draws that stand for q where a functional of it has no closed form."""
        return None if self._drawn is None else self._drawn.quantities

    @property
    def _drawn(self) -> "Drawn | None":
        return next((reference.drawn for reference in self.references if isinstance(reference, Sampled)), None)

    def at_strictest(self, level: float) -> "Questions":
        """The same, whose answers of q serve all levels up to this one."""
        return replace(self, references=tuple(replace(r, strictest=level) if isinstance(r, Sampled) else r for r in self.references))

    def moved(self, late: Sequence[np.ndarray], level: float, *, unseen_tail: bool = True) -> list[Interval]:
        """For each group, the interval of F at the late states; Bonett's of a variance with the tail that no chain has seen."""
        late = late[-self.states :]
        with np.errstate(invalid="ignore", over="ignore"):  # infinite quantities make rows unknown, not warnings
            return [joined([self._interval(piece, late, level, unseen_tail) for piece in group.pieces()]) for group in self.groups]

    def _interval(self, group: RowGroup, late: Sequence[np.ndarray], level: float, unseen_tail: bool) -> Interval:
        window = group.window(late)
        found = group.functional.interval(window, level, self.variance_interval)
        if group.functional.label != "variance" or self.variance_interval != "bonett":
            return found
        if self.kurtosis is not None:
            found = widened(found, excess_width(window, self.kurtosis[group.columns]))
        return with_unseen_tail(found, window, level) if unseen_tail else found

    def summarise(self, quantities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each row's estimate and standard error at one snapshot."""
        found = self.moved([quantities], ONE_SIGMA, unseen_tail=False)  # of a standard error it is no part
        return np.concatenate([i.estimate for i in found]), np.concatenate([(i.upper - i.lower) / 2 for i in found])


@dataclass(frozen=True)
class Known:
    """F(q) in closed form."""

    interval: Interval

    def __call__(self, level: float) -> Interval:
        return self.interval


class Drawn(NamedTuple):
    """The quantities (n, k) at draws of q.

    Where q is normal, also which of its coordinates a quantity is, `own` (k,), −1 for the others; and of these the draws along their
    directions, in standard deviations, one column each in their order.
    """

    quantities: np.ndarray
    own: np.ndarray
    along: np.ndarray | None = None

    def along_of(self, columns: np.ndarray) -> np.ndarray:
        assert self.along is not None
        return self.along[:, (np.cumsum(self.own < 0) - 1)[columns]]

    @property
    def others(self) -> np.ndarray:
        """The quantities that are no coordinates of q."""
        return np.flatnonzero(self.own < 0)


@dataclass(frozen=True)
class Sampled:
    """F(q) from draws, but for rows in which it is known exactly.

    Of a normal q it is known so well that one interval, at the strictest level, serves every look.
    """

    group: RowGroup
    drawn: Drawn
    variance_interval: str
    exact: np.ndarray  # of each row, NaN where it is not known
    strictest: float = 0.0
    found: dict[float, Interval] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, level: float) -> Interval:
        level = level if self.drawn.along is None else max(level, self.strictest)
        if level not in self.found:
            self.found.clear()
            self.found[level] = self._with_exact(in_threads(lambda piece: self._interval(piece, level), self._rest))
        return self.found[level]

    @property
    def _rest(self) -> list[RowGroup]:
        """The rows that must be found from draws, in pieces."""
        group, unknown = self.group, np.isnan(self.exact)
        if not unknown.any():
            return []
        if not unknown.all():
            labels = tuple(label for label, wanted in zip(group.labels, unknown, strict=True) if wanted)
            group = RowGroup(group.functional, group.columns[unknown], labels, group.rows[unknown])
        return list(group.pieces(REFERENCE_PIECE))

    def _with_exact(self, parts: list[Interval]) -> Interval:
        whole = [self.exact.copy() for _ in Interval._fields]
        for values, part in zip(whole, joined(parts) if parts else (), strict=False):
            values[np.isnan(self.exact)] = part
        return Interval(*whole)

    def _interval(self, group: RowGroup, level: float) -> Interval:
        functional, window = group.functional, group.window([self.drawn.quantities])
        with np.errstate(all="ignore"):  # what is not finite falls back to the plain interval, or makes rows unknown
            plain = functional.interval(window, level, self.variance_interval)
            if self.drawn.along is None or not isinstance(functional, Mean | Variance | Quantile):
                return plain
            values, along = (np.ascontiguousarray(part.T).T for part in (window[:, 0], self.drawn.along_of(group.columns)))
            if isinstance(functional, Mean):
                return narrower(plain, mean_beside(values, along, level))
            if isinstance(functional, Variance):
                return narrower(plain, log_variance_beside(values, along, level))
            return narrower(plain, quantile_beside(values, functional.p, along, level))
