"""What follows from failed checks, and that a new check is one class and its place in a list."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from taddaa.verdict.checks.check import Check, Checker, Silences
from taddaa.verdict.checks.registry import ALL, NAMED, caveats, condemning, examine, failures, question, remedies, worth_running_on
from taddaa.verdict.outcome import verdicts


def result(name: str, passed: bool = False, **changes) -> Check:
    """A result of the check with this name, as it comes when it fails."""
    return replace(NAMED[name].found(passed, 1.0, 0.0, f"{name} failed", np.array([0])), **changes)


def judged(*bounds: float):
    none = np.zeros(len(bounds), bool)
    return SimpleNamespace(bound=np.array(bounds), unknown=none, unseen=none, within=none)


def test_chains_run_on_only_for_what_iterations_cure():
    assert worth_running_on([result("settled")], looks=5, before={})
    assert not worth_running_on([result("settled", passed=True)], looks=1, before={})
    assert not worth_running_on([result("moments exist"), result("arms agree"), result("all chains move")], looks=1, before={})


def test_wide_intervals_alone_are_not_waited_for():
    assert not worth_running_on([result("narrow enough")], looks=1, before={})


def test_memory_of_a_narrow_part_gets_two_looks():
    narrow = result("all chains move", passed=True, slow_for_good=True)
    assert worth_running_on([narrow, result("forgot the start")], looks=1, before={})
    assert not worth_running_on([narrow, result("forgot the start")], looks=2, before={})
    assert worth_running_on([narrow, result("settled")], looks=2, before={})
    assert "too narrow" in caveats([narrow])[0] and caveats([replace(narrow, passed=False)]) == []


def test_each_remedy_is_given_once():
    failed = [result("all chains move"), result("narrow enough"), result("settled"), result("acceptance", passed=True)]
    (time, *_), (reparametrise, *_) = remedies(failed)
    assert "more time" in time and "Reparametrise" in reparametrise
    assert remedies([result("acceptance", passed=True)]) == []


@pytest.mark.parametrize(
    ("name", "silenced"),
    [
        ("settled", [True, False, False]),
        ("moments exist", [True, False, False]),
        ("forgot the start", [False, False, False]),  # it names a row that has a bound
        ("narrow enough", [False, False, False]),
    ],
)
def test_a_check_silences_what_it_says(name, silenced):
    found = verdicts(judged(1.0, 0.0, 2.0), [result(name)])
    assert [verdict == "untrusted" for verdict, _ in found] == silenced


@pytest.mark.parametrize("checker", ALL, ids=lambda checker: checker.name)
def test_results_agree_with_what_the_check_says_of_itself(checker):
    found = checker.found(False, 1.0, 0.0, "it failed")
    assert (found.only_zero, found.rows) == ("without a bound" in checker.silences.value, None)
    silenced = [verdict == "untrusted" for verdict, _ in verdicts(judged(1.0, 0.0), [found])]
    assert silenced == ([False, True] if found.only_zero else [True, True])


def test_what_does_not_lessen_is_not_waited_for():
    memory = result("forgot the start")
    assert worth_running_on([memory], 3, {}) and worth_running_on([memory], 3, {memory.name: 2 * memory.value})
    assert not worth_running_on([memory], 3, {memory.name: memory.value})
    assert worth_running_on([memory], 2, {memory.name: memory.value})
    assert not worth_running_on([memory, result("settled")], 3, {memory.name: memory.value, "settled": 1.0})
    assert worth_running_on([memory, result("settled")], 3, {memory.name: memory.value, "settled": 2.0})


@pytest.mark.parametrize(
    ("before", "now", "others", "onward"),
    [
        (10, 10, 0, False),  # as many of a hundred rows move as before, whatever the largest drift is
        (10, 8, 0, True),
        (3, 3, 0, True),  # so few may fail by chance, twice
        (80, 80, 0, False),
        (80, 80, 1, True),  # all are on their way, and went too far too: what they drift tells how they get on
        (10, 10, 1, False),
    ],
)
def test_rows_that_go_on_moving_are_not_waited_for(before, now, others, onward):
    moving = lambda count, value: result("settled", value=value, rows=tuple(range(count)), each=(0.0,) * 100)  # noqa: E731
    beside = [result("no overshoot", value=6.0)] * others  # not less than before
    then = failures([moving(before, 8.0), *beside])
    assert worth_running_on([moving(now, 5.0), *beside], 3, then) == onward
    assert worth_running_on([moving(now, 5.0), *beside], 2, then)
    assert not worth_running_on([moving(now, 8.0), *beside], 3, then)
    assert worth_running_on([moving(now, 3.9), *beside], 3, then)  # a drift that has halved tells that they get on


@pytest.mark.parametrize(("remembering", "onward"), [((0, 1), False), ((0, 90), True), (None, True)])
def test_memory_of_rows_that_go_on_moving_is_not_waited_for(remembering, onward):
    """As of factors that may be turned: as many rows move as before, and what some of them remember has become less by chance."""
    moving = result("settled", value=5.0, rows=tuple(range(30)), each=(0.0,) * 100)
    memory = result("forgot the start", value=0.2, rows=remembering, each=(0.0,) * 100)
    before = failures([replace(moving, value=6.0), replace(memory, value=0.4)])
    assert worth_running_on([moving, memory], 3, before) == onward
    assert worth_running_on([moving, memory], 2, before)
    assert worth_running_on([memory], 3, before)  # where nothing moves it is cured by time
    assert worth_running_on([replace(moving, value=2.0), memory], 3, before)  # and a drift that has halved goes on to


def test_a_stored_check_that_is_not_known_is_passed_over():
    unknown = Check("of a later version", False, 1.0, 0.0, "who knows")
    assert (question(unknown), condemning([unknown]), remedies([unknown])) == ("", None, [])


def test_a_new_check_is_one_class():
    class Lonely(Checker):
        name = "not lonely"
        question = "Are there chains enough?"
        should_be = "above 10"
        remedy = "Take more chains."
        silences = Silences.RUN

        def applies(self, run):
            return run.walk is not None

        def examine(self, run):
            return self.found(run.walk.chains > 10, run.walk.chains, 10, "too few chains")

    few, none = SimpleNamespace(walk=SimpleNamespace(chains=3)), SimpleNamespace(walk=None)
    (check,) = examine(few, [Lonely()])
    assert (check.name, check.passed, check.value, check.rows) == ("not lonely", False, 3, None)
    assert examine(none, [Lonely()]) == []
