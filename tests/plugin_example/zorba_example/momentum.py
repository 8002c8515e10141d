"""A method with a server state."""

import numpy as np

from zorba_core.engine import Step, ZorBA


class Momentum(ZorBA):
    """ZorBA, with each block's averages scaled by how large they have been, smoothed over the rounds."""

    name, title = "momentum", "Momentum"
    help = "the size of the block scalars carries over"
    default_directions = 2

    def init(self, num_blocks, settings):
        return {"speed_M": np.ones(num_blocks), "rounds": np.zeros(())}

    def update(self, plan, reports, reported_N, state):
        step, _ = super().update(plan, reports, reported_N, state)
        speed_M = 0.9 * state["speed_M"] + 0.1 * np.abs(step.rho_bar_MQ).mean(axis=1)
        return Step(step.rho_bar_MQ * speed_M[:, None], plan.seeds_Q), {
            "speed_M": speed_M,
            "rounds": state["rounds"] + 1,
        }
