"""Four Markov kernels in whitened form; Metropolis acceptance is written once.

With a metric C (preconditioner G = C Cᵀ) every kernel proposes y = x + C z and sees the slope Cᵀ∇log π(x), so that no
kernel knows about preconditioning. Noise is in single precision. See appendix A of Wang, Kasprzak and Huggins (2023).

A kernel is written along the last axis: for one chain in a compiled program (JAX), or for all chains at once on the host (NumPy).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError

LEAST_LEAPFROG = 3  # steps of a trajectory; with fewer it is hardly better than a step of MALA
QUARTER_TURN = math.pi / 2  # after which a whitened Gaussian is forgotten; after half a turn it is where it was, but for its sign


class Point(NamedTuple):
    """Where one chain stands, and all that was paid for there."""

    position: Any
    logdensity: Any
    gradient: Any
    slope: Any  # Cᵀ∇log π


class Noise(NamedTuple):
    """The random numbers of one iteration of one chain."""

    normal: Any  # (d,)
    uniform: Any  # as many as the kernel asks for
    accept: Any  # ()


class Outcome(NamedTuple):
    """What happened to one chain in one iteration."""

    point: Point
    probability: Any  # of acceptance
    accepted: Any
    nonfinite: Any  # the proposal's log density or gradient was NaN or infinite


Moved = Callable[[Point, Any], Point]  # the point that is z away in whitened space, evaluated


class Kernel(ABC):
    """A π-invariant proposal: `propose` returns the proposed point and log q(y→x) − log q(x→y).

    `target_acceptance` and `scaling` γ are those of optimal scaling theory: the step is of order d^−γ. A kernel that is `rowwise` proposes
    for many chains at once too: vectors are then rows, numbers have one entry a row, and sums go along the last axis.
    """

    target_acceptance: ClassVar[float]
    scaling: ClassVar[float]
    uses_gradient: ClassVar[bool] = True
    rowwise: ClassVar[bool] = False
    stepwise: ClassVar[bool] = False  # is it for runs so short that compiling a loop for them takes longer than they do?
    any_symmetric_noise: ClassVar[bool] = False  # may the noise be any symmetric one? (Not if its density is used.)

    @abstractmethod
    def propose(self, point: Point, noise: Noise, step, moved: Moved) -> tuple[Point, Any]: ...

    @property
    def gradients_per_iteration(self) -> int:
        return 1

    def uniforms(self, dim: int) -> int:
        """How many uniform numbers an iteration of one chain needs, beside d normals and the one for acceptance."""
        return 0

    def initial_step(self, dim: int) -> float:
        """2.4² d^−γ, the paper's initial step (section 3.1)."""
        return 2.4**2 / dim**self.scaling

    def arrived_step(self, dim: int) -> float:
        """A first step for chains that are at the target, in coordinates where it is about round."""
        return self.initial_step(dim)

    @property
    def longest_step(self) -> float:
        """That adaptation may come to."""
        return math.inf

    def exploring(self, dim: int) -> "Kernel":
        """What the chains go over to once they have arrived at the target."""
        return self

    def unbound(self) -> "Kernel":
        """The same with steps as long as acceptance allows, for coordinates that have not been made round."""
        return self

    def longer(self) -> "Kernel":
        """The same with twice as many steps in a trajectory, where acceptance keeps them short."""
        return self

    @property
    def label(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class RWMH(Kernel):
    """Random walk Metropolis: z ~ N(0, h I)."""

    rowwise: ClassVar[bool] = True
    target_acceptance: ClassVar[float] = 0.234
    scaling: ClassVar[float] = 1.0
    uses_gradient: ClassVar[bool] = False
    any_symmetric_noise: ClassVar[bool] = True

    def propose(self, point, noise, step, moved):
        xp, step = _of(noise, step)
        return moved(point, xp.sqrt(step) * noise.normal), 0.0


@dataclass(frozen=True)
class MALA(Kernel):
    """Metropolis-adjusted Langevin: z ~ N((h/2) g, h I)."""

    rowwise: ClassVar[bool] = True
    target_acceptance: ClassVar[float] = 0.574
    scaling: ClassVar[float] = 1 / 3

    def propose(self, point, noise, step, moved):
        xp, step = _of(noise, step)
        z = 0.5 * step * point.slope + xp.sqrt(step) * noise.normal
        proposal = moved(point, z)
        backward = z + 0.5 * step * proposal.slope  # −z is the way back, its mean (h/2) g(y)
        return proposal, 0.5 * _total(noise.normal**2 - backward**2 / step, point)


@dataclass(frozen=True)
class Barker(Kernel):
    """Barker's proposal (Livingstone and Zanella): z_i = ±w_i, w ~ N(0, h I), with probability σ(w_i g_i) of keeping the sign.

    log correction = Σ_i [log σ(−z_i g_i(y)) − log σ(z_i g_i(x))]; the Gaussian factors cancel.
    """

    rowwise: ClassVar[bool] = True
    target_acceptance: ClassVar[float] = 0.4
    scaling: ClassVar[float] = 1 / 3
    any_symmetric_noise: ClassVar[bool] = True

    def uniforms(self, dim):
        return dim

    def propose(self, point, noise, step, moved):
        xp, step = _of(noise, step)
        w = xp.asarray(xp.sqrt(step), noise.normal.dtype) * noise.normal
        pull = w * _single(point.slope, noise.normal)
        # One exponential serves the sign's probability σ(pull) and the correction, and cannot overflow.
        small = xp.exp(-xp.abs(pull))
        keep = noise.uniform * (1 + small) < xp.where(pull >= 0, 1.0, small)
        z, ahead = xp.where(keep, w, -w), xp.where(keep, pull, -pull)
        proposal = moved(point, z)
        # Where it stood still, a slope beyond single precision must not make the zero a NaN.
        back = xp.where(z == 0, 0.0, z * _single(proposal.slope, z))
        # log σ(−b) − log σ(a) = softplus(−a) − softplus(b), softplus(t) = max(t, 0) + log(1 + exp(−|t|))
        bends = xp.log((1 + small) / (1 + xp.exp(-xp.abs(back))))
        return proposal, _total(xp.maximum(-ahead, 0) - xp.maximum(back, 0) + bends, point)


@dataclass(frozen=True)
class HMC(Kernel):
    """Hamiltonian Monte Carlo: `leapfrog` steps of size h with momentum N(0, I) in whitened space.

    `jitter` shortens each trajectory's step by a random factor from 1 − jitter to 1, without which a well-whitened
    target lets all coordinates come back to their starts at the same time. The paper has none. `longest` is how far a trajectory may go
    on average, h times its steps with the jitter: an acceptance of 0.651 alone would let short ones go half a turn, which moves no square.
    """

    leapfrog: int = 10
    jitter: float = 0.5
    longest: float = math.inf
    rowwise: ClassVar[bool] = True
    target_acceptance: ClassVar[float] = 0.651
    scaling: ClassVar[float] = 1 / 4

    def __post_init__(self):
        if isinstance(self.leapfrog, bool) or not isinstance(self.leapfrog, int) or not 1 <= self.leapfrog <= 10**6:
            raise InputError(f"leapfrog must be a whole number from 1 to 10**6, got {self.leapfrog!r}")
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, (int, float)) or not 0 <= self.jitter < 1:
            raise InputError(f"jitter must lie in [0, 1), got {self.jitter!r}")
        if isinstance(self.longest, bool) or not isinstance(self.longest, (int, float)) or not self.longest > 0:
            raise InputError(f"longest must be a positive number (infinite for trajectories of any length), got {self.longest!r}")

    @property
    def gradients_per_iteration(self):
        return self.leapfrog

    @property
    def longest_step(self):
        return self.longest / (self.leapfrog * (1 - self.jitter / 2))

    def unbound(self):
        return replace(self, longest=math.inf)

    def longer(self):
        return replace(self, leapfrog=2 * self.leapfrog)

    def initial_step(self, dim):
        return min(super().initial_step(dim), self.longest_step)

    def arrived_step(self, dim):
        return min(1.2 / dim**self.scaling, self.longest_step)

    def uniforms(self, dim):
        return 1

    def propose(self, point, noise, step, moved):
        xp, step = _of(noise, step)
        momentum = noise.normal.astype(point.position.dtype)
        step = step * (1 - self.jitter * noise.uniform[..., :1])

        def leap(carried):
            here, p = carried
            p = p + 0.5 * step * here.slope
            there = moved(here, step * p)
            return there, p + 0.5 * step * there.slope

        proposal, final = _repeated(xp, self.leapfrog, leap, (point, momentum))
        return proposal, 0.5 * _total(momentum**2 - final**2, point)


