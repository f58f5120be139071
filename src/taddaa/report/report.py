"""What a diagnosis found: rows, checks, cost and provenance; as text, table or JSON."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import visible
from ..files import write_whole
from ..problem.axes import Axes
from ..verdict.checks.check import Check
from ..verdict.checks.registry import condemning
from ..verdict.outcome import ERROR, UNTRUSTED, VERDICTS
from .advice import Advice, advice
from .answer import Answer, answer
from .certificate import Certificate
from .corrected import corrected_values
from .parts import Cost, Handover, Paths, Provenance, Row
from .sentences import headline, quantities, sentence
from .stored import as_json, from_json
from .tolerance import Tolerances, tolerances

if TYPE_CHECKING:
    from ..chains.walk import Progress
    from .continuation import Continuation


class DiagnosisError(Exception):
    """Raised by `Report.raise_if` when a report is worse than the caller accepts."""


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
    axes: Axes = Axes()
    certificate: Certificate | None = None  # with `certify=True`
    handover: Handover | None = None
    continuation: "Continuation | None" = None  # where the chains stand, in the process that ran them

    def __getstate__(self) -> dict[str, Any]:
        """A pickled or copied report is one of another process: the chains stay here."""
        return {**self.__dict__, "continuation": None}

    @property
    def verdict(self) -> str:
        """The most urgent of the rows' verdicts; `error` too if the fit as a whole is far away."""
        if self.far:
            return ERROR
        found = {row.verdict for row in self.rows}
        return next(verdict for verdict in VERDICTS if verdict in found)

    @property
    def far(self) -> bool:
        """Whether the fit as a whole is far from the posterior, whatever its rows say."""
        return condemning(self.checks) is not None

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

    @cached_property
    def corrected(self):
        """The posterior's own values, to be used instead of the fit's: a DataFrame with one row a parameter (or function of them).

        Columns are what was asked: mean, sd (from the variance), quantiles; each with its simultaneous interval as `…_lower` and
        `…_upper`. NaN where a row is untrusted; refused where the run as a whole is.
        """
        return corrected_values(self)

    @property
    def usable(self) -> bool:
        """Whether the moved draws may stand in for posterior draws: every check passed (the paper's one alone is not enough)."""
        return len(self.checks) > 1 and all(check.passed for check in self.checks)

    def select(self, var_names) -> "Report":
        """The report on some of its parameters, named as in ArviZ: `print(report.select(["b", "~b[x3]"]))`."""
        from .select import selected

        return selected(self, var_names)

    def to_dataframe(self, var_names=None):
        """One row a quantity, in the order of the parameters; of all or of those named, as in `select`."""
        import pandas

        rows = self.rows if var_names is None else self.select(var_names).rows
        return pandas.DataFrame([asdict(row) for row in rows], columns=[field.name for field in fields(Row)])

    def to_datatree(self):
        """An ArviZ DataTree: groups for starts, moved draws, rows and checks (needs the extra `arviz`)."""
        from .datatree import report_to_datatree

        return report_to_datatree(self)

    @cached_property
    def tolerance(self) -> Tolerances:
        """The errors that do not matter: in standard deviations (means, quantiles) and in log variance (variances)."""
        return tolerances(self.provenance.settings)

    def worst(self, count: int | None = None) -> list[Row]:
        """Rows by verdict (errors, then untrusted, then the rest) and size beside the tolerance, the largest first."""
        return sorted(self.rows, key=lambda row: (VERDICTS.index(row.verdict), -self.tolerance.times(row)))[:count]

    def raise_if(self, error_above: float = 0.0, untrusted: bool = True) -> None:
        """Raise DiagnosisError if a relative bound exceeds `error_above`, or (unless told otherwise) a row is untrusted."""
        if self.far:
            raise DiagnosisError(self.headline)
        wrong = [row for row in self.rows if row.verdict == ERROR and row.relative_bound > error_above]
        if wrong:
            worst = max(wrong, key=lambda row: row.relative_bound)
            many = f"{len(wrong)} of {quantities(len(self.rows))}"
            verb = "is" if len(wrong) == 1 else "are"
            raise DiagnosisError(f"{many} {verb} wrong by more than {error_above:g}: {sentence(worst)}")
        doubtful = [row for row in self.rows if row.verdict == UNTRUSTED]
        if untrusted and doubtful:
            raise DiagnosisError(
                f"{len(doubtful)} of {quantities(len(self.rows))} {'is' if len(doubtful) == 1 else 'are'} untrusted; "
                + visible(f"{doubtful[0].functional} of {doubtful[0].parameter}: {doubtful[0].reason}")
            )

    def resume(self, budget: float, *, progress: "Callable[[Progress], None] | bool | None" = None) -> "Report":
        """The same diagnosis with a larger budget: the chains go on where they stand, at least one round more, to a new report.

        It needs the process that made this report; from another one, `diagnose(..., checkpoint=file)` with a larger budget does it.
        """
        from ..diagnosis import resumed

        return resumed(self, budget, progress)

    def repair(self, draws: int = 4000, *, progress: "Callable[[Progress], None] | None" = None):
        """Draws of the posterior itself: the chains go on, with metric and step frozen, and come back on the user's scale.

        An ArviZ DataTree (extra `arviz`): `posterior` with dimensions chain and draw (at least so many draws, of about 100 a chain; its
        attributes have the certificate and what it took), and `summary` with means, standard deviations, Monte Carlo standard errors,
        effective draws and R-hat. Refused with the reason where the run cannot be trusted; `certify=True` gives it a certificate.
        """
        from .repair import repaired

        return repaired(self, draws, progress)

    # Text -------------------------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """One or two sentences that a hurried reader may stop after."""
        return headline(self)

    @property
    def answer(self) -> tuple[Answer, ...]:
        """The decision in a few lines: what to use, what not to use and what instead, what could not be judged and what to do."""
        return answer(self)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What to do next, the most promising first: in words, and as lines to paste."""
        return advice(self)

    def __str__(self) -> str:
        from .text import report_text

        return report_text(self)

    def __repr__(self) -> str:
        """The text with verdicts in colours where a prompt shows it on a terminal; `str`, which goes to files too, has none."""
        from .text import on_colours, report_text

        return report_text(self, colour=on_colours())

    def _repr_html_(self) -> str:
        from ..show.page import report_to_fragment

        return report_to_fragment(self)

    def to_html(self, path: str | Path) -> None:
        """The report as one self-contained page, written to `path` whole or not at all."""
        from ..show.page import report_to_html

        write_whole(path, report_to_html(self))

    # JSON -------------------------------------------------------------------------------------------------------------

    def to_json(self, path: str | Path | None = None) -> str:
        """The report as JSON of a versioned schema (docs/json.md); written to `path` if given. Infinities become strings."""
        text = as_json(self)
        if path is not None:
            write_whole(path, text)
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> "Report":
        """A report that `to_json` wrote, from its path or its text."""
        return cls(**from_json(source))
