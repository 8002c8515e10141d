"""An estimator. It loads torch, so it is imported when a run uses it."""

from zorba_core.engine import Estimate, estimate


def central(network, batches, A_MN, seeds_Q, directions, *, mu, inactive):
    """(F(w + mu v) - F(w - mu v)) / 2 mu, from two one-sided differences."""
    ahead = estimate(network, batches, A_MN, seeds_Q, directions, mu=mu, inactive=inactive)
    behind = estimate(network, batches, A_MN, seeds_Q, directions, mu=-mu, inactive=inactive)
    passes = ahead.forward_passes + behind.forward_passes
    return Estimate((ahead.rho_NQ + behind.rho_NQ) / 2, ahead.loss_N, passes)
