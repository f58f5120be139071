"""The chains on their way: they open by learning a metric, then walk in rounds, each to twice as far as the one before it.

Kept of the way: the starts, the snapshots of the latest round, and per-iteration summaries.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..formulas.correlation import squared_correlation
from ..moves.kernel import HMC
from ..moves.metric import Bent, Dense, Metric, same_kind
from ..moves.precondition import Improved, Preconditioner
from ..moves.straighten import LEAST_GAIN
from ..plan import FEWEST_LOOKS, LOOKS, MOST_LOOKS, MOST_PROBES, Plan
from . import gait
from .arrival import Seen, arrived
from .edges import meets_an_edge
from .machine.engine import Engine, Trace, return_freed_memory
from .machine.placement import agreed
from .machine.program import Chains

# The metric is learnt anew from the chains at these fractions of T: early states are bad for its estimate, but a metric
# from a bad approximation is worse, and the gradients are already paid for.
OPENING = (1 / 8, 1 / 4, 1 / 2)
NUMBERS_KEPT = 2 * 10**6  # in the positions at a round's snapshots
DOUBLE_GRADIENTS = 1000  # dimensions up to which the gradients at snapshots are kept in double precision


class Snapshot(NamedTuple):
    """All chains at one iteration: the user's quantities (N, k), flat positions and gradients (N, d), log densities (N,)."""

    iteration: int
    quantities: np.ndarray
    positions: np.ndarray
    gradients: np.ndarray
    logdensity: np.ndarray

    def of(self, chains: np.ndarray) -> "Snapshot":
        """The same of some chains."""
        return Snapshot(self.iteration, *(part[chains] for part in self[1:]))


class Waypoint(NamedTuple):
    """What is kept of every snapshot: each row's estimate, its standard error, and each quantity's ρ² with its start."""

    iteration: int
    estimate: np.ndarray
    error: np.ndarray
    rho2: np.ndarray


class Progress(NamedTuple):
    """What a progress callback is told after each block of iterations."""

    stage: str
    iteration: int
    planned: int
    acceptance: float
    rho2: float
    look: str = ""  # what the first look says, told once before the chains move


