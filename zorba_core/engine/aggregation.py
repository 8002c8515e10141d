"""The server's update, eq. (2) of the paper: average the scalars per block, then move each block along the shared
directions.

    w_m <- w_m - lr sum_n (a_mn / c_m) (1/Q) sum_q rho[n, q] v_q,m  =  w_m - lr sum_q rho_bar[m, q] v_q,m

The paper writes the average as one number a direction, but its weights a_mn / c_m depend on the block, so there is one
average per block and direction: ``rho_bar_MQ``.

Shapes: M blocks, N clients, Q directions of the round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions


def average_per_block(rho_NQ: np.ndarray, A_MN: np.ndarray, reported_N: np.ndarray | None = None) -> np.ndarray:
    """rho_bar[m, q] = (1/Q) sum_n (a_mn / c_m) rho[n, q], shape (M, Q), float64.

    Only clients in ``reported_N`` (bool, default all) count, in the sum and in c_m. A block without reports gets zeros,
    so its weights do not change.
    """
    A_MN = np.asarray(A_MN, dtype=bool)
    rho_NQ = np.asarray(rho_NQ, dtype=np.float64)
    if reported_N is not None:
        A_MN = A_MN & reported_N
        rho_NQ = np.where(reported_N[:, None], rho_NQ, 0.0)
    popularity_M = A_MN.sum(axis=1)
    weight_MN = A_MN / np.maximum(popularity_M, 1)[:, None]
    # A sum over clients in their order, because the order within a matrix product depends on machine and threads, and a
    # replay on another machine must give the same bits.
    return (weight_MN[:, :, None] * rho_NQ[None]).sum(axis=1) / rho_NQ.shape[1]


@torch.no_grad()
def update_blocks(
    network: Blocks,
    rho_bar_MQ: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    lr: float,
) -> None:
    """w_m <- w_m - lr sum_q rho_bar[m, q] v_q,m, in place, for every block with a non-zero average.

    The sum over q is computed before the subtraction, so w_m is rounded once a round and not Q times.
    """
    for m in range(network.num_blocks):
        if np.any(rho_bar_MQ[m]):
            network.block_weights(m).sub_(directions.step(rho_bar_MQ[m], seeds_Q, m), alpha=lr)
