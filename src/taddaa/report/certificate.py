"""What coupled pairs of chains certify of a whole report, in numbers and in one sentence."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    """Pairs of the moved chains that were run until they met. Meetings are in planned iterations T, infinite where there was none."""

    pairs: int
    met: int
    lag: int  # iterations that one chain of a pair was ahead
    median_meeting: float
    last_meeting: float
    distance: float  # at most, in total variation at the report's level, of chains that go on for `lag` iterations from the posterior
    rows: int  # quantities certified
    refuted: int  # quantities whose moved chains contradict the pairs
    gradients: int  # that pairs took
    meetings: tuple[float, ...]

    @property
    def holds(self) -> bool:
        """Whether all pairs met; otherwise nothing is certified."""
        return self.met == self.pairs and self.rows > 0

    @property
    def sentence(self) -> str:
        """What is certified, by what, and what is not."""
        if self.met < self.pairs:
            apart = self.pairs - self.met
            return (
                f"Nothing is certified: {apart} of {self.pairs} pairs of chains had not met when their share of the work was done, as "
                "where parts of the posterior are hard to reach, or where there are several modes. What is said rests on the checks."
            )
        when = f"half of them within {self.median_meeting:.2g} T, the last at {self.last_meeting:.2g} T"
        text = f"All {self.pairs} pairs of chains met ({when})"
        if not self.rows and self.refuted:
            return f"{text}, but contradict the moved chains in {self.refuted}: the run has not come to rest, and nothing is certified."
        if not self.rows:
            return f"{text}, but no quantity's interval follows from them."
        text += f", which certifies {self.rows} {'quantity' if self.rows == 1 else 'quantities'} with no check of ours"
        if self.refuted:
            text += f" and contradicts the moved chains in {self.refuted}"
        return f"{text}. A mode that no chain has reached, and pairs rarer than {3 / self.pairs:.2g}, would not have shown."
