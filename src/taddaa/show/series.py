"""What each picture of a report shows, as plain arrays; `plot` draws them for print, `page` for the screen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..report.parts import Row
from ..report.report import Report
from ..report.tolerance import tolerances
from ..verdict.checks.check import Check
from ..verdict.checks.settled import still_moving
from ..verdict.outcome import ERROR, UNTRUSTED, VERDICTS

RHO2_CUTOFF = 0.1
BAND = 2.0  # standard errors
POINTS = 64  # of a density's grid
TAIL = 0.005  # of the draws on either side, and what lies further out than
REACH = 4.0  # times the distance of the quartiles, are left out of a density's picture


@dataclass(frozen=True)
class Forest:
    """The worst rows' movement intervals in relative units, and a sentence about the rest."""

    rows: tuple[Row, ...]
    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    bound: np.ndarray  # with the movement's sign
    tolerance: np.ndarray  # errors up to it do not matter
    rest: str


@dataclass(frozen=True)
class Movement:
    """One row's way from q: change and band against iteration, where it came to rest (None: not found), and if it has not."""

    row: Row
    iteration: np.ndarray
    change: np.ndarray
    low: np.ndarray
    high: np.ndarray
    settled: int | None
    moving: bool  # says the check that is called settled


@dataclass(frozen=True)
class Memory:
    """ρ² against iteration: of each quantity asked for at the snapshots, and the largest over coordinates at each iteration."""

    rows: tuple[Row, ...]
    snapshots: np.ndarray
    rho2: np.ndarray  # (S, rows)
    iteration: np.ndarray
    largest: np.ndarray
    cutoff: float


@dataclass(frozen=True)
class Marginal:
    """One parameter's smooth density before and after, on a common grid that leaves far tails out."""

    parameter: str
    at: np.ndarray
    before: np.ndarray
    after: np.ndarray


@dataclass(frozen=True)
class Statistic:
    """What a failed check measured of the rows for which it is largest, and the names of these."""

    check: Check
    rows: tuple[Row, ...]
    value: np.ndarray


@dataclass(frozen=True)
class Closer:
    """One row: its way, its parameter's density (None for a function of parameters), and the failed checks that name it."""

    path: Movement
    marginal: Marginal | None
    failed: tuple[Check, ...]


@dataclass(frozen=True)
class Bounds:
    """Relative bounds of the same quantities in several reports: NaN where a report lacks one, untrusted ones marked."""

    names: tuple[str, ...]
    quantities: tuple[tuple[str, str], ...]
    bound: np.ndarray  # (quantities, reports)
    lower: np.ndarray  # the interval of the movement, in the same units
    upper: np.ndarray
    untrusted: np.ndarray
    rest: str


def forest(report: Report, top: int = 20) -> Forest:
    index = [_index_of(report)[id(row)] for row in report.worst(_at_least_one(top))]
    rows = tuple(report.rows[i] for i in index)
    unit = units(report)[index]
    last, reference = report.paths.estimate[-1, index], report.paths.reference[index]
    lower, upper = (np.array([getattr(row, side) for row in rows]) for side in ("lower", "upper"))
    allowed = tolerances(report.provenance.settings)
    tolerance = np.array([allowed.of(row.functional) for row in rows])
    with np.errstate(invalid="ignore", divide="ignore"):
        # The interval pools late states, so its own middle is the better estimate than the last snapshot where both exist.
        middle = np.where(np.isfinite(lower + upper), (lower + upper) / 2, last - reference)
        bound = np.array([row.bound * (1 if row.lower > 0 else -1) for row in rows])
        return Forest(rows, middle / unit, lower / unit, upper / unit, bound / unit, tolerance, _rest(report.worst()[len(rows) :]))


def movements(report: Report, rows: Sequence[int] | None = None, top: int = 6) -> list[Movement]:
    """Of the given rows (positions in `report.rows`), or of the worst."""
    return [_movement(report, i) for i in _chosen(report, rows, top)]


def memory(report: Report, rows: Sequence[int] | None = None, top: int = 6) -> Memory:
    """Of the given rows, or of the quantities that remember most at the end."""
    if rows is None:
        seen: dict[str, int] = {}  # mean and variance of a parameter share their ρ²
        for i in np.argsort([-row.rho2 for row in report.rows], kind="stable"):
            seen.setdefault(report.rows[i].parameter, int(i))
        rows = list(seen.values())[: _at_least_one(top)]
    chosen = _chosen(report, rows, top)
    paths = report.paths
    return Memory(
        tuple(report.rows[i] for i in chosen),
        paths.snapshots,
        paths.rho2[:, chosen],
        np.arange(1, len(paths.rho2_max) + 1),
        paths.rho2_max,
        RHO2_CUTOFF,
    )


