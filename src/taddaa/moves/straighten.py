"""How a `Bend` is learnt from positions and gradients that the chains already have.

Children are peeled off in turns. What drives the size of their gradients is found by regression, what they lean on by regressing the
rescaled gradients on the coordinates; then A and B minimise the Fisher divergence E‖∇log π_w(w) + w‖², and what is left of the
target (its gradients pulled back) may show drivers of drivers. With A = B = 0 the divergence's minimum is the linear Fisher
preconditioner, which stays the second stage. Everything is NumPy: a search that finds nothing costs milliseconds, and none compiles.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..formulas.distributions import chi2_upper_quantile, normal_quantile, ranks
from .bend import Bend
from .divergence import Divergence, Edges
from .kernel import in_precision
from .pooling import Shape, narrowing, pooled

LARGEST = 500  # dimensions
LEAST_SHARE = 0.04  # of the variance of log g², which a driver must explain
MOST_STRETCHING, MOST_SHIFTING = 2, 3  # drivers of one coordinate
MOST_LEVELS = 3
HUB_LEVEL, LEAST_HUB = 0.01, 4  # of each test, and how many coordinates make a driver a hub
ROOMS = (16, 64, LARGEST)  # for drivers
AT_ONCE = 10**5  # numbers in a column of their regressions
SURELY = 8.0  # standard errors of a sibling's precision that is its drivers'
LEAST_GAIN, LEAST_PART, GAIN_CUTOFF = 0.1, 0.2, 4.0  # of the held-out loss, or as a part of it, and in standard errors
LEAST_FAMILY = 0.1  # of all coordinates, to be a hierarchy
COMMON_SHARE = 1 / 3  # of all coordinates: a map's gain is told as if its children were no fewer


class Straightening(NamedTuple):
    """A map that is worth having: how much it gains is known from half of the states, its numbers take all of them."""

    gain: float
    bend: Callable[[], Bend]


def learn_bend(x: np.ndarray, g: np.ndarray, chains: int | None = None) -> Bend | None:
    """The map from positions and gradients (n, d), of which the last are one row a chain; None where nothing is gained by one."""
    found = find_straightening(x, g, chains)
    return None if found is None else found.bend()


def find_straightening(x: np.ndarray, g: np.ndarray, chains: int | None = None) -> Straightening | None:
    """Whether there is such a map. Finishing it takes as long again, and who only asks whether one is needed can do without."""
    before, (x, g) = (x, g), (x[-(chains or 0) :], g[-(chains or 0) :])
    d = x.shape[1]
    if not 2 <= d <= LARGEST:
        return None
    low, centre, high = np.quantile(x, [0.16, 0.5, 0.84], axis=0)
    scale = (high - low) / 2
    if not np.all(scale > 0):
        return None
    u, r = (x - centre) / scale, g * scale
    train, test = slice(0, None, 2), slice(1, None, 2)
    found = Edges(np.zeros((d, d), bool), np.zeros((d, d), bool), np.full(d, -1))
    fit, here = None, r
    for turn in range(MOST_LEVELS):
        more = peel(u, here, found, turn)
        if more is None:
            break
        divergence = Divergence(u[train], r[train], more)
        fit = divergence.minimise(divergence.started(fit, found, here[train]))
        found, here = more, Divergence(u, r, more).pulled_back(fit)
    if fit is None:
        return None
    unbent = np.where(np.arange(divergence.size) < divergence.free[0], 0.0, fit)
    plain = divergence.minimise(unbent, linear_only=True)
    held_out = Divergence(u[test], r[test], found)
    loss = held_out.losses(plain)
    gain = loss - held_out.losses(fit)
    # The loss is a mean over all coordinates, of which a hierarchy's children may be few: its gain is theirs.
    many = found.stretches[found.stretches.sum(axis=1) > max(LEAST_HUB, LEAST_FAMILY * d)].any(axis=0)
    share = many.mean() if many.any() else 1.0
    if not gain.mean() > max(min(LEAST_GAIN * share, LEAST_PART * loss.mean()), GAIN_CUTOFF * gain.std(ddof=1) / np.sqrt(len(gain))):
        return None
    told = float(gain.mean() * max(1.0, COMMON_SHARE / share))

    def finished() -> Bend:
        whole = Divergence(u, r, found)
        shape = pooled((before[0] - centre) / scale, before[1] * scale, whole.shape(whole.minimise(fit)))
        return bend_of(shape, centre, scale)._replace(gain=in_precision(told))

    return Straightening(told, finished)


def peel(u: np.ndarray, r: np.ndarray, found: Edges, turn: int) -> Edges | None:
    """The next children and their drivers, among coordinates that have not been peeled off; None if there are none."""
    d, left = u.shape[1], found.turn < 0
    size = np.log(r**2 + 1e-6 * np.mean(r**2, axis=0))
    stretches = with_siblings(u, r, size, find_stretching(u, size, left), left)
    # Whoever drives another child waits for the next turn.
    children = stretches.any(axis=0) & ~stretches.any(axis=1)
    if not children.any():
        return None
    leans, own = np.zeros((d, d), bool), np.flatnonzero(children)
    for i, on in zip(own, _leans_on(u, r[:, own], _explained(u, size, stretches, own), own, left), strict=True):
        leans[on, i] = True
    # Of two that lean on each other the one on which more lean is the parent: theta leans on mu, and mu on every theta.
    hub, order = leans.sum(axis=1), np.arange(d)
    leans[hub < min(2 + 0.05 * children.sum(), children.sum())] = False  # what only a few lean on is left to the linear stage
    above = (hub[:, None] > hub) | ((hub[:, None] == hub) & (order[:, None] < order))
    children &= ~(leans & above)[:, children].any(axis=1)
    if not children.any():
        return None
    stretches[:, ~children] = leans[:, ~children] = False
    leans[children] = False  # children of one turn do not drive each other
    return Edges(found.stretches | stretches, found.shifts | leans | stretches, np.where(children, turn, found.turn))


def _explained(u: np.ndarray, size: np.ndarray, stretches: np.ndarray, children: np.ndarray) -> np.ndarray:
    """What their drivers explain of the sizes of the children's gradients, (n, m)."""
    found = np.empty((len(u), len(children)))
    families, of_family = np.unique(stretches[:, children], axis=1, return_inverse=True)
    for k, drivers in enumerate(families.T):
        mine, columns = of_family.ravel() == k, np.column_stack([np.ones(len(u)), u[:, drivers]])
        found[:, mine] = columns @ np.linalg.lstsq(columns, size[:, children[mine]], rcond=None)[0]
    return found


