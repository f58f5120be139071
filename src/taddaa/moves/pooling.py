"""What the data say of a child adds to what its drivers say: precisions add, and the gradients show both.

In a hierarchical model θ_i | μ, τ, data has the log density's gradient −(θ_i − μ)/τ² − (θ_i − y_i)/σ_i²: linear in θ_i with two
precisions, of which only the first depends on the drivers. Regressing a child's gradients on e^{−2v}θ_i, e^{−2v}μ, e^{−2v}, θ_i and 1
finds both, and where the child goes deep in the neck, exactly, from chains that have never been there. A map that is only right where the
chains are leaves a hundred children a little off their place in the neck, and so the neck closed.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..formulas.minimise import least_within
from .bend import CAP

FACTORS = np.geomspace(0.6, 1.7, 7).tolist()  # of A, tried before the best of them is refined
NEARBY = 1.1  # times more and less, tried around one that is known roughly
SMALLEST, LARGEST = 0.2, 5.0  # that the search goes on to where an end is the best
CLOSE, MOST_TRIED = 5e-3, 12  # how near to the best factor is enough, and after how many more the nearest is
ENOUGH = 16  # children to find it by
MOST_KNOWN = 0.98  # ρ
MOST_OTHERS, LEAST_SHARE = 2, 0.1  # coordinates that the data tie a child to, and what each explains of what is left
CLEARLY = 2.0  # standard errors
RIDGE, LEAST_STEEP = 1e-10, 1e-3
EXACT = 1e-3  # of the gradients: what a regression leaves is not taken to be less
LEAST_FREEDOM = 20  # degrees of freedom, to be sure of anything
AT_ONCE = 10**5  # numbers in a column of the regressions that are made together
REPEATS = 4  # of the regression, whose weights are the precisions that it finds


class Shape(NamedTuple):
    """A `Bend`'s numbers between coordinates u: A and B (d, d), driver by child; the children peeled off in each turn; ρ, b and h (d,)."""

    stretch: np.ndarray
    shift: np.ndarray
    turns: tuple[np.ndarray, ...]
    known: np.ndarray
    neck: np.ndarray
    mouth: np.ndarray


_Member = tuple[int, np.ndarray, list[int]]  # a child, what it leans on, and what the data tie it to


class _Family(NamedTuple):
    """Children of the same drivers."""

    drivers: np.ndarray
    middle: np.ndarray  # of the children's A
    members: list[_Member]


class _Child(NamedTuple):
    """One, or one row each of many."""

    shift: np.ndarray
    known: Any
    neck: Any
    mouth: Any
    loss: Any  # mean square of what the regression leaves, whitened
    rest: np.ndarray


def pooled(u: np.ndarray, r: np.ndarray, shape: Shape) -> Shape:
    """The map with precisions that add, from positions and gradients (n, d), unless held-out states clearly fit it worse.

    Where the chains have been, both may fit alike. This one knows better what is beyond.
    """
    train, test = slice(0, None, 2), slice(1, None, 2)
    with np.errstate(all="ignore"):  # what is not finite is worse
        for turn, children in enumerate(shape.turns):
            drives = (shape.stretch[:, children] != 0).T
            for drivers in np.unique(drives, axis=0):  # children of the same drivers have the same A
                mine = np.flatnonzero(children)[(drives == drivers).all(axis=1)]
                with contextlib.suppress(np.linalg.LinAlgError):  # numbers that no regression can take leave the map as it is
                    family = _family(u[train], r[train], shape, turn, np.flatnonzero(drivers), mine)
                    tried, factor = _of_family(u[train], r[train], shape, turn, family)
                    gain = losses(u[test], r[test], shape) - losses(u[test], r[test], tried)
                    if gain.mean() > -CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain)):
                        shape, _ = _of_family(u, r, shape, turn, family, about=factor)
    return shape


def losses(u: np.ndarray, r: np.ndarray, shape: Shape) -> np.ndarray:
    """Each state's ‖δ∇log π_w + (w − c)/δ‖²/d, as log(1 + ·), with a scale δ and a centre c for each coordinate."""
    w, slope = pulled_back(u, r, shape, len(shape.turns))
    spread, force = _spread(w), _spread(slope)
    delta = np.sqrt(spread / np.maximum(force, 1e-12))
    return np.log1p(np.mean((slope * delta + (w - np.median(w, axis=0)) / delta) ** 2, axis=1))


