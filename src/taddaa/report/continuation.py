"""Where the chains stand when a report is made, so that they can go on from there."""

from dataclasses import dataclass

from ..chains.walk import Walk
from ..problem.approximation import Approximation
from ..settings import Settings
from ..verdict.questions import Questions


@dataclass(frozen=True, eq=False)
class Continuation:
    """The walk, and what it was made for. It lives as long as the report does in this process, and is stored nowhere."""

    walk: Walk
    questions: Questions
    approximation: Approximation
    settings: Settings
    seed: int
    notes: tuple[str, ...]  # of the run so far, without those that a report adds at its end