def find_stretching(u: np.ndarray, size: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Which coordinate (row) explains the size of which gradient (column): those that explain most first, without circles."""
    n, d = u.shape
    scores = normal_quantile((ranks(u) - 0.5) / n)
    scores /= np.maximum(scores.std(axis=0), 1e-12)
    size = size - size.mean(axis=0)
    weak, sure = float(chi2_upper_quantile(HUB_LEVEL, 1)) / n, max(LEAST_SHARE, float(chi2_upper_quantile(0.05 / d**2, 1)) / n)
    stretches, reaches, tried = np.zeros((d, d), bool), np.eye(d, dtype=bool), ~left
    for _ in range(d):
        share = (scores.T @ size / n) ** 2 / np.maximum(size.var(axis=0), 1e-12)
        share[:, ~left | (stretches.sum(axis=0) >= MOST_STRETCHING)] = 0.0
        share[tried] = 0.0
        np.fill_diagonal(share, 0.0)
        share = np.where((share > 1.5 * share.T) & ~reaches.T, share, 0.0)
        # A driver of many needs less evidence for each of them.
        many = (share > weak).sum(axis=1) > LEAST_HUB + 3 * HUB_LEVEL * d
        share = np.where(share > np.where(many, weak, sure)[:, None], share, 0.0)
        k = int(np.argmax(share.sum(axis=1)))
        if not share[k].any():
            break
        for i in np.flatnonzero(share[k]):
            stretches[k, i] = True
            size[:, i] -= scores[:, k] * (scores[:, k] @ size[:, i]) / n  # what it explains is taken out
        tried[k] = True
        reaches |= reaches[:, [k]] & reaches[share[k] > 0].any(axis=0)
    return stretches


def with_siblings(u: np.ndarray, r: np.ndarray, size: np.ndarray, stretches: np.ndarray, left: np.ndarray) -> np.ndarray:
    """And whom a driver of many narrows too, though the sizes of their gradients do not show it where the chains are.

    One that is left out keeps the neck closed for all. A regression on both precisions (`pooling`) sees what sizes hide. Siblings do
    not drive each other: they seem to because the same driver drives them.
    """
    found, drives = stretches.copy(), stretches.any(axis=1)
    families, of_family = np.unique(stretches[:, stretches.any(axis=0) & ~drives], axis=1, return_inverse=True)
    large = families[:, np.bincount(of_family.ravel(), minlength=families.shape[1]) > LEAST_HUB].T
    others = left & (stretches.sum(axis=1) <= LEAST_HUB)
    for drivers in large:  # whose members have no other
        others &= drives | ~(stretches == drivers[:, None]).all(axis=0)
    for drivers in large:
        family = ~drives & (stretches == drivers[:, None]).all(axis=0)
        at = u[:, drivers]
        slopes = np.linalg.lstsq(at - at.mean(axis=0), size[:, family] - size[:, family].mean(axis=0), rcond=None)[0]
        along = -0.5 * at @ np.median(slopes, axis=1)
        tried = np.flatnonzero(others & ~drivers)
        leans = [[lean for lean in on if not drivers[lean]] for on in _leans_on(u, r[:, tried], -2 * along[:, None], tried, left)]
        sure = narrowing(u, r[:, tried], tried, along, leans, np.flatnonzero(drivers)) > SURELY
        for i in tried[sure]:
            if not (_driven_by(i, found) & drivers).any():
                found[drivers, i], family[i], others[i] = True, True, False
        found[np.ix_(family, family)] = False
    return found


def _driven_by(i: int, stretches: np.ndarray) -> np.ndarray:
    """Whom the i-th drives, and whom these drive, and so on."""
    driven, before = stretches[i], np.zeros_like(stretches[i])
    while (driven != before).any():
        driven, before = driven | stretches[driven].any(axis=0), driven
    return driven


def _leans_on(u: np.ndarray, r: np.ndarray, log_force2: np.ndarray, own: np.ndarray, left: np.ndarray) -> list[list[int]]:
    """Which coordinates shift those of the numbers `own` (m,), whose gradients are r (n, m) and their sizes `log_force2`, (n, m) or (n, 1).

    With the force rescaled to one size, −r e^a is linear in (u_i − Σ B u_k) e^−a and, where data say something of it by themselves,
    in u_i e^a and e^a. Many at once: a step of one costs little more than its calls.
    """
    at_once, sizes = max(1, AT_ONCE // len(u)), np.broadcast_to(log_force2, r.shape)
    parts = [slice(first, first + at_once) for first in range(0, len(own), at_once)]
    return [found for part in parts for found in _some_lean_on(u, r[:, part], sizes[:, part], own[part], left)]


def _some_lean_on(u: np.ndarray, r: np.ndarray, log_force2: np.ndarray, own: np.ndarray, left: np.ndarray) -> list[list[int]]:
    stiff = np.exp(np.clip(0.5 * (log_force2 - np.median(log_force2, axis=0)), -4, 4))  # e^−a
    stiff = np.ascontiguousarray(stiff.T)  # one row a child, here and below
    weight, mine = 1 / stiff, u[:, own].T
    y = -r.T * weight
    cut = 3 * np.median(np.abs(y), axis=1, keepdims=True)
    y = np.where(cut > 0, np.clip(y, -cut, cut), y)
    squares = stiff**2 @ u**2  # of u e^−a, (m, d)
    least = max(0.1, float(chi2_upper_quantile(0.05 / len(left) ** 2, 1)) / len(u))
    chosen, going = [[int(i)] for i in own], np.arange(len(own))
    for _ in range(MOST_SHIFTING):
        if not going.size:
            break
        which, e = np.array([chosen[k] for k in going]), stiff[going]
        columns = [e[:, None], weight[going][:, None], (weight * mine)[going][:, None], e[:, None] * u.T[which]]
        base = np.linalg.qr(np.concatenate(columns, axis=1).transpose(0, 2, 1))[0]  # (m, n, p)
        rest = y[going] - (base @ (base.transpose(0, 2, 1) @ y[going][..., None]))[..., 0]
        known = (base * e[..., None]).transpose(0, 2, 1) @ u
        size = squares[going] - np.sum(known**2, axis=1)  # of what the base leaves of the features
        spread = np.sqrt(np.maximum(size, 0.0)) * np.linalg.norm(rest, axis=1, keepdims=True)
        usable = left & (size > 1e-9 * squares[going]) & (spread > 1e-9)
        share = np.divide((rest * e) @ u, spread, out=np.zeros_like(size), where=usable) ** 2
        np.put_along_axis(share, which, 0.0, axis=1)
        best = share.argmax(axis=1)
        enough = share[np.arange(len(going)), best] >= least
        for k, i in zip(going[enough], best[enough], strict=True):
            chosen[k].append(int(i))
        going = going[enough]
    return [found[1:] for found in chosen]


def bend_of(shape: Shape, centre: np.ndarray, scale: np.ndarray) -> Bend:
    """As chains use it: only the drivers' rows, padded, since few sizes are few compiled programs."""
    drivers = np.flatnonzero((shape.stretch != 0).any(axis=1) | (shape.shift != 0).any(axis=1))
    room = next(size for size in ROOMS if len(drivers) <= size)
    select = np.zeros((len(centre), room))
    select[drivers, np.arange(len(drivers))] = 1.0
    padded = lambda part: np.concatenate([part[drivers], np.zeros((room - len(drivers), part.shape[1]))])  # noqa: E731
    levels = np.zeros((MOST_LEVELS, len(centre)))
    levels[MOST_LEVELS - len(shape.turns) :] = shape.turns[::-1]
    parts = (centre, scale, select, padded(shape.stretch), padded(shape.shift), levels, shape.known, shape.neck, shape.mouth)
    return Bend(*(in_precision(part) for part in parts))
