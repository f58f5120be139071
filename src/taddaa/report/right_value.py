"""The posterior's own value of a quantity with its interval, in as many digits as are known."""

import math

from .parts import Row

DIGITS = 2  # of the half-width
MOST_DIGITS = 5  # of the value: more are not read
LOPSIDED = 1.5  # an interval with one side so much longer than the other is told by its ends


def right_value(row: Row) -> str:
    """`3.412 ± 0.004`; `1.1 to 9.2` where the interval is lopsided; `3.4120` where it is below the last digit; '' where there is none."""
    if math.isnan(row.corrected):
        return ""
    below, above = row.corrected - row.corrected_lower, row.corrected_upper - row.corrected
    half = max(below, above)
    if not math.isfinite(half):
        return f"{row.corrected:.3g} ± ∞"
    last = _last(row.corrected, half)
    if half < 0.5 * 10.0**last:
        return _exact(row.corrected)
    size = max(abs(row.corrected), half)
    if half > LOPSIDED * min(below, above):
        return f"{_written(row.corrected_lower, last, size)} to {_written(row.corrected_upper, last, size)}"
    up = math.ceil(round(half / 10.0**last, 3)) * 10.0**last  # an interval is never shown narrower than it is
    return f"{_written(row.corrected, last, size)} ± {_written(up, last, size)}"


def right_value_in_words(row: Row) -> str:
    """`the right value is 1.00, between 0.91 and 1.10`; '' where there is none."""
    if math.isnan(row.corrected):
        return ""
    half = _half(row)
    last, size = _last(row.corrected, half), max(abs(row.corrected), half)
    if half < 0.5 * 10.0**last:
        return f"the right value is {_exact(row.corrected)}"
    value, low, high = (_written(end, last, size) for end in (row.corrected, row.corrected_lower, row.corrected_upper))
    return f"the right value is {value}, between {low} and {high}"


def q_says(row: Row) -> str:
    """The approximation's own value, in the digits in which it can be held against the right one."""
    value, half = row.approximation, _half(row)
    if not (value and math.isfinite(value + half)):
        return f"{value:.3g}"
    return f"{value:.{min(max(_place(value) - _last(row.corrected, half) + 1, 3), MOST_DIGITS)}g}"


def _half(row: Row) -> float:
    return max(row.corrected - row.corrected_lower, row.corrected_upper - row.corrected)


def _last(value: float, half: float) -> int:
    """The power of ten of the last digit to write: the half-width's second, or the value's fifth."""
    if not math.isfinite(value + half):
        return -3
    of_half = _place(half) - DIGITS + 1 if half > 0 else -307
    return max(of_half, _place(value) - MOST_DIGITS + 1) if value else of_half


def _place(value: float) -> int:
    """The power of ten of a number's first digit."""
    return max(math.floor(math.log10(abs(value))), -300)


def _written(value: float, last: int, size: float) -> str:
    """A number to the digit `last`, beside others of about that size."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) < 0.5 * 10.0**last:
        value = 0.0
    if 1e-4 <= size < 1e6:
        return f"{round(value, -last) + 0.0:.{max(-last, 0)}f}"
    return f"{value:.{max(_place(value) - last, 0)}e}" if value else "0"


def _exact(value: float) -> str:
    """All digits that are written are right, zeros at the end too."""
    return f"{value:#.{MOST_DIGITS}g}" if value else "0"
