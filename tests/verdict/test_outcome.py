"""The verdicts: which of the four a row gets, what failed checks silence, and where the posterior's own value is believed."""

from types import SimpleNamespace

import numpy as np
import pytest

from taddaa.verdict.checks.check import Check
from taddaa.verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, WITHIN, arrived, verdicts

# Rows: a bound over the tolerance, a bound within it, zero within it, zero and wide.
ROWS = SimpleNamespace(
    bound=np.array([0.5, 0.02, 0.0, 0.0]),
    within=np.array([False, True, True, False]),
    unknown=np.zeros(4, bool),
    unseen=np.zeros(4, bool),
)


def check(passed, rows=None, only_zero=False):
    return Check("some check", passed, 1.0, 0.5, "a message", rows=rows, only_zero=only_zero)


@pytest.mark.parametrize(
    ("checks", "found"),
    [
        ([check(True)], [ERROR, WITHIN, WITHIN, NO_ERROR]),
        ([check(False)], [UNTRUSTED] * 4),
        ([check(False, rows=(1,))], [ERROR, UNTRUSTED, WITHIN, NO_ERROR]),
        # What moved has moved. But chains that may be slow prove no smallness: not of zero, and not of what little they moved.
        ([check(False, only_zero=True)], [ERROR, UNTRUSTED, UNTRUSTED, UNTRUSTED]),
        ([check(False, rows=(0, 1), only_zero=True)], [ERROR, UNTRUSTED, WITHIN, NO_ERROR]),
        ([check(False, rows=())], [ERROR, WITHIN, WITHIN, NO_ERROR]),
    ],
)
def test_each_row_has_its_verdict(checks, found):
    told = verdicts(ROWS, checks)
    assert [verdict for verdict, _ in told] == found
    assert all(bool(reason) == (verdict == UNTRUSTED) for verdict, reason in told)


def test_the_right_value_needs_more_than_a_bound():
    good = check(True)
    assert arrived([good, good], 4).all()
    assert list(arrived([good, check(False, rows=(2,), only_zero=True)], 4)) == [True, True, False, True]
    assert not arrived([good, check(False)], 4).any()
    assert not arrived([good], 4).any()  # the paper's one check cannot tell
