"""Four Markov kernels in whitened form, each written for one chain; Metropolis acceptance is written once.

With a metric C (preconditioner G = C Cᵀ) every kernel proposes y = x + C z and sees the slope Cᵀ∇log π(x), so that no
kernel knows about preconditioning. Noise is in single precision. See appendix A of Wang, Kasprzak and Huggins (2023).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ..errors import InputError

LEAST_LEAPFROG = 3  # steps of a trajectory; with fewer it is hardly better than a step of MALA


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


Evaluate = Callable[[Any], Point]


class Kernel(ABC):
    """A π-invariant proposal: `propose` returns the proposed point and log q(y→x) − log q(x→y).

    `target_acceptance` and `scaling` γ are those of optimal scaling theory: the step is of order d^−γ.
    """

    target_acceptance: ClassVar[float]
    scaling: ClassVar[float]
    uses_gradient: ClassVar[bool] = True
    can_stand: ClassVar[bool] = False  # does it propose the very point, and evaluate it, with a step of length zero?
    any_symmetric_noise: ClassVar[bool] = False  # may the noise be any symmetric one? (Not if its density is used.)

    @abstractmethod
    def propose(self, point: Point, noise: Noise, step, push: Callable, evaluate: Evaluate) -> tuple[Point, Any]: ...

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

    def exploring(self, dim: int) -> "Kernel":
        """What the chains go over to once they have arrived at the target."""
        return self

    def told(self, arrived, dim: int) -> "Kernel":
        """As a program runs it that is told, each time, whether the chains have arrived; itself if `exploring` has a program of its own."""
        return self

    @property
    def label(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class RWMH(Kernel):
    """Random walk Metropolis: z ~ N(0, h I)."""

    target_acceptance: ClassVar[float] = 0.234
    scaling: ClassVar[float] = 1.0
    uses_gradient: ClassVar[bool] = False
    any_symmetric_noise: ClassVar[bool] = True

    def propose(self, point, noise, step, push, evaluate):
        return evaluate(point.position + push(jnp.sqrt(step) * noise.normal)), 0.0


@dataclass(frozen=True)
class MALA(Kernel):
    """Metropolis-adjusted Langevin: z ~ N((h/2) g, h I)."""

    target_acceptance: ClassVar[float] = 0.574
    scaling: ClassVar[float] = 1 / 3

    def propose(self, point, noise, step, push, evaluate):
        z = 0.5 * step * point.slope + jnp.sqrt(step) * noise.normal
        proposal = evaluate(point.position + push(z))
        backward = z + 0.5 * step * proposal.slope  # −z is the way back, its mean (h/2) g(y)
        return proposal, 0.5 * _total(noise.normal**2 - backward**2 / step, point)


@dataclass(frozen=True)
class Barker(Kernel):
    """Barker's proposal (Livingstone and Zanella): z_i = ±w_i, w ~ N(0, h I), with probability σ(w_i g_i) of keeping the sign.

    log correction = Σ_i [log σ(−z_i g_i(y)) − log σ(z_i g_i(x))]; the Gaussian factors cancel.
    """

    target_acceptance: ClassVar[float] = 0.4
    scaling: ClassVar[float] = 1 / 3
    can_stand: ClassVar[bool] = True
    any_symmetric_noise: ClassVar[bool] = True

    def uniforms(self, dim):
        return dim

    def propose(self, point, noise, step, push, evaluate):
        signed = self.signed(point, noise, step)
        proposal = evaluate(point.position + push(signed.z))
        return proposal, self.correction(signed, point, proposal)

    def signed(self, point: Point, noise: Noise, step) -> "Signed":
        """The increment z, each coordinate's sign chosen."""
        w = jnp.asarray(jnp.sqrt(step), noise.normal.dtype) * noise.normal
        pull = w * _single(point.slope, noise.normal)
        # One exponential serves the sign's probability σ(pull) and the correction, and cannot overflow.
        small = jnp.exp(-jnp.abs(pull))
        keep = noise.uniform * (1 + small) < jnp.where(pull >= 0, 1.0, small)
        return Signed(jnp.where(keep, w, -w), jnp.where(keep, pull, -pull), small)

    def correction(self, signed: "Signed", point: Point, proposal: Point):
        # Where it stood still, a slope beyond single precision must not make the zero a NaN.
        back = jnp.where(signed.z == 0, 0.0, signed.z * _single(proposal.slope, signed.z))
        # log σ(−b) − log σ(a) = softplus(−a) − softplus(b), softplus(t) = max(t, 0) + log(1 + exp(−|t|))
        bends = jnp.log((1 + signed.small) / (1 + jnp.exp(-jnp.abs(back))))
        return _total(jnp.maximum(-signed.ahead, 0) - jnp.maximum(back, 0) + bends, point)


class Signed(NamedTuple):
    """Of Barker's proposal: z, z g(x), and exp(−|z g(x)|)."""

    z: Any
    ahead: Any
    small: Any


