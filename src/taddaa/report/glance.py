"""What a first look hands back: an estimate for each quantity, how far it may be off, and whether that is too far."""

import json
import math
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import visible
from ..files import write_whole
from ..problem.functional import Mean, Quantile, Variance
from ..verdict.first_look import MOST_BENT, Look
from ..verdict.followed_look import MOST_OFF
from .text import short_name, table

if TYPE_CHECKING:
    from ..verdict.questions import Questions, RowGroup

# Of a group's rows, whose values under the approximation are known: an estimate of each on the movement's scale, what errors are
# measured in, and the doubt in that unit.
Estimates = Callable[["RowGroup", np.ndarray], tuple[np.ndarray, ...]]

SEEMS_WRONG, SEEMS_RIGHT, DOUBTFUL = "seems wrong", "seems right", "doubtful"
SHOWN = 15
WIDTH = 120  # of lines of words
WITHIN = 0.3  # of an error, up to which doubt leaves it an error of about that size
HEADER = ("parameter", "functional", "q says", "estimate", "error", "give or take", "first look")
FURTHER = ", and of what these gradients say of the posterior"
SCHEMA, SCHEMA_VERSION = "taddaa-glance", 1


@dataclass(frozen=True)
class GlanceRow:
    """One quantity. `error` is the approximation's value less the estimate, `doubt` how far the estimate may be off.

    Both are in estimated standard deviations, for a variance in log variance.
    """

    parameter: str
    functional: str
    approximation: float
    estimate: float
    error: float
    doubt: float
    seems: str  # wrong, right, or doubtful


@dataclass(frozen=True, eq=False)
class Glance:
    """The result of `taddaa.glance`: estimates, not bounds. Print it, or take `to_dataframe()`, `to_json()`, `rows`."""

    rows: tuple[GlanceRow, ...]
    # Nats by which the log density leaves a quadratic between the draws and the estimated centre, or what was learnt of it; infinite
    # where draws leave the support, or the density has no end along a coordinate.
    bent: float
    followed: bool  # whether estimates are from draws that went after the posterior, rather than from those of the approximation
    gradients: int
    seconds: float
    seed: int
    notes: tuple[str, ...]

    @property
    def astray(self) -> bool:
        """Whether no estimate is to be believed, because the posterior is too unlike what the draws see of it."""
        return not self.bent <= (MOST_OFF if self.followed else MOST_BENT)

    @property
    def headline(self) -> str:
        """One sentence, which is also the first line of a diagnosis' progress."""
        wrong, doubtful = (sum(row.seems == word for row in self.rows) for word in (SEEMS_WRONG, DOUBTFUL))
        if self.astray:
            said = "says nothing: the log density bends too much between the draws and the posterior's centre"
            said = "says nothing: the log density is not yet known well enough where the posterior is" if self.followed else said
            said = "says nothing: draws leave the support, or the density has no end along a coordinate" if self.bent == math.inf else said
        elif wrong:
            worst = self.worst(1)[0]
            said = f"{wrong} of {len(self.rows)} quantities seem wrong, most the {worst.functional} of {worst.parameter} by {_size(worst)}"
        else:
            said = "nothing seems wrong" if doubtful < len(self.rows) else "nothing can be said"
        doubts = f"; {doubtful} of {len(self.rows)} are doubtful" if doubtful and not self.astray else ""
        return visible(f"First look, not a bound: {said}{doubts}.")

    def worst(self, count: int | None = None) -> list[GlanceRow]:
        """What seems wrong first, the largest errors before smaller ones; what is doubtful last."""
        order = (SEEMS_WRONG, SEEMS_RIGHT, DOUBTFUL)
        return sorted(self.rows, key=lambda row: (order.index(row.seems), -abs(row.error) if row.error == row.error else 0.0))[:count]

    def to_dataframe(self):
        """One row a quantity."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows], columns=[field.name for field in fields(GlanceRow)])

    def to_json(self, path: str | Path | None = None) -> str:
        """Everything as JSON, written to `path` if given; what is not a finite number becomes null."""
        content = {"schema": SCHEMA, "version": SCHEMA_VERSION, "headline": self.headline, "rows": [asdict(row) for row in self.rows]}
        content |= {key: getattr(self, key) for key in ("bent", "followed", "astray", "gradients", "seconds", "seed")} | {
            "notes": list(self.notes)
        }
        text = json.dumps(_finite(content), allow_nan=False)
        if path is not None:
            write_whole(path, text)
        return text

    def __str__(self) -> str:
        lines = [self.headline, "", *table([_cells(row) for row in self.worst(SHOWN)], HEADER)]
        if len(self.rows) > SHOWN:
            lines.append(f"… and {len(self.rows) - SHOWN} more quantities; see to_dataframe().")
        lines += ["", *(part for note in self.notes for part in _wrapped(f"note    {note}"))]
        lines += _wrapped(
            f"How to read it: the posterior's values, estimated from gradients at draws of the approximation q{FURTHER * self.followed}, "
            "without a chain. "
            "'error' and 'give or take' count in standard deviations, for a variance in its logarithm. doubtful: the estimate may be off "
            "by more than matters. Nothing here is certain: taddaa.diagnose gives bounds."
        )
        lines.append(f"  Cost: {self.gradients:,} gradients, {self.seconds:.1f} s. Seed {self.seed}.")
        return "\n".join(lines)

    __repr__ = __str__


def rows_of(
    questions: "Questions", estimates: Estimates, astray: bool, mean_tolerance: float, variance_tolerance: float
) -> tuple[GlanceRow, ...]:
    """Each of the questions' rows, in their order."""
    found = []
    for group, reference in zip(questions.groups, questions.references, strict=True):
        known = reference(0.5).estimate
        estimate, unit, doubt = estimates(group, known)
        tolerance = variance_tolerance if isinstance(group.functional, Variance) else mean_tolerance
        error = (known - estimate) / unit
        shown, guessed = group.functional.shown(known), group.functional.shown(estimate)
        for i, label in enumerate(group.labels):
            seems = _seems(error[i], doubt[i], tolerance, astray)
            value, guess, wrong, unsure = (float(part[i]) for part in (shown, guessed, error, doubt))
            found.append(GlanceRow(label, group.functional.label, value, guess, wrong, unsure, seems))
    return tuple(found)


