"""What a diagnosis found: rows, checks, cost and provenance; as text, table or JSON."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..files import write_whole
from ..verdict.checks.check import Check
from ..verdict.checks.registry import remedies
from ..verdict.outcome import ERROR, NO_ERROR, UNTRUSTED

SCHEMA, SCHEMA_VERSION = "taddaa-report", 1


class DiagnosisError(Exception):
    """Raised by `Report.raise_if` when a report is worse than the caller accepts."""


@dataclass(frozen=True)
class Row:
    """One quantity. `lower`, `upper`, `bound` and `detectable` are on the movement's scale (log variance for variances)."""

    parameter: str
    functional: str
    approximation: float
    moved: float
    lower: float
    upper: float
    bound: float
    relative_bound: float
    detectable: float
    rho2: float
    verdict: str
    reason: str


@dataclass(frozen=True)
class Cost:
    """What the diagnosis took. `programs` counts what had to be compiled."""

    gradients: int
    seconds_compiling: float
    seconds_running: float
    programs: int
    iterations: int
    planned_iterations: int


@dataclass(frozen=True)
class Provenance:
    """What is needed to repeat the run."""

    seed: int
    chains: int
    kernel: str
    preconditioner: str
    level: float
    simultaneous: bool
    settings: str
    approximation: str
    versions: str
    date: str


@dataclass(frozen=True)
class Paths:
    """How rows moved (S snapshots × rows) and how the kernel fared (one value an iteration)."""

    snapshots: np.ndarray  # (S,) iterations
    estimate: np.ndarray  # (S, rows), on the movement's scale
    error: np.ndarray  # (S, rows), standard errors
    rho2: np.ndarray  # (S, rows)
    reference: np.ndarray  # (rows,), the approximation's own value on that scale
    unit: np.ndarray  # (rows,), what relative bounds are measured in, on that scale
    acceptance: np.ndarray  # (T,)
    step: np.ndarray  # (T,), the geometric mean over groups
    rho2_max: np.ndarray  # (T,), over the flat coordinates


class Handover(NamedTuple):
    """For a full MCMC run: starts and an inverse mass matrix on the unconstrained scale, and a step size to begin with."""

    starts: np.ndarray
    inverse_mass: np.ndarray
    step: float


