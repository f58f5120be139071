"""Checks: runs that each of them must catch, and runs in which they must keep silent."""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from taddaa import DiagnosisError, Draws, Fisher, Gaussian, Mean, Quantile, Settings, Target, Variance, diagnose
from taddaa.chains.arrival import Seen
from taddaa.formulas.zscore import mean_z
from taddaa.verdict.checks.registry import failures, worth_running_on
from taddaa.verdict.checks.run import Run
from taddaa.verdict.checks.settled import (
    FAR,
    FORGOTTEN,
    LEFT,
    SLOWEST,
    _ends,
    _go_on_together,
    _has_way_left,
    _moved_within,
    _not_there_yet,
    _with_the_rest_of_their_arrays,
    gained,
    remembered,
)
from taddaa.verdict.questions import RowGroup

CHECKS = {
    "near the posterior",
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


@pytest.mark.slow
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


UNBENT = Settings(preconditioner=Fisher(straighten=False))


def wide_funnel(x):
    def normal(x, sd):
        return -0.5 * (x / sd) ** 2 - jnp.log(sd)

    return normal(x[0], 3.0) + jnp.sum(normal(x[1:], jnp.exp(x[0] / 2)))


def test_the_centred_funnel_is_caught():
    """Chains in its neck cannot leave it, unless its coordinates are straightened: no row may be called free of error."""
    report = diagnose(Target(wide_funnel, 6), Gaussian(np.zeros(6), np.ones(6)), settings=UNBENT)
    assert not report.usable
    assert "no error found" not in {row.verdict for row in report.rows if row.parameter == "x[0]"}


def test_the_centred_funnel_is_straightened_by_default():
    """x₀'s variance is 9 and not 1; and the report says what the user should reparametrise."""
    report = diagnose(Target(wide_funnel, 6), Gaussian(np.zeros(6), np.ones(6)))
    row = next(row for row in report.rows if (row.parameter, row.functional) == ("x[0]", "variance"))
    assert row.verdict == "error" and 0.7 * np.log(9) < row.bound <= np.log(9)
    assert any("follows x[0]" in note for note in report.notes)


def funnel(x):
    return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * 9 * x[0]


def funnel_draws(missing):
    """Exact draws of Neal's funnel, but for a lower part of its neck."""
    rng = np.random.default_rng(11)
    first = stats.norm.ppf(rng.uniform(missing, 1, (4000, 1)))
    return Draws(np.concatenate([first, np.exp(first / 2) * rng.standard_normal((4000, 9))], axis=1))


def test_a_narrow_part_is_trusted_while_its_share_of_chains_stays():
    report = diagnose(Target(funnel, 10), funnel_draws(0.0), settings=UNBENT)
    check = check_of(report, "all chains move")
    verdicts = [row.verdict for row in report.rows]
    assert check.slow_for_good and check.passed and "error" not in verdicts and verdicts.count("untrusted") <= 2
    assert any("could go unnoticed" in note for note in report.notes)


@pytest.mark.parametrize("kernel", ["barker", "relay"])
def test_what_is_missing_of_a_narrow_part_is_found_or_not_spoken_of(kernel):
    """Barker's chains hardly exchange with the neck and know it; trajectories come into it, and find part of what is missing."""
    report = diagnose(Target(funnel, 10), funnel_draws(0.25), settings=replace(UNBENT, kernel=kernel))
    row, missing = report.rows[0], stats.norm.pdf(stats.norm.ppf(0.25)) / 0.75
    assert row.verdict == "untrusted" or (row.verdict == "error" and row.bound <= missing)
    if kernel == "barker":
        assert not check_of(report, "all chains move").passed and {row.verdict for row in report.rows} == {"untrusted"}


def test_what_is_missing_of_a_neck_is_found_in_straightened_coordinates():
    """Without its lower quarter a standard normal has the mean φ(z)/0.75 = 0.42."""
    report = diagnose(Target(funnel, 10), funnel_draws(0.25))
    row = report.rows[0]
    assert row.verdict == "error" and 0.2 < row.bound <= stats.norm.pdf(stats.norm.ppf(0.25)) / 0.75
    assert np.mean([row.verdict == "untrusted" for row in report.rows]) <= 0.1


def pooled_means():
    """Thirty groups that data know well or hardly, log τ and μ: the target, its log τ's mean and variance by quadrature, and a fit."""
    groups = 30
    rng = np.random.default_rng(5)
    sd = np.geomspace(0.15, 1.2, groups)[rng.permutation(groups)]
    data = 0.3 + 0.3 * rng.standard_normal(groups) + sd * rng.standard_normal(groups)

    def logdensity(x):
        log_tau, mu, theta = x[0], x[1], x[2:]
        prior = -jnp.exp(2 * log_tau) / 2 + log_tau - mu**2 / 2 - jnp.sum((theta - mu) ** 2) * jnp.exp(-2 * log_tau) / 2 - groups * log_tau
        return prior - jnp.sum((theta - data) ** 2 / sd**2) / 2

    log_tau, mu = np.linspace(-9, 1.5, 1500)[:, None], np.linspace(-1.5, 2, 400)
    mass = -np.exp(2 * log_tau) / 2 + log_tau - mu**2 / 2
    for y, s in zip(data, sd, strict=True):
        mass = mass + stats.norm.logpdf(y, mu, np.sqrt(np.exp(2 * log_tau) + s**2))
    mass = np.exp(mass - mass.max()).sum(axis=1)
    mean = np.average(log_tau[:, 0], weights=mass)
    variance = np.average((log_tau[:, 0] - mean) ** 2, weights=mass)
    precision = np.exp(2 * 1.25) + 1 / sd**2
    places = (np.exp(2 * 1.25) * 0.35 + data / sd**2) / precision
    fit = Gaussian(np.r_[-1.25, 0.35, places], np.r_[0.14, 0.06, 1 / np.sqrt(precision)])
    return Target(logdensity, groups + 2), mean, variance, fit


def test_the_neck_of_a_hierarchy_that_data_know_well_is_open():
    """Its right values hold. With one group left in coordinates of its own, the neck is closed, and they miss by a third of a sd."""
    target, mean, variance, fit = pooled_means()
    for seed in range(2):
        found = {row.functional: row for row in diagnose(target, fit, seed=seed).rows if row.parameter == "x[0]"}
        assert found["mean"].corrected_lower < mean < found["mean"].corrected_upper
        assert found["mean"].corrected_upper - found["mean"].corrected_lower < 0.4 * np.sqrt(variance)
        wide = np.nan_to_num([found["variance"].corrected_lower, found["variance"].corrected_upper], nan=variance)
        assert wide[0] <= variance <= wide[1]


def slow_drift():
    """x₀ is on its way along a long slope, x₁ goes with it, and x₂ has nothing to do with them."""
    target = Target(lambda x: -0.5 * ((x[0] / 50) ** 2 + (x[1] - x[0]) ** 2 + x[2] ** 2), 3)
    settings = Settings(budget=1, iterations=40, preconditioner="identity", chains=300)
    return diagnose(target, Gaussian([100.0, 100.0, 0.0], [1.0, 1.0, 1.0]), settings=settings)


def test_what_moves_silences_all_that_is_asked_of_it_and_what_shares_it():
    """Rows are the three means and then the three variances."""
    check = check_of(slow_drift(), "settled")
    assert not check.passed
    assert {0, 1, 3, 4} <= set(check.rows) and not {2, 5} & set(check.rows)


def test_what_turns_is_tied_to_what_it_turns_away_from():
    """A small angle moves its sine, and its cosine by as much as it is far out; a scale how far out others are."""
    rng = np.random.default_rng(0)
    angle = 0.5 * rng.standard_normal(300)
    quantities = np.column_stack([np.sin(angle), np.cos(angle), rng.standard_normal(300), np.exp(2 * angle) * rng.standard_normal(300)])
    seen = Seen(None, [SimpleNamespace(quantities=quantities)], np.ones(300), 0)
    run = Run(SimpleNamespace(seen=seen), SimpleNamespace(per_row=lambda each: each, rows=4), None, 0.95)
    assert run.tied_to_direction(angle[:, None]).tolist() == [True, True, False, True]
    assert not run.tied_to_direction(angle[:, None][:, :0]).any()


def test_where_nearly_all_of_an_array_moves_the_rest_does():
    """But not of a vector that is all there is, nor of covariances, which belong to two."""

    def with_rest(named, *groups):
        made = [SimpleNamespace(labels=labels, functional=SimpleNamespace(label=label)) for label, labels in groups]
        run = SimpleNamespace(questions=SimpleNamespace(groups=made))
        return _with_the_rest_of_their_arrays(run, np.array(named)).tolist()

    elements = [f"U[{i},0]" for i in range(8)]
    named = [True] * 7 + [False]
    others = ("mean", ["s", "V[0]", "V[1]"]), ("covariance", ["U[0,0], V[0]"])
    assert with_rest([*named, False, True, False, False], ("variance", elements), *others) == [True] * 8 + [False, True, False, False]
    assert with_rest(named, ("mean", elements)) == named


def test_a_constant_is_not_on_its_way():
    """Its spread is rounding, of which its start is many away."""
    for value in (0.1, 1.3, 7.7):
        asked = [Mean(), Mean(of=lambda x, value=value: value + 0 * x[0])]
        target, fit = Target(lambda x: -0.5 * x @ x, 2), Gaussian(np.zeros(2), np.ones(2))
        report = diagnose(target, fit, asked, settings=Settings(budget=1, chains=50))
        assert check_of(report, "settled").passed


def ar1(rng, memory, chains=300):
    """Chains at rest that forget by `memory` a snapshot: (chains, 16, 1)."""
    path = [rng.standard_normal(chains)]
    for _ in range(15):
        path.append(memory * path[-1] + np.sqrt(1 - memory**2) * rng.standard_normal(chains))
    return np.stack(path, axis=1)[..., None]


@pytest.mark.parametrize("memory", [0.9, 0.95])
def test_what_chains_remember_over_half_a_round(memory):
    """The mean of several is under the truth by 2.5 standard errors, and over half of it."""
    rng = np.random.default_rng(1)
    assert 0.5 < np.mean([remembered(ar1(rng, memory))[0] for _ in range(20)]) / memory**8 < 0.9
    assert 1.1 < np.mean([remembered(ar1(rng, memory))[1] for _ in range(20)]) / memory**8 < 1.6


def test_what_forgets_is_not_said_to_remember():
    rng = np.random.default_rng(2)
    assert np.mean([remembered(ar1(rng, 0.0))[0] > 0 for _ in range(400)]) < 0.03
    assert np.mean([remembered(ar1(rng, 0.0))[1] < FORGOTTEN for _ in range(400)]) > 0.97
    assert np.all(remembered(np.ones((20, 16, 2)))[0] == 0)  # a constant has nothing to remember


def together(rng, *, placed=0.0, widened=0.0, rounds=3, far=20):
    """Of twenty quantities that came far, those said to go on: by so little within the round that it shows of none by itself."""
    count, way = 200, np.where(np.arange(20) < far, 1.0, 0.0)
    looks = np.linspace(-0.5, 0.5, 17)[:, None, None] * way
    moved = 4 * way + (placed * looks + np.exp(widened * looks / 2 + way) * rng.standard_normal((17, count, 20)))
    shots = [SimpleNamespace(positions=x, quantities=x) for x in (rng.standard_normal((count, 20)), *moved)]
    run = SimpleNamespace(walk=SimpleNamespace(full_rounds=rounds), seen=Seen(shots[0], shots[1:], np.ones(count), 0))
    return _go_on_together(run, *_ends(17))


@pytest.mark.parametrize("drift", [{"placed": 0.25}, {"widened": 0.15}])
def test_all_together_must_not_go_on_the_way_that_they_have_come(drift):
    """Beyond 2T, where most came far; what is at rest, or goes back, does not go on (two tests at 1.5 standard errors: 13 %)."""
    rng, backwards = np.random.default_rng(6), {name: -size for name, size in drift.items()}
    assert np.mean([together(rng, **drift).all() for _ in range(50)]) > 0.9
    assert np.mean([together(rng, **backwards).any() for _ in range(50)]) < 0.2
    assert not any(together(rng, **drift, rounds=2).any() or together(rng, **drift, far=9).any() for _ in range(20))
    assert together(rng, **drift, far=15).tolist() == [True] * 15 + [False] * 5


def test_what_is_at_rest_seldom_seems_to_go_on_together():
    rng = np.random.default_rng(7)
    assert np.mean([together(rng).any() for _ in range(200)]) < 0.2


@pytest.mark.parametrize(("drift", "matters"), [(0.02, False), (0.1, True)])
def test_nobody_minds_a_drift_that_is_small_however_surely_it_is_seen(drift, matters):
    """Of a thousand chains whose states differ by next to nothing but the drift."""
    rng = np.random.default_rng(5)
    path = rng.standard_normal((1000, 1)) + 1e-3 * rng.standard_normal((17, 1000, 1)) + drift * np.linspace(0, 1.25, 17)[:, None, None]
    piece = RowGroup(Mean(), np.arange(1), ["x"], np.arange(1))
    z, _, minded = _moved_within(piece, list(path), *_ends(17))
    assert abs(z[0]) > 50 and minded.tolist() == [matters]


def test_only_what_clearly_failed_before_can_have_stalled():
    """A chance failure after a pass, or after one at the cutoff, is worth another look; one that has lessened nothing is not.

    But as long as forces do not balance the chains are under way, and how surely errors are seen to shrink says nothing.
    """

    def settled(value, cutoff=3.0, name="settled"):
        return SimpleNamespace(
            name=name,
            value=value,
            cutoff=cutoff,
            passed=value <= cutoff,
            rows=None,
            each=None,
            more_iterations=True,
            slow_for_good=False,
            only_zero=False,
        )

    assert failures([settled(2.0)]) == failures([settled(3.0 + 1e-9)]) == {}
    for before, onward in ((2.0, True), (3.0 + 1e-9, True), (3.2, False), (4.0, True)):
        assert worth_running_on([settled(3.3)], 3, failures([settled(before)])) == onward
    transit = settled(7.0, 4.5, "gradients balance")
    assert worth_running_on([settled(3.3), transit], 4, failures([settled(3.2), transit]))
    assert not worth_running_on([settled(3.3), settled(4.0, 4.5, "gradients balance")], 4, failures([settled(3.2)]))


class Far:
    """Rows that came from 0 to these places, in their units."""

    def __init__(self, come, rounds=1, momentless=()):
        count = len(come)
        self.summaries = np.broadcast_to(np.array([come, np.ones(count)]), (17, 2, count))
        self.judgement = SimpleNamespace(reference=np.zeros(count), unit=np.ones(count))
        self.walk, self.momentless = SimpleNamespace(full_rounds=rounds), np.isin(np.arange(count), momentless)
        group = SimpleNamespace(columns=np.arange(count), rows=np.arange(count))
        self.questions = SimpleNamespace(groups=[group], per_row=lambda each: each)
        self.seen = SimpleNamespace(snapshots=[SimpleNamespace(quantities=np.zeros((3, count)))])


def test_only_what_came_furthest_must_forget_its_way():
    """So many quantities, if they came far at all, and in the first two rounds."""
    come = np.linspace(FAR + 1, FAR + 0.1, SLOWEST + 2)
    come[0], kept = FAR - 0.1, 2 * LEFT / come
    kept[1] /= 4
    assert np.flatnonzero(_has_way_left(Far(come), kept)).tolist() == list(range(2, SLOWEST + 1))
    assert np.flatnonzero(_has_way_left(Far(come, 2, [3]), kept)).tolist() == [2, *range(4, SLOWEST + 2)]
    assert not _has_way_left(Far(come, 3), kept).any()


def test_a_moment_that_does_not_exist_is_untrusted_and_tells_nothing_of_others():
    """Cauchy: means and variances cannot be judged, quantiles can; and a normal beside it is not silenced."""
    target = Target(lambda x: -jnp.log1p(x[0] ** 2) - 0.5 * x[1] ** 2, 2)
    rng = np.random.default_rng(2)
    draws = Draws(np.stack([rng.standard_cauchy(5000), rng.standard_normal(5000)], axis=1))
    silenced = 0
    for seed in range(4):
        report = diagnose(target, draws, functionals=[Mean(), Variance(), Quantile(0.25), Quantile(0.75)], seed=seed)
        verdict = {(row.parameter, row.functional): row.verdict for row in report.rows}
        assert verdict["x[0]", "mean"] == verdict["x[0]", "variance"] == "untrusted"
        assert {verdict["x[1]", "mean"], verdict["x[1]", "variance"]} <= {"no error found", "within tolerance"}
        quantiles = {verdict["x[0]", "q0.25"], verdict["x[0]", "q0.75"]}
        assert "error" not in quantiles
        silenced += "untrusted" in quantiles  # chains far out in the tail are remembered in a third of the reports
    assert silenced <= 2


def far_fit():
    """An optimiser that stopped a hundred standard deviations away."""
    target = Target(lambda x: -0.5 * jnp.sum(x**2), 4, names=["a", "b", "c", "d"])
    return diagnose(target, Gaussian([100.0, 0.0, 0.0, 0.0], np.full(4, 0.1)), settings=Settings(budget=1, iterations=20))


def test_a_fit_in_the_wrong_place_is_told_so():
    report = far_fit()
    check = check_of(report, "near the posterior")
    assert not check.passed and 2500 < check.value <= 0.5 * 101**2
    assert report.far and report.verdict == "error"
    assert report.headline.startswith("The fit is far from the posterior") and "a, " in report.headline
    assert "Refit" in str(report.advice[0])
    with pytest.raises(DiagnosisError, match="far from the posterior"):
        report.raise_if(error_above=1e9, untrusted=False)


def test_a_converged_fit_is_never_far():
    """The best mean-field fit of a Gaussian, however correlated, has E log π = −d/2, as the target itself."""
    for correlation in (0.5, 0.99, 0.9999):
        precision = np.linalg.inv((1 - correlation) * np.eye(6) + correlation)
        target = Target(lambda x, p: -0.5 * x @ p @ x, 6, data=precision)
        report = diagnose(target, Gaussian(np.zeros(6), 1 / np.sqrt(np.diag(precision))))
        check = check_of(report, "near the posterior")
        assert check.passed and abs(check.value) < 6


def test_the_settle_test_is_paired():
    """Slow chains still move together by less than their spread: a paired test sees it, an unpaired one cannot."""
    rng = np.random.default_rng(4)
    early = 10 * rng.standard_normal(400)
    late = early + 0.1 + 0.3 * rng.standard_normal(400)
    paired, unpaired = stats.ttest_rel(late, early), stats.ttest_ind(late, early)
    z = mean_z(gained(np.stack([early, late], axis=1)[..., None], [0], [1]))
    assert z[0] == pytest.approx(paired.statistic, rel=1e-9)
    assert abs(unpaired.statistic) < 1 < abs(z[0])


class SomeRows:
    """A run of rows whose estimates at the round's 17 snapshots go straight from one number to another; all began at −7."""

    def __init__(self, ends, rounds=1, momentless=()):
        estimates = np.linspace(*np.array(ends, float).T, 17)
        self.summaries = np.stack([estimates, np.ones_like(estimates)], axis=1)
        self.judgement = SimpleNamespace(reference=np.full(len(ends), -7.0), unit=np.ones(len(ends)))
        self.walk = SimpleNamespace(full_rounds=rounds)
        self.momentless = np.isin(np.arange(len(ends)), momentless)


GOES_ON, COMES_BACK, NEAR = (-5.2, -4.6), (-4.6, -5.2), (-7.4, -6.8)


@pytest.mark.parametrize(
    ("run", "stern"),
    [
        (SomeRows([GOES_ON, COMES_BACK, NEAR]), [True, False, False]),
        (SomeRows([GOES_ON], rounds=2), [False]),  # chains that have gone twice as far have had their time
        (SomeRows([GOES_ON, GOES_ON], momentless=[0]), [False, True]),
        (SomeRows([GOES_ON, (np.nan, np.nan)]), [True, False]),
        (SomeRows([GOES_ON, (-4, -3), (-2, -1), (0, 1)]), [False, True, True, True]),  # the three that came furthest
    ],
)
def test_what_has_come_furthest_and_goes_on_is_looked_at_most_sternly(run, stern):
    assert _not_there_yet(run, *_ends(17)).tolist() == stern


def test_moments_of_what_is_bounded_exist_however_heavy_its_tails_look():
    """A probability, one of which draws have seen nothing large, a scale, a coordinate; and code that refuses to go so far."""
    x = np.random.default_rng(0).standard_t(1.5, (400, 1))

    def observed(positions, functions):
        with np.errstate(over="ignore"):
            return np.concatenate([1 / (1 + np.exp(-positions)), 1 / (1 + np.exp(40 - positions)), np.exp(positions), positions], axis=1)

    def refused(positions, functions):
        raise ValueError("no such place")

    def run_of(observe):
        begun, last = SimpleNamespace(), SimpleNamespace(positions=x, quantities=observed(np.clip(x, -5, 5), ()))
        seen = Seen(None, [begun, last], np.ones(400), 0)
        walk = SimpleNamespace(seen=seen, engine=SimpleNamespace(viewer=SimpleNamespace(observe=observe)))
        mean = SimpleNamespace(labels=range(4), functional=SimpleNamespace(label="mean"))
        questions = SimpleNamespace(functions=(), per_row=np.asarray, groups=[mean], reference_tails=np.ones(4))
        return Run(walk, questions, None, 0.95)

    assert run_of(observed).bounded.tolist() == [True, False, False, False]
    assert run_of(observed).momentless.tolist() == [False, True, True, True]
    assert run_of(refused).momentless.all()