def straight(look: Look, own: tuple[np.ndarray, np.ndarray], group: "RowGroup", known: np.ndarray) -> tuple[np.ndarray, ...]:
    """What a look from the approximation's own draws says; `own` are each quantity's mean and standard deviation under it."""
    columns, functional = group.columns, group.functional
    sd = np.exp(look.log_variance[columns] / 2) if len(columns) == len(known) else np.full(len(known), np.nan)
    if isinstance(functional, Mean):
        return look.mean[columns], sd, look.mean_doubt[columns]
    if isinstance(functional, Variance):
        return look.log_variance[columns], np.ones_like(known), look.variance_doubt[columns]
    if isinstance(functional, Quantile):
        # Where it would be if the posterior were q moved and stretched: skewness that q has not is not seen.
        deviations = (known - own[0][columns]) / own[1][columns]
        doubt = look.mean_doubt[columns] + np.abs(deviations) * look.variance_doubt[columns] / 2
        return look.mean[columns] + deviations * sd, sd, doubt
    return tuple(np.full((3, len(known)), np.nan))  # covariances and functionals of the user's own are not looked at


def _seems(error: float, doubt: float, tolerance: float, astray: bool) -> str:
    if astray or math.isnan(error) or not doubt <= max(tolerance, WITHIN * abs(error)):  # a doubt that is NaN too
        return DOUBTFUL
    return SEEMS_WRONG if abs(error) > tolerance else SEEMS_RIGHT


def _size(row: GlanceRow) -> str:
    """`×3.1` of a variance, `0.8 sd` of others."""
    return f"×{math.exp(min(abs(row.error), 700)):.2g}" if row.functional == "variance" else f"{abs(row.error):.2g} sd"


def _cells(row: GlanceRow) -> tuple[str, ...]:
    numbers = (f"{row.approximation:.3g}", f"{row.estimate:.3g}", f"{row.error:+.2f}", f"{row.doubt:.2f}")
    if row.seems == DOUBTFUL:
        numbers = (numbers[0], f"({numbers[1]})", f"({numbers[2]})", numbers[3])
    return (short_name(row.parameter), row.functional, *("—" if "nan" in number else number for number in numbers), row.seems)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(visible(text), WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
