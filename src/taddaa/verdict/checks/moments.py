"""Do the moments that were asked for exist?"""

import numpy as np

from .check import Check, Checker, Silences
from .run import VARIANCE_TAIL, Run


class MomentsExist(Checker):
    """The tail index of the moved draws, and of q's where they were needed, against each row's need."""

    name = "moments exist"
    question = "Are the moved draws' tails light enough for means and variances to exist?"
    should_be = "a tail index below 0.5 for variances, 0.65 for means"
    remedy = "Ask for quantiles of heavy-tailed quantities: functionals=[taddaa.Quantile(0.05), taddaa.Quantile(0.95)]."
    silences = Silences.NAMED

    def examine(self, run: Run) -> Check:
        flagged = np.flatnonzero(run.momentless)
        return self.found(
            not flagged.size,
            float(run.tail_index.max()),
            VARIANCE_TAIL,
            "its draws have tails so heavy that this moment may not exist; ask for quantiles instead",
            flagged,
        )
