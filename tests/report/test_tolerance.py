"""A report's tolerances are those of the settings it was made with."""

from dataclasses import replace

import pytest

from sample_reports import clean_report
from taddaa import Settings
from taddaa.report.tolerance import Tolerances, in_words, tolerances


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ("level=0.95, mean_tolerance=0.1, variance_tolerance=0.15, chains=None", (0.1, 0.15)),
        ("level=0.95, mean_tolerance=0.02, variance_tolerance=1e-05, chains=None", (0.02, 1e-5)),
        ("variance_tolerance=0.3", (0.1, 0.3)),
        ("mean_tolerance=2", (2.0, 0.15)),
        ("", (0.1, 0.15)),
        ("mean_tolerance=lots, variance_tolerance=", (0.1, 0.15)),
        ("my_mean_tolerance=3", (0.1, 0.15)),
    ],
)
def test_they_are_read_from_the_settings_words(settings, found):
    assert tolerances(settings) == found


def test_the_defaults_are_those_of_the_settings():
    assert Tolerances() == (Settings().mean_tolerance, Settings().variance_tolerance)
    assert tolerances(clean_report().provenance.settings) == Tolerances()
    assert (Tolerances().of("q0.9"), Tolerances().of("covariance"), Tolerances().of("variance")) == (0.1, 0.1, 0.15)


def test_in_words_only_what_was_asked():
    report = clean_report()
    about = replace(report.provenance, settings="mean_tolerance=0.2, variance_tolerance=0.3")
    report = replace(report, provenance=about)
    of = {kind: tuple(row for row in report.rows if row.functional == kind) for kind in ("mean", "variance")}
    assert in_words(report) == "0.2 standard deviations (0.3 in log variance)"
    assert in_words(replace(report, rows=of["mean"])) == "0.2 standard deviations"
    assert in_words(replace(report, rows=of["variance"])) == "0.3 in log variance"
