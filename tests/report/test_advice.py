"""Advice is followed to its end: each kind helps, none is given twice, and every line can be pasted."""

import shlex
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import taddaa
from sample_reports import demo_report, doubtful_report
from taddaa import Fisher, Gaussian, InputError, Relay, Report, Settings, StudentT, Target, Variance
from taddaa.cli import main
from taddaa.cli.parser import parser
from taddaa.report.advice import ALL_CHECKS, CHAINS, CURE, FULL, KNOWN, STEPS, TIME, USE, USUAL, tried_settings


def normal(x):
    return -0.5 * jnp.sum(x**2)


def follow(report, one, **names):
    """Paste the line of Python; the report or approximation that it makes."""
    scope = {"taddaa": taddaa, "report": report, **names}
    exec(one.python, scope)
    return scope


def kinds(report):
    return [one.kind for one in report.advice]


def test_the_usual_settings_are_those_of_settings():
    assert {name: str(getattr(Settings(), name)) for name in USUAL} == USUAL
    about = taddaa.diagnose(normal, Gaussian([0.0], [1.0]), settings=Settings(chains=20, level=0.9, budget=2.5)).provenance
    assert tried_settings(about) == {**USUAL, "chains": "20", "level": "0.9", "budget": "2.5"}


def test_a_report_that_can_be_used_says_so():
    assert kinds(demo_report()) == [USE]


# More time ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short():
    """Chains on their way, stopped after four iterations."""
    target, approximation = Target(normal, 2), Gaussian([5.0, 0.0], [0.3, 1.0])
    return target, approximation, taddaa.diagnose(target, approximation, settings=Settings(chains=80, iterations=4, budget=1))


def test_more_time_is_followed_until_it_helps(short):
    _, _, report = short
    given, spent = [], [report.cost.gradients]
    while report.advice[0].kind == TIME:
        given.append(report.advice[0].python)
        report = follow(report, report.advice[0])["report"]
        spent.append(report.cost.gradients)
    assert len(set(given)) == len(given) >= 1
    assert spent == sorted(set(spent))
    assert report.usable and report.rows[0].verdict == "error"
    assert report.rows[0].corrected_lower < 0 < report.rows[0].corrected_upper


def test_a_resumed_report_is_that_of_the_larger_budget(short):
    """The chains go on as they would have gone, up to the looks whose level was shared otherwise."""
    target, approximation, report = short
    whole = taddaa.diagnose(target, approximation, settings=Settings(chains=80, iterations=4, budget=2))
    resumed = report.resume(budget=2)
    np.testing.assert_allclose(resumed.moved_draws, whole.moved_draws)
    assert (resumed.cost.iterations, resumed.cost.gradients) == (whole.cost.iterations, whole.cost.gradients)
    assert [row.verdict for row in resumed.rows] == [row.verdict for row in whole.rows]
    again = report.resume(budget=2)  # the first report's chains still stand where they stood
    np.testing.assert_array_equal(again.moved_draws, resumed.moved_draws)
    assert tried_settings(resumed.provenance)["budget"] == "2"


def test_what_cannot_be_resumed_says_why(short):
    target, approximation, report = short
    with pytest.raises(InputError, match="budget must be at least 2 for the chains to go on"):
        report.resume(budget=1.5)
    with pytest.raises(InputError, match="resume needs the process that made the report"):
        Report.from_json(report.to_json()).resume(budget=4)
    both = taddaa.diagnose(target, approximation, settings=Settings(chains=80, iterations=4, budget=1), other_starts="inflated")
    with pytest.raises(InputError, match="second arm"):
        both.resume(budget=4)
    stored = Report.from_json(report.to_json()).advice[0]
    assert stored.python == "report = taddaa.diagnose(target, approximation, settings=taddaa.Settings(chains=80, iterations=4, budget=4))"


def test_the_ladder_ends_without_repeating_a_rung():
    """A target that no kernel settles on: the advice climbs and then hands over, and never gives what has just failed."""
    stubborn = replace(doubtful_report(), continuation=None)
    seen, rung = [], {"kernel": Relay().label, "budget": 16.0}
    for _ in range(20):
        gone = int(2 ** np.floor(np.log2(rung["budget"])))
        report = replace(
            stubborn,
            cost=replace(stubborn.cost, planned_iterations=10, iterations=10 * gone),
            provenance=replace(stubborn.provenance, kernel=rung["kernel"], settings=f"chains=None, budget={rung['budget']:g}"),
        )
        one = report.advice[0]
        if one.kind == FULL:
            break
        settings = eval(one.python.partition("settings=")[2][:-1], {"taddaa": taddaa})
        rung = {"kernel": settings.kernel.label, "budget": float(settings.budget)}
        assert rung not in seen
        seen.append(rung)
    assert [(r["kernel"], r["budget"]) for r in seen] == [(Relay().label, 64), ("HMC", 16), ("HMC", 64)]


