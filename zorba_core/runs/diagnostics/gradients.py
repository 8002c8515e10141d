"""The inner products of all clients' gradients, block by block: all that diagnostics are made of.

Gradients of every client of a *group* of blocks are held together; groups are as large as keeps the memory below what
exact scalars take (:mod:`zorba_core.engine.estimators.exact`), one block at least. Each group is one forward pass of
all clients, and a backward pass down to its first block.

Shapes: M blocks, N clients, D_m parameters of block m, S elements of a piece of a block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from zorba_core.engine.estimators.client_gradients import ClientGradients
from zorba_core.engine.estimators.exact import exact_plan, gather_gradients
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.row_kinds import Rows

_PIECE = 2**16  # elements multiplied at a time: sums over pieces are in float64


@torch.no_grad()
def gradient_products(network: BlockNetwork, batches_N: Sequence[Rows]) -> tuple[np.ndarray, np.ndarray]:
    """<g_nm, g_n'm> of all clients and blocks, (M, N, N), and F_n, (N,); float64. No weight is changed.

    Time: one forward and one backward pass of every client for each group of blocks, and N^2 D_m products a block.
    """
    num_blocks, num_clients = network.num_blocks, len(batches_N)
    product_MNN, loss_N = np.zeros((num_blocks, num_clients, num_clients)), np.zeros(num_clients)
    gradients = ClientGradients(network, "frozen")
    plan = exact_plan(network, batches_N, np.ones((num_blocks, num_clients), dtype=bool), num_directions=0, signs=True)

    def multiply(block: int, clients: list[int], gradient_ND: torch.Tensor) -> None:
        for gradient_NS in gradient_ND.split(_PIECE, dim=1):
            product_MNN[block] += (gradient_NS @ gradient_NS.t()).cpu().numpy()

    with gradients.installed():
        for group in plan.groups(network.sizes_M, num_clients):
            A_MN = np.zeros((num_blocks, num_clients), dtype=bool)
            A_MN[group] = True
            loss_N = gather_gradients(gradients, batches_N, A_MN, range(num_clients), plan, multiply)
    return product_MNN, loss_N