@dataclass
class Walk:
    """The one mutable object: `open()` once, then `round()` as often as needed."""

    engine: Engine
    preconditioner: Preconditioner
    plan: Plan
    starts: np.ndarray
    metric: Metric
    chains: Chains
    observe: Callable[[np.ndarray], np.ndarray]
    summarise: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    leave_out: bool = True
    on_progress: Callable[[Progress], None] | None = None
    save: Callable[["Walk"], None] = lambda walk: None  # wherever a killed run may go on

    def __post_init__(self):
        self.iteration = 0
        self.rounds = 0  # finished
        self.under_way = False  # in a round
        self.traces: list[Trace] = []
        self.origin = self.snapshot()
        self.snapshots: list[Snapshot] = [self.origin]  # of the latest round, its beginning first
        self.path: list[Waypoint] = []
        self.exploring = False  # by the kernel for chains that have arrived
        self.longer = False  # with trajectories of twice as many steps
        self.on_the_way = self.engine.kernel  # until then
        self.proposals = self.proposals_before = 0  # of each chain; at the beginning of the latest round
        self.noted: dict[str, float] = {}  # what the checks of the round before found
        self._edge_at: tuple[int, bool] = (-1, False)  # the iteration at which it was last asked, and the answer
        self._better_at: tuple[int, Improved | None] = (-1, None)

    def open(self) -> None:
        """To T/2, or before an early round to T/8, learning the metric on the way."""
        self._learn_on_the_way(OPENING[:1] if self.plan.early else OPENING, self.plan.iterations)
        self.snapshots = self.snapshots[-1:]
        self.save(self)

    def _learn_on_the_way(self, at: tuple[float, ...], iterations: int) -> None:
        """At fractions of so many iterations, as far as the last of them."""
        before = self.iteration
        for fraction in at:
            self._walk_to(before + int(iterations * fraction))
            if self.snapshots[-1].iteration > 0:
                self._learn()

    def round(self) -> None:
        """To the next goal (T/2 or T at first, then 2T, 4T, …), with snapshots on the way.

        A resumed walk may be under way already; what is behind it is passed over.
        """
        if not self.under_way:
            was_bent, begun = isinstance(self.metric, Bent), self.iteration
            if self.rounds > 0:
                self._learn()
            if isinstance(self.metric, Bent) and not was_bent and self.full_rounds > 0:
                # Learnt where the chains have been, the map opens to them where they have not: it is learnt again as they go there.
                self._learn_on_the_way(OPENING[1:], self.goal - self.iteration)
            self.snapshots = self.snapshots[-1:]
            self.chains, self.proposals_before = self.engine.counting_anew(self.chains), self.proposals
            gait.go_longer(self)
            gait.go_over(self)
            self.under_way = True
            if self.iteration > begun:
                self.save(self)
        first, goal = self.snapshots[0].iteration, self.goal
        for look in range(1, self.looks + 1):
            self._walk_to(first + (goal - first) * look // self.looks)
            if look < self.looks and look % (self.looks // FEWEST_LOOKS) == 0:
                self.save(self)
        self.rounds, self.under_way = self.rounds + 1, False
        self.save(self)

    @property
    def looks(self) -> int:
        """Snapshots in a round: as many as memory has room for, in whole quarters."""
        most = MOST_LOOKS if self.full_rounds > 0 and self.engine.kernel.uses_gradient else LOOKS  # else each costs gradients
        return int(np.clip(NUMBERS_KEPT // self.starts.size, FEWEST_LOOKS, most)) // FEWEST_LOOKS * FEWEST_LOOKS

    @property
    def nonfinite_share(self) -> float:
        """Of all proposals, those whose log density or gradient was NaN or infinite."""
        return float(np.mean(self.engine.host(self.chains.nonfinite)) / max(self.proposals, 1))

    @property
    def meets_an_edge(self) -> bool:
        """Of the support, where it has density; the answer costs gradients, so it is kept."""
        if self._edge_at[0] != self.iteration:
            self._edge_at = (self.iteration, meets_an_edge(self))
        return self._edge_at[1]

    @property
    def goal(self) -> int:
        """Where the round ends."""
        return self.plan.goal(self.rounds)

    @property
    def full_rounds(self) -> int:
        """Finished, but for the early one: 0 at its end, 1 at T, 2 at 2T, …"""
        return self.plan.full(self.rounds)

    def _walk_to(self, iteration: int) -> None:
        """As far as whole proposals go; a trajectory counts as its gradients, so that an iteration costs the same before and after."""
        each = self.engine.kernel.gradients_per_iteration if self.exploring else 1
        proposals = (iteration - self.iteration) // each
        if proposals <= 0:
            return

        def tell(done: int, trace: Trace) -> None:
            if self.on_progress is not None:
                rho2, here = float(trace.rho2[-1]), before + done * each
                stage = "first round" if self.full_rounds < 1 else f"running on, round {self.full_rounds}"
                self.on_progress(Progress(stage, here, max(self.goal, here), float(trace.acceptance[-1]), rho2))

        before = self.iteration
        return_freed_memory(self.starts.size)
        self.chains, trace = self.engine.advance(self._handed_over(), self.metric, self.starts, proposals, tell)
        self.iteration, self.proposals = before + proposals * each, self.proposals + proposals
        self.traces.append(Trace(*(np.repeat(part, each) for part in trace)))
        now = self.snapshot()
        self.snapshots.append(now)
        rho2 = squared_correlation(self.origin.quantities, now.quantities)
        self.path.append(Waypoint(self.iteration, *self.summarise(now.quantities), rho2))

    @property
    def newly_bent(self) -> bool:
        """Whether the chains' coordinates were bent in the opening: they have not yet gone far in coordinates learnt while so.

        Not where the map still gains little, or nothing any more: then it has opened nothing that was closed to them.
        """
        if not isinstance(self.metric, Bent) or self.full_rounds > 1:
            return False
        gain = self._improved().gain
        return gain is not None and gain >= LEAST_GAIN

    @property
    def seen(self) -> Seen:
        """What there is to judge: all chains, or (unless the paper's method is wanted) those that have arrived."""
        acceptance = self.engine.host(self.chains.accepted) / max(self.proposals - self.proposals_before, 1)
        kept = self.arrived()
        if kept.all():
            return Seen(self.origin, self.snapshots, acceptance, 0)
        return Seen(self.origin.of(kept), [snapshot.of(kept) for snapshot in self.snapshots], acceptance[kept], int(np.sum(~kept)))

    def arrived(self) -> np.ndarray:
        """Which chains have: all, where the paper's method is wanted."""
        if not self.leave_out:
            return np.ones(len(self.starts), bool)
        # In the chains' own coordinates, in which a funnel's mouth and neck are equally dense.
        return arrived(self.engine.host(self.chains.point.logdensity).astype(float), self.starts.shape[1])

    @property
    def could_be_straightened(self) -> bool:
        """Whether what the chains have seen by now would bend their coordinates, which were straight so far."""
        return isinstance(self.metric, Dense) and self._improved().gain is not None

    def _improved(self) -> Improved:
        """From as few of the latest snapshots as give enough draws; kept, because it is asked for more than once where they stand."""
        at, found = self._better_at
        if found is not None and at == self.iteration:
            return found
        latest = [snapshot for snapshot in self.seen.thinned().snapshots if snapshot.iteration > 0]
        chains, dim = len(latest[-1].positions), self.starts.shape[1]
        enough = max(1, -(-self.preconditioner.pilots(dim, chains) // chains))
        positions = np.concatenate([snapshot.positions for snapshot in latest[-enough:]])
        gradients = np.concatenate([snapshot.gradients for snapshot in latest[-enough:]])
        found = self.preconditioner.improved(self.metric, positions, gradients, chains)
        self._better_at = self.iteration, found
        return found

    def _learn(self) -> None:
        """A better metric, if there is one; the chains are carried on under it."""
        metric = self._improved().metric
        if metric is not self.metric:
            old, self.metric = self.metric, agreed_metric(metric)
            self.chains = self.engine.repoint(self.chains, old, self.metric)
            # Chains in flight towards the target accept any step; one that fits the flight would take long to come down again.
            longest = np.log(self.engine.kernel.initial_step(self.starts.shape[1]))
            self.chains = self.engine.with_steps(self.chains, np.minimum(self.engine.host(self.chains.log_step), longest))

    def use_kernel(self) -> None:
        """That for chains which have arrived or which have not, as they are."""
        self.engine = self.engine.under(gait.at_the_target(self) if self.exploring else self.on_the_way)

    def _handed_over(self) -> Chains:
        """The chains, not kept here as well: their memory can go as soon as they have moved."""
        chains = self.chains
        del self.chains
        return chains

    def snapshot(self) -> Snapshot:
        point = self.engine.flat(self.chains, self.metric)
        # At the origin they are the starts, which need no second copy.
        positions = self.engine.host(point.position).astype(float) if self.iteration else self.starts
        # A kernel without gradients still needs them here: checks and metrics are made of them.
        known = self.engine.kernel.uses_gradient
        gradients = self.engine.host(point.gradient) if known else np.nan_to_num(self.engine.evaluate(positions)[1])
        kept = float if positions.shape[1] <= DOUBLE_GRADIENTS else np.float32
        logdensity = self.engine.host(point.logdensity).astype(float)
        return Snapshot(self.iteration, self.observe(positions), positions, np.asarray(gradients, kept), logdensity)

    @property
    def step_length(self) -> float:
        """The step as a length in whitened space: the others' h is the variance of an increment, HMC's a leapfrog step."""
        step = float(np.exp(np.mean(self.engine.host(self.chains.log_step))))
        return step if isinstance(self.engine.kernel, HMC) else float(np.sqrt(step))

    @property
    def trace(self) -> Trace:
        return Trace.joined(self.traces)


def find_step(engine: Engine, chains: Chains, metric: Metric, starts: np.ndarray) -> float:
    """A first step size with an acceptance near its target, tried on pilot draws so that no iteration is wasted on it."""
    target = engine.kernel.target_acceptance
    log_step = float(engine.host(chains.log_step)[0])  # all begin with the same
    for _ in range(MOST_PROBES):
        trial = engine.with_steps(chains, log_step)
        acceptance = float(engine.advance(trial, metric, starts, 1)[1].acceptance[0])
        if acceptance > target / 2:
            break
        log_step -= np.log(4.0)
    return float(np.exp(log_step))


def agreed_metric(metric: Metric) -> Metric:
    """The first process's. Where rounding has led others to a map of another size, or to none, they take its kind first."""
    sizes = (metric.bend.select.shape[1], metric.bend.levels.shape[0]) if isinstance(metric, Bent) else (0, 0)
    return agreed(same_kind(metric, *agreed(np.array(sizes))))
