"""For the tests of a model: a report that must be good enough."""

import math
from collections.abc import Iterator

from .errors import InputError, visible
from .report.report import Report
from .verdict.outcome import ERROR, UNTRUSTED

MOST_LINES = 8


def assert_trustworthy(report: Report, tolerance: float = 0.2) -> None:
    """Fail unless every quantity of the report is surely wrong by less than `tolerance`.

    A quantity fails if it is wrong by more, if it is untrusted, or if its interval is too wide to say: then more chains
    (`Settings(chains=…)`) or a larger `budget` may tell. With report.raise_if, which asks for errors only, the last one passes.

    Args:
        report: of `taddaa.diagnose`, or `Report.from_json`.
        tolerance: in standard deviations for means, quantiles and covariances, in log variance for variances (0.2: 22 %).
    """
    if not isinstance(report, Report):
        raise InputError(f"report must be a taddaa.Report, got {type(report).__name__}")
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 < tolerance < math.inf:
        raise InputError(f"tolerance must be a positive number, got {tolerance!r}")
    if report.far:
        raise AssertionError(report.headline)
    failures = [visible(failure) for failure in _failures(report, tolerance)]
    if failures:
        shown = "\n".join(f"  {failure}" for failure in failures[:MOST_LINES])
        more = f"\n  and {len(failures) - MOST_LINES} more" * (len(failures) > MOST_LINES)
        many = f"{len(failures)} of {len(report.rows)} quantities are"
        raise AssertionError(f"{many} not surely right within {tolerance:g}:\n{shown}{more}")


def _failures(report: Report, tolerance: float) -> Iterator[str]:
    for row, unit in zip(report.rows, report.paths.unit, strict=True):
        name = f"{row.functional} of {row.parameter}"
        at_most = max(abs(row.lower), abs(row.upper))
        if row.verdict == UNTRUSTED:
            yield f"{name}: untrusted, {row.reason}"
        elif row.verdict == ERROR and row.relative_bound > tolerance:
            yield f"{name}: wrong by at least {row.relative_bound:.3g}"
        elif not at_most <= tolerance * unit:  # NaN too
            yield f"{name}: may be wrong by {at_most / unit if unit > 0 else math.inf:.3g}, which is too uncertain to pass"