def test_longer_steps_are_advised_and_help():
    """Chains without a preconditioner creep along a ridge; after 64 times the plan HMC is tried, and comes to rest."""
    scale = jnp.array([1.0, 15.0])
    target, approximation = Target(lambda x: normal(x / scale), 2), Gaussian([0.0, 0.0], [1.0, 15.0])
    report = taddaa.diagnose(target, approximation, settings=Settings(chains=60, preconditioner="identity", iterations=1, budget=64))
    assert "untrusted" in {row.verdict for row in report.rows} and report.advice[0].kind == STEPS
    assert "kernel='hmc'" in report.advice[0].python and "preconditioner='identity'" in report.advice[0].python
    longer = follow(report, report.advice[0], target=target, approximation=approximation)["report"]
    while longer.advice[0].kind == TIME:
        longer = follow(longer, longer.advice[0])["report"]
    assert not {row.verdict for row in longer.rows} & {"untrusted", "error"} and longer.provenance.kernel == "HMC"


# The other limits ---------------------------------------------------------------------------------------------------------


def test_more_chains_narrow_intervals():
    target, approximation = Target(normal, 2), Gaussian([0.0, 0.0], [1.0, 1.0])
    report = taddaa.diagnose(target, approximation, settings=Settings(chains=12, interval="plain"))
    assert report.advice[0].kind == CHAINS
    more = follow(report, report.advice[0], target=target, approximation=approximation)["report"]
    assert more.provenance.chains >= 100
    assert next(check for check in more.checks if check.name == "narrow enough").passed
    assert "untrusted" not in {row.verdict for row in more.rows}


def test_heavy_tails_are_told_to_ask_for_quantiles():
    target = Target(lambda x: -1.25 * jnp.sum(jnp.log1p(x**2 / 1.5)), 2)  # a t distribution with 1.5 degrees of freedom
    approximation = StudentT(np.zeros(2), np.ones(2), 1.5)
    report = taddaa.diagnose(target, approximation, [Variance()], settings=Settings(chains=387), seed=1)
    assert report.verdict == "untrusted" and any("quantiles" in one.words for one in report.advice)
    cure = next(one for one in report.advice if "quantiles" in one.words)
    asked = follow(report, cure, target=target, approximation=approximation)["report"]
    assert next(check for check in asked.checks if check.name == "moments exist").passed
    assert any(row.verdict != "untrusted" for row in asked.rows if row.functional == "q0.5")  # chains far out in tails come back slowly
    assert not any("quantiles" in one.words for one in asked.advice)


def test_a_fit_in_the_wrong_place_is_fitted_again_from_the_handover():
    target = Target(normal, 2)
    report = taddaa.diagnose(target, Gaussian([90.0, 0.0], [0.01, 1.0]), settings=Settings(chains=80, budget=1))
    assert report.far and report.advice[0].kind == CURE
    nearer = follow(report, report.advice[0])["approximation"]
    assert not taddaa.diagnose(target, nearer, settings=Settings(chains=80)).far


def test_a_funnel_is_told_to_reparametrise_and_that_helps():
    def funnel(x):
        return -0.5 * (x[0] / 3) ** 2 - 0.5 * jnp.sum((x[1:] * jnp.exp(-x[0] / 2)) ** 2) - 4.5 * x[0]

    settings = Settings(chains=100, preconditioner=Fisher(straighten=False))
    report = taddaa.diagnose(Target(funnel, 10), Gaussian(np.zeros(10), np.ones(10)), settings=settings)
    assert "untrusted" in {row.verdict for row in report.rows}
    assert "Reparametrise" in report.advice[0].words and TIME not in kinds(report)  # more of the same steps would not help
    straight = taddaa.diagnose(Target(normal, 10), Gaussian(np.zeros(10), np.ones(10)), settings=settings)
    assert straight.usable


def test_a_bounded_parameter_is_told_to_be_moved_to_an_unbounded_scale():
    bounded = Target(lambda x: jnp.where(x[0] > 0, 0.5 * jnp.log(jnp.maximum(x[0], 0)) - x[0], jnp.nan), 1)
    report = taddaa.diagnose(bounded, Gaussian([0.5], [1.5]), settings=Settings(chains=80))
    assert any("unbounded scale" in one.words for one in report.advice)
    free = Target(lambda y: 1.5 * y[0] - jnp.exp(y[0]), 1, constrain=jnp.exp, names=["x[0]"])
    assert taddaa.diagnose(free, Gaussian([0.0], [0.8]), settings=Settings(chains=80)).usable


