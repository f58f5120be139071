"""Settings: our defaults, the paper's, and what is refused."""

import dataclasses

import numpy as np
import pytest

import taddaa
from taddaa import HMC, MALA, Barker, Fisher, FromApproximation, Identity, InputError, Settings
from taddaa.settings import GRADIENTS_CHECKED
from taddaa.verdict import gradients


def test_defaults():
    settings = Settings()
    assert isinstance(settings.kernel, Barker)
    assert isinstance(settings.preconditioner, Fisher)
    assert (settings.level, settings.simultaneous, settings.variance_interval) == (0.95, True, "bonett")
    assert (settings.mean_tolerance, settings.variance_tolerance) == (0.1, 0.15)
    assert settings.precision == "float64"
    assert settings.budget > 1


def test_the_papers_settings():
    paper = Settings.paper()
    assert isinstance(paper.kernel, Barker)
    assert isinstance(paper.preconditioner, FromApproximation)
    assert (paper.variance_interval, paper.simultaneous, paper.checks) == ("chi2", False, "correlation")
    assert (paper.budget, paper.states, paper.level) == (1, 1, 0.95)
    plan = paper.plan(11)
    assert (plan.chains, plan.iterations, plan.most_iterations) == (387, 111, 111)


def test_the_papers_settings_can_be_changed():
    changed = Settings.paper(kernel="mala", chains=50)
    assert isinstance(changed.kernel, MALA)
    assert (changed.chains, changed.variance_interval) == (50, "chi2")
    assert Settings.paper(kernel="hmc").kernel == HMC(leapfrog=10, jitter=0.0)
    assert Settings(kernel="hmc").kernel.jitter > 0


def test_names_and_objects_mean_the_same():
    assert Settings(kernel="barker") == Settings(kernel=Barker())
    assert Settings(preconditioner="identity").preconditioner == Identity()
    assert Settings(preconditioner="approximation").preconditioner == FromApproximation()
    assert Settings(preconditioner="fisher").preconditioner == Fisher()


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().level = 0.9


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kernel", "gibbs"),
        ("kernel", 3),
        ("preconditioner", "diagonal"),
        ("preconditioner", Barker()),
        ("variance_interval", "t"),
        ("checks", "none"),
        ("precision", "float16"),
        ("level", 0.0),
        ("level", 1.0),
        ("level", 95),
        ("level", "0.95"),
        ("level", float("nan")),
        ("mean_tolerance", 0.0),
        ("mean_tolerance", float("inf")),
        ("variance_tolerance", -0.1),
        ("budget", 0.5),
        ("budget", float("nan")),
        ("chains", 0),
        ("chains", 1),
        ("chains", 387.0),
        ("chains", True),
        ("iterations", 0),
        ("iterations", 2.5),
        ("states", 0),
        ("states", 33),
    ],
)
def test_refused(field, value):
    shown = "Barker" if isinstance(value, Barker) else repr(value)
    with pytest.raises(InputError, match=rf"{field} must .*got .*{shown}"):
        Settings(**{field: value})


def test_refused_by_the_papers_settings_too():
    with pytest.raises(InputError, match="level must lie strictly between 0 and 1"):
        Settings.paper(level=1.5)


@pytest.mark.parametrize(
    ("arguments", "message"), [({"leapfrog": 0}, "leapfrog"), ({"leapfrog": 2.0}, "leapfrog"), ({"jitter": 1.0}, "jitter")]
)
def test_hmc_refuses(arguments, message):
    with pytest.raises(InputError, match=message):
        HMC(**arguments)


@pytest.mark.parametrize("kernel", ["barker", "hmc", "rwmh"])
@pytest.mark.parametrize("allowed", [12_000, 25_000])
def test_a_budget_of_gradients_is_kept_and_told(kernel, allowed):
    """Shifted so far that chains would run on: what is counted at the end is within what was allowed, and most of it is used."""
    target = taddaa.Target(lambda x: -0.5 * x @ x, dim=4)
    settings = taddaa.Settings(kernel=kernel, gradients=allowed, budget=64)
    report = taddaa.diagnose(target, taddaa.Gaussian(np.full(4, 30.0), np.full(4, 0.01)), settings=settings)
    assert report.cost.gradients <= allowed
    assert 50 <= report.provenance.chains <= 194
    assert any(f"gradients={allowed:,} pays for {report.provenance.chains} chains (194 without it)" in note for note in report.notes)


def test_chains_of_a_budget_of_gradients_can_be_resumed_beyond_it():
    target = taddaa.Target(lambda x: -0.5 * x @ x, dim=2)
    fit, settings = taddaa.Gaussian(np.zeros(2), np.ones(2)), taddaa.Settings(gradients=4_000, iterations=20, budget=1)
    report = taddaa.diagnose(target, fit, settings=settings)
    further = report.resume(budget=4)
    assert further.provenance.chains == report.provenance.chains < 194
    assert further.cost.iterations > report.cost.iterations and further.cost.gradients > report.cost.gradients


def test_more_gradients_plan_more_chains_and_then_more_iterations():
    plans = [taddaa.Settings(gradients=count).plan(10) for count in (10_000, 18_000, 40_000, 10**7)]
    free = taddaa.Settings().plan(10)
    assert plans[0].chains < plans[1].chains < plans[2].chains == free.chains
    assert plans[2].iterations <= plans[2].most_iterations < free.most_iterations
    assert plans[3] == free
    assert all(plan.iterations == free.iterations <= plan.most_iterations for plan in plans)


def test_the_plan_knows_what_the_check_of_the_gradient_takes():
    assert GRADIENTS_CHECKED == 2 * gradients.STATES


def test_too_few_gradients_are_refused_with_what_is_needed():
    with pytest.raises(taddaa.InputError, match=r"at least 5,\d\d\d for 50 chains × 107 iterations .* got 1,000; .*glance"):
        taddaa.Settings(gradients=1000).plan(10)
    with pytest.raises(taddaa.InputError, match="gradients must be a whole number"):
        taddaa.Settings(gradients=0.5)
    with pytest.raises(taddaa.InputError, match="does not go with other_starts"):
        target, fit = taddaa.Target(lambda x: -0.5 * x @ x, dim=2), taddaa.Gaussian(np.zeros(2), np.ones(2))
        taddaa.diagnose(target, fit, settings=taddaa.Settings(gradients=50_000), other_starts="inflated")
