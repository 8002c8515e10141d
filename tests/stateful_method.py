"""A method with server state, as somebody else would write it: momentum on the size of the block scalars."""

from __future__ import annotations

import numpy as np

from zorba_core.engine.methods.interface import ScalarMethod


class Momentum(ScalarMethod):
    """Each block's scalars are scaled by how large its scalars have been, smoothed over the rounds."""

    def init(self, num_blocks, settings):
        return {"speed_M": np.ones(num_blocks), "rounds": np.zeros(())}

    def coefficients(self, state, scalars, settings):
        size_M = np.abs(scalars.rho_bar_MQ).mean(axis=1)
        speed_M = 0.9 * state["speed_M"] + 0.1 * size_M
        return scalars.rho_bar_MQ * speed_M[:, None], {"speed_M": speed_M, "rounds": state["rounds"] + 1}


MOMENTUM = Momentum("momentum", "Momentum", "the size of the block scalars carries over", 2, "scalars", True, True)
