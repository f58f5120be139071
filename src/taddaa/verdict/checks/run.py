"""All that a check may look at."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..directions import directions_moved_most

if TYPE_CHECKING:  # a stored report knows its checks without loading what runs chains
    from ...chains.walk import Walk
    from ..judgement import Judgement
    from ..questions import Questions


@dataclass(frozen=True, eq=False)
class Run:
    """The walk, what was asked, and what was found; pieces that several checks share are made when first needed."""

    walk: "Walk"
    questions: "Questions"
    judgement: "Judgement"
    level: float  # of each interval by itself
    other_arm: "Walk | None" = None

    @cached_property
    def directions(self) -> np.ndarray:
        """(d, ≤ 4), in units of moved standard deviations."""
        return directions_moved_most(self.walk)

    @cached_property
    def nonfinite_share(self) -> float:
        """Of all proposals, those whose log density or gradient was NaN or infinite."""
        return float(np.mean(self.walk.engine.host(self.walk.chains.nonfinite)) / max(self.walk.iteration, 1))
