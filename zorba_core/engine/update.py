"""The step of a round, applied to the weights: w_m <- w_m - lr sum_q rho_bar[m, q] v_q,m, or along a gradient.

Server, clients, resumed runs and replays all change the weights here, so they have the same bits.

Shapes: M blocks, Q directions of the step, D_m parameters of block m.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.round import Step


@torch.no_grad()
def apply_step(network: Blocks, step: Step, directions: Directions, lr: float) -> None:
    """Move every block of ``network`` by the step at the learning rate ``lr``, in place."""
    if step.rho_bar_MQ is not None:
        update_blocks(network, step.rho_bar_MQ, step.seeds_Q, directions, lr)
    for m, gradient in enumerate(step.gradient_M or ()):
        network.block_weights(m).sub_(gradient, alpha=lr)


@torch.no_grad()
def update_blocks(
    network: Blocks,
    rho_bar_MQ: np.ndarray,
    seeds_Q: Sequence[int] | np.ndarray,
    directions: Directions,
    lr: float,
) -> None:
    """w_m <- w_m - lr sum_q rho_bar[m, q] v_q,m, in place, for every block with a non-zero average.

    The sum over q is computed before the subtraction, so w_m is rounded once a round and not Q times.
    """
    for m in range(network.num_blocks):
        if np.any(rho_bar_MQ[m]):
            network.block_weights(m).sub_(directions.step(rho_bar_MQ[m], seeds_Q, m), alpha=lr)
