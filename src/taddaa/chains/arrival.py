"""Which chains have arrived: the rest started where the target has no mass to speak of, and have not come away from there."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..plan import LOOKS

if TYPE_CHECKING:
    from .walk import Snapshot

MOST_LEFT_OUT = 0.1  # of the chains; with more, it is the run that has not arrived
NEVER = 1e-3  # the probability of such a low density, for log-concave targets
WIDE = 15  # times the distance from median to quartile: where log densities vary more, as in a funnel


class Seen(NamedTuple):
    """What the chains that have arrived say: the starts, the latest round's snapshots, and each chain's acceptance in it."""

    origin: "Snapshot"
    snapshots: "list[Snapshot]"
    acceptance: np.ndarray
    left_out: int

    def thinned(self, most: int = LOOKS) -> "Seen":
        """The same with the beginning and at most so many later snapshots (a first round's), evenly spread, the last among them."""
        last = len(self.snapshots) - 1
        count = min(most, last)
        return self._replace(snapshots=[self.snapshots[-(-i * last // count)] if i else self.snapshots[0] for i in range(count + 1)])

    @property
    def late_quantities(self) -> list[np.ndarray]:
        """The user's quantities at the latest round's snapshots, without its beginning."""
        return [snapshot.quantities for snapshot in self.snapshots[1:]]


def arrived(logdensity: np.ndarray, dim: int) -> np.ndarray:
    """Chains whose log density is not absurdly low beside the others'.

    A log-concave target has a log density under its median − (d + 4 √(d log(3/ε))) with a probability of at most about ε (Pereyra
    2017), so that leaving such chains out changes nothing that is asked of the target.
    """
    inside = logdensity[np.isfinite(logdensity)]
    if len(inside) < (1 - MOST_LEFT_OUT) * len(logdensity):
        return np.ones(len(logdensity), bool)
    low, middle = np.quantile(inside, [0.25, 0.5])
    reach = max(dim + 4 * np.sqrt(dim * np.log(3 / NEVER)), WIDE * (middle - low))
    found = logdensity >= middle - reach
    return found if np.mean(~found) <= MOST_LEFT_OUT else np.ones(len(logdensity), bool)