@dataclass(frozen=True, eq=False)
class Report:
    """The result of `taddaa.diagnose`. Print it, or take `to_dataframe()`, `to_json()`, `moved`, `cost`, `verdict`."""

    rows: tuple[Row, ...]
    checks: tuple[Check, ...]
    cost: Cost
    provenance: Provenance
    notes: tuple[str, ...]
    paths: Paths
    labels: tuple[str, ...]
    start_draws: np.ndarray
    moved_draws: np.ndarray
    handover: Handover | None = None  # not stored in JSON

    @property
    def verdict(self) -> str:
        """The headline: `error` if any row shows one, else `untrusted` if any row is, else `no error found`."""
        found = {row.verdict for row in self.rows}
        return next(verdict for verdict in (ERROR, UNTRUSTED, NO_ERROR) if verdict in found)

    @property
    def rho2_max(self) -> float:
        """The paper's reliability value: the largest squared correlation of start and moved state over the rows."""
        return max(row.rho2 for row in self.rows)

    @cached_property
    def moved(self):
        """The moved draws on the user's scale: a DataFrame with one column a parameter and one row a chain.

        When `usable` they are as good as so many nearly independent posterior draws, for means, intervals and plots. They
        are too few for far tails, and where `usable` is false they are only better starts, not posterior draws.
        """
        import pandas

        return pandas.DataFrame(self.moved_draws, columns=list(self.labels))

    @property
    def usable(self) -> bool:
        """Whether the moved draws may stand in for posterior draws: every check passed (the paper's one alone is not enough)."""
        return len(self.checks) > 1 and all(check.passed for check in self.checks)

    def to_dataframe(self):
        """One row a quantity, in the order of the parameters."""
        import pandas

        return pandas.DataFrame([asdict(row) for row in self.rows], columns=[field.name for field in fields(Row)])

    def to_datatree(self):
        """An ArviZ DataTree: groups for starts, moved draws, rows and checks (needs the extra `arviz`)."""
        from .datatree import report_to_datatree

        return report_to_datatree(self)

    def worst(self, count: int | None = None) -> list[Row]:
        """Rows by verdict (errors, then untrusted, then the rest) and size, largest relative bound first."""
        order = {ERROR: 0, UNTRUSTED: 1, NO_ERROR: 2}
        return sorted(self.rows, key=lambda row: (order[row.verdict], -row.relative_bound))[:count]

    def raise_if(self, error_above: float = 0.0, untrusted: bool = True) -> None:
        """Raise DiagnosisError if a relative bound exceeds `error_above`, or (unless told otherwise) a row is untrusted."""
        wrong = [row for row in self.rows if row.verdict == ERROR and row.relative_bound > error_above]
        if wrong:
            worst = max(wrong, key=lambda row: row.relative_bound)
            many = f"{len(wrong)} of {len(self.rows)} quantities"
            raise DiagnosisError(f"{many} are wrong by more than {error_above:g}: {sentence(worst)}")
        doubtful = [row for row in self.rows if row.verdict == UNTRUSTED]
        if untrusted and doubtful:
            raise DiagnosisError(
                f"{len(doubtful)} of {len(self.rows)} quantities are untrusted; "
                f"{doubtful[0].functional} of {doubtful[0].parameter}: {doubtful[0].reason}"
            )

    # Text -------------------------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """One or two sentences that a hurried reader may stop after."""
        count = {verdict: sum(row.verdict == verdict for row in self.rows) for verdict in (ERROR, UNTRUSTED, NO_ERROR)}
        total = len(self.rows)
        if count[ERROR]:
            text = f"Errors found in {count[ERROR]} of {total} quantities. Worst: {sentence(self.worst(1)[0])}"
        elif count[UNTRUSTED]:
            text = f"No error can be stated, and {count[UNTRUSTED]} of {total} quantities could not be judged."
        else:
            text = f"No error found in {total} quantities. That is not proof of accuracy: an error below 'would see' can hide."
        if count[ERROR] and count[UNTRUSTED]:
            text += f" {count[UNTRUSTED]} could not be judged."
        return text

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do next."""
        if self.usable:
            return (
                f"All checks passed: report.moved holds {len(self.moved_draws)} draws that behave like nearly independent draws of the "
                "posterior around the approximation. Use them for means, variances and intervals; not for far tails or rare events. "
                "A mode that no chain reached is not in them (other_starts= looks for one).",
            )
        full = "Or run full MCMC from report.handover: its starts are closer to the target, and its mass matrix fits it."
        return (*remedies(self.checks), full)

    def __str__(self) -> str:
        from .text import report_text

        return report_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from ..show.page import report_to_fragment

        return report_to_fragment(self)

    def to_html(self, path: str | Path) -> None:
        """The report as one self-contained page, written to `path` whole or not at all."""
        from ..show.page import report_to_html

        write_whole(Path(path), report_to_html(self))

    # JSON -------------------------------------------------------------------------------------------------------------

    def to_json(self, path: str | Path | None = None) -> str:
        """The report as JSON of a versioned schema (docs/json.md); written to `path` if given. Infinities become strings."""
        content = {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "verdict": self.verdict,
            "headline": self.headline,
            "rows": [asdict(row) for row in self.rows],
            "checks": [asdict(check) for check in self.checks],
            "cost": asdict(self.cost),
            "provenance": asdict(self.provenance),
            "notes": list(self.notes),
            "paths": {key: np.asarray(value).tolist() for key, value in asdict(self.paths).items()},
            "labels": list(self.labels),
            "start_draws": self.start_draws.tolist(),
            "moved_draws": self.moved_draws.tolist(),
        }
        text = json.dumps(_finite(content), allow_nan=False)
        if path is not None:
            write_whole(Path(path), text)
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> "Report":
        """A report that `to_json` wrote, from its path or its text."""
        text, what = str(source), "this report"
        if not text.lstrip().startswith("{"):
            what = text
            try:
                text = Path(source).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"{source} cannot be read as a report: {getattr(error, 'strerror', None) or error}") from error
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"{what} is damaged: no JSON at character {error.pos}") from error
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise InputError(f"{what} is not a report of taddaa: its schema is not {SCHEMA!r}")
        if content.get("version") != SCHEMA_VERSION:
            raise InputError(
                f"{what} has schema version {content.get('version')!r}, and this taddaa reads {SCHEMA_VERSION}; "
                "open it with the version that wrote it, or diagnose again"
            )
        try:
            return cls(
                rows=tuple(Row(**{**row, **_numbers(row, Row)}) for row in content["rows"]),
                checks=tuple(
                    Check(**{**check, **_numbers(check, Check), "rows": None if check["rows"] is None else tuple(check["rows"])})
                    for check in content["checks"]
                ),
                cost=Cost(**content["cost"]),
                provenance=Provenance(**content["provenance"]),
                notes=tuple(content["notes"]),
                paths=Paths(**{key: _array(value) for key, value in content["paths"].items()}),
                labels=tuple(content["labels"]),
                start_draws=_array(content["start_draws"]),
                moved_draws=_array(content["moved_draws"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{what} is damaged: {type(error).__name__} at {error}") from error


def sentence(row: Row) -> str:
    """An error in words."""
    if row.verdict != ERROR:
        return f"{row.functional} of {row.parameter}: {row.verdict}."
    if row.functional == "variance":
        side = "small" if row.lower > 0 else "large"
        return f"the variance of {row.parameter} is too {side} by a factor of at least {math.exp(min(row.bound, 700)):.3g}."
    side = "low" if row.lower > 0 else "high"
    unit = "moved standard deviations" if row.functional != "covariance" else "in units of both standard deviations"
    return f"the {row.functional} of {row.parameter} is too {side} by at least {row.bound:.3g} ({row.relative_bound:.2g} {unit})."


def size(row: Row, value: float) -> str:
    """A bound or detectable error as a reader takes it: for a variance the factor, otherwise the number."""
    if math.isinf(value):
        return "∞"
    return f"×{math.exp(min(value, 700)):.3g}" if row.functional == "variance" else f"{value:.3g}"


def least_error(row: Row) -> str:
    """How wrong the approximation at least is, for a table."""
    return size(row, row.bound) if row.verdict == ERROR else row.verdict if row.verdict == UNTRUSTED else "—"


def would_see(row: Row) -> str:
    """The smallest error that would have been found, for a table; an untrusted row claims nothing."""
    return "—" if row.verdict == UNTRUSTED else size(row, row.detectable)


def _finite(value: Any) -> Any:
    """JSON has no infinities: they are written as the strings Infinity, -Infinity and NaN."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, np.generic):
        return value.item()
    return value


_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _number(value: Any) -> Any:
    return _NAMED.get(value, value) if isinstance(value, str) else value


def _numbers(stored: dict[str, Any], kind: type) -> dict[str, Any]:
    """The fields of a dataclass that hold numbers, with infinities restored; a parameter may be named NaN."""
    return {field.name: _number(stored[field.name]) for field in fields(kind) if field.type in (float, "float")}


def _array(value: Any) -> np.ndarray:
    replace: Callable = lambda item: [replace(part) for part in item] if isinstance(item, list) else _number(item)  # noqa: E731
    return np.array(replace(value), dtype=float)
