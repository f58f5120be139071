"""Runs end at half of the planned way where nothing is slow and nearly all is decided, and nowhere else."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa.chains.gait
import taddaa.study
from taddaa import Gaussian, Mean, Settings, Target, Variance, diagnose
from taddaa.chains.checkpoint import Checkpoint
from taddaa.moves.kernel import HMC, Relay
from taddaa.study import EARLY_SHARE, prepare
from taddaa.verdict.checks.registry import failures
from taddaa.verdict.judgement import Tolerance, decided

TARGET = Target(lambda x: jnp.sum(x - 2 * jnp.logaddexp(0.0, x)), 4)  # four standard logistics
FIT = Gaussian(np.full(4, 0.5), np.ones(4))


def prepared(settings: Settings, certify: bool = False):
    return prepare(TARGET, FIT, [Mean(), Variance()], settings, 0, Checkpoint(None), certify=certify)


def test_what_is_decided_ends_at_half_of_the_way():
    report = diagnose(TARGET, FIT)
    assert all(check.passed for check in report.checks)
    assert report.cost.iterations <= report.cost.planned_iterations // 2
    assert "half were enough" in str(report)
    truth = [0.0] * 4 + [np.pi**2 / 3] * 4
    assert all(row.corrected_lower <= right <= row.corrected_upper for row, right in zip(report.rows, truth, strict=True))


def test_what_is_not_decided_goes_on_to_the_planned_end():
    """Under a tolerance that no interval of the early round is narrow enough for."""
    report = diagnose(TARGET, FIT, settings=Settings(mean_tolerance=1e-4, variance_tolerance=1e-4, chains=194))
    assert report.cost.planned_iterations // 2 < report.cost.iterations
    assert "half were enough" not in str(report)


def test_all_that_an_early_end_needs(monkeypatch):
    """Every check passed, and nine of ten rows decided; and no look where chains go on whatever it says."""
    study = prepared(Settings())
    passed, failed = SimpleNamespace(passed=True), SimpleNamespace(passed=False)
    for checks, share, end in [([passed, passed], 0.9, True), ([passed, failed], 1.0, False), ([passed], 0.8, False)]:
        monkeypatch.setattr(taddaa.study, "decided", lambda *_, share=share: np.arange(10) < 10 * share)
        assert study.may_end_early(None, checks) == end
    for newly_bent, full_rounds, exploring, onward in [
        (False, 0, True, False),
        (False, 0, False, True),
        (False, 1, False, False),
        (True, 1, True, True),
    ]:
        walk = SimpleNamespace(newly_bent=newly_bent, full_rounds=full_rounds, exploring=exploring)
        assert study.goes_on_anyway(walk) == onward


def test_what_goes_on_anyway_is_not_judged(monkeypatch):
    """Chains of a funnel go on from T/2 and, in coordinates that were bent in the opening, from T; looks there would change nothing."""
    looked = []
    look = taddaa.study.Study.look
    monkeypatch.setattr(taddaa.study.Study, "look", lambda study, walk, last: looked.append(walk.iteration) or look(study, walk, last))
    funnel = Target(lambda x: -0.5 * (x[0] ** 2 + jnp.sum(x[1:] ** 2) * jnp.exp(-2 * x[0])) - (len(x) - 1) * x[0], 10)
    report = diagnose(funnel, Gaussian(np.zeros(10), np.full(10, 0.7)))
    assert looked and min(looked) > report.cost.planned_iterations // 2 + 1


@pytest.mark.parametrize("wide", [1, 30])
def test_the_last_look_is_sharpened_whatever_plain_intervals_say(monkeypatch, wide):
    """Of chains that are done and of some that would go on (there the target is 30 times as wide as the fit)."""
    asked, judge = [], taddaa.study.Study.judge
    monkeypatch.setattr(taddaa.study.Study, "judge", lambda study, walk, sharpen: asked.append(sharpen) or judge(study, walk, sharpen))
    target = Target(lambda x: -0.5 * (x[0] ** 2 + (x[1] / wide) ** 2), 2)
    settings = Settings(preconditioner="identity", iterations=60, budget=1)
    report = diagnose(target, Gaussian(np.zeros(2), np.ones(2)), settings=settings)
    assert asked == [False, True]
    assert all(check.passed for check in report.checks) == (wide == 1)


def test_each_look_knows_what_the_one_before_found(monkeypatch):
    """Also the first one after the chains have been resumed."""
    found, worth = {}, taddaa.study.worth_running_on

    def noted(checks, look, before):
        found[look] = failures(checks), dict(before)
        return worth(checks, look, before)

    monkeypatch.setattr(taddaa.study, "worth_running_on", noted)
    target = Target(lambda x: -0.5 * (x[0] ** 2 + (x[1] / 30) ** 2), 2)
    report = diagnose(target, Gaussian(np.zeros(2), np.ones(2)), settings=Settings(preconditioner="identity", budget=2))
    last = max(found)
    report.resume(budget=4)
    assert last == 2 and list(found) == [0, 1, 2, 3] and all(found[look][0] for look in range(3))
    assert all(found[look + 1][1] == found[look][0] for look in range(3))


def test_each_look_has_its_own_level(monkeypatch):
    levels, judge = [], taddaa.study.judge

    def noted(questions, late, level, *more):
        levels.append(level)
        return judge(questions, late, level, *more)

    monkeypatch.setattr(taddaa.study, "judge", noted)
    diagnose(TARGET, FIT, settings=Settings(mean_tolerance=1e-4, variance_tolerance=1e-4, chains=194))
    study = prepared(Settings())
    assert list(dict.fromkeys(levels))[:2] == [study.level(0), study.level(1)]


@pytest.mark.parametrize(
    ("settings", "certify"),
    [
        (Settings(iterations=100), False),  # as many as were asked for
        (Settings(kernel="barker"), False),
        (Settings(interval="plain"), False),
        (Settings(checks="correlation"), False),
        (Settings.paper(), False),
        (Settings(), True),  # pairs go on from T
    ],
)
def test_no_early_round(settings, certify):
    study = prepared(settings, certify)
    assert study.plan.early == 0 and [study.plan.goal(rounds) for rounds in range(3)] == [2**k * study.plan.iterations for k in range(3)]


@pytest.mark.parametrize("budget", [1, 2, 16])
def test_all_looks_together_spend_what_the_level_leaves(budget):
    study = prepared(Settings(budget=budget, level=0.9))
    assert study.plan.early == study.plan.iterations // 2
    spent = [(1 - study.level(look)) * study.questions.rows for look in range(study.most_looks + 1)]
    assert spent[0] == pytest.approx(0.1 * EARLY_SHARE) and sum(spent) == pytest.approx(0.1)
    assert [study.plan.full(rounds) for rounds in range(3)] == [-1, 0, 1]
    assert study.plan.goal(1) == study.plan.iterations and study.plan.goal(2) == 2 * study.plan.iterations


def test_an_early_end_can_go_on():
    report = diagnose(TARGET, FIT, settings=Settings(budget=1))
    on = report.resume(budget=1)
    assert report.cost.iterations <= report.cost.planned_iterations // 2 < on.cost.iterations <= on.cost.planned_iterations
    assert on.cost.gradients > report.cost.gradients
    assert isinstance(on.continuation.walk.engine.kernel, HMC)
    certified = diagnose(TARGET, FIT, certify=True)
    assert certified.resume(budget=2).cost.iterations > 1.5 * certified.cost.planned_iterations


@pytest.mark.parametrize("certified_later", [False, True])
def test_an_early_end_is_resumed_from_its_checkpoint(tmp_path, certified_later):
    """Also where it is certified then, which alone would have gone to T: its rounds are those it has walked."""
    first = diagnose(TARGET, FIT, checkpoint=tmp_path / "run")
    again = diagnose(TARGET, FIT, checkpoint=tmp_path / "run", certify=certified_later)
    assert again.cost.iterations == first.cost.iterations
    np.testing.assert_array_equal(again.moved_draws, first.moved_draws)
    if not certified_later:
        assert [row.corrected_upper for row in again.rows] == [row.corrected_upper for row in first.rows]
    assert again.continuation.walk.plan.early == first.continuation.walk.plan.early > 0


def test_chains_that_went_over_too_soon_go_back(monkeypatch):
    """At T/8 one step seemed to fit all; at T/2 they have met what it does not fit."""
    answers = iter([True, False])
    monkeypatch.setattr(taddaa.chains.gait, "one_step_fits", lambda walk: next(answers))
    target = Target(lambda x: -0.5 * (x[0] ** 2 + (x[1] / 30) ** 2), 2)
    report = diagnose(target, Gaussian(np.zeros(2), np.ones(2)), settings=Settings(preconditioner="identity", budget=1))
    walk = report.continuation.walk
    assert not walk.exploring and isinstance(walk.engine.kernel, Relay) and next(answers, None) is None
    assert report.paths.acceptance[-20:].mean() == pytest.approx(Relay.target_acceptance, abs=0.15)


def test_without_a_learnt_metric_trajectories_are_not_held():
    """Ten times as wide as the fit, under its own metric: a quarter of a turn would be ten times as far."""
    target = Target(lambda x: -0.005 * jnp.sum(x**2), 10)
    report = diagnose(target, Gaussian(np.zeros(10), np.ones(10)), settings=Settings(preconditioner="identity"))
    assert report.continuation.walk.engine.kernel.longest == np.inf and report.continuation.walk.step_length > 3


def test_progress_runs_on_only_beyond_the_plan():
    told = []
    report = diagnose(TARGET, FIT, settings=Settings(mean_tolerance=1e-4, variance_tolerance=1e-4, chains=194), progress=told.append)
    planned = report.cost.planned_iterations
    stages = {one.stage for one in told if 0 < one.iteration <= planned}
    assert stages == {"first round"} and max(one.iteration for one in told) > planned // 2


def test_what_is_decided():
    """Within tolerance; wrong and known; wrong and wide; unclear and narrow; one and the same number; unknown."""
    questions = prepared(Settings()).questions
    lower, upper = np.array([-0.05, 0.5, 0.3, -0.02, 0.0, -np.inf, 0.5, 0.5]), np.array([0.05, 0.6, 0.9, 0.12, 0.0, np.inf, 0.78, 0.82])
    judged = SimpleNamespace(
        lower=lower,
        upper=upper,
        bound=np.maximum(lower, 0.0),
        unit=np.ones(8),
        within=np.arange(8) == 0,
        fixed=np.arange(8) == 4,
    )
    found = decided(questions, judged, Tolerance(0.1, 0.15))
    assert found.tolist() == [True, True, False, False, True, False, True, False]  # the last four are variances'
