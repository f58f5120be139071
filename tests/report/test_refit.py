"""Before and after a refit: what counts as worse, and that what is within tolerance never does."""

from dataclasses import replace

import pytest

from sample_reports import demo_report
from taddaa.report.refit import BETTER, GONE, NEW, SAME, UNKNOWN, WORSE, changes, changes_text, got_worse
from taddaa.verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, WITHIN


def one(verdict, lower, upper):
    bound = max(lower, -upper, 0.0)
    row = replace(demo_report().rows[0], verdict=verdict, lower=lower, upper=upper, bound=bound, relative_bound=bound)
    return replace(demo_report(), rows=(row,))


SMALL, BORDER, MIDDLE, LARGE, WIDE = (0.01, 0.02), (0.05, 0.09), (0.08, 0.2), (0.5, 0.6), (-0.3, 0.4)


@pytest.mark.parametrize(
    ("before", "after", "change", "worse"),
    [
        ((ERROR, *LARGE), (WITHIN, *SMALL), BETTER, False),
        ((ERROR, *MIDDLE), (WITHIN, *BORDER), GONE, False),  # the intervals overlap
        ((WITHIN, *SMALL), (ERROR, *LARGE), NEW, True),
        ((WITHIN, *BORDER), (ERROR, *MIDDLE), NEW, True),
        ((WITHIN, *SMALL), (WITHIN, *BORDER), SAME, False),  # surely larger, and does not matter
        ((WITHIN, *BORDER), (WITHIN, *SMALL), SAME, False),
        ((WITHIN, *BORDER), (NO_ERROR, *WIDE), SAME, False),
        ((NO_ERROR, *WIDE), (WITHIN, *BORDER), SAME, False),
        ((NO_ERROR, *WIDE), (ERROR, *LARGE), WORSE, True),
        ((NO_ERROR, *WIDE), (ERROR, *MIDDLE), NEW, True),
        ((ERROR, *MIDDLE), (NO_ERROR, *WIDE), GONE, False),
        ((ERROR, *LARGE), (ERROR, *MIDDLE), BETTER, False),
        ((ERROR, *MIDDLE), (ERROR, *LARGE), WORSE, True),
        ((UNTRUSTED, *WIDE), (WITHIN, *SMALL), UNKNOWN, False),
        ((WITHIN, *SMALL), (UNTRUSTED, *WIDE), UNKNOWN, False),
    ],
)
def test_every_change(before, after, change, worse):
    found = changes(one(*before), one(*after))
    assert [each.change for each in found] == [change]
    assert got_worse(found) is worse


def test_the_table_names_what_is_within_tolerance():
    before, after = one(ERROR, *LARGE), one(WITHIN, *SMALL)
    line = changes_text(before, after, changes(before, after)).splitlines()[4]
    assert line.split()[-4:] == ["0.5", "within", "tolerance", BETTER]
