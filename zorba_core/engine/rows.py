"""Rows of text as tokens, from any task: the engine trains on them and evaluates with them.

Shapes: R rows, L token positions (``seq_len``), C classes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Encoded:
    """Rows as tokens. With causal attention nothing behind ``last_R`` can matter, so no attention mask is needed."""

    token_ids_RL: torch.Tensor  # int64, padded on the right
    last_R: torch.Tensor  # int64, index of the last prompt token: the answer is what follows it
    label_R: torch.Tensor  # int64 in 0..C-1

    def __len__(self) -> int:
        return len(self.label_R)

    def rows(self, index_B: np.ndarray | torch.Tensor) -> Encoded:
        """The given rows, in the given order."""
        index_B = torch.as_tensor(index_B, dtype=torch.int64)
        return Encoded(self.token_ids_RL[index_B], self.last_R[index_B], self.label_R[index_B])

    def sha256(self) -> str:
        """A fingerprint of the tokens and labels."""
        digest = hashlib.sha256()
        for tensor in (self.token_ids_RL, self.last_R, self.label_R):
            digest.update(f"{tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy())
        return digest.hexdigest()
