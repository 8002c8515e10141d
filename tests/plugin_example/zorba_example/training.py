"""The parts that compute: imported when a run uses them."""

import numpy as np

from zorba_core.engine import Estimate, ScalarMethod, estimate


class Momentum(ScalarMethod):
    """Each block's scalars are scaled by how large its scalars have been, smoothed over the rounds."""

    def init(self, num_blocks, settings):
        return {"speed_M": np.ones(num_blocks), "rounds": np.zeros(())}

    def coefficients(self, state, scalars, settings):
        size_M = np.abs(scalars.rho_bar_MQ).mean(axis=1)
        speed_M = 0.9 * state["speed_M"] + 0.1 * size_M
        return scalars.rho_bar_MQ * speed_M[:, None], {"speed_M": speed_M, "rounds": state["rounds"] + 1}


def central(network, batches, A_MN, seeds_Q, directions, *, mu, inactive):
    """(F(w + mu v) - F(w - mu v)) / 2 mu, from two one-sided differences."""
    ahead = estimate(network, batches, A_MN, seeds_Q, directions, mu=mu, inactive=inactive)
    behind = estimate(network, batches, A_MN, seeds_Q, directions, mu=-mu, inactive=inactive)
    passes = ahead.forward_passes + behind.forward_passes
    return Estimate((ahead.rho_NQ + behind.rho_NQ) / 2, ahead.loss_N, passes)