@dataclass(frozen=True)
class Relay(Barker):
    """Barker's kernel until the chains have arrived, then Hamiltonian trajectories.

    Barker's finds the way from wherever an approximation puts the chains; at the target, trajectories of a few steps make more of the
    same number of gradients. They are at most a quarter of a turn long: six in seven or more are accepted on a Gaussian.
    """

    stepwise: ClassVar[bool] = True

    def exploring(self, dim):
        return HMC(leapfrog=max(LEAST_LEAPFROG, math.ceil(1.3 * dim**HMC.scaling)), longest=QUARTER_TURN)

    @property
    def label(self):
        return "Barker, then HMC"


def namespace(array) -> Any:
    """The library whose functions take it: JAX in a compiled program, NumPy on the host."""
    return jnp if isinstance(array, jax.Array) else np


def in_precision(values) -> np.ndarray:
    """As a NumPy array, in the precision that JAX computes in. JAX's own `asarray` compiles a program for every new shape."""
    return np.asarray(values, jnp.result_type(float))


def _of(noise: Noise, step) -> tuple[Any, Any]:
    """The library to compute with; and the step, to be multiplied with vectors."""
    xp = namespace(noise.normal)
    return xp, xp.asarray(step)[..., None]


def _repeated(xp, times: int, change: Callable, carried):
    """A loop is compiled once."""
    if xp is jnp:
        return jax.lax.fori_loop(0, times, lambda _, carried: change(carried), carried)
    for _ in range(times):
        carried = change(carried)
    return carried


