"""Do the moments that were asked for exist?"""

import numpy as np

from .check import Check, Checker, Silences
from .near import most_rise, rise
from .run import Run


class MomentsExist(Checker):
    """The tail index of the moved draws, and of q's where they were needed, against each row's need."""

    name = "moments exist"
    question = "Are the moved draws' tails light enough for means and variances to exist?"
    measures = "tail index"
    should_be = "a tail index below 0.5 for variances, 0.65 for means"
    remedy = "Ask for quantiles of heavy-tailed quantities in place of means and variances."
    python = (
        "report = taddaa.diagnose(target, approximation, functionals=[taddaa.Quantile(0.05), taddaa.Quantile(0.5), taddaa.Quantile(0.95)])"
    )
    shell = "taddaa run FILE.py  # with problem() returning target, approximation, [taddaa.Quantile(0.05), taddaa.Quantile(0.95)]"
    silences = Silences.NAMED

    def examine(self, run: Run) -> Check:
        flagged, index = np.flatnonzero(run.momentless), run.questions.per_row(run.tail_index)
        nearest = int(np.argmax(index - run.tail_limit))  # to its limit, or furthest beyond it
        return self.found(
            not flagged.size,
            float(index[nearest]),
            float(run.tail_limit[nearest]),
            "the draws of this quantity have tails so heavy that this moment may not exist; ask for quantiles instead",
            flagged,
            each=index,
            more_iterations=bool(run.seen.left_out) or rise(run) > most_rise(run),  # the tails may be chains on their way
        )
