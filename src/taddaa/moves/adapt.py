"""The step size that the chains of a group share, adapted from their mean acceptance probability."""

from .kernel import namespace


def adapt_step(log_step, mean_acceptance, clock, target_acceptance):
    """Robbins–Monro: ψ ← ψ + (ᾱ_t − ᾱ_*) / √(t+1), with `clock` t = 0, 1, … (section 3.1)."""
    return log_step + (mean_acceptance - target_acceptance) / namespace(clock).sqrt(clock + 1.0)
