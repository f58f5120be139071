"""Is the fit anywhere near the posterior?"""

import numpy as np

from .check import Check, Checker, Silences
from .run import Run

RISE_PER_DIMENSION, RISE = 10, 100  # a fit that has converged lies about d/2 under the mode, as the posterior itself does
NAMED = 3


class NearThePosterior(Checker):
    """How far the log density rose on the way, for the median chain.

    Fits that have converged have nothing to gain: scaling an optimal q about its centre cannot raise E_q log π by more than its entropy
    falls, so that E_q (x − m)·∇log π = −d, as at the posterior itself. A rise many times d says that half of q lies where the
    posterior has no mass, whether or not the chains have arrived.
    """

    name = "near the posterior"
    question = "How far did the log density rise on the way, for half of the chains? Many times d means a fit in the wrong place."
    measures = "rise of the log density on the way"
    should_be = "below 10 d + 100"
    remedy = (
        "Refit before anything else: more steps, other starts, another learning rate, predictors scaled to about one. "
        "report.handover.starts are nearer to the posterior than the fit is, and can serve as its start."
    )
    python = "starts = report.handover.starts; approximation = taddaa.Gaussian(starts.mean(axis=0), starts.std(axis=0))"
    silences = Silences.NOTHING
    condemns = True

    def examine(self, run: Run) -> Check:
        rose, most = rise(run), most_rise(run)
        return self.found(
            rose < most,
            rose,
            most,
            f"on the chains' way the log density rose by {rose:,.0f} or more for half of its draws, and {_furthest(run)} moved furthest",
            np.array([], int),
        )


def rise(run: Run) -> float:
    """Of the log density, for the median chain."""
    before, after = run.walk.origin.logdensity, run.walk.snapshots[-1].logdensity
    gained = np.where(np.isfinite(after), after, -np.inf) - before
    return float(np.median(np.where(np.isnan(gained), 0.0, gained)))


def most_rise(run: Run) -> float:
    """From which the fit is in the wrong place."""
    return float(RISE_PER_DIMENSION * run.walk.starts.shape[1] + RISE)


def _furthest(run: Run) -> str:
    """The parameters that moved furthest, in standard deviations of where they started or ended, whichever is larger."""
    labels = run.walk.engine.target.labels
    before, after = (snapshot.quantities[:, : len(labels)] for snapshot in (run.walk.origin, run.walk.snapshots[-1]))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        spread = np.maximum(*(np.subtract(*np.quantile(part, [0.84, 0.16], axis=0)) / 2 for part in (before, after)))
        moved = np.nan_to_num(np.abs(np.median(after, axis=0) - np.median(before, axis=0)) / spread, posinf=0.0)
    most = np.argsort(-moved)[: min(NAMED, len(labels))]
    return ", ".join(labels[i] for i in most[:-1]) + " and " * (len(most) > 1) + labels[most[-1]]
