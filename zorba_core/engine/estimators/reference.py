"""Zeroth-order estimates, one client after another: the paper's finite differences, for readers and tests.

    rho[n, q] = (F_n(w^_n + mu v_q; xi_n) - F_n(w^_n; xi_n)) / mu                  the finite difference of eq. (1)

The estimate of the gradient of F_n by an active block m is then (1/Q) sum_q rho[n, q] v_q,m. F_n is the mean
cross-entropy of the answers in client n's batch xi_n, and v_q perturbs only the blocks that client n activates. All
clients share w and v_q; they differ in their active blocks and their data.

There are two readings of w^_mn = a_mn w_m for an inactive block:

- ``frozen`` (default): the block has its weights and is not perturbed, as in the paper's text on frozen blocks;
- ``dropped``: all weights of the block are zero.

Shapes: M blocks, N clients, Q directions, B rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from zorba_core.engine.blocks import Blocks, Inactive
from zorba_core.engine.directions import Directions
from zorba_core.engine.rows import Rows


@dataclass(frozen=True, eq=False)
class Estimate:
    """The results of the clients in a round."""

    rho_NQ: np.ndarray  # float64
    loss_N: np.ndarray  # F_n at the unperturbed point, float64
    forward_passes: int  # number of passes of one client's batch
    backward_passes: int = 0


def batch_loss(
    network: Blocks, batch: Rows, active_M: Sequence[bool] | np.ndarray | None = None, inactive: Inactive = "frozen"
) -> float:
    """F_n(w; xi): the mean cross-entropy of the batch's answers.

    Computed in float64 from the logits on, because finite differences subtract two close losses.
    """
    return float(batch.losses(network, network(batch, active_M, inactive)).sum() / batch.weights.sum())


@torch.no_grad()
def estimate(
    network: Blocks,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int] | np.ndarray,
    directions: Directions,
    *,
    mu: float,
    inactive: Inactive = "frozen",
) -> Estimate:
    """rho[n, q] of every client and direction. The network's weights have the same bits afterwards."""
    A_MN = np.asarray(A_MN, dtype=bool)
    num_blocks, num_clients = A_MN.shape
    loss_N = np.array([batch_loss(network, batches_N[n], A_MN[:, n], inactive) for n in range(num_clients)])
    rho_NQ = np.zeros((num_clients, len(seeds_Q)))
    for q, seed in enumerate(seeds_Q):
        # Drawn once for all clients, because drawing costs more than adding.
        shift_M = [directions.block(int(seed), m).mul_(mu) for m in range(num_blocks)]
        for n in range(num_clients):
            active_M = A_MN[:, n]
            with network.moving(np.flatnonzero(active_M).tolist()) as weights_by_block:
                for m, weights in weights_by_block.items():
                    weights.add_(shift_M[m])
                loss = batch_loss(network, batches_N[n], active_M, inactive)
            rho_NQ[n, q] = (loss - loss_N[n]) / mu
        del shift_M  # frees the memory before the next direction
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients * (1 + len(seeds_Q)))
