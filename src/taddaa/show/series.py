"""What each picture of a report shows, as plain arrays; `plot` draws them for print, `page` for the screen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..report.parts import Row
from ..report.report import Report
from ..report.tolerance import tolerances
from ..verdict.checks.settled import still_moving
from ..verdict.outcome import ERROR, UNTRUSTED, VERDICTS

RHO2_CUTOFF = 0.1
BAND = 2.0  # standard errors
BINS = 18


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
    """One parameter's density before and after, on common bins that leave out the farthest half percent on either side."""

    parameter: str
    edges: np.ndarray
    before: np.ndarray
    after: np.ndarray


@dataclass(frozen=True)
class Bounds:
    """Relative bounds of the same quantities in several reports: NaN where a report lacks one, untrusted ones marked."""

    names: tuple[str, ...]
    quantities: tuple[tuple[str, str], ...]
    bound: np.ndarray  # (quantities, reports)
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
    tables = [{(row.functional, row.parameter): row for row in report.rows} for report in reports.values()]
    keys = sorted(
        dict.fromkeys(key for table in tables for key in table),
        key=lambda key: min((VERDICTS.index(t[key].verdict), -t[key].relative_bound) for t in tables if key in t),
    )
    shown = keys[: _at_least_one(top)]
    bound = np.array([[table[key].relative_bound if key in table else math.nan for table in tables] for key in shown])
    untrusted = np.array([[key in table and table[key].verdict == UNTRUSTED for table in tables] for key in shown])
    hidden = len(keys) - len(shown)
    return Bounds(tuple(reports), tuple(shown), bound, untrusted, f"and {hidden} more quantities with smaller bounds" if hidden else "")


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
    before, after = report.start_draws[:, column], report.moved_draws[:, column]
    finite = np.concatenate([part[np.isfinite(part)] for part in (before, after)])
    low, high = np.quantile(finite, [0.005, 0.995]) if finite.size else (0.0, 1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    width = edges[1] - edges[0]
    density = [np.histogram(part, edges)[0] / (len(part) * width) for part in (before, after)]
    return Marginal(report.labels[column], edges, *density)


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
