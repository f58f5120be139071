"""Is part of the target too narrow for the chains' common step?"""

import numpy as np

from ...formulas.distributions import rank_correlation
from ...formulas.zscore import mean_z
from .check import Check, Checker, Silences
from .run import Run

NARROW_CUTOFF = 0.6  # well-scaled targets give −0.5 to 0.5, funnels 0.7 to 0.9
CHANGE_CUTOFF = 2.5  # standard errors, for the forces' mean and spread in such targets: exact starts give 0 to 2, wrong ones 5 to 20


class AllChainsMove(Checker):
    """Is part of the target too narrow for the shared step, and has the share of chains there changed?

    In a well-scaled target a chain's acceptance rises with the force on it, or does not depend on it; in a funnel's neck
    it falls, and chains neither enter nor leave. It is seen by the rank correlation, over chains, of rejected proposals with
    the log norm of the whitened gradient. Where these norms have the mean and spread that they had at the start, the chains
    that stand still stand where they belong; otherwise the slow exchange with the neck is still under way.
    """

    name = "all chains move"
    question = "Is part of the target too narrow for the common step, and has the share of chains there changed?"
    detail = "It is where proposals are rejected because forces are strong, as in the neck of a funnel (a rank correlation over 0.6)."
    should_be = "below 2.5 standard errors in the forces' mean and spread"
    remedy = "Reparametrise (non-centred hierarchies, logs of scales): part of the target is too narrow for one step size."
    silences = Silences.RUN
    caveat = (
        "part of the target is too narrow for the chains' common step; the share of chains there stayed as the approximation "
        "has it, but one that lacks a small part of it could go unnoticed"
    )

    def examine(self, run: Run) -> Check:
        walk = run.walk
        at_start, *late = [walk.engine.force(snapshot.gradients, walk.metric) for snapshot in (walk.origin, *walk.snapshots[1:])]
        force, rejected = np.mean(late, axis=0), 1 - walk.acceptance_of_chains
        varied = np.ptp(rejected) > 0 and np.ptp(force) > 0
        narrow = bool(varied and rank_correlation(rejected, force) >= NARROW_CUTOFF)
        gained = np.stack([force - at_start, np.mean((late - np.mean(late)) ** 2, axis=0) - (at_start - at_start.mean()) ** 2], axis=1)
        change = float(np.abs(mean_z(gained)).max()) if narrow else 0.0
        return self.found(
            change < CHANGE_CUTOFF,
            change,
            CHANGE_CUTOFF,
            "part of the target is too narrow for the chains' common step, so they can hardly enter or leave it",
            slow_for_good=narrow,
        )
