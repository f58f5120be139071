"""What was straightened, in words: it is the reparametrisation that the user should make."""

import re
from typing import TYPE_CHECKING

import numpy as np

from ..formulas.correlation import squared_correlation
from ..formulas.distributions import ranks
from ..moves.metric import Bent

if TYPE_CHECKING:
    from ..chains.walk import Walk

LEAST = 0.1  # of a standardised slope that is worth a word
SHOWN = 3
SAME, PART_OF = 0.98, 0.3  # squared rank correlations of a parameter with a coordinate


def straightened(walk: "Walk") -> list[str]:
    """A note on the chains' map, if they have one."""
    if not isinstance(walk.metric, Bent):
        return []
    names, bend = _flat_names(walk), walk.metric.bend
    select, stretch = np.asarray(bend.select), np.abs(np.asarray(bend.stretch))
    found = []
    for k in np.argsort(-(stretch > LEAST).sum(axis=1)):
        driven = [names[i] for i in np.flatnonzero(stretch[k] > LEAST)]
        if driven:
            found.append(f"the width of {listed(driven)} follows {names[int(np.argmax(select[:, k]))]}")
    if not found:
        return []
    more = f", and {len(found) - SHOWN} more such" * (len(found) > SHOWN)
    return [
        f"{'; '.join(found[:SHOWN])}{more}: the chains walked in coordinates where it does not. A parametrisation in which it does not "
        "(non-centred, say) would suit the fit as well"
    ]


def listed(names: list[str]) -> str:
    """b[0], b[1], … b[64] as `b (65 of them)`; few by their names."""
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(re.sub(r"\[.*$", "", name), []).append(name)
    parts = [", ".join(group) if len(group) <= SHOWN else f"{family}[…] ({len(group)} of them)" for family, group in families.items()]
    return ", ".join(parts[:SHOWN]) + f" and {len(parts) - SHOWN} more" * (len(parts) > SHOWN)


def _flat_names(walk: "Walk") -> list[str]:
    """Each flat coordinate by the parameter that is a monotone function of it, by the one that it is part of, or by its position."""
    labels, last = walk.engine.target.labels, walk.snapshots[-1]
    flat, mine = ranks(last.positions), ranks(last.quantities[:, : len(labels)])
    shared = np.array([squared_correlation(column[:, None], mine) for column in flat.T])
    return [_named(i, labels[int(np.argmax(row))], np.max(row)) for i, row in enumerate(shared)]


def _named(i: int, nearest: str, shared: float) -> str:
    if shared > SAME:
        return nearest
    return f"a coordinate of {nearest.partition('[')[0]}" if shared > PART_OF else f"coordinate {i}"
