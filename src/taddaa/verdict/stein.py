"""Confidence intervals sharpened by Stein's identity, from the gradients that the chains carry anyway.

Under a density π that vanishes at the edge of its support, E[φ'(t) + φ(t) u] = 0 for every smooth φ, where t = v·(x − m) is the
position along a direction v and u = v·G∇log π the force along it, in units in which v·Gv = 1. So it is along a curve: for a quantity f
that is not linear, E[φ'(f) Γf + φ(f) Lf] = 0 with Γf = ∇f·G∇f and Lf = ∇·(G∇f) + ∇f·G∇log π. A quantity is regressed over the
chains on a few such features along its own direction and curve, on some along the few directions that all forces depend on and, in few
dimensions, on a whole space of them (a Stein kernel: Oates, Girolami and Chopin 2017; South et al. 2022). What is left has the
quantity's own mean under π, and much less spread. Each chain's remainder is taken with coefficients from *other* chains, so that it is
unbiased whatever the regression is worth.

Arrays are (N, W, k) as in `interval`: the W states of a chain are averaged first, and only chains count as independent. Plain
NumPy in float64; nothing here knows names or samplers. The identity is about chains that have arrived: the checks must say so.
"""

import numpy as np

from ..formulas.crossfit import FOLDS, Kernel, centre_and_sides, kernel_between, regress
from ..formulas.distributions import normal_cdf, normal_quantile, scaled_erfc, t_quantile
from ..formulas.interval import Interval
from ..formulas.pieces import THREADS, in_threads
from ..formulas.tail import square_tail
from ..moves.metric import Metric
from .lines import Projection

KERNEL_DIMENSIONS = 40  # beyond, N chains are too few to fill the kernel's space, and it gains nothing
KERNEL_CHAINS = 1500  # beyond, N × N matrices cost more than the chains did
KERNEL_STATES = 3000  # with weights, in all chains
KERNEL_WIDTH = 8.0  # its squared length in whitened space, in units of d: 4 to 16 do about as well
KERNEL_GAIN = 5.0  # times narrower than without it, at most: where no chain has been, a kernel knows nothing
FINEST = 1e-6  # standard deviations: rounding in gradients must not become an error
BALANCE_LEVEL = 1e-3  # of the test that all features' means are zero
POINTS = 11  # at which a distribution function is sharpened, to find its quantile
OWN = 3  # features along a quantity's own direction
CURVED = 2  # along its curve
COMMON_GAIN = 0.75  # of the width with a quantity's own features alone, or these stay: the narrower of two is a bit too narrow
# At most, times narrower with all features than with its own: what they leave in tails where no chain has been is not seen.
FURTHER_GAIN = 3.0


def balanced(projection: Projection, weights: np.ndarray | None = None) -> np.ndarray:
    """Quantities whose features' means may be zero: a wrong gradient, or an edge with density, must not narrow anything."""
    features = averaged(_polynomials(projection)[..., :2], weights)
    error = features.std(axis=0, ddof=1) / np.sqrt(len(features))
    cutoff = t_quantile(1 - BALANCE_LEVEL / 2 / max(error.size, 1), len(features) - 1)
    return np.all(np.abs(features.mean(axis=0)) <= cutoff * error + 1e-9, axis=1)  # not where they are NaN


def kernel_of(positions: np.ndarray, gradients: np.ndarray, metric: Metric, weights: np.ndarray | None = None) -> Kernel | None:
    """From exp(−|y − y'|²/2ℓ) in whitened space, ℓ = 8 d; as a feature of either state it has mean zero whatever the other.

    None where it would gain nothing or cost too much.
    """
    chains, states, dim = positions.shape
    if dim > KERNEL_DIMENSIONS or chains > KERNEL_CHAINS or chains < 3 * FOLDS:
        return None
    factor = np.asarray(metric.push(np.eye(dim))).T
    centred = (positions - positions.mean(axis=(0, 1))).reshape(-1, dim)
    if not (np.all(np.isfinite(positions)) and np.all(np.isfinite(gradients))):
        return None
    whitened, force = np.linalg.solve(factor, centred.T).T.reshape(positions.shape), gradients @ factor
    if weights is not None:
        return _weighted_kernel(whitened, force, weights)
    left, right = zip(*(_kernel_factors(whitened[:, i], force[:, i]) for i in range(states)), strict=True)

    def of_states(first: int) -> np.ndarray:  # every other one, with those up to it
        total = np.zeros((chains, chains))
        for i in range(first, states, THREADS):
            for j in range(i + 1):
                block = _kernel_of_factors(left[i], right[j])
                total += block if i == j else block + block.T
        return total

    return kernel_between(sum(in_threads(of_states, range(min(THREADS, states)))) / states**2)