def pulled_back(u: np.ndarray, r: np.ndarray, shape: Shape, turns: int) -> tuple[np.ndarray, np.ndarray]:
    """The map's w and the gradients there, children of so many turns being pulled back; the others as they are."""
    bent = np.tanh(u @ shape.stretch / CAP)
    told = np.exp(-2 * CAP * bent)
    precision = (1 - shape.known) * told + shape.known
    lean, by_drivers = u @ shape.shift + shape.neck, (1 - shape.known) * told / precision
    away = u - (told * lean + shape.mouth) / precision
    # How a child moves with v while its w is held: its width, then its place.
    with_v = by_drivers * (away + 2 * shape.mouth / precision) - 2 * told / precision * (1 - by_drivers) * lean
    slope, flat = r.copy(), 1 - bent**2
    for turn in shape.turns[:turns]:
        mine = np.where(turn, slope, 0.0)
        slope += ((mine * with_v + np.where(turn, by_drivers, 0.0)) * flat) @ shape.stretch.T
        slope += (mine * told / precision) @ shape.shift.T
    child, width = np.any(shape.turns[:turns], axis=0) if turns else np.zeros(u.shape[1], bool), 1 / np.sqrt(precision)
    return np.where(child, away / width, u), np.where(child, slope * width, slope)


def _family(u: np.ndarray, r: np.ndarray, shape: Shape, turn: int, drivers: np.ndarray, children: np.ndarray) -> _Family:
    r = pulled_back(u, r, shape, turn)[1]  # children of earlier turns being held at their w
    middle = np.median(shape.stretch[np.ix_(drivers, children)], axis=1)
    leans = [np.flatnonzero(np.where(shape.stretch[:, i] != 0, 0.0, shape.shift[:, i])) for i in children]
    members: list[_Member] = [(i, on, []) for i, on in zip(children.tolist(), leans, strict=True)]
    return _Family(drivers, middle, _with_others(u, r, u[:, drivers] @ middle, members))


