"""Checks: runs that each of them must catch, and runs in which they must keep silent."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from taddaa import Draws, Gaussian, Settings, Target, diagnose

CHECKS = {
    "settled",
    "no overshoot",
    "forgot the start",
    "forgot the start along what moved",
    "gradients balance",
    "acceptance",
    "all chains move",
    "finite proposals",
    "moments exist",
    "narrow enough",
}


def check_of(report, name):
    return next(check for check in report.checks if check.name == name)


def test_all_checks_are_made_and_pass_on_an_easy_run():
    report = diagnose(Target(lambda x: -0.5 * jnp.sum(x**2), 3), Gaussian(np.zeros(3), np.full(3, 0.8)))
    assert {check.name for check in report.checks} == CHECKS
    assert report.usable
    for check in report.checks:
        assert np.isfinite(check.value)


def test_the_papers_settings_make_only_the_papers_check():
    report = diagnose(Target(lambda x: -0.5 * jnp.sum(x**2), 3), Gaussian(np.zeros(3), np.full(3, 0.8)), settings=Settings.paper())
    (check,) = report.checks
    assert (check.name, check.cutoff) == ("forgot the start", 0.1)
    assert check.value == pytest.approx(report.rho2_max)


def test_false_alarms_are_rare():
    """Started in the target, each check may fail only now and then: at most 3 of 40 runs for each."""
    target = Target(lambda x: -0.5 * jnp.sum(x**2), 2)
    failed = dict.fromkeys(CHECKS, 0)
    for seed in range(40):
        report = diagnose(target, Gaussian([0.0, 0.0], [1.0, 1.0]), settings=Settings(budget=1, chains=200), seed=seed)
        for check in report.checks:
            failed[check.name] += not check.passed
    # Families of tests at 5 %: more than 6 of 40 has a probability under 1 %.
    assert max(failed.values()) <= 6, failed


def in_transit():
    """Many short steps up a long, steady slope: everything still moves when the chains stop."""
    target = Target(lambda x: -0.5 * jnp.sum((x / 50) ** 2), 2)
    settings = Settings(budget=1, iterations=16, preconditioner="identity", chains=200)
    return diagnose(target, Gaussian([300.0, 300.0], [1.0, 1.0]), settings=settings)


def test_transit_is_caught():
    report = in_transit()
    assert not check_of(report, "settled").passed
    assert not check_of(report, "gradients balance").passed
    assert {row.verdict for row in report.rows} == {"untrusted"}
    assert any("still moving" in row.reason for row in report.rows)


def test_memory_silences_only_rows_without_a_bound():
    """A long direction that chains hardly explore: its unmoved mean is untrusted, found errors are kept."""
    target = Target(lambda x: -0.5 * (x[0] ** 2 + (x[1] / 300) ** 2), 2)
    settings = Settings(budget=1, preconditioner="identity")
    report = diagnose(target, Gaussian([1.0, 0.0], [1.0, 300.0]), settings=settings)
    memory = check_of(report, "forgot the start")
    assert not memory.passed
    assert 1 in memory.rows and 0 not in memory.rows
    rows = {(row.parameter, row.functional): row for row in report.rows}
    assert rows["x[1]", "mean"].verdict == "untrusted"
    assert "remember where they started" in rows["x[1]", "mean"].reason
    assert rows["x[0]", "mean"].verdict == "error"
    assert rows["x[1]", "mean"].rho2 > 0.5


def test_what_has_moved_is_an_error_even_if_chains_remember_their_starts():
    """The paper's check is about bounds of zero: slow chains that moved have shown an error, those that did not nothing."""
    target = Target(lambda x: -0.5 * jnp.sum((x / 40) ** 2), 2)
    settings = Settings.paper(preconditioner="identity", iterations=9)
    report = diagnose(target, Gaussian([80.0, 0.0], [40.0, 40.0]), settings=settings)
    assert not check_of(report, "forgot the start").passed
    shifted, centred = report.rows[:2]
    assert min(shifted.rho2, centred.rho2) > 0.1
    assert 0 < shifted.bound <= 80
    assert (shifted.verdict, shifted.reason) == ("error", "")
    assert (centred.bound, centred.verdict) == (0.0, "untrusted")
    assert "still remember where they started" in centred.reason


def test_the_centred_funnel_is_caught():
    """Chains in its neck cannot leave it: with exact starts nothing moves, and no row may be called free of error."""

    def funnel(x):
        return stats_normal(x[0], 3.0) + jnp.sum(stats_normal(x[1:], jnp.exp(x[0] / 2)))

    def stats_normal(x, sd):
        return -0.5 * (x / sd) ** 2 - jnp.log(sd)

    report = diagnose(Target(funnel, 6), Gaussian(np.zeros(6), np.ones(6)))
    assert not report.usable
    assert "no error found" not in {row.verdict for row in report.rows if row.parameter == "x[0]"}


@pytest.mark.parametrize(("missing", "trusted"), [(0.0, True), (0.25, False)])
def test_a_narrow_part_is_trusted_only_while_its_share_of_chains_stays(missing, trusted):
    """Neal's funnel with exact draws, and with draws that lack the lower quarter of its neck."""

    def funnel(x):
        return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * 9 * x[0]

    rng = np.random.default_rng(11)
    first = stats.norm.ppf(rng.uniform(missing, 1, (4000, 1)))
    draws = np.concatenate([first, np.exp(first / 2) * rng.standard_normal((4000, 9))], axis=1)
    report = diagnose(Target(funnel, 10), Draws(draws))
    check = check_of(report, "all chains move")
    assert check.slow_for_good and check.passed == trusted
    verdicts = [row.verdict for row in report.rows]
    assert "error" not in verdicts
    assert verdicts.count("untrusted") <= 2 if trusted else set(verdicts) == {"untrusted"}
    assert any("could go unnoticed" in note for note in report.notes) == trusted


def test_the_settle_test_is_paired():
    """Slow chains still move together by less than their spread: a paired test sees it, an unpaired one cannot."""
    rng = np.random.default_rng(4)
    early = 10 * rng.standard_normal(400)
    late = early + 0.1 + 0.3 * rng.standard_normal(400)
    paired, unpaired = stats.ttest_rel(late, early), stats.ttest_ind(late, early)
    from taddaa.verdict.checks.settled import paired_z

    z = paired_z(np.stack([early, late], axis=1)[..., None], [0], [1])
    assert z[0] == pytest.approx(paired.statistic, rel=1e-9)
    assert abs(unpaired.statistic) < 1 < abs(z[0])
