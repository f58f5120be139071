"""Which kernel the chains walk with: one on the way to the target, another once they have arrived there; and when they change."""

from typing import TYPE_CHECKING

import numpy as np

from ..moves.kernel import Kernel
from ..plan import FEWEST_LOOKS, LOOKS
from .machine.placement import agreed

if TYPE_CHECKING:
    from .walk import Walk

SHORT = 0.8  # of the step that would carry a trajectory through a quarter of a turn: where acceptance keeps it under that, more steps do
ONE_STEP_FITS = 25.0  # times the squared force of a round target, which no chain at a target that has been made round should feel


def go_over(walk: "Walk") -> None:
    """To the kernel for chains that have arrived, if they have, and the round is long enough for it.

    After an early round it is asked again: on their way they may have met what they had not when they went over.
    """
    dim, kernel = walk.starts.shape[1], at_the_target(walk)
    if kernel is walk.on_the_way or walk.goal - walk.iteration < FEWEST_LOOKS * kernel.gradients_per_iteration:
        return
    if walk.exploring and walk.full_rounds != 0:
        return
    fits = bool(agreed(one_step_fits(walk)))
    if fits != walk.exploring:
        walk.exploring = fits
        walk.use_kernel()
        step = kernel.arrived_step(dim) if fits else walk.on_the_way.initial_step(dim)
        walk.chains = walk.engine.with_steps(walk.chains, np.log(step))
        walk.chains = walk.chains._replace(clock=walk.engine.place.everywhere(0.0, walk.engine.dtype))


def go_longer(walk: "Walk") -> None:
    """Where acceptance has kept steps so short that trajectories stay far from a quarter of a turn; if the round is long enough.

    Not before 2 T: until then the metric still gets so much better that steps do too.
    """
    kernel = walk.engine.kernel
    if not walk.exploring or walk.longer or walk.full_rounds < 2 or not np.isfinite(kernel.longest_step):
        return
    room = walk.goal - walk.iteration >= LOOKS * kernel.longer().gradients_per_iteration
    if room and bool(agreed(walk.step_length < SHORT * kernel.longest_step)):
        walk.longer = True
        walk.use_kernel()
        longest = np.log(walk.engine.kernel.longest_step)
        walk.chains = walk.engine.with_steps(walk.chains, np.minimum(walk.engine.host(walk.chains.log_step), longest))


def at_the_target(walk: "Walk") -> Kernel:
    """The kernel of chains that have arrived; what a quarter of a turn is, is known only where a metric is learnt."""
    chains, dim = walk.starts.shape
    kernel = walk.on_the_way.exploring(dim)
    kernel = kernel.longer() if walk.longer else kernel
    return kernel if walk.preconditioner.pilots(dim, chains) else kernel.unbound()


def one_step_fits(walk: "Walk") -> bool:
    """Whether no chain that has arrived feels a force that a round target does not have: there, one step size does for all."""
    slope = walk.engine.host(walk.chains.point.slope).astype(float)[walk.arrived()]
    return bool(np.max(np.sum(slope**2, axis=1)) <= ONE_STEP_FITS * slope.shape[1])