def _weighted_kernel(whitened: np.ndarray, force: np.ndarray, weights: np.ndarray) -> Kernel | None:
    """The same of states with weights, of which some chains have more than others."""
    used = weights != 0
    if used.sum() > KERNEL_STATES:
        return None
    y, g, w = whitened[used], force[used], weights[used]
    first = np.r_[0, np.cumsum(used.sum(axis=1))[:-1]]  # of each chain's states
    block = _kernel_block(y, g, y, g) * np.outer(w, w)
    return kernel_between(np.add.reduceat(np.add.reduceat(block, first, axis=0), first, axis=1))


def _kernel_block(y: np.ndarray, g: np.ndarray, y2: np.ndarray, g2: np.ndarray) -> np.ndarray:
    """(∇·∇' + g·∇' + g'·∇ + g·g') k(y, y'), with g = ∇log π in whitened space."""
    return _kernel_of_factors(_kernel_factors(y, g)[0], _kernel_factors(y2, g2)[1])


def _kernel_of_factors(left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    exponent, factor = left[0] @ right[0].T, left[1] @ right[1].T
    np.minimum(exponent, 0.0, out=exponent)  # but for rounding
    return np.exp(exponent, out=exponent) * factor


def _kernel_factors(y: np.ndarray, g: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Of states as the first and as the second argument: rows whose products are −|y − y'|²/2ℓ and what the exponential is times.

    That is (d − |y − y'|²/ℓ + (y − y')·(g − g'))/ℓ + g·g'. Two matrix products take less time than its many terms one by one.
    """
    width, one = KERNEL_WIDTH * y.shape[1], np.ones((len(y), 1))
    square, cross = np.sum(y**2, axis=1, keepdims=True), np.sum(y * g, axis=1, keepdims=True)
    own = (cross - square / width) / width
    left = np.hstack([y / width, -square / (2 * width), -one / (2 * width)])
    first = np.hstack([(2 * y / width - g) / width, g - y / width, own + y.shape[1] / width, one])
    return (left, first), (np.hstack([y, one, square]), np.hstack([y, g, one, own]))


def averaged(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Over a chain's states, (N, W, …) → (N, …): their mean, or their sum with weights (N, W)."""
    return values.mean(axis=1) if weights is None else np.einsum("nw...,nw->n...", values, weights)


def mean(values: np.ndarray, projection: Projection | None, kernel: Kernel | None, level: float, weights=None) -> Interval:
    """The mean of the remainders; without a projection, of the values themselves."""
    return _sharp(averaged(values, weights), _known_features(values, projection, weights), kernel, level, _sd(values))


def log_variance(values: np.ndarray, projection: Projection | None, kernel: Kernel | None, level: float, weights=None) -> Interval:
    """The logarithm of the second moment about the sharpened mean (whose own error is of second order); delta method."""
    features, sd = _known_features(values, projection, weights), _sd(values)
    unit = np.where(sd > 0, sd, 1.0)
    scaled = values / unit
    centre = regress(averaged(scaled, weights), features[..., :OWN], kernel).remainders.mean(axis=0)
    used = scaled if weights is None else scaled[weights != 0][:, None]
    squares, tail = averaged((scaled - centre) ** 2, weights), square_tail(used, centre)
    second = _sharp(squares, features, kernel, level, 1.0, tail)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.log(second.estimate) + 2 * np.log(unit)  # NaN, and so the plain interval, for a moment that is not positive
        least = np.minimum(second.estimate, 1.0)  # a wild estimate must not look precise
        below, above = (second.estimate - second.lower) / least, (second.upper - second.estimate) / least
        further = np.log1p(np.maximum(above - below, 0.0))  # into the tail: far, where the delta method is too long
    return Interval(estimate, estimate - below, estimate + below + further)


def covariance(
    values: np.ndarray, projection: Projection | None, kernel: Kernel | None, level: float, aligned: float, weights=None
) -> Interval:
    """Of two quantities (N, W, 2): the mean of their products about the sharpened means. `aligned` is their `alignment`."""
    features = _known_features(values, projection, weights)[..., :OWN]
    centre = regress(averaged(values, weights), features, kernel).remainders.mean(axis=0)
    products = averaged(np.prod(values - centre, axis=2, keepdims=True), weights)
    features = np.zeros((len(values), 1, 0))
    if projection is not None:
        (t, t2), (u, u2) = (np.moveaxis(part, 2, 0) for part in projection[:2])
        features = averaged(np.stack([u, u2, t * u2 + aligned, t2 * u + aligned], axis=-1), weights)[:, None]
    return _sharp(products, features, kernel, level, np.prod(_sd(values)), own=features.shape[2])


def quantile(values: np.ndarray, p: float, projection: Projection | None, kernel: Kernel | None, level: float, weights=None) -> Interval:
    """Where the sharpened distribution function, and the ends of its confidence interval, cross p."""
    points = _points(values if weights is None else values[weights > 0][:, None], p, len(values))
    count, rows = points.shape
    below = [values <= point for point in points]
    shares = np.concatenate([averaged(part, weights) for part in below], axis=1)  # (N, points · k)
    features = np.tile(_known_features(values, projection, weights), (1, count, 1))
    for line in () if projection is None else (projection, projection.curve):
        if line is not None:
            ordered = np.sort(line.along.reshape(-1, rows), axis=0)
            tails = _normal_tails(line.along)
            each = [averaged(_indicator_feature(part, line, ordered, tails), weights)[..., None] for part in below]
            own = np.concatenate(each, axis=1)
            first = line is projection  # its own features come first
            features = np.concatenate([features[..., :OWN], own, features[..., OWN:]] if first else [features, own], axis=2)
    middle = slice(count // 2 * rows, (count // 2 + 1) * rows)
    ridges = None if kernel is None else np.tile(_ridges(shares[:, middle], features[:, middle], kernel, OWN + 1), count)
    estimate, lower, upper = (part.reshape(count, rows) for part in _sharp(shares, features, kernel, level, 1.0, 0.0, ridges, OWN + 1))
    # A distribution function increases: no point's upper end counts beyond that of a point to its right.
    estimate, lower = np.maximum.accumulate(estimate), np.maximum.accumulate(lower)
    upper = np.minimum.accumulate(upper[::-1])[::-1]
    found = np.full((3, rows), np.nan)
    for row in np.flatnonzero(np.all(np.diff(points, axis=0) > 0, axis=0)):
        for part, curve in enumerate((estimate, upper, lower)):  # the upper end crosses p first
            crossed, doubt = _crossing(points[:, row], curve[:, row], p)
            found[part, row] = crossed + (0, -1, 1)[part] * doubt
    # Where few points lie far apart, in a heavy tail, bends may put an end on the wrong side of the others.
    return Interval(found[0], found.min(axis=0), found.max(axis=0))


def _points(values: np.ndarray, p: float, chains: int) -> np.ndarray:
    """Order statistics (POINTS, k) within six plain standard errors of p; equal ones where the quantity is discrete."""
    ordered = np.sort(values.reshape(-1, values.shape[-1]), axis=0)
    reach = 6 * np.sqrt(p * (1 - p) / chains)
    levels = np.linspace(max(p - reach, 1 / len(ordered)), min(p + reach, 1 - 1 / len(ordered)), POINTS)
    return ordered[np.ceil(levels * len(ordered) - 1e-9).astype(int) - 1]


def _crossing(points: np.ndarray, curve: np.ndarray, p: float) -> tuple[float, float]:
    """Where the curve through the points is p, on the normal scale, on which it bends least; and how far that may be off.

    A line between two points is corrected by how the points beside them bend it. Half of that correction is left as doubt.
    """
    scores, wanted = normal_quantile(np.clip(curve, 1e-9, 1 - 1e-9)), normal_quantile(p)
    if not scores[0] < wanted < scores[-1]:
        return np.nan, np.nan
    right = int(np.searchsorted(scores, wanted))
    left = right - 1
    slope = (points[right] - points[left]) / (scores[right] - scores[left])
    others = [k for k in (left - 1, right + 1) if 0 <= k < len(scores) and not scores[left] <= scores[k] <= scores[right]]
    bends = [((points[k] - points[right]) / (scores[k] - scores[right]) - slope) / (scores[k] - scores[left]) for k in others]
    bent = float(np.mean(bends)) * (wanted - scores[left]) * (wanted - scores[right]) if bends else 0.0
    crossed = np.clip(points[left] + slope * (wanted - scores[left]) + bent, points[left], points[right])
    return float(crossed), abs(bent) / 2


def _polynomials(projection: Projection) -> np.ndarray:
    """φ = 1, t, t²: the features u, t u + Γ, t² u + 2 t Γ, (N, W, k, 3)."""
    t, u, square = projection[:3]
    return np.stack([u, t * u + square, t**2 * u + 2 * t * square], axis=-1)


def features_of(projection: Projection, weights: np.ndarray | None = None) -> np.ndarray:
    """Of each chain, its states averaged: (N, k, p), the `OWN` along the quantity's direction first."""
    parts = [averaged(_polynomials(projection), weights)]
    if projection.common is not None:
        parts.append(projection.common)
    if projection.curve is not None:
        parts.append(averaged(_polynomials(projection.curve)[..., :CURVED], weights))
    return np.concatenate(parts, axis=2)


def _known_features(values: np.ndarray, projection: Projection | None, weights: np.ndarray | None) -> np.ndarray:
    """(N, k, p); none at all without a projection."""
    return np.zeros((len(values), values.shape[2], 0)) if projection is None else features_of(projection, weights)


def _normal_tails(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Φ(t)/φ(t) and Φ(−t)/φ(t), by erfcx, because in the far tails they would be 0/0."""
    with np.errstate(over="ignore"):
        left, right = (np.sqrt(np.pi / 2) * scaled_erfc(part) for part in (-t / np.sqrt(2), t / np.sqrt(2)))
    return left, right


def _indicator_feature(below: np.ndarray, projection: Projection, ordered: np.ndarray, tails: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """That of Stein's solution for 1{t ≤ c} under a normal: Φ(t)Φ(−c)/φ(t) below c, Φ(c)Φ(−t)/φ(t) above; (N, W, k).

    c is the state with as many at or below it: the very state that the indicator jumps at, where the quantity increases with t.
    `ordered` are all t (N · W, k) in order, `tails` the `_normal_tails` of t.
    """
    t, u, square = projection[:3]
    rank = np.clip(np.rint(below.mean(axis=(0, 1)) * len(ordered)).astype(int), 1, len(ordered))
    c = ordered[rank - 1, np.arange(t.shape[-1])]
    lower = t <= c
    with np.errstate(over="ignore", invalid="ignore"):  # far outside, where a feature that is not finite is not used
        solution = np.where(lower, tails[0] * normal_cdf(-c), tails[1] * normal_cdf(c))
        return solution * (u + t * square) + square * (lower - normal_cdf(c))


def _sharp(
    values: np.ndarray, features: np.ndarray, kernel: Kernel | None, level: float, unit, tail=0.0, ridges=None, own: int = OWN
) -> Interval:
    """The interval of the remainders' mean: with the first `own` features, or all where that is narrower.

    At most `FURTHER_GAIN` times narrower than with these few, and `KERNEL_GAIN` times with a kernel; above, not counting what
    the upper tail of index `tail` adds.
    """
    usable = np.all(np.isfinite(values), axis=0) & np.all(np.isfinite(features), axis=(0, 2))
    values, features = np.where(usable, values, 0.0), np.where(usable[:, None], features, 0.0)
    centre, widest = centre_and_sides(regress(values, features[..., :own], None).remainders, level, tail)
    half = widest
    if features.shape[2] > own:
        other, narrower = centre_and_sides(regress(values, features, None).remainders, level, tail)
        better = narrower[1] < COMMON_GAIN * widest[1]
        centre, half = np.where(better, other, centre), np.where(better, np.maximum(narrower, widest[0] / FURTHER_GAIN), half)
    if kernel is not None:
        ridges = _ridges(values, features, kernel, own) if ridges is None else ridges
        sharper, narrower = centre_and_sides(regress(values, features, kernel, ridges).remainders, level, tail)
        better, least = narrower[1] < half[1], np.minimum(widest[0] / KERNEL_GAIN, half)
        centre, half = np.where(better, sharper, centre), np.where(better, np.maximum(narrower, least), half)
    half = np.hypot(half, FINEST * unit + 8 * np.finfo(float).eps * np.abs(centre))
    centre = np.where(usable, centre, np.nan)
    return Interval(centre, centre - half[0], centre + half[1])


def _ridges(values: np.ndarray, features: np.ndarray, kernel: Kernel, own: int) -> np.ndarray:
    """Found with the first `own` features: with all of them the search costs several times as much, and finds the same."""
    return regress(values, features[..., :own], kernel).ridges


def _sd(values: np.ndarray) -> np.ndarray:
    return values.std(axis=(0, 1))
