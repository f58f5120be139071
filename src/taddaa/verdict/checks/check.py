"""What a check finds (`Check`, kept in reports), and what a check is (`Checker`, one class for each)."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

import numpy as np

from .run import Run

TEST_LEVEL = 0.05  # of each family of tests, Bonferroni within the family
# The remedy that many checks share; how much more, and what after that, depends on what was tried (report/advice.py).
MORE_TIME = "Give the chains more time, or longer steps."


@dataclass(frozen=True)
class Check:
    """One reason to trust or not.

    `rows` are the rows it makes untrusted (all where None); `only_zero` says that it matters only to rows without a
    bound; `more_iterations` that running on may help; `slow_for_good` that it has seen why chains will not forget their starts.
    """

    name: str
    passed: bool
    value: float
    cutoff: float
    message: str
    rows: tuple[int, ...] | None = None
    only_zero: bool = False
    more_iterations: bool = False
    slow_for_good: bool = False
    least: float = -math.inf  # where the value should at least lie; `cutoff` is where it should at most
    each: tuple[float, ...] | None = None  # the value of each row, where rows have one of their own

    @property
    def should_be(self) -> str:
        """Where its value should have lain: `0.20 to 0.70`, `below 0.10`."""
        if math.isfinite(self.least):
            return f"{plain(self.least)} to {plain(self.cutoff)}"
        if math.isinf(self.cutoff):
            return "any number"
        return f"below {plain(self.cutoff)}" if self.cutoff else "0"

    def concerned(self, count: int) -> np.ndarray:
        """For each of `count` rows, whether this check speaks of it."""
        mask = np.full(count, self.rows is None)
        mask[list(self.rows or ())] = True
        return mask


def plain(value: float) -> str:
    """Two digits, without powers of ten where they can be helped."""
    if not math.isfinite(value):
        return "nothing" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if abs(value) < 1e-4 or abs(value) >= 99.5:
        return f"{value:,.0f}" if 99.5 <= abs(value) < 1e6 or value == 0 else f"{value:.2g}"
    return f"{value:#.2g}".rstrip(".")


class Silences(Enum):
    """Which rows a failed check makes untrusted."""

    NOTHING = "nothing by itself"
    RUN = "the whole run"
    NAMED = "the quantities it names"
    WITHOUT_BOUND = "quantities without a bound"
    NAMED_WITHOUT_BOUND = "the quantities it names, if without a bound"


class Checker(ABC):
    """One way in which a bound, or a bound of zero, may mislead: all that is said of it, and how it is seen."""

    name: str
    question: str  # one sentence, for the page and the documentation
    detail: str = ""  # more of it, for the documentation
    measures: str  # what its value is, in a few words
    should_be: str  # where the value should lie, in words, for the documentation
    remedy: str
    python: str = ""  # the remedy as a line to paste, where it is one
    shell: str = ""
    silences: Silences
    more_iterations: bool = False  # whether running on may help
    condemns: bool = False  # whether a failure says that the fit as a whole is wrong, whatever the rows say
    caveat: str = ""  # what to know where it passed although it saw why chains will not forget their starts

    def applies(self, run: Run) -> bool:
        """Whether it can be made of this run."""
        return True

    @abstractmethod
    def examine(self, run: Run) -> Check:
        """Look at the latest round."""

    def found(
        self,
        passed: bool,
        value: float,
        cutoff: float,
        message: str,
        rows: np.ndarray | None = None,
        *,
        more_iterations: bool | None = None,
        slow_for_good: bool = False,
        least: float = -math.inf,
        each: np.ndarray | None = None,
    ) -> Check:
        """The result, with what is the same for every result of this check."""
        return Check(
            self.name,
            passed,
            value,
            cutoff,
            message,
            rows=None if rows is None else tuple(rows.tolist()),
            only_zero=self.silences in (Silences.WITHOUT_BOUND, Silences.NAMED_WITHOUT_BOUND),
            more_iterations=self.more_iterations if more_iterations is None else more_iterations,
            slow_for_good=slow_for_good,
            least=least,
            each=None if each is None else tuple(each.tolist()),
        )
