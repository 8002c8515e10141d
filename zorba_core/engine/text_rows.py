"""Rows whose answer is a text of any length: the loss is the mean cross-entropy of its tokens, its end included.

With one row that is ``transformers``' loss of ``labels=`` whose prompt is masked; with several it is the mean over all
their answer tokens, as there. Only answer positions go through the last block and the head.

Shapes: R rows (each one example), L token positions, T tokens of the longest answer, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.rows import Judged, Network, OneRowEach, as_wide, digest_of, whole_length
from zorba_core.engine.vocabulary import log_probabilities, most_likely

NO_TOKEN = -1  # behind the end of an answer


@dataclass(frozen=True)
class TextRows(OneRowEach):
    """Prompt and answer in one sequence; the answer's last token is only predicted, never read."""

    token_ids_RL: Tensor  # int64, padded on the right
    prompt_R: Tensor  # int64, index of the last prompt token: the answer's first token follows it
    target_RT: Tensor  # int64, the answer's tokens, then NO_TOKEN

    metric: ClassVar[str] = "exact_match"

    @property
    def answer_R(self) -> Tensor:
        """Tokens of each answer."""
        return (self.target_RT != NO_TOKEN).sum(dim=1)

    @property
    def length_E(self) -> Tensor:
        """Positions that each example needs."""
        return self.prompt_R + self.answer_R

    def rows(self, index_B: np.ndarray | Tensor) -> TextRows:
        """The given rows, in the given order."""
        index_B = torch.as_tensor(index_B, dtype=torch.int64)
        return TextRows(self.token_ids_RL[index_B], self.prompt_R[index_B], self.target_RT[index_B])

    @staticmethod
    def joined(parts: Sequence[TextRows], device: torch.device | str = "cpu") -> TextRows:
        """All rows of ``parts``, in their order, padded to the longest."""
        columns = (
            as_wide([part.token_ids_RL for part in parts]),
            [part.prompt_R for part in parts],
            as_wide([part.target_RT for part in parts], NO_TOKEN),
        )
        return TextRows(*(torch.cat(column).to(device) for column in columns))

    def trimmed(self, device: torch.device | str = "cpu") -> TextRows:
        """The same rows without what is padding in all of them."""
        length, answer = whole_length(int(self.length_E.max()), device), int(self.answer_R.max())
        return TextRows(
            self.token_ids_RL[:, :length].to(device), self.prompt_R.to(device), self.target_RT[:, :answer].to(device)
        )

    def read(self, hidden_RLH: Tensor, rows: slice | Tensor = slice(None)) -> Tensor:
        """The same of hidden states after the last block, (R, T, H)."""
        position_RT = self._position_RT(rows)
        return hidden_RLH[torch.arange(len(position_RT), device=hidden_RLH.device)[:, None], position_RT]

    def _position_RT(self, rows: slice | Tensor) -> Tensor:
        """Where each token of the answer is predicted; behind a shorter answer its last position again."""
        prompt_R, answer_R = self.prompt_R[rows], self.answer_R[rows]
        step_T = torch.arange(self.target_RT.shape[1], device=prompt_R.device)
        return prompt_R[:, None] + torch.minimum(step_T, answer_R[:, None] - 1)

    def losses(self, network: Network, final_RTH: Tensor) -> Tensor:
        """Sum of the cross-entropies of each answer's tokens, (R,), float64."""
        row_S, step_S = torch.nonzero(self.target_RT != NO_TOKEN, as_tuple=True)
        state_S = torch.arange(len(row_S), device=row_S.device)
        log_p_S = log_probabilities(network, final_RTH[row_S, step_S], state_S, self.target_RT[row_S, step_S])
        return -log_p_S.new_zeros(len(self)).index_add(0, row_S, log_p_S)

    @property
    def weights(self) -> np.ndarray:
        """Tokens of each answer, (R,), float64."""
        return self.answer_R.cpu().numpy().astype(np.float64)

    def judged(self, network: Network, final_RTH: Tensor) -> Judged:
        """An answer is right when greedy writing gives exactly its tokens and then ends: when each of them is the most
        likely after those before it."""
        row_S, step_S = torch.nonzero(self.target_RT != NO_TOKEN, as_tuple=True)
        wrong_S = most_likely(network, final_RTH[row_S, step_S]) != self.target_RT[row_S, step_S]
        wrong_R = torch.zeros(len(self), dtype=torch.int64, device=row_S.device).index_add(0, row_S, wrong_S.long())
        return Judged(
            loss=float(self.losses(network, final_RTH).sum()),
            weight=float(self.weights.sum()),
            right=int((wrong_R == 0).sum()),
        )

    def sha256(self) -> str:
        """A fingerprint of the tokens."""
        return digest_of(self.token_ids_RL, self.prompt_R, self.target_RT)