def _single(slope, noise):
    """In the noise's precision, twice as fast: Barker's kernel leaves π invariant with any function of x as slope, as long as both
    directions use the same one. The error is 10⁻⁷ a coordinate in a log probability."""
    return slope.astype(noise.dtype)


def _total(terms, point: Point):
    """Σ over coordinates in the precision of the position."""
    return terms.sum(axis=-1, dtype=point.position.dtype)


def metropolis(kernel: Kernel, point: Point, noise: Noise, step, moved: Moved) -> Outcome:
    """One Metropolis–Hastings iteration; a non-finite proposal is rejected, and a start outside the support may leave it."""
    xp = namespace(noise.normal)
    proposal, correction = kernel.propose(point, noise, step, moved)
    # 0·∞ and 0·NaN are NaN: one sum tells whether all is finite, faster than a reduction of truth values.
    finite = xp.isfinite(proposal.logdensity + (0.0 * proposal.slope).sum(axis=-1))
    log_ratio = proposal.logdensity - point.logdensity + correction
    probability = xp.where(finite & ~xp.isnan(log_ratio), xp.exp(xp.minimum(log_ratio, 0.0)), 0.0)
    accepted = noise.accept < probability
    taken = lambda new, old: xp.where(accepted[..., None] if new.ndim > accepted.ndim else accepted, new, old)  # noqa: E731
    return Outcome(Point(*map(taken, proposal, point)), probability, accepted, ~finite)


KERNELS: dict[str, Kernel] = {"relay": Relay(), "rwmh": RWMH(), "mala": MALA(), "barker": Barker(), "hmc": HMC()}


def as_kernel(kernel) -> Kernel:
    """A kernel as it is, or by its name."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str) and kernel.lower() in KERNELS:
        return KERNELS[kernel.lower()]
    raise InputError(f"kernel must be one of {', '.join(sorted(KERNELS))} or a taddaa kernel object, got {kernel!r}")
