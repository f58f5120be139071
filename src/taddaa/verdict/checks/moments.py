"""Do the moments that were asked for exist?"""

import numpy as np

from ...formulas.pieces import by_pieces
from ...formulas.tail import tail_index
from .check import Check, Checker, Silences
from .run import Run

VARIANCE_TAIL, MEAN_TAIL = 0.5, 0.9  # tail indices above which a moment hardly exists (1/2 and 1 are the borders)
NEEDS = {"mean": MEAN_TAIL, "variance": VARIANCE_TAIL, "covariance": VARIANCE_TAIL}


class MomentsExist(Checker):
    """The tail index of the moved draws, and of q's where they were needed, against each row's need."""

    name = "moments exist"
    question = "Are the moved draws' tails light enough for means and variances to exist?"
    should_be = "a tail index below 0.5 for variances, 0.9 for means"
    remedy = "Ask for quantiles of heavy-tailed quantities: functionals=[taddaa.Quantile(0.05), taddaa.Quantile(0.95)]."
    silences = Silences.NAMED

    def examine(self, run: Run) -> Check:
        questions = run.questions
        index = by_pieces(lambda *late: tail_index(np.concatenate(late)), *run.walk.late_quantities)
        if questions.reference_draws is not None:
            index = np.maximum(index, by_pieces(tail_index, questions.reference_draws))
        limit = np.concatenate([np.full(len(group.labels), NEEDS.get(group.functional.label, np.inf)) for group in questions.groups])
        flagged = np.flatnonzero(questions.per_row(index) > limit)
        return self.found(
            not flagged.size,
            float(index.max()),
            VARIANCE_TAIL,
            "its draws have tails so heavy that this moment may not exist; ask for quantiles instead",
            flagged,
        )
