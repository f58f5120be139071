"""Is part of the target too narrow for the chains' common step?"""

import numpy as np

from ...formulas.distributions import rank_correlation
from ...formulas.zscore import mean_z
from .check import Check, Checker, Silences
from .run import Run

NARROW_CUTOFF = 0.6  # well-scaled targets give −0.5 to 0.5, funnels 0.7 to 0.9
CHANGE_CUTOFF = 2.5  # standard errors, for the forces' mean and spread in such targets: exact starts give 0 to 2, wrong ones 5 to 20
STILL, STILL_SHARE = 0.25, 0.02  # of the wanted acceptance; of the chains (a funnel's neck holds 5 to 10 % that accept next to nothing)
LAGGING = 1 / 3  # of the median chain's acceptance: with short steps a neck lets some through
MEMORY_CUTOFF = 0.2  # rank correlation of a chain's force at the two ends of the round


class AllChainsMove(Checker):
    """Is part of the target too narrow for the shared step, and has the share of chains there changed?

    In a well-scaled target a chain's acceptance rises with the force on it, or does not depend on it; in a funnel's neck
    it falls, and chains neither enter nor leave. It is seen by the rank correlation, over chains, of rejected proposals with
    the log norm of the whitened gradient. Where these norms have the mean and spread that they had at the start, the chains
    that stand still stand where they belong; where they changed, the exchange with the neck must be over: all chains move, without
    drift within the last round and without memory of the round's beginning.
    """

    name = "all chains move"
    question = "Is part of the target too narrow for the common step, and does the share of chains there still change?"
    detail = "It is where proposals are rejected because forces are strong, as in the neck of a funnel (a rank correlation over 0.6)."
    measures = "standard errors of change in the forces"
    should_be = "below 2.5 standard errors in the forces' mean and spread"
    remedy = "Reparametrise (non-centred hierarchies, logs of scales): part of the target is too narrow for one step size."
    silences = Silences.RUN
    caveat = (
        "part of the target is too narrow for the chains' common step; the share of chains there stayed as the approximation "
        "has it, but one that lacks a small part of it could go unnoticed"
    )

    def examine(self, run: Run) -> Check:
        from ...moves.metric import force  # a stored report knows its checks without loading JAX

        walk = run.walk
        seen = (run.seen.origin, *run.seen.snapshots[1:])
        at_start, *late = [force(walk.metric, snapshot.positions, snapshot.gradients) for snapshot in seen]
        forces, rejected = np.mean(late, axis=0), 1 - run.seen.acceptance
        varied = np.ptp(rejected) > 0 and np.ptp(forces) > 0
        narrow = bool(varied and rank_correlation(rejected, forces) >= NARROW_CUTOFF)
        since_start = _change(at_start, late)
        # Not from the round's beginning: the metric was learnt there, and fits those states too well.
        within = _change(late[0], late[len(late) // 2 :])
        little = max(STILL * walk.engine.kernel.target_acceptance, LAGGING * float(np.median(run.seen.acceptance)))
        stand_still = np.mean(run.seen.acceptance < little) > STILL_SHARE
        if narrow and (stand_still or rank_correlation(late[0], late[-1]) > MEMORY_CUTOFF):
            within = np.inf  # what hardly moves cannot be seen to drift
        change = min(since_start, within) if narrow else 0.0
        return self.found(
            change < CHANGE_CUTOFF,
            change,
            CHANGE_CUTOFF,
            "part of the target is too narrow for the chains' common step, so they can hardly enter or leave it",
            more_iterations=bool(np.isfinite(within)),  # the exchange is under way
            slow_for_good=narrow,
        )


def _change(before: np.ndarray, after: list[np.ndarray]) -> float:
    """Of the forces' mean and spread, in standard errors over chains, the larger."""
    spread = np.mean((after - np.mean(after)) ** 2, axis=0) - (before - before.mean()) ** 2
    return float(np.abs(mean_z(np.stack([np.mean(after, axis=0) - before, spread], axis=1))).max())