@dataclass(frozen=True)
class HMC(Kernel):
    """Hamiltonian Monte Carlo: `leapfrog` steps of size h with momentum N(0, I) in whitened space.

    `jitter` shortens each trajectory's step by a random factor from 1 − jitter to 1, without which a well-whitened
    target lets all coordinates come back to their starts at the same time. The paper has none.
    """

    leapfrog: int = 10
    jitter: float = 0.5
    target_acceptance: ClassVar[float] = 0.651
    scaling: ClassVar[float] = 1 / 4

    def __post_init__(self):
        if isinstance(self.leapfrog, bool) or not isinstance(self.leapfrog, int) or not 1 <= self.leapfrog <= 10**6:
            raise InputError(f"leapfrog must be a whole number from 1 to 10**6, got {self.leapfrog!r}")
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, (int, float)) or not 0 <= self.jitter < 1:
            raise InputError(f"jitter must lie in [0, 1), got {self.jitter!r}")

    @property
    def gradients_per_iteration(self):
        return self.leapfrog

    def arrived_step(self, dim):
        return 1.2 / dim**self.scaling

    def uniforms(self, dim):
        return 1

    def propose(self, point, noise, step, push, evaluate):
        return self.trajectory(point, noise, step, lambda here, z: evaluate(here.position + push(z)), self.leapfrog)

    def trajectory(self, point: Point, noise: Noise, step, moved: Callable[[Point, Any], Point], steps) -> tuple[Point, Any]:
        """`steps` times along the momentum: `moved` evaluates the point that is z away in whitened space."""
        momentum = noise.normal.astype(point.position.dtype)
        step = step * (1 - self.jitter * noise.uniform[0])

        def leap(_, carried):
            here, p = carried
            p = p + 0.5 * step * here.slope
            there = moved(here, step * p)
            return there, p + 0.5 * step * there.slope

        proposal, final = jax.lax.fori_loop(0, steps, leap, (point, momentum))
        return proposal, 0.5 * (jnp.sum(momentum**2) - jnp.sum(final**2))


@dataclass(frozen=True)
class Relay(Barker):
    """Barker's kernel until the chains have arrived, then Hamiltonian trajectories.

    Barker's finds the way from wherever an approximation puts the chains; at the target, trajectories of a few steps make more of the
    same number of gradients. They are about a quarter of a turn long, after which a whitened Gaussian is forgotten.
    """

    def exploring(self, dim):
        return HMC(leapfrog=max(LEAST_LEAPFROG, math.ceil(1.3 * dim**HMC.scaling)))

    def told(self, arrived, dim):
        then = self.exploring(dim)
        return Either(arrived, self, then) if isinstance(then, HMC) else self

    @property
    def label(self):
        return "Barker, then HMC"


@dataclass(frozen=True)
class Either(Kernel):
    """Barker's kernel or trajectories, as `arrived` says while the program runs: so one program does for both.

    Most of compiling is the log density's gradient, which is here once: a step of Barker's is taken as a trajectory of one step, whose
    increment is Barker's.
    """

    arrived: Any
    barker: Barker
    hmc: HMC

    @property
    def target_acceptance(self):  # type: ignore[override]
        return jnp.where(self.arrived, self.hmc.target_acceptance, self.barker.target_acceptance)

    def propose(self, point, noise, step, push, evaluate):
        signed = self.barker.signed(point, noise, step)

        def moved(here, z):
            return evaluate(here.position + push(jnp.where(self.arrived, z, signed.z)))

        proposal, energy = self.hmc.trajectory(point, noise, step, moved, jnp.where(self.arrived, self.hmc.leapfrog, 1))
        return proposal, jnp.where(self.arrived, energy, self.barker.correction(signed, point, proposal))


def _single(slope, noise):
    """In the noise's precision, twice as fast: Barker's kernel leaves π invariant with any function of x as slope, as long as both
    directions use the same one. The error is 10⁻⁷ a coordinate in a log probability."""
    return slope.astype(noise.dtype)


def _total(terms, point: Point):
    """Σ over coordinates in the precision of the position."""
    return jnp.sum(terms, dtype=point.position.dtype)


def metropolis(kernel: Kernel, point: Point, noise: Noise, step, push: Callable, evaluate: Evaluate) -> Outcome:
    """One Metropolis–Hastings iteration; a non-finite proposal is rejected, and a start outside the support may leave it."""
    proposal, correction = kernel.propose(point, noise, step, push, evaluate)
    # 0·∞ and 0·NaN are NaN: one sum tells whether all is finite, faster than a reduction of truth values.
    finite = jnp.isfinite(proposal.logdensity + jnp.sum(0.0 * proposal.slope))
    log_ratio = proposal.logdensity - point.logdensity + correction
    probability = jnp.where(finite & ~jnp.isnan(log_ratio), jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
    accepted = noise.accept < probability
    moved = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal, point)
    return Outcome(moved, probability, accepted, ~finite)


KERNELS: dict[str, Kernel] = {"relay": Relay(), "rwmh": RWMH(), "mala": MALA(), "barker": Barker(), "hmc": HMC()}


def as_kernel(kernel) -> Kernel:
    """A kernel as it is, or by its name."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str) and kernel.lower() in KERNELS:
        return KERNELS[kernel.lower()]
    raise InputError(f"kernel must be one of {', '.join(sorted(KERNELS))} or a taddaa kernel object, got {kernel!r}")
