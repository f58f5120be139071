"""The posterior's own value of a quantity with its interval, in as many digits as are known."""

import math

from .parts import Row

DIGITS = 2  # of the half-width
MOST_DIGITS = 6  # of the value: more are not read, and rounding must not look like knowledge
LOPSIDED = 1.5  # an interval with one side so much longer than the other is told by its ends


def right_value(row: Row) -> str:
    """`3.412 ± 0.004`, or `1.1 to 9.2` where the interval is lopsided; '' where there is none."""
    if math.isnan(row.corrected):
        return ""
    below, above = row.corrected - row.corrected_lower, row.corrected_upper - row.corrected
    half = max(below, above)
    if not math.isfinite(half):
        return f"{row.corrected:.3g} ± ∞"
    if max(below, above) > LOPSIDED * min(below, above) and _known(row.corrected, half):
        return f"{rounded(row.corrected_lower, half)} to {rounded(row.corrected_upper, half)}"
    value = rounded(row.corrected, half)
    return f"{value} ± {rounded(half, half)}" if _known(row.corrected, half) else value


def right_value_in_words(row: Row) -> str:
    """`the right value is 1.00, between 0.91 and 1.10`; '' where there is none."""
    if math.isnan(row.corrected):
        return ""
    half = max(row.corrected - row.corrected_lower, row.corrected_upper - row.corrected)
    value = f"the right value is {rounded(row.corrected, half)}"
    if not _known(row.corrected, half):  # all digits shown are right
        return value
    return f"{value}, between {rounded(row.corrected_lower, half)} and {rounded(row.corrected_upper, half)}"


def q_says(row: Row) -> str:
    """The approximation's own value, in the digits in which it can be held against the right one."""
    half = max(row.corrected - row.corrected_lower, row.corrected_upper - row.corrected)
    if not (half > 0 and math.isfinite(half) and math.isfinite(row.approximation)):
        return f"{row.approximation:.3g}"
    return f"{row.approximation:.{min(max(_place(row.approximation) - _place(half) + DIGITS, 3), MOST_DIGITS)}g}"


def rounded(value: float, half: float) -> str:
    """To the last digit of a half-width."""
    if not math.isfinite(value + half):
        return f"{value:.3g}".replace("inf", "∞")
    if not _known(value, half):
        return f"{value:.{MOST_DIGITS}g}"
    last = _place(half) - DIGITS + 1
    size = max(abs(value), half)
    if not 1e-4 <= size < 1e6:
        return f"{value:.{max(_place(value) - last, 0)}e}" if value else "0"
    return f"{round(value, -last) + 0.0:.{max(-last, 0)}f}"


def _known(value: float, half: float) -> bool:
    """Whether the half-width shows among the digits of the value that are written."""
    return half > 0 and (value == 0 or not math.isfinite(value + half) or _place(value) - _place(half) + DIGITS <= MOST_DIGITS)


def _place(value: float) -> int:
    """The power of ten of a number's first digit."""
    return math.floor(math.log10(abs(value))) if value else -999
