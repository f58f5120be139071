"""Which terms a surrogate needs: added where the gradients' residuals ask for them, and taken out again where they tell nothing."""

from collections.abc import Sequence

import numpy as np

from .terms import KNOTS, LINEAR, PRODUCT, Frame, Part, Surrogate, rising

POWERS = (-2.0, -1.0, 1.0, 2.0)  # of scales: parameters of scales are logarithms
MOST_TERMS, MOST_DRIVERS, FEWEST_DRIVEN = 3000, 6, 3
MOST_MORE, MOST_LATER = 700, 150  # terms at a time, and where the structure is known from before
SHARE = 0.03  # of the best score, that a term needs to be added along with it
GAINS = (0.3, 0.03)  # in the mean log residual, for a driver; less once bends had their turn
AGAIN = 0.7  # for a second power of a driver
CLOSE = 1e-2  # residuals, as a part of the slopes' spread, from which no more drivers are looked for
SHAPE, SHAPES = 12.0, 0.2  # a score, and a part of its residual, for one more function of a driver by itself


def learnt(
    x: np.ndarray, gradients: np.ndarray, weights: np.ndarray, before: Surrogate | None = None, known: Sequence[Part] = ()
) -> Surrogate:
    """From gradients at places; with the structure of an earlier surrogate to begin with, or the scales that are known."""
    if before is None:
        first = Part.empty(x.shape[1])
        first.linear[:], first.products[:] = True, np.eye(x.shape[1], dtype=bool)
        drivers = [part.driver for part in known]
        first.products[drivers, drivers] = False
        found = Surrogate(x, gradients, weights, Frame.of(x), [first, *known])
    else:
        found = Surrogate(x, gradients, weights, Frame.of(x[weights > 0.01]), [part.copy() for part in before.parts])
        found.solve()
    _add_products(found, 4 if before is None else 1, MOST_MORE if before is None else MOST_LATER)
    close = before is not None and bool(np.median(found.error / found.spread) < CLOSE)
    for gain in GAINS:
        while not close and len(found.drivers) < min(MOST_DRIVERS, x.shape[1] - 1) and _add_driver(found, gain):
            prune(found)
        if before is None:
            _add_bends(found)
            _add_products(found, 2, MOST_MORE)
    _shape_drivers(found)
    prune(found)
    return found


def prune(found: Surrogate) -> None:
    """Without products, and a scale's linear terms, that the gradients do not show."""
    part, kind, i, j = found.terms.T
    unshown = found.significance() < 2 * np.log(2 * found.z.shape[1] ** 2)
    own_square = np.array([number == 0 or each.certain for number, each in enumerate(found.parts)])[part] & (i == j)
    products, linear = unshown & (kind == PRODUCT) & ~own_square, unshown & (kind == LINEAR) & (part > 0)
    for m, a, b in found.terms[products][:, [0, 2, 3]]:
        found.parts[m].products[[a, b], [b, a]] = False
    for m, a in found.terms[linear][:, [0, 2]]:
        found.parts[m].linear[a] = False
    if products.any() or linear.any():
        found.solve()


def _add_products(found: Surrogate, rounds: int, most: int) -> None:
    """Products of two coordinates, and linear terms, each under every scale."""
    dim = found.z.shape[1]
    for _ in range(rounds):
        wanted: list[tuple] = []
        cutoff = 3 * np.log(dim**2 * len(found.parts))
        for part in found.parts:
            products, linear = _scores(found, part)
            products = np.triu(np.where(part.products, 0.0, products))
            products[found.drivers, found.drivers] = 0.0
            linear = np.where(part.linear, 0.0, linear)
            wanted += [(products[i, j], part, i, j) for i, j in np.argwhere(products > cutoff)]
            wanted += [(linear[i], part, i, None) for i in np.flatnonzero(linear > cutoff)]
        wanted.sort(key=lambda one: -one[0])
        wanted = wanted[: max(0, min(MOST_TERMS - len(found.terms), most))]
        for score, part, i, j in wanted:
            if score <= SHARE * wanted[0][0]:
                break
            part.linear[i] = True
            if j is not None:
                part.products[[i, j], [j, i]] = True
                part.linear[j] = True
        if not wanted:
            break
        found.solve()


