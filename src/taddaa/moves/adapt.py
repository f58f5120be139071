"""The step size that the chains of a group share, adapted from their mean acceptance probability."""

import math

from .kernel import Kernel, namespace


def adapt_step(log_step, mean_acceptance, clock, kernel: Kernel):
    """Robbins–Monro: ψ ← ψ + (ᾱ_t − ᾱ_*) / √(t+1), with `clock` t = 0, 1, … (section 3.1), up to the kernel's longest step."""
    xp = namespace(clock)
    adapted = log_step + (mean_acceptance - kernel.target_acceptance) / xp.sqrt(clock + 1.0)
    return adapted if math.isinf(kernel.longest_step) else xp.minimum(adapted, math.log(kernel.longest_step))
