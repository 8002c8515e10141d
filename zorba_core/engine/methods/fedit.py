"""FedIT: each client takes one SGD step from the shared weights, by backpropagation, and the server averages the
models. This average is one step along the mean of the clients' gradients.

F_n is a weighted mean of the losses of client n's examples, so the mean of the clients' gradients is the gradient of
one weighted mean over all examples: one forward and one backward pass compute it. The backward pass needs the outputs
of every block for every row, which is the memory that forward-only training saves.

A client whose loss is not finite does not count.

Shapes: N clients, E examples of all clients, M blocks, D_m parameters of block m.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zorba_core.engine.methods.interface import Method
from zorba_core.engine.round import MethodState, Reports, RoundPlan, Step

if TYPE_CHECKING:
    from torch import Tensor

    from zorba_core.engine.blocks import Blocks
    from zorba_core.engine.rows import Rows


class FedIT(Method):
    """Exchanges the weights. The log cannot rebuild them, so a run resumes from a checkpoint."""

    name, title = "fedit", "FedIT"
    help = "first-order, all blocks, exchanges the model"
    default_directions = 0
    exchanges = "weights"

    def report(self, plan: RoundPlan, batches: Mapping[int, Rows]) -> Reports:
        """Each client's loss F_n, and (1/N) sum_n grad F_n(w)."""
        clients = sorted(batches)
        mean_M, loss_K, passes = mean_gradient(plan.network, [batches[n] for n in clients])
        passed = {"forward_passes": passes, "backward_passes": passes}
        return Reports.of_clients(plan, clients, np.zeros((len(clients), 0)), loss_K, gradient_M=mean_M, **passed)

    def update(
        self, plan: RoundPlan, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[Step, MethodState]:
        """The mean of the clients' models after their steps, (1/N) sum_n (w - lr grad F_n(w)), is one step along the
        mean of the gradients."""
        return Step(gradient_M=reports.gradient_M), state


def mean_gradient(network: Blocks, batches_N: Sequence[Rows]) -> tuple[tuple[Tensor, ...], np.ndarray, int]:
    """The mean over clients of the gradients of F_n, (D_m,) for each block; F_n, (N,) float64; and the number of
    batches in all forward passes. If some losses are not finite, a second pass leaves those clients out."""
    loss_N, sum_M = _pass(network, batches_N)
    passes, finite = len(batches_N), np.flatnonzero(np.isfinite(loss_N))
    if len(finite) < len(batches_N):
        _, sum_M = _pass(network, [batches_N[int(n)] for n in finite])
        passes += len(finite)
    return tuple(total.div_(max(len(finite), 1)) for total in sum_M), loss_N, passes


def _pass(network: Blocks, batches: Sequence[Rows]) -> tuple[np.ndarray, tuple[Tensor, ...]]:
    """Each batch's mean loss, and the gradient of their sum."""
    import torch  # here, so that a list of the methods loads no torch

    blocks = range(network.num_blocks)
    if not batches:
        return np.zeros(0), tuple(torch.zeros_like(network.block_weights(m)) for m in blocks)
    client_E = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
    share_E = 1 / np.array([batch.weights.sum() for batch in batches])[client_E]
    rows = batches[0].joined(batches, network.device)
    parameters_M = [list(network.block_parameters(m).values()) for m in blocks]
    parameters = [parameter for block in parameters_M for parameter in block]
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        with torch.enable_grad():
            hidden_RLH = network.embed(rows.token_ids_RL)
            for m in blocks:
                hidden_RLH = network.run_block(m, hidden_RLH)
            loss_E = rows.losses(network, rows.read(hidden_RLH))
            gradients = iter(torch.autograd.grad(loss_E, parameters, torch.from_numpy(share_E).to(loss_E)))
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)
    gradient_M = tuple(torch.cat([next(gradients).reshape(-1) for _ in block]) for block in parameters_M)
    return np.bincount(client_E, loss_E.detach().cpu().numpy() * share_E, minlength=len(batches)), gradient_M