def _scores(found: Surrogate, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Of each product (d, d) and linear term (d,) under a scale, the squared score that its addition would have."""
    z, squares, trust = found.z, found.z**2, found.trust**2
    left, weights, k = found.left * trust * found.weights[:, None], found.weights, part.driver
    scale = found.scale(part)
    shape = scale - (np.average(scale, weights=weights) if k >= 0 else 0.0)  # what the first part does not have
    half = left * shape[:, None]
    along = half.T @ z
    score, diagonal = along + along.T, np.diag(along)
    known = np.outer(trust, (shape**2 * weights) @ squares)
    size, own = known + known.T, np.diag(known)
    np.fill_diagonal(score, diagonal)
    np.fill_diagonal(size, own)
    linear, linear_size = half.sum(axis=0), trust * np.sum(shape**2 * weights)
    if k >= 0:  # the terms' slopes along the driver
        slope, halves = part.power * found.frame.scale[k] * scale, np.where(np.eye(len(trust), dtype=bool), 0.5, 1.0)
        score = score + halves * (z.T @ (z * (left[:, k] * slope)[:, None]))
        size = size + halves**2 * trust[k] * (squares.T @ (squares * (slope**2 * weights)[:, None]))
        linear = linear + z.T @ (left[:, k] * slope)
        linear_size = linear_size + trust[k] * (squares.T @ (slope**2 * weights))
        score[k], score[:, k], linear[k] = 0.0, 0.0, 0.0
    return score**2 / np.maximum(size, 1e-300), linear**2 / np.maximum(linear_size, 1e-300)


def _add_driver(found: Surrogate, gain: float) -> bool:
    """A scale of the coordinate that others' widths depend on most, with the power that explains most; whether there was one."""
    asked, cutoff = _driven(found), 2 * np.log(found.z.shape[1] ** 2)
    k = int(np.argmax(np.maximum(asked - cutoff, 0.0).sum(axis=0)))
    driven = asked[:, k] > cutoff
    if driven.sum() < FEWEST_DRIVEN:
        return False
    found.solve()
    parts, base = found.parts, _loss(found)
    tried = []
    for power in POWERS:
        if any((part.driver, part.power) == (k, power) for part in parts):
            continue
        part = Part.empty(len(driven), k, power)
        part.products[driven, driven] = True
        part.products |= parts[0].products & (driven[:, None] | driven)
        part.products[k], part.products[:, k] = False, False
        part.linear |= driven
        part.linear[k] = False
        tried.append((_loss(found.with_part(part)), part))
    loss, best = min(tried, key=lambda one: one[0], default=(np.inf, None))
    needed = max(gain, AGAIN if k in found.drivers else 0.0)
    if best is None or not loss <= base - needed:
        return False
    # What it does by itself is its scale's constant, not a square.
    found.parts = [*parts, best]
    parts[0].products[k, k] = False
    for part in found.parts:
        part.bends[k] = False
    found.solve()
    _add_products(found, 2, MOST_MORE)
    return True


def _driven(found: Surrogate) -> np.ndarray:
    """[i, k]: the squared score of z_k (z_i² − 1)/2, a width of i that changes with k."""
    z, trust, weights = found.z, found.trust**2, found.weights[:, None]
    left, narrow = found.left * trust * weights, (z**2 - 1) / 2
    score = (left * z).T @ z + narrow.T @ left
    size = trust[:, None] * ((z**2).T @ (z**2 * weights)) + trust * (narrow**2 * weights).sum(axis=0)[:, None]
    asked = score**2 / np.maximum(size, 1e-300)
    np.fill_diagonal(asked, 0.0)
    return asked


def _loss(found: Surrogate) -> float:
    return float(np.mean(np.log(found.error + 1e-9 * found.spread + 1e-12)))


def _add_bends(found: Surrogate) -> None:
    """Functions of single coordinates that are no squares, and the same under scales."""
    widths = (found.z - found.frame.middle) / found.frame.width
    bends = rising(widths[:, :, None] - KNOTS)
    bends -= bends.mean(axis=0)
    cutoff, no_drivers = 2 * np.log(bends[0].size), ~np.isin(np.arange(found.z.shape[1]), found.drivers)
    for part in found.parts:
        if part.driver >= 0 and not part.linear.any():  # only its driver's own shape
            continue
        if part.driver < 0:
            away = found.z - found.z.mean(axis=0)
            base = bends - away[:, :, None] * (np.einsum("ni,nir->ir", away, bends) / (away**2).sum(axis=0)[:, None])
            may = no_drivers
        else:
            scale = found.scale(part)
            base, may = bends * (scale - scale.mean())[:, None, None], no_drivers & found.parts[0].bends
        score = np.einsum("ni,nir->ir", found.left * found.trust, base) ** 2 / np.maximum((base**2).sum(axis=0), 1e-300)
        more = may & ~part.bends & (score.max(axis=1) > cutoff)
        if more.any():
            part.bends |= more
            found.solve()


def _shape_drivers(found: Surrogate) -> None:
    """One more function of each driver by itself, the one that explains most of its own residual: a scale's constant, or a square."""
    root, first, dim = np.sqrt(found.weights), found.parts[0], found.z.shape[1]
    for k in found.drivers:
        own = lambda power, k=k: found.scale(Part.empty(dim, int(k), power)) if power else found.z[:, k]  # noqa: E731
        has = [part.power for part in found.parts if part.driver == k and part.alone] + [0.0] * bool(first.products[k, k])
        basis = np.linalg.qr(root[:, None] * np.stack([np.ones_like(root), *map(own, has)], axis=1))[0]
        residual = found.left[:, k] * found.trust[k] * root
        best, score = None, max(SHAPE, SHAPES * float(residual @ residual))
        for power in (0.0, *POWERS):
            whole = root * own(power)
            rest = whole - basis @ (basis.T @ whole)
            if power in has or rest @ rest <= 1e-16 * (whole @ whole):
                continue
            gained = (rest @ residual) ** 2 / (rest @ rest)
            best, score = (power, gained) if gained > score else (best, score)
        if best is None:
            continue
        if best == 0:
            first.products[k, k] = True
        else:
            found.parts.append(Part.empty(dim, int(k), best))
        found.solve()
