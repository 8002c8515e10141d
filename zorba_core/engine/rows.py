"""Rows of text as tokens, from any task: the engine trains on them and evaluates with them.

What the engine asks of rows is where their hidden states are read after the last block, and what their loss is:

    final = rows.read(hidden_RLH)                           hidden_RLH: after the last block
    F_n = sum(rows.losses(network, final)) / sum(rows.weights)                       float64

over the examples E of client n. Here an example is one row and weighs 1. The other kinds of rows are
:mod:`zorba_core.engine.text_rows`, whose examples weigh as many as their answers have tokens, and
:mod:`zorba_core.engine.choice_rows`, whose examples are several rows each. Their ``rows`` and ``len`` count examples.

Shapes: R rows, E examples, L token positions (``seq_len``), H hidden size, C classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

_STEP_ELSEWHERE = 32  # positions


class Network(Protocol):
    """What rows use of :class:`zorba_core.engine.blocks.Blocks`, which imports them."""

    def head(self, hidden_BH: Tensor) -> Tensor: ...

    @property
    def vocabulary_size(self) -> int: ...

    def vocabulary_logits(self, hidden_SH: Tensor, token_ids_V: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Judged:
    """Sums over examples."""

    loss: float  # nats
    weight: float  # what the loss is divided by for a mean
    right: int


def digest_of(*tensors: Tensor) -> str:
    """The SHA-256 of the tensors' shapes and numbers."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy())
    return digest.hexdigest()


def as_wide(tensors: Sequence[Tensor], value: int = 0) -> list[Tensor]:
    """All (rows, columns), filled up with ``value`` on the right to the widest."""
    widest = max(tensor.shape[1] for tensor in tensors)
    return [F.pad(tensor, (0, widest - tensor.shape[1]), value=value) for tensor in tensors]


def whole_length(longest: int, device: torch.device | str) -> int:
    """Positions of rows of which the longest needs so many. Elsewhere than on a CPU rows of many lengths would go
    through the blocks in many small kernels."""
    return longest if torch.device(device).type == "cpu" else -(-longest // _STEP_ELSEWHERE) * _STEP_ELSEWHERE


class OneRowEach:
    """Of examples that have a row each, and equal weights."""

    token_ids_RL: Tensor

    def __len__(self) -> int:
        return len(self.token_ids_RL)

    @property
    def sequences_E(self) -> Tensor:
        """Rows of each example."""
        return torch.ones(len(self), dtype=torch.int64, device=self.token_ids_RL.device)

    @property
    def example_rows(self) -> np.ndarray:
        """The first row of each example, (E,)."""
        return np.arange(len(self))

    @property
    def weights(self) -> np.ndarray:
        """Each example's weight in the mean, (E,), float64."""
        return np.ones(len(self))


@dataclass(frozen=True)
class Encoded(OneRowEach):
    """Rows whose answer is one token, the label's word after the prompt.

    With causal attention nothing behind ``last_R`` can matter, so no attention mask is needed.
    """

    token_ids_RL: torch.Tensor  # int64, padded on the right
    last_R: torch.Tensor  # int64, index of the last prompt token: the answer is what follows it
    label_R: torch.Tensor  # int64 in 0..C-1

    metric: ClassVar[str] = "accuracy"  # what is counted as right

    @property
    def length_E(self) -> Tensor:
        """Positions that each example needs."""
        return self.last_R + 1

    def rows(self, index_B: np.ndarray | torch.Tensor) -> Encoded:
        """The given rows, in the given order."""
        index_B = torch.as_tensor(index_B, dtype=torch.int64)
        return Encoded(self.token_ids_RL[index_B], self.last_R[index_B], self.label_R[index_B])

    @staticmethod
    def joined(parts: Sequence[Encoded], device: torch.device | str = "cpu") -> Encoded:
        """All rows of ``parts``, in their order, padded to the longest."""
        padded = as_wide([part.token_ids_RL for part in parts])
        columns = (padded, [part.last_R for part in parts], [part.label_R for part in parts])
        return Encoded(*(torch.cat(column).to(device) for column in columns))

    def trimmed(self, device: torch.device | str = "cpu") -> Encoded:
        """The same rows without the positions that are padding in all of them."""
        longest = whole_length(int(self.last_R.max()) + 1, device)
        return Encoded(self.token_ids_RL[:, :longest].to(device), self.last_R.to(device), self.label_R.to(device))

    def read(self, hidden_RLH: Tensor, rows: slice | Tensor = slice(None)) -> Tensor:
        """What the loss reads of hidden states after the last block, (R, H)."""
        last_R = self.last_R[rows]
        return hidden_RLH[torch.arange(len(last_R), device=hidden_RLH.device), last_R]

    def losses(self, network: Network, final_RH: Tensor) -> Tensor:
        """Each example's part of the loss, (E,), float64: its cross-entropy over the label words."""
        return F.cross_entropy(network.head(final_RH).double(), self.label_R, reduction="none")

    def log_scores(self, network: Network, final_RH: Tensor) -> Tensor:
        """Each answer's score, (E, C), float64: its log-probability up to what is common to a row's answers."""
        return network.head(final_RH).double()

    def judged(self, network: Network, final_RH: Tensor) -> Judged:
        """A row is right when its label word has the largest logit."""
        logits_RC = network.head(final_RH).double()
        loss = float(F.cross_entropy(logits_RC, self.label_R, reduction="sum"))
        return Judged(loss, float(len(self)), int((logits_RC.argmax(dim=1) == self.label_R).sum()))

    def sha256(self) -> str:
        """A fingerprint of the tokens and labels."""
        return digest_of(self.token_ids_RL, self.last_R, self.label_R)
