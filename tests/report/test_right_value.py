"""Right values are written in the digits that are known, and never in digits of rounding."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taddaa.report.parts import Row
from taddaa.report.right_value import q_says, right_value, right_value_in_words


def row(corrected, lower, upper, approximation=0.0):
    return Row("x", "mean", approximation, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "error", "", corrected, lower, upper)


@pytest.mark.parametrize(
    ("value", "lower", "upper", "shown"),
    [
        (3.41234, 3.40834, 3.41634, "3.4123 ± 0.0040"),
        (0.0155, 0.0141, 0.0174, "0.0155 ± 0.0019"),  # a variance's interval is longer above: the longer side is told
        (2.6, 1.1, 9.2, "1.1 to 9.2"),
        (-31.2, -31.35, -31.05, "-31.20 ± 0.15"),
        (-0.0001, -0.0301, 0.0299, "0.000 ± 0.030"),
        (123456.0, 122000.0, 124912.0, "123500 ± 1500"),
        (1.2345e8, 1.2e8, 1.269e8, "1.234e+08 ± 3.5e+06"),
        (2.01e-6, 1.9e-6, 2.12e-6, "2.01e-06 ± 1.1e-07"),
        (0.0914, 0.0914 - 7.4e-5, 0.0914 + 7.4e-5, "0.091400 ± 0.000074"),
        (0.0156557, 0.0156557 - 2.1e-6, 0.0156557 + 2.1e-6, "0.015656 ± 0.000003"),  # five digits are enough; never too narrow
        (1.0, 1.0, 1.0, "1.0000"),  # known to all digits that are shown
        (1.0, 1 - 2e-16, 1 + 2e-16, "1.0000"),
        (2 / 3, 2 / 3 - 1e-12, 2 / 3 + 1e-12, "0.66667"),
        (5e-14, -9.8e-7, 9.8e-7, "0 ± 9.8e-07"),
        (0.0, 0.0, 0.0, "0"),
        (5.0, -math.inf, 6.0, "5 ± ∞"),
        (math.nan, math.nan, math.nan, ""),
    ],
)
def test_a_value_and_its_half_width(value, lower, upper, shown):
    assert right_value(row(value, lower, upper)) == shown


def test_in_words_both_ends_are_told():
    assert right_value_in_words(row(1.0, 0.91, 1.102)) == "the right value is 1.00, between 0.91 and 1.10"
    assert right_value_in_words(row(1.0, 1.0, 1.0)) == "the right value is 1.0000"
    assert right_value_in_words(row(math.nan, math.nan, math.nan)) == ""


@pytest.mark.parametrize(
    ("approximation", "half", "shown"),
    [(1.302845, 0.0142, "1.303"), (1.302845, 0.00012, "1.3028"), (0.0001, 0.3, "0.0001"), (1.302845, math.nan, "1.3"), (2.0, 0.0, "2")],
)
def test_what_q_says_can_be_held_against_it(approximation, half, shown):
    assert q_says(row(1.3, 1.3 - half, 1.3 + half, approximation)) == shown


@given(value=st.floats(-1e9, 1e9), below=st.floats(1e-12, 1e9), above=st.floats(1e-12, 1e9))
def test_what_is_shown_is_near_the_truth_and_short(value, below, above):
    """Read back, the value is off by less than a tenth of the half-width, or by less than is seen in five digits."""
    shown = right_value(row(value, value - below, value + above))
    half, slack = max(below, above), 0.11 * max(below, above) + 1.1e-4 * abs(value)
    assert len(shown) <= 26
    if " to " in shown:
        low, high = map(float, shown.split(" to "))
        assert abs(low - (value - below)) < slack and abs(high - (value + above)) < slack
    else:
        middle, _, width = shown.partition(" ± ")
        assert abs(float(middle) - value) < slack
        assert half * (1 - 1e-6) <= float(width) < half + slack if width else half < slack
