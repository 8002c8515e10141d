"""The gradient by backpropagation, which FedIT takes: of all clients' rows in one batch, or one client after another.

F_n is a weighted mean of the losses of client n's examples, so the mean over clients of the gradients of F_n is the
gradient of one weighted mean over all examples: one forward and one backward pass of the cohort serve every client. It
costs the memory that forward-only training avoids: what every block made of every row is kept until the backward pass.

A client whose loss is not finite is left out, as if it had not been asked.

Shapes: N clients, E examples of all clients, R rows, L positions, M blocks, D_m parameters of block m.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.methods.interface import Method
from zorba_core.engine.round import MethodState, Reports, RoundContext
from zorba_core.engine.rows import Rows
from zorba_core.errors import RunError


@dataclass(frozen=True, eq=False)
class Gradient:
    """What the clients computed in a round."""

    sum_M: tuple[Tensor, ...]  # sum of the gradients of F_n over clients whose loss is finite, (D_m,) for each block
    loss_N: np.ndarray  # F_n, float64
    forward_passes: int  # of one client's batch
    backward_passes: int  # likewise

    @property
    def counted(self) -> int:
        """How many clients are in the sum."""
        return int(np.isfinite(self.loss_N).sum())


class FirstOrder(Method):
    """FedIT: one SGD step of each client from the shared weights. The average of the stepped models is the step along
    the mean of the gradients."""

    def report(self, context: RoundContext) -> Reports:
        network, settings = context.network, context.settings
        asked = np.flatnonzero(context.asked_N)
        batches = [context.batch(int(n)) for n in asked]
        if ESTIMATORS[settings.estimator].cohort:
            gradient = gradient_cohort(network, batches)
        else:
            gradient = gradient_reference(network, batches)
        num_clients = context.A_MN.shape[1]
        loss_N = np.zeros(num_clients)
        loss_N[asked] = gradient.loss_N
        mean_M = tuple(total.div_(max(gradient.counted, 1)) for total in gradient.sum_M)
        no_scalars = np.zeros((num_clients, 0))
        return Reports(no_scalars, loss_N, gradient.forward_passes, gradient.backward_passes, mean_M)

    @torch.no_grad()
    def update(
        self, context: RoundContext, reports: Reports, reported_N: np.ndarray, state: MethodState
    ) -> tuple[None, MethodState]:
        if not all(bool(torch.isfinite(gradient).all()) for gradient in reports.gradient_M):
            raise RunError("the gradient is not finite")
        lr = context.lr
        for m, gradient in enumerate(reports.gradient_M):
            context.network.block_weights(m).sub_(gradient, alpha=lr)
        return None, state


def gradient_cohort(network: Blocks, batches_N: Sequence[Rows]) -> Gradient:
    """All clients in one batch and one backward pass."""
    loss_N, sum_M = _pass(network, batches_N)
    passes = len(batches_N)
    finite = np.flatnonzero(np.isfinite(loss_N))
    if len(finite) < len(batches_N):  # a loss that is not finite spoils the whole sum: again without those clients
        _, sum_M = _pass(network, [batches_N[n] for n in finite])
        passes += len(finite)
    return Gradient(sum_M, loss_N, passes, passes)


def gradient_reference(network: Blocks, batches_N: Sequence[Rows]) -> Gradient:
    """One client after another, written to be read: each its own forward and backward pass."""
    loss_N, total_M = np.zeros(len(batches_N)), _zeros(network)
    for n, batch in enumerate(batches_N):
        (loss_N[n],), own_M = _pass(network, [batch])
        if np.isfinite(loss_N[n]):
            for total, own in zip(total_M, own_M, strict=True):
                total.add_(own)
    return Gradient(total_M, loss_N, len(batches_N), len(batches_N))


def _pass(network: Blocks, batches: Sequence[Rows]) -> tuple[np.ndarray, tuple[Tensor, ...]]:
    """Each batch's mean loss, and the gradient of their sum."""
    if not batches:
        return np.zeros(0), _zeros(network)
    client_E = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
    share_E = 1 / np.concatenate([np.full(len(batch), batch.weights.sum()) for batch in batches])
    parameters_M = [list(network.block_parameters(m).values()) for m in range(network.num_blocks)]
    with differentiable(network):
        loss_E = _losses(network, batches[0].joined(batches, network.device))
        weighted = (loss_E * torch.from_numpy(share_E).to(loss_E)).sum()
        gradients = iter(torch.autograd.grad(weighted, [part for block in parameters_M for part in block]))
    gradient_M = tuple(torch.cat([next(gradients).reshape(-1) for _ in block]) for block in parameters_M)
    loss_N = np.bincount(client_E, weights=loss_E.detach().cpu().numpy() * share_E, minlength=len(batches))
    return loss_N, gradient_M


def _losses(network: Blocks, batch: Rows) -> Tensor:
    hidden_RLH = network.embed(batch.token_ids_RL)
    for m in range(network.num_blocks):
        hidden_RLH = network.run_block(m, hidden_RLH)
    return batch.losses(network, batch.read(hidden_RLH))


def _zeros(network: Blocks) -> tuple[Tensor, ...]:
    return tuple(torch.zeros_like(network.block_weights(m)) for m in range(network.num_blocks))


@contextlib.contextmanager
def differentiable(network: Blocks) -> Iterator[None]:
    """Within the context what is trained of the blocks, and that alone, is differentiated by."""
    parameters = [p for m in range(network.num_blocks) for p in network.block_parameters(m).values()]
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        with torch.enable_grad():
            yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)