def _of_family(u: np.ndarray, r: np.ndarray, shape: Shape, turn: int, family: _Family, about: float | None = None) -> tuple[Shape, float]:
    """With one A for all its children, a multiple (the second that is returned) of the middle of theirs; then ρ, B, b and h of each."""
    r = pulled_back(u, r, shape, turn)[1]
    along = u[:, family.drivers] @ family.middle

    def told(factors: list[float]) -> np.ndarray:
        return np.exp(-2 * CAP * np.tanh(np.array(factors)[:, None] * along / CAP))

    some = family.members[:: -(-len(family.members) // ENOUGH)]
    best = _least(lambda factors: _losses(u, r, told(factors), some), about)
    stretch, shift, known, neck, mouth = (np.array(part) for part in (shape.stretch, shape.shift, shape.known, shape.neck, shape.mouth))
    for (i, on, _), child in zip(family.members, _children(u, r, told([best])[0], family.members), strict=True):
        stretch[family.drivers, i], shift[:, i] = best * family.middle, 0.0
        shift[on, i], known[i], neck[i], mouth[i] = child.shift[: len(on)], child.known, child.neck, child.mouth
    return Shape(stretch, shift, shape.turns, known, neck, mouth), best


def _least(losses: Callable[[list[float]], list[float]], about: float | None) -> float:
    """The factor of least loss: near the best of some, or near the one that half the states gave; further where an end is the best."""
    loss = lambda factor: losses([factor])[0]  # noqa: E731
    tried = list(FACTORS) if about is None else [about / NEARBY, about, about * NEARBY]
    values = losses(tried)
    while (k := int(np.argmin(np.nan_to_num(values, nan=np.inf)))) in (0, len(tried) - 1):
        further = tried[k] * FACTORS[1] / FACTORS[0] if k else tried[k] * FACTORS[0] / FACTORS[1]
        if not SMALLEST < further < LARGEST:
            return float(tried[k])
        tried.insert(k and k + 1, further)
        values.insert(k and k + 1, loss(further))
    around = list(zip(tried[k - 1 : k + 2], values[k - 1 : k + 2], strict=True))
    return float(least_within(loss, around, CLOSE, MOST_TRIED)[0])


def _losses(u: np.ndarray, r: np.ndarray, told: np.ndarray, members: list[_Member]) -> list[float]:
    """Of all members together, for each of several `told` (f, n)."""
    own, leans, others = _numbers(members, u.shape[1])
    which, child = np.divmod(np.arange(len(told) * len(members)), len(members))
    found = np.empty(len(which))
    for part in _parts(len(which), len(u)):
        at = child[part]
        found[part] = _fitted(u, r[:, own[at, 0]].T, told[which[part]], own[at], leans[at], others[at]).loss
    return np.log1p(found).reshape(len(told), -1).mean(axis=1).tolist()


def _children(u: np.ndarray, r: np.ndarray, told: np.ndarray, members: list[_Member]) -> list[_Child]:
    """Of each member, for one `told` (n,)."""
    own, leans, others = _numbers(members, u.shape[1])
    parts = [_fitted(u, r[:, own[at, 0]].T, told[None], own[at], leans[at], others[at]) for at in _parts(len(members), len(u))]
    return [_Child(*child) for part in parts for child in zip(*part, strict=True)]


def _numbers(members: list[_Member], none: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of members, of what they lean on and of what they are tied to, (m, ·) each; `none` where others have more."""
    own, (leans, others) = np.array([[i] for i, _, _ in members]), zip(*(member[1:] for member in members), strict=True)
    return own, _padded(leans, none), _padded(others, none)


def _padded(lists: Sequence[Sequence[int] | np.ndarray], none: int) -> np.ndarray:
    found = np.full((len(lists), max(map(len, lists))), none)
    for row, numbers in zip(found, lists, strict=True):
        row[: len(numbers)] = numbers
    return found


def _parts(count: int, states: int) -> list[slice]:
    """So few regressions at once that their arrays stay in a processor's cache."""
    most = max(1, AT_ONCE // states)
    return [slice(first, first + most) for first in range(0, count, most)]


def _fitted(u: np.ndarray, r: np.ndarray, told: np.ndarray, own: np.ndarray, leans: np.ndarray, others: np.ndarray) -> _Child:
    """−r regressed on told·u_i, told·u_leans, told, u_i and 1 (and what the data tie it to), weighted by 1/precision.

    One row a child, also of what is returned: r is (m, n), `told` (m, n) or (1, n), the others are (m, ·) numbers of columns of u.
    """
    columns, count = _columns(u, told, own, leans, others)
    found, precision = _regressed(columns, r, told, count)
    steep = np.maximum(found[:, 0], LEAST_STEEP)
    rest = -(r + (found[:, None] @ columns)[:, 0]) / np.sqrt(precision)
    total = steep + found[:, count]
    known, shift = np.minimum(found[:, count] / total, MOST_KNOWN), found / total[:, None]
    return _Child(shift[:, 1 : count - 1], known, shift[:, count - 1], shift[:, count + 1], np.mean(rest**2, axis=1), rest)


def narrowing(u: np.ndarray, r: np.ndarray, own: np.ndarray, along: np.ndarray, leans: list[list[int]], drivers: np.ndarray) -> np.ndarray:
    """How surely the precisions of the coordinates `own` (m,), whose gradients are r (n, m), are in part those of drivers at v = `along`.

    In standard errors, (m,). Of 0, where states are too few to tell it from what merely leans on the drivers.
    """
    if not len(own):
        return np.zeros(0)
    told = np.exp(-2 * CAP * np.tanh(along / CAP))[None]
    members: list[_Member] = [(i, np.array(on, int), drivers.tolist()) for i, on in zip(own.tolist(), leans, strict=True)]
    mine, on, others = _numbers(members, u.shape[1])
    parts = [_narrowing(u, r[:, at].T, told, mine[at], on[at], others[at]) for at in _parts(len(own), len(u))]
    return np.concatenate(parts)


def _narrowing(u: np.ndarray, r: np.ndarray, told: np.ndarray, own: np.ndarray, leans: np.ndarray, drivers: np.ndarray) -> np.ndarray:
    columns, count = _columns(u, told, own, leans, drivers)
    freedom = len(u) - columns.shape[1] + np.sum(leans == u.shape[1], axis=1)
    found, precision = _regressed(columns, r, told, count)
    weighed, wanted = columns / np.sqrt(precision)[:, None], -r / np.sqrt(precision)
    rest = np.sum((wanted - (found[:, None] @ weighed)[:, 0]) ** 2, axis=1) + EXACT**2 * np.sum(wanted**2, axis=1)
    square = weighed @ weighed.transpose(0, 2, 1)
    # What only the first column tells.
    alone = weighed[:, 0] - (_solved(square[:, 1:, 1:], square[:, 1:, 0])[:, None] @ weighed[:, 1:])[:, 0]
    sure = found[:, 0] * np.sqrt(np.sum(alone**2, axis=1) * np.maximum(freedom, 0) / np.maximum(rest, 1e-300))
    return np.where(freedom < LEAST_FREEDOM, 0.0, sure)


def _columns(u: np.ndarray, told: np.ndarray, own: np.ndarray, leans: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, int]:
    """What −r is regressed on, (m, p, n), and how many of them the drivers tell; the child's own precision is the next.

    A number beyond the last coordinate's stands for a column of zeros, which explains nothing: so all have equally many.
    """
    rows, one = np.concatenate([u.T, np.zeros((1, len(u)))]), np.ones((len(own), 1, len(u)))
    by_drivers = np.concatenate([rows[own], -rows[leans], -one], axis=1)
    return np.concatenate([told[:, None] * by_drivers, rows[own], -one, rows[others]], axis=1), by_drivers.shape[1]


def _regressed(columns: np.ndarray, r: np.ndarray, told: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (m, p), and the precisions (m, n) that they give, whose inverses are the weights."""
    precision = np.broadcast_to(told, r.shape)
    for _ in range(REPEATS):
        weighed = columns / precision[:, None]
        square, product = weighed @ columns.transpose(0, 2, 1), -(weighed @ r[..., None])[..., 0]
        found = _solved(square, product)
        less = found[:, count] < 0  # data never take precision away
        if less.any():
            used = np.r_[:count, count + 2 : found.shape[1]]
            found[less] = 0.0
            found[np.ix_(less, used)] = _solved(square[np.ix_(less, used, used)], product[np.ix_(less, used)])
        precision = np.maximum(found[:, [0]], LEAST_STEEP) * told + found[:, [count]]
    return found, precision


def _with_others(u: np.ndarray, r: np.ndarray, along: np.ndarray, members: list[_Member]) -> list[_Member]:
    """Coordinates that the data tie a child to (a slope's intercept): not part of the map, but of what the regression must explain."""
    told, going = np.exp(-2 * CAP * np.tanh(along / CAP)), list(range(len(members)))
    for _ in range(MOST_OTHERS):
        some = [members[k] for k in going]
        others = _others(u, told, _children(u, r, told, some), some)
        for k, other in zip(going, others, strict=True):
            i, leans, chosen = members[k]
            members[k] = i, leans, chosen + other
        going = [k for k, other in zip(going, others, strict=True) if other]
        if not going:
            break
    return members


def _equally_many(members: list[_Member], most: int) -> Iterator[tuple[list[int], np.ndarray, np.ndarray, np.ndarray]]:
    """Members, by their places in the list, that lean on and are tied to equally many: their numbers as arrays (m ≤ most, ·)."""
    sizes = np.array([(len(on), len(others)) for _, on, others in members])
    for size in np.unique(sizes, axis=0):
        whole = np.flatnonzero((sizes == size).all(axis=1)).tolist()
        for alike in (whole[first : first + most] for first in range(0, len(whole), most)):
            own, leans, others = (np.array([members[k][part] for k in alike], int).reshape(len(alike), -1) for part in range(3))
            yield alike, own, leans, others


def _others(u: np.ndarray, told: np.ndarray, children: list[_Child], members: list[_Member]) -> list[list[int]]:
    """Of each, the coordinate that explains most of what its regression leaves, if that is enough."""
    found: list[list[int]] = [[]] * len(members)
    rows = u.T
    for alike, own, leans, chosen in _equally_many(members, max(1, AT_ONCE // len(u))):
        known, rest = np.array([children[k].known for k in alike])[:, None], np.array([children[k].rest for k in alike])
        weight, one = 1 / np.sqrt((1 - known) * told + known), np.ones((len(alike), 1, len(u)))
        columns = np.concatenate([told * rows[own], told * one, rows[own], one, told * rows[leans], rows[chosen]], axis=1)
        base = np.linalg.qr((weight[:, None] * columns).transpose(0, 2, 1))[0]
        squares, shared = weight**2 @ u**2, (base * weight[..., None]).transpose(0, 2, 1) @ u
        size = squares - np.sum(shared**2, axis=1)  # of what the base leaves of each
        product = (rest * weight) @ u - ((rest[:, None] @ base) @ shared)[:, 0]
        share = np.where(size > 1e-9 * squares, product**2 / np.maximum(size * np.sum(rest**2, axis=1, keepdims=True), 1e-300), 0.0)
        np.put_along_axis(share, np.concatenate([own, chosen], axis=1), 0.0, axis=1)
        for k, mine in zip(alike, share, strict=True):
            found[k] = [int(np.argmax(mine))] if mine.max() >= max(LEAST_SHARE, 20 / len(u)) else []
    return found


def _solved(square: np.ndarray, product: np.ndarray) -> np.ndarray:
    """Normal equations, (m, p, p) and (m, p): quicker than singular values; columns that nearly coincide share what they explain."""
    size = np.sqrt(np.diagonal(square, axis1=1, axis2=2))
    size = np.where(size > 0, size, 1.0)
    scaled = square / (size[:, :, None] * size[:, None]) + RIDGE * np.eye(size.shape[1])
    return np.linalg.solve(scaled, (product / size)[..., None])[..., 0] / size


def _spread(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, [0.16, 0.84], axis=0)
    return (high - low) / 2
