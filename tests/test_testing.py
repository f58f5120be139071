"""`assert_trustworthy` passes what is surely good enough, and names what is not."""

from dataclasses import replace

import numpy as np
import pytest

from sample_reports import demo_report
from taddaa import Gaussian, InputError, Mean, Settings, Target, diagnose
from taddaa.testing import assert_trustworthy


def standard(x):
    return -0.5 * (x**2).sum()


TARGET = Target(standard, 2, names=["a", "b"])  # keeps its programs


def report_of(mean, sd):
    return diagnose(TARGET, Gaussian(mean, sd))


def test_what_is_right_passes():
    assert_trustworthy(report_of([0.0, 0.0], [1.0, 1.0]))


def test_what_is_wrong_by_less_than_the_tolerance_passes():
    report = report_of([0.15, 0.0], [1.0, 1.0])
    assert_trustworthy(report, tolerance=0.2)
    with pytest.raises(AssertionError, match=r"(?s)1 of 4 .*mean of a: wrong by at least 0\.1"):
        assert_trustworthy(report, tolerance=0.1)


def test_each_failure_is_named():
    with pytest.raises(AssertionError, match=r"(?s)1 of 4 .* within 0\.2:\n  variance of b: wrong by at least 1\.\d+$"):
        assert_trustworthy(report_of([0.0, 0.0], [1.0, 0.5]))


def test_what_is_too_uncertain_does_not_pass_though_no_error_was_found():
    few = Settings(chains=80, interval="plain", states=1)
    report = diagnose(TARGET, Gaussian([0.0, 0.0], [1.0, 1.0]), [Mean()], settings=few)
    report.raise_if(error_above=0.2)
    with pytest.raises(AssertionError, match=r"mean of a: may be wrong by 0\.\d+, which is too uncertain"):
        assert_trustworthy(report)


def test_what_is_untrusted_does_not_pass():
    report = report_of([0.0, 0.0], [1.0, 1.0])
    doubted = replace(report, rows=(replace(report.rows[0], verdict="untrusted", reason="a check\nfailed"), *report.rows[1:]))
    with pytest.raises(AssertionError, match=r"mean of a: untrusted, a check\\nfailed"):
        assert_trustworthy(doubted)


def test_a_fit_that_is_far_away_does_not_pass():
    with pytest.raises(AssertionError, match="far"):
        assert_trustworthy(report_of([40.0, 40.0], [0.1, 0.1]), tolerance=1000)


def test_a_long_list_is_cut():
    report = demo_report()
    many = replace(report, rows=report.rows * 5, paths=replace(report.paths, unit=np.tile(report.paths.unit, 5)))
    with pytest.raises(AssertionError, match=r"\n  and \d+ more$"):
        assert_trustworthy(many, tolerance=1e-9)


@pytest.mark.parametrize(("report", "tolerance"), [(None, 0.2), ("path.json", 0.2), (demo_report, 0.2)])
def test_not_a_report(report, tolerance):
    with pytest.raises(InputError, match="report must be a taddaa"):
        assert_trustworthy(report, tolerance)


@pytest.mark.parametrize("tolerance", [0, -1, float("nan"), float("inf"), True, "x"])
def test_not_a_tolerance(tolerance):
    with pytest.raises(InputError, match="tolerance must be a positive number"):
        assert_trustworthy(demo_report(), tolerance)
