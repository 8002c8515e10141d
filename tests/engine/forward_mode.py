"""An oracle for exact scalars: directional derivatives by forward-mode differentiation.

    rho[n, q] = < grad F_n(w^_n; xi_n), v_q restricted to n's active blocks >

Each operation carries its derivative along v_q with it, client by client and direction by direction. Attention runs on
PyTorch's plain kernel, the one that has forward derivatives.

Shapes: M blocks, N clients, Q directions, B rows, L positions, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from zorba_core.engine.blocks import Blocks, Inactive
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import Estimate, batch_loss
from zorba_core.engine.rows import Rows


@torch.no_grad()
def estimate_jvp(
    network: Blocks,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    *,
    mu: float | None = None,
    inactive: Inactive = "frozen",
) -> Estimate:
    """As :func:`zorba_core.engine.estimators.reference.estimate`, exactly. ``mu`` plays no part and is
    taken for the sake of one interface; the network's weights are not written to."""
    A_MN = np.asarray(A_MN, dtype=bool)
    num_blocks, num_clients = A_MN.shape
    loss_N = np.zeros(num_clients)
    rho_NQ = np.zeros((num_clients, len(seeds_Q)))
    with sdpa_kernel(SDPBackend.MATH):
        for n in range(num_clients):
            loss_N[n] = batch_loss(network, batches_N[n], A_MN[:, n], inactive)
        for q, seed in enumerate(seeds_Q):
            direction_M = [directions.block(int(seed), m) for m in range(num_blocks)]
            for n in range(num_clients):
                rho_NQ[n, q] = _derivative(network, batches_N[n], A_MN[:, n], direction_M, inactive)
            del direction_M  # before the next are drawn
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients * (1 + len(seeds_Q)))


def _derivative(
    network: Blocks, batch: Rows, active_M: np.ndarray, direction_M: Sequence[Tensor], inactive: Inactive
) -> float:
    """The derivative of F_n along the directions of the active blocks."""
    with forward_ad.dual_level():
        hidden_BLH = network.embed(batch.token_ids_RL)
        for m in range(network.num_blocks):
            if active_M[m]:
                hidden_BLH = run_along(network, m, direction_M[m], hidden_BLH)
            elif inactive == "dropped":
                hidden_BLH = network.run_block_without_weights(m, hidden_BLH)
            else:
                hidden_BLH = network.run_block(m, hidden_BLH)
        loss = batch.losses(network, batch.read(hidden_BLH)).sum() / batch.weights.sum()
        tangent = forward_ad.unpack_dual(loss).tangent
        return 0.0 if tangent is None else float(tangent)


class _DualBlock(nn.Module):
    """One block as a module whose ``forward`` is the network's way of running it, for ``functional_call``."""

    def __init__(self, network: Blocks, block: int) -> None:
        super().__init__()
        self.block = network.block_module(block)
        self._run = lambda hidden: network.run_block(block, hidden)

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        return self._run(hidden_BLH)


def run_along(network: Blocks, m: int, direction: Tensor, hidden_BLH: Tensor) -> Tensor:
    wrapped, duals, start = _DualBlock(network, m), {}, 0
    for name, parameter in network.block_parameters(m).items():
        part = direction[start : start + parameter.numel()].view(parameter.shape)
        duals[f"block.{name}"] = forward_ad.make_dual(parameter.data, part)
        start += parameter.numel()
    return functional_call(wrapped, duals, (hidden_BLH,))