def marginals(report: Report, parameters: Sequence[str] | None = None, top: int = 6) -> list[Marginal]:
    """Of the named parameters, or of those with the worst rows."""
    if parameters is None:
        worst = dict.fromkeys(row.parameter for row in report.worst() if row.parameter in report.labels)
        parameters = list(worst)[: _at_least_one(top)] or list(report.labels[:top])
    unknown = [name for name in parameters if name not in report.labels]
    if unknown:
        raise InputError(f"the report has no draws of {unknown[0]!r}; it has those of {', '.join(report.labels[:5])}")
    return [_marginal(report, report.labels.index(name)) for name in parameters]


def bounds(reports: Mapping[str, Report], top: int = 20) -> Bounds:
    """Quantities by their largest bound over the reports."""
    if not reports:
        raise InputError("reports must hold at least one report, got none")
    refuse_other_targets(reports)
    tables = [{(row.functional, row.parameter): row for row in report.rows} for report in reports.values()]
    unit = [dict(zip(table, units(report), strict=True)) for table, report in zip(tables, reports.values(), strict=True)]
    both = list(zip(tables, reports.values(), strict=True))
    keys = sorted(
        dict.fromkeys(key for table in tables for key in table),
        key=lambda key: min((VERDICTS.index(t[key].verdict), -r.tolerance.times(t[key])) for t, r in both if key in t),
    )
    shown = keys[: _at_least_one(top)]
    bound = np.array([[table[key].relative_bound if key in table else math.nan for table in tables] for key in shown])
    untrusted = np.array([[key in table and table[key].verdict == UNTRUSTED for table in tables] for key in shown])
    lower, upper = (
        np.array([[getattr(t[key], end) / u[key] if key in t else math.nan for t, u in zip(tables, unit, strict=True)] for key in shown])
        for end in ("lower", "upper")
    )
    hidden = len(keys) - len(shown)
    rest = f"and {hidden} more quantities with smaller bounds" if hidden else ""
    return Bounds(tuple(reports), tuple(shown), bound, lower, upper, untrusted, rest)


def statistics(report: Report, top: int = 12) -> list[Statistic]:
    """Of the failed checks that have a value for each row: the rows for which it is largest."""
    found = []
    for check in report.checks:
        if not check.passed and check.each is not None and len(check.each) == len(report.rows):
            values = np.nan_to_num(np.array(check.each), nan=0.0, posinf=np.finfo(float).max)
            largest = np.argsort(-values, kind="stable")[: _at_least_one(top)]
            found.append(Statistic(check, tuple(report.rows[i] for i in largest), np.array(check.each)[largest]))
    return found


def closer(report: Report, top: int = 24) -> list[Closer]:
    """Of the worst rows, all that there is to see of each."""
    found = []
    for i in _chosen(report, None, top):
        row = report.rows[i]
        known = row.parameter in report.labels
        failed = tuple(check for check in report.checks if not check.passed and (check.rows is None or i in check.rows))
        found.append(Closer(_movement(report, i), _marginal(report, report.labels.index(row.parameter)) if known else None, failed))
    return found


def refuse_other_targets(reports: Mapping[str, Report]) -> None:
    """Reports of one target have the same parameters, and right values that can be told apart only by their intervals."""
    (first, one), *others = reports.items()
    known = {(row.functional, row.parameter): row for row in one.rows}
    for name, other in others:
        if set(other.labels) != set(one.labels):
            missing = next(iter(set(one.labels) ^ set(other.labels)))
            raise InputError(f"reports must be of the same target, but {missing!r} is a parameter of only one of {first!r} and {name!r}")
        for row in other.rows:
            same = known.get((row.functional, row.parameter))
            if same is not None and _apart(same, row):
                raise InputError(
                    f"reports must be of the same target, but the right {row.functional} of {row.parameter} is {same.corrected:.3g} in "
                    f"{first!r} and {row.corrected:.3g} in {name!r}"
                )


def _apart(one: Row, other: Row) -> bool:
    """Whether two right values lie further apart than both intervals together reach, twice over and a hundredth of their size."""
    reach = max(one.corrected_upper - one.corrected_lower, other.corrected_upper - other.corrected_lower)
    size = 0.01 * max(abs(one.corrected), abs(other.corrected), abs(one.approximation - one.corrected))
    return abs(one.corrected - other.corrected) > 2 * reach + size  # false where one is not known


