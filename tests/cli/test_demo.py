"""The demo's fit is honest, its truth is right, and its report shows what its words say."""

import re
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from sample_reports import demo_report
from taddaa import cli
from taddaa.cli import demo


def test_counts_are_the_published_totals():
    assert demo.SEEDS.sum() == 831
    assert demo.GERMINATED.sum() == 424


def test_fit_is_the_fixed_point_of_mean_field_inference():
    """At the optimum E_q ∇log π = 0 and sd² = −1/E_q ∂²log π (Opper and Archambeau 2009), here by plain Monte Carlo."""
    mean, sd = demo.fit()
    draws = mean + sd * np.random.default_rng(1).standard_normal((400_000, 4))
    chance = 1 / (1 + np.exp(-draws @ demo.DESIGN.T))
    gradient = (demo.GERMINATED - demo.SEEDS * chance) @ demo.DESIGN - draws / demo.PRIOR_SD**2
    curvature = (demo.SEEDS * chance * (1 - chance)) @ demo.DESIGN**2 + 1 / demo.PRIOR_SD**2
    assert np.all(np.abs(gradient.mean(axis=0)) < 4 * gradient.std(axis=0) / np.sqrt(len(draws)))
    np.testing.assert_allclose(sd**2, 1 / curvature.mean(axis=0), rtol=1e-3)


def test_truth_agrees_with_importance_sampling():
    mean, _ = demo.fit()
    chance = 1 / (1 + np.exp(-demo.DESIGN @ mean))
    precision = (demo.DESIGN.T * (demo.SEEDS * chance * (1 - chance))) @ demo.DESIGN
    factor = np.linalg.inv(np.linalg.cholesky(precision)) * 1.3  # wider than the posterior, so that weights are bounded
    noise = np.random.default_rng(2).standard_normal((400_000, 4))
    draws = mean + noise @ factor
    predictor = draws @ demo.DESIGN.T
    log_weight = predictor @ demo.GERMINATED - np.logaddexp(0, predictor) @ demo.SEEDS - (draws**2).sum(axis=1) / (2 * demo.PRIOR_SD**2)
    log_weight += (noise**2).sum(axis=1) / 2
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    values = np.column_stack([draws, 1 / (1 + np.exp(-draws.sum(axis=1)))])
    np.testing.assert_allclose(demo.true_variances(), weight @ (values - weight @ values) ** 2, rtol=0.02)


def test_means_are_fine_and_variances_are_not():
    report = demo_report()
    truth = dict(zip([*demo.NAMES, report.rows[-1].parameter], demo.true_variances(), strict=True))
    for row in report.rows:
        if row.functional == "mean":
            assert row.verdict in ("no error found", "within tolerance")
        else:
            error = abs(np.log(truth[row.parameter] / row.approximation))
            assert row.verdict == "error"
            assert 0.7 * error < row.bound <= error
    assert report.usable


def test_closing_tells_both_sides():
    words = demo.closing(demo_report())
    assert words.count("too small") == 4
    assert words.count("too large") == 1
    rights = [line for line in words.splitlines() if "; right value " in line]
    assert len(rights) == 5
    for line in rights:
        value, half, truth = map(float, re.search(r"right value (\S+) ± (\S+), in truth (\S+)$", line).groups())
        assert abs(value - truth) < 1.1 * half


def test_closing_says_what_the_verdict_allows():
    rows = tuple(replace(row, verdict="untrusted", corrected=np.nan) for row in demo_report().rows)
    words = demo.closing(replace(demo_report(), rows=rows))
    assert "at least" not in words.partition("So: take")[0].partition("factor of")[2]
    assert words.count("untrusted ") == 5 and "; right value " not in words


def test_command_explains_itself(capsys):
    assert cli.main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("831 seeds")
    assert "Errors found in 5 of 10 quantities" in printed
    assert "take this fit's means, not its uncertainties" in printed


@pytest.mark.slow
def test_cold_start_takes_less_than_ten_seconds():
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "taddaa.cli", "demo"], check=True, capture_output=True)
    assert time.monotonic() - started < 10
