"""MEERKAT: zeroth-order steps of a fixed, very small share of the weights: those that matter most to the base model.

Ran, Guo, Sun, Pan, Yu, Wang, Xie, Chen, Zhang, Xu: "Mitigating Non-IID Drift in Zeroth-Order Federated LLM Fine-Tuning
with Transferable Sparsity", arXiv:2506.03337. A mask keeps the share ``--density`` (the paper: 0.001) of all block
weights with the largest mean squared gradient of the language-model loss on pre-training text; directions are v times
the mask, and clients send scalars after every step (its high-frequency communication, T = 1).

What differs from the paper: the text on which the gradient is taken. The paper reads C4; here the base model writes it
itself (``ROWS`` texts of ``LENGTH`` tokens, drawn from its own distribution with a fixed seed), so that no data is
needed and every replica finds the same mask from the base alone. Nothing of MEERKAT-VP is here, which stops clients of
extreme data early. The ledger counts the mask as the paper sends it: its indices, once, to each client.

Shapes: R texts, L tokens, V vocabulary, D_m parameters of block m.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from zorba_core.engine.directions import Directions, directions_of
from zorba_core.engine.methods.first_order import differentiable
from zorba_core.engine.methods.interface import ScalarMethod
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.randomness import stream
from zorba_core.engine.scaled_directions import ScaledDirections
from zorba_core.engine.settings import TrainSettings

ROWS, LENGTH = 16, 32


class Meerkat(ScalarMethod):
    """The coefficients are the plain averages; the mask is in the directions."""

    def directions(self, network: BlockNetwork, settings: TrainSettings) -> Directions:
        plain = directions_of(network, settings)
        mask_M = most_sensitive(squared_gradient(network, own_text(network)), settings.density)
        return ScaledDirections(plain, [mask.to(plain.dtype) for mask in mask_M], f"meerkat {settings.density}")


@torch.no_grad()
def own_text(network: BlockNetwork) -> Tensor:
    """Token ids (R, L) that the model writes: each token drawn from what it expects next, the first from all."""
    vocabulary = network.vocabulary_size
    uniform_LR = stream("meerkat-text").random((LENGTH, ROWS))
    ids_RL = torch.as_tensor((uniform_LR[:1].T * vocabulary).astype("int64"), device=network.device)
    for uniform_R in uniform_LR[1 : min(LENGTH, network.max_positions)]:
        shares_RV = _logits(network, ids_RL)[:, -1].double().softmax(dim=-1)
        at_R1 = torch.as_tensor(uniform_R, device=network.device)[:, None]
        next_R1 = torch.searchsorted(shares_RV.cumsum(dim=-1), at_R1).clamp_(max=vocabulary - 1)
        ids_RL = torch.cat([ids_RL, next_R1], dim=1)
    return ids_RL


def squared_gradient(network: BlockNetwork, ids_RL: Tensor) -> list[Tensor]:
    """The mean over texts of the squared gradient of the loss of their tokens, (D_m,) for each block."""
    parameters = [list(network.block_parameters(m).values()) for m in range(network.num_blocks)]
    square_M = [torch.zeros(size, device=network.device) for size in network.sizes_M]
    with differentiable(network):
        for ids_L in ids_RL:
            logits_LV = _logits(network, ids_L[None])[0, :-1]
            loss = F.cross_entropy(logits_LV.float(), ids_L[1:])
            gradients = iter(torch.autograd.grad(loss, [part for block in parameters for part in block]))
            for square, block in zip(square_M, parameters, strict=True):
                flat = torch.cat([next(gradients).reshape(-1) for _ in block])
                square.add_(flat.float().square(), alpha=1 / len(ids_RL))
    return square_M


def most_sensitive(square_M: list[Tensor], density: float) -> list[Tensor]:
    """A mask (bool) for each block: of all numbers together the share ``density`` of largest, at least one."""
    together = torch.cat(square_M)
    count = max(1, round(density * len(together)))
    # Ranked by value, then by place, so that equal values are the same choice everywhere.
    chosen = torch.zeros(len(together), dtype=torch.bool, device=together.device)
    chosen[torch.sort(together, descending=True, stable=True).indices[:count]] = True
    return list(chosen.split([len(square) for square in square_M]))


def _logits(network: BlockNetwork, ids_RL: Tensor) -> Tensor:
    return network.model(input_ids=ids_RL, use_cache=False).logits
