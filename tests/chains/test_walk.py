"""When chains learn their coordinates, and where the states that are judged begin."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taddaa import Fisher, Gaussian, Settings, Target, diagnose
from taddaa.moves.bend import Bend
from taddaa.moves.metric import Bent, Dense
from taddaa.moves.precondition import Improved
from taddaa.verdict.checks.run import Run
from taddaa.verdict.sharpening import gather

T = 64


def straight() -> Bend:
    return Bend(jnp.zeros(2), jnp.ones(2), jnp.zeros((2, 8)), *jnp.zeros((2, 8, 2)), jnp.zeros((3, 2)), *jnp.zeros((3, 2)))


@dataclass(frozen=True)
class BendsLate(Fisher):
    """Finds a map, which happens to be straight, when it is asked for the fourth time: after the opening's three and one round."""

    asked: tuple = ()

    def improved(self, metric, draws, gradients, chains):
        self.asked[0].append(type(metric))
        found = super().improved(Dense(metric.factor), draws, gradients, chains)
        return Improved(lambda: Bent(straight(), found.metric.factor), 0.0) if len(self.asked[0]) > 3 else found


@dataclass(frozen=True)
class Bends(Fisher):
    """Finds a map, which happens to be straight, and says that it gains so much; after the opening no more, if told so."""

    gain: float = 0.0
    asked: tuple = ()

    def improved(self, metric, draws, gradients, chains):
        found = super().improved(Dense(metric.factor), draws, gradients, chains)
        if self.asked:
            self.asked[0].append(type(metric))
        if self.asked and len(self.asked[0]) > 3:
            return found
        return Improved(lambda: Bent(straight()._replace(gain=jnp.asarray(self.gain)), found.metric.factor), self.gain)


def test_a_map_that_is_found_between_rounds_is_learnt_again_on_the_way():
    asked: list = []
    settings = Settings(preconditioner=BendsLate(straighten=False, asked=(asked,)), iterations=T, budget=1, kernel="barker", chains=100)
    target = Target(lambda x: -0.5 * jnp.sum(x**2), 2)
    walk = diagnose(target, Gaussian([0.0, 0.0], [1.0, 1.0]), settings=settings).continuation.walk
    assert asked == [Dense] * 3 and walk.snapshots[0].iteration == T // 2  # at T/8, T/4 and T/2
    with jax.enable_x64(True):
        assert walk.could_be_straightened and isinstance(walk.metric, Dense)  # asked without being changed
        walk.round()
        # At the end of the first round, and at a quarter and the half of the second, from where on states are judged.
        assert asked == [Dense] * 4 + [Bent] * 2
        assert walk.snapshots[0].iteration == 3 * T // 2 and walk.iteration == 2 * T
        assert not walk.could_be_straightened
        walk.round()
        assert asked == [Dense] * 4 + [Bent] * 3
        assert walk.snapshots[0].iteration == 2 * T and walk.iteration == 4 * T
    assert np.all(np.isfinite(walk.snapshots[-1].positions))


@pytest.mark.parametrize(
    ("gain", "lost", "budget", "rounds"),
    [(0.05, False, 4, 1), (0.5, False, 4, 2), (0.5, True, 4, 1), (0.5, False, 1, 1)],  # and not beyond the budget
)
def test_a_map_from_the_opening_asks_for_a_second_round_if_it_still_gains_much(gain, lost, budget, rounds):
    bends = Bends(straighten=False, gain=gain, asked=([],) if lost else ())
    settings = Settings(preconditioner=bends, iterations=T, budget=budget, kernel="barker", chains=100)
    report = diagnose(Target(lambda x: -0.5 * jnp.sum(x**2), 2), Gaussian([0.0, 0.0], [1.0, 1.0]), settings=settings)
    assert all(check.passed for check in report.checks)
    assert report.continuation.walk.rounds == rounds


@pytest.mark.parametrize(
    ("ripples", "preconditioner", "iterations", "longer"),
    [
        (0.5, "fisher", 400, True),
        (0.0, "fisher", 400, False),
        (0.5, "identity", 400, False),  # where no metric is learnt nobody knows what a quarter of a turn is
        (0.5, "fisher", 40, False),  # and a short round has no room
    ],
)
def test_trajectories_take_more_steps_where_acceptance_keeps_these_short(ripples, preconditioner, iterations, longer):
    """Ripples on a Gaussian, which no metric smooths, keep the steps short; without them a few long ones make a quarter of a turn."""
    target = Target(lambda x: jnp.sum(-0.5 * x**2 + ripples * jnp.cos(6 * x)), 20)
    settings = Settings(budget=1, iterations=iterations, chains=100, preconditioner=preconditioner)
    walk = diagnose(target, Gaussian(np.zeros(20), np.ones(20)), settings=settings).continuation.walk
    few = walk.engine.kernel.leapfrog
    with jax.enable_x64(True):
        walk.round()  # to 2 T, while the metric gets better
        assert walk.exploring and not walk.longer and walk.engine.kernel.leapfrog == few
        for _ in range(2):  # not longer and longer
            begun, proposals = walk.iteration, walk.proposals
            walk.round()
            assert walk.longer == longer and walk.engine.kernel.leapfrog == (2 * few if longer else few)
            assert walk.iteration - begun == (walk.proposals - proposals) * walk.engine.kernel.leapfrog  # each counts as its gradients
            if iterations == 40:
                break
    if preconditioner == "fisher":
        assert walk.engine.kernel.leapfrog * walk.step_length * 0.75 <= np.pi / 2 * (1 + 1e-9)
    if longer:
        seen = np.concatenate([snapshot.positions for snapshot in walk.snapshots[1:]])
        grid = np.linspace(-6, 6, 20_001)
        weight = np.exp(-0.5 * grid**2 + ripples * np.cos(6 * grid))
        assert np.mean(seen**2) == pytest.approx(np.sum(grid**2 * weight) / np.sum(weight), abs=0.03)


@pytest.mark.parametrize(("kernel", "beyond"), [("relay", 32), ("rwmh", 16)])
def test_rounds_beyond_t_have_more_looks_where_these_are_free(kernel, beyond):
    target = Target(lambda x: -0.5 * jnp.sum(x**2), 5)
    settings = Settings(budget=1, iterations=200, chains=60, kernel=kernel)
    there = diagnose(target, Gaussian(np.zeros(5), np.ones(5)), settings=settings).continuation
    walk = there.walk
    assert len(walk.snapshots) == 1 + 16
    with jax.enable_x64(True):
        walk.round()
    assert len(walk.snapshots) == 1 + beyond
    assert len(Run(walk, None, None, 0.95).seen.snapshots) == 1 + 16  # which checks look at
    assert gather(walk, there.questions).positions.shape[1] == beyond  # and intervals at all
    begun, later = walk.snapshots[0].iteration, [snapshot.iteration for snapshot in walk.snapshots[1:]]
    assert later[-1] >= 398 and np.ptp(np.diff([begun, *later])) <= walk.engine.kernel.gradients_per_iteration


def test_a_map_is_finished_only_where_it_is_used():
    made = []
    improved = Improved(lambda: made.append(1) or Dense(np.eye(2)), 0.3)
    assert improved.gain == 0.3 and not made
    assert improved.metric is improved.metric and made == [1] and not hasattr(improved, "_make")
