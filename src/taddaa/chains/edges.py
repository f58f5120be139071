"""Do chains meet an edge of the support that has density? Stein's identity and the balance of forces do not hold there."""

from typing import TYPE_CHECKING

import numpy as np

from ..moves.metric import enter, on_host, places_of

if TYPE_CHECKING:
    from ..chains.walk import Walk

RARE = 0.001  # of proposals, or of steps from where the chains stand: an edge with density is met by more
REACH = 0.5  # of a whitened standard deviation in each coordinate


def meets_an_edge(walk: "Walk") -> bool:
    """Proposals without a finite density are beyond an edge, or the ends of trajectories gone wild, which say nothing of one.

    Short steps from where the chains stand tell which: they leave the support only where it is near. They cost a gradient for each
    of the round's late states, and are taken only where there were such proposals.
    """
    return walk.nonfinite_share > RARE and _beyond(walk) > RARE


def _beyond(walk: "Walk") -> float:
    """The share of short steps that end without a finite density."""
    engine, metric, rng = walk.engine, walk.metric, np.random.default_rng(walk.iteration)
    late = walk.seen.thinned().snapshots[1:]
    placed = np.concatenate([enter(metric, snap.positions, snap.logdensity, snap.gradients)[0] for snap in late])
    stepped = placed + REACH * on_host(metric).push(rng.normal(size=placed.shape))
    values, gradients = engine.evaluate(places_of(metric, stepped))
    return float(np.mean(~(np.isfinite(values) & np.isfinite(gradients).all(axis=1))))