def test_where_starts_disagree_a_fit_from_the_others_helps():
    """Two modes, a fit of one: chains from elsewhere end elsewhere. A fit made of both is judged without that doubt."""

    def two_modes(x):
        return jnp.logaddexp(normal(x - 6), normal(x + 6))

    target, settings = Target(two_modes, 1), Settings(chains=100)
    report = taddaa.diagnose(target, Gaussian([6.0], [1.0]), settings=settings, other_starts=Gaussian([-6.0], [1.0]))
    assert not next(check for check in report.checks if check.name == "arms agree").passed
    assert any("fit again from other starts" in one.words for one in report.advice)
    draws = np.random.default_rng(0).standard_normal((2000, 1)) + np.repeat([[6.0], [-6.0]], 1000, axis=0)
    both = taddaa.diagnose(target, taddaa.Draws(draws), settings=settings, other_starts="inflated")
    assert next(check for check in both.checks if check.name == "arms agree").passed
    assert not any("fit again from other starts" in one.words for one in both.advice)


def test_after_the_papers_one_check_all_are_advised():
    target, approximation = Target(normal, 2), Gaussian([1.0, 0.0], [1.0, 1.0])
    report = taddaa.diagnose(target, approximation, settings=Settings.paper(chains=80))
    assert report.advice[0].kind == ALL_CHECKS
    assert follow(report, report.advice[0], target=target, approximation=approximation)["report"].usable


# The shell ----------------------------------------------------------------------------------------------------------------

FILE = """
import jax.numpy as jnp
import taddaa

def problem():
    return lambda x: -jnp.sum(x**2) / 2, taddaa.Gaussian([5.0, 0.0], [0.3, 1.0])
"""


def test_the_shells_line_helps_as_well(tmp_path, monkeypatch):
    (tmp_path / "FILE.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    options = ["--chains", "80", "--iterations", "4", "--budget", "1"]
    assert main(["run", "FILE.py", *options, "--quiet", "--json", "r.json", "--fail-above", "99"]) == 3
    for _ in range(4):
        one = Report.from_json("r.json").advice[0]
        if one.kind != TIME:
            break
        code = main([*shlex.split(one.shell)[1:], "--quiet", "--json", "r.json"])
    assert code == 1 and Report.from_json("r.json").usable


def test_every_setting_is_an_option_and_every_line_is_understood():
    options = parser().parse_args(["run", "FILE.py"])
    assert set(Settings.__dataclass_fields__) <= set(vars(options)) | UNNAMED
    settings = replace(doubtful_report().provenance, settings="simultaneous=False, level=0.9, budget=1, states=2, mean_tolerance=0.2")
    for one in replace(doubtful_report(), provenance=settings).advice:
        if one.shell.startswith("taddaa"):
            parser().parse_args(shlex.split(one.shell, comments=True)[1:])
    chosen = parser().parse_args(shlex.split(replace(doubtful_report(), provenance=settings).advice[0].shell)[1:])
    assert (chosen.simultaneous, chosen.level, chosen.states, chosen.mean_tolerance, chosen.budget) == (False, 0.9, 2, 0.2, 4)


UNNAMED: set[str] = set()  # settings without an option


# The handover -------------------------------------------------------------------------------------------------------------


def test_the_handover_is_in_the_json(short):
    report = short[2]
    again = Report.from_json(report.to_json()).handover
    for ours, theirs in zip(report.handover, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert Report.from_json(replace(report, handover=None).to_json()).handover is None
    with pytest.raises(InputError, match="handover"):
        Report.from_json(report.to_json().replace('"handover": {"starts": [[', '"handover": {"starts": [[1.0, '))


def test_a_large_mass_matrix_is_kept_by_its_diagonal(short):
    large = short[2].handover._replace(starts=np.zeros((2, 501)), inverse_mass=np.diag(np.arange(501.0)))
    again = Report.from_json(replace(short[2], handover=large).to_json()).handover
    np.testing.assert_array_equal(again.inverse_mass, np.arange(501.0))


@pytest.mark.parametrize(("unknown", "said"), [(0, "all 20"), (1, "19 of 20"), (2, "18 of 20"), (3, "")])
def test_where_all_but_a_few_right_values_are_known_they_come_first(unknown, said):
    report = doubtful_report()
    rows = [replace(report.rows[0], corrected=np.nan if i < unknown else 1.0) for i in range(20)]
    first = replace(report, rows=tuple(rows)).advice[0]
    assert (first.kind == KNOWN) == bool(said) and said in first.words
    assert first.kind != KNOWN or ("the other" in first.words) == bool(unknown)
    far = replace(
        report, rows=tuple(rows), checks=tuple(replace(check, passed=check.name != "near the posterior") for check in report.checks)
    )
    assert far.far and far.advice[0].kind != KNOWN
