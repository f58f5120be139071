"""Lx = ∇·(G∇x) + ∇x·G∇log π and Γx = ∇x·G∇x of the coordinates x(w) of a map, in which chains with G = CCᵀ walk in w.

Quantities that are curved functions of w have features of known mean made of these (`verdict/stein.py`). Derivatives are written out in
NumPy, level by level, by L φ(z) = Σ φ_k L z_k + Σ φ_kl Γ(z_k, z_l): compiling second derivatives would take longer than all of it.
"""

import numpy as np

from .bend import CAP, Bend

AT_ONCE = 10**6  # numbers in the drivers' slopes


def of_places(bend: Bend, factor: np.ndarray, w: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lx and Γx (n, d) at the rows of `w`, where log π(x(w)) + log |dx/dw| has this gradient in w."""
    bend, metric = bend.on_host().bend, factor @ factor.T
    rows = max(1, AT_ONCE // max(bend.select.size, 1))
    parts = [_of_some(bend, metric, w[first : first + rows], gradient[first : first + rows]) for first in range(0, len(w), rows)]
    drift, square = (np.concatenate(part) for part in zip(*parts, strict=True))
    return bend.scale * drift, bend.scale**2 * square


def _of_some(bend: Bend, metric: np.ndarray, w: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lu and Γu."""
    drivers, stretch, shift = bend.select.argmax(axis=0), bend.stretch, bend.shift
    u, drift, square = w.copy(), gradient @ metric, np.tile(np.diag(metric), (len(w), 1))
    own = drift.copy()  # Lw
    slopes = np.eye(w.shape[1])[None, drivers]  # of the drivers, (n, K, d), or (1, K, d) as long as they are the same everywhere
    for level in bend.levels > 0:
        if not level.any():
            continue
        pushed = slopes @ metric
        between = pushed @ slopes.transpose(0, 2, 1)  # Γ of two drivers
        at, lifted = u[:, drivers], drift[:, drivers]
        widths, places = stretch[:, level], shift[:, level]
        with_own = pushed[:, :, level]  # Γ of a driver and a child's w
        # Of z₁ = Σ A u and z₂ = Σ B u, on which a child's width and place depend.
        l1, l2 = lifted @ widths, lifted @ places
        g1, g2 = (np.einsum("ki,nki->ni", part, with_own) for part in (widths, places))
        g11, g12, g22 = (np.einsum("ki,nki->ni", one, between @ two) for one, two in ((widths, widths), (widths, places), (places, places)))
        mine = w[:, level]
        width, place, by1, by2, by11, by12, width1 = _child(bend, level, mine, at @ widths, at @ places)
        u[:, level] = mine * width + place
        drift[:, level] = width * own[:, level] + by1 * l1 + by2 * l2 + 2 * width1 * g1 + by11 * g11 + 2 * by12 * g12
        square[:, level] = (
            width**2 * np.diag(metric)[level] + by1**2 * g11 + by2**2 * g22 + 2 * (width * (by1 * g1 + by2 * g2) + by1 * by2 * g12)
        )
        in_turn = np.flatnonzero(level[drivers])  # who drives others
        slopes = np.repeat(slopes, len(w) // len(slopes), axis=0) if in_turn.size else slopes
        for k in in_turn:
            i = np.flatnonzero(level).tolist().index(drivers[k])
            slope = np.einsum("n,k,nkd->nd", by1[:, i], widths[:, i], slopes) + np.einsum("n,k,nkd->nd", by2[:, i], places[:, i], slopes)
            slope[:, drivers[k]] += width[:, i]
            slopes[:, k] = slope
    return drift, square


def _child(bend: Bend, level: np.ndarray, w: np.ndarray, z1: np.ndarray, z2: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of u = w e^a(z₁) + b(z₁, z₂): e^a, b, ∂u/∂z₁, ∂u/∂z₂, ∂²u/∂z₁², ∂²u/∂z₁∂z₂ and ∂e^a/∂z₁."""
    bound, known, leans = np.tanh(z1 / CAP), bend.known[level], z2 + bend.neck[level]
    told = np.exp(-2 * CAP * bound)
    told1 = -2 * told * (1 - bound**2)
    told2 = -2 * (1 - bound**2) * (told1 - 2 * told * bound / CAP)
    p, p1, p2 = (1 - known) * told + known, (1 - known) * told1, (1 - known) * told2
    width = p**-0.5
    width1, width2 = -0.5 * width * p1 / p, width * (0.75 * (p1 / p) ** 2 - 0.5 * p2 / p)
    place = (told * leans + bend.mouth[level]) / p
    place1 = (told1 * leans - place * p1) / p
    place11 = (told2 * leans - 2 * place1 * p1 - place * p2) / p
    place12 = (told1 - told * p1 / p) / p
    return width, place, w * width1 + place1, told / p, w * width2 + place11, place12, width1