def pairs(report: Report, parameters: Sequence[str] | None = None, top: int = 3) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """The names, and the draws before and after, of these parameters or of those with the worst rows."""
    chosen = [one.parameter for one in marginals(report, parameters, top)]
    columns = [report.labels.index(name) for name in chosen]
    return tuple(chosen), report.start_draws[:, columns], report.moved_draws[:, columns]


def units(report: Report) -> np.ndarray:
    """What a relative bound of each row is measured in; 1 where it cannot be told."""
    unit = report.paths.unit
    return np.where(np.isfinite(unit) & (unit > 0), unit, 1.0)


def name(row: Row, longest: int = 40) -> str:
    """`variance of beta[3]`, with a long name's middle left out."""
    return shortened(f"{row.functional} of {row.parameter}", longest)


def quantile_level(functional: str) -> float | None:
    """p of the label `q0.9`; None for any other functional."""
    try:
        return float(functional[1:]) if functional.startswith("q") else None
    except ValueError:
        return None


def shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return text[: longest - 1 - half] + "…" + text[-half:]


def _movement(report: Report, i: int) -> Movement:
    paths, row = report.paths, report.rows[i]
    change, error = paths.estimate[:, i] - paths.reference[i], paths.error[:, i]
    return Movement(
        row, paths.snapshots, change, change - BAND * error, change + BAND * error, _settle_point(report, i), still_moving(report.checks, i)
    )


def _settle_point(report: Report, i: int) -> int | None:
    """The first snapshot, before the last, from which on the row stays within two standard errors of where it ended."""
    if still_moving(report.checks, i):
        return None
    estimate, error = report.paths.estimate[:, i], report.paths.error[:, i]
    with np.errstate(invalid="ignore"):
        far = ~(np.abs(estimate - estimate[-1]) <= BAND * np.hypot(error, error[-1]))
    later = np.flatnonzero(far)
    first = 0 if not later.size else later[-1] + 1
    return int(report.paths.snapshots[first]) if first < len(estimate) - 1 else None


def _marginal(report: Report, column: int) -> Marginal:
    before, after = (part[np.isfinite(part)] for part in (report.start_draws[:, column], report.moved_draws[:, column]))
    low, high = _window(before, after)
    at = np.linspace(low, high, POINTS)
    return Marginal(report.labels[column], at, density(before, at), density(after, at))


def _window(*parts: np.ndarray) -> tuple[float, float]:
    """Where densities are drawn: all but the far tails, of heavy tails no more than a few quartiles' distances."""
    ends = []
    for part in parts:
        if part.size:
            low, first, third, high = np.quantile(part, [TAIL, 0.25, 0.75, 1 - TAIL])
            reach = REACH * (third - first) if third > first else np.inf
            ends.append((max(low, first - reach), min(high, third + reach)))
    low, high = (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else (0.0, 1.0)
    return (low, high) if high > low and np.isfinite(high - low) else (low - 0.5, low + 0.5)


def density(draws: np.ndarray, at: np.ndarray) -> np.ndarray:
    """A Gaussian kernel estimate, its width by Silverman's rule from the middle half of the draws, lest tails decide it."""
    if draws.size == 0:
        return np.zeros_like(at)
    first, third = np.quantile(draws, [0.25, 0.75])
    step = at[1] - at[0]
    spread = min(float(np.std(draws)), (third - first) / 1.34) if third > first else float(np.std(draws))
    width = max(0.9 * spread * len(draws) ** -0.2, step)
    near = draws[(draws > at[0] - 5 * width) & (draws < at[-1] + 5 * width)]
    heights = np.exp(-0.5 * ((at[:, None] - near) / width) ** 2).sum(axis=1)
    return heights / (len(draws) * width * math.sqrt(2 * math.pi))


def _chosen(report: Report, rows: Sequence[int] | None, top: int) -> list[int]:
    if rows is None:
        index = _index_of(report)
        return [index[id(row)] for row in report.worst(_at_least_one(top))]
    for i in rows:
        if not 0 <= i < len(report.rows):
            raise InputError(f"rows must be positions in report.rows, 0 to {len(report.rows) - 1}, got {i}")
    return list(rows)


def _index_of(report: Report) -> dict[int, int]:
    return {id(row): i for i, row in enumerate(report.rows)}


def _rest(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    parts = []
    for verdict in VERDICTS:
        some = [row for row in rows if row.verdict == verdict]
        if some:
            up_to = f" of at most {max(row.relative_bound for row in some):.2g}" if verdict == ERROR else ""
            parts.append(f"{len(some)} {'with bounds' if verdict == ERROR else verdict}{up_to}")
    return f"and {len(rows)} more: " + ", ".join(parts)


def _at_least_one(top: int) -> int:
    if top < 1:
        raise InputError(f"top must be at least 1, got {top}")
    return top
