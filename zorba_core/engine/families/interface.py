"""What a family of models gives to the network, and what the adapters share.

The head's products are in float64, for a few vocabulary rows at one position: what follows is the difference of two
close losses, and a product of few rows in float32 rounds otherwise than one of many, which would set a client's loss
apart from the same loss in a larger batch.

The last block is computed only at the positions that the head reads, one of each row or several (an answer of several
tokens): keys and values of all positions, everything else of those. To the model's attention module this is a step of
generation: new tokens before a cache of keys and values (:class:`LabelPositions`, :class:`CachedKeys`).

Shapes: B rows (R with repeats up to a least number), L positions, P positions read of each row, H hidden size, K heads
of size D, C label words.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LabelPositions:
    """The positions that are read of each row, (B, P), the rows repeated until there are ``least_rows`` positions."""

    def __init__(self, position_BP: Tensor, length: int, least_rows: int = 1) -> None:
        (count, each), device = position_BP.shape, position_BP.device
        least = -(-least_rows // each)  # a product has a row for each position
        self._row_R = torch.arange(max(count, least), device=device) % count
        self._repeated = count < least
        self.position_RP = position_BP[self._row_R]
        # What a position may attend to: itself and what stands before it.
        self.mask_R1PL = torch.arange(length, device=device) <= self.position_RP[:, None, :, None]

    def pick(self, x_BLH: Tensor) -> Tensor:
        """(B, L, H) -> (R, P, H): sequences of the positions that are read."""
        return x_BLH[self._row_R[:, None], self.position_RP]

    def rows(self, x_BKLD: Tensor) -> Tensor:
        """(B, K, L, D) -> (R, K, L, D)."""
        return x_BKLD[self._row_R] if self._repeated else x_BKLD


class CachedKeys:
    """Keys and values of all positions, in the shape of the cache that an attention module asks for those to use."""

    def __init__(self, key_BKLD: Tensor, value_BKLD: Tensor, at: LabelPositions) -> None:
        self._key_RKLD, self._value_RKLD = at.rows(key_BKLD), at.rows(value_BKLD)

    def update(self, key: Tensor, value: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return self._key_RKLD, self._value_RKLD


class Family(Protocol):
    """What an adapter provides. Its pieces, in order, must equal the model's own forward pass."""

    residual_passes_through: bool  # does a block with zero weights return its input?

    def blocks(self) -> list[nn.Module]:
        """The M transformer blocks, first to last."""

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        """Hidden states (B, L, H) that enter the first block."""

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        """One block, causal, positions 0..L-1, no cache."""

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        """``at.pick`` of what :meth:`run` returns, (R, P, H), computing nothing but keys and values elsewhere."""

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        """Final norm and head for the given vocabulary rows only: (B, C), float64."""


def positions(sequence: Tensor) -> Tensor:
    """0..L-1 for a tensor whose second axis is L."""
    return torch.arange(sequence.shape[1], device=sequence.device)


def split_heads(x_BLH: Tensor, size: int) -> Tensor:
    """(B, L, K * D) -> (B, K, L, D)."""
    return x_BLH.unflatten(-1, (-1, size)).transpose(1, 2)


def rotation_at(rotation: tuple[Tensor, Tensor], at: LabelPositions) -> tuple[Tensor, Tensor]:
    """Cosines and sines (1, L, D) at the positions that are read: (R, P, D)."""
    cos, sin = (part[0, at.position_RP] for part in rotation)
    return cos, sin


def head_rows(head: nn.Linear, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
    bias = None if head.bias is None else head.bias[token_ids_C].double()
    return F.linear(hidden_BH.double(), head.weight[token_ids_C].double(), bias)


def float64_linear(layer: nn.Linear, hidden_BH: Tensor) -> Tensor:
    bias = None if layer.bias is None else layer.bias.double()
    return F.linear(hidden_BH.double(), layer.weight.double(), bias)
