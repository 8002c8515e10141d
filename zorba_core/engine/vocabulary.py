"""Log-probabilities over the whole vocabulary, at the few positions where an answer stands.

The vocabulary is gone through in pieces, so that neither all logits nor a float64 copy of the whole head is ever held.
Products are in float64, as those of label words are (:mod:`zorba_core.engine.blocks`).

Shapes: S hidden states, H hidden size, K tokens that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

# Numbers of a piece's logits and of its part of the head (16 MiB each in float64), and hidden states at once.
_PIECE_LOGITS, _PIECE_HEAD, _STATES_AT_ONCE = 2**21, 2**21, 4096
_LEAST_PIECE = 256  # vocabulary rows


class Head(Protocol):
    """What is used of :class:`zorba_core.engine.blocks.Blocks`."""

    @property
    def vocabulary_size(self) -> int: ...

    def vocabulary_logits(self, hidden_SH: Tensor, token_ids_V: Tensor) -> Tensor: ...


def log_probabilities(head: Head, hidden_SH: Tensor, state_K: Tensor, token_K: Tensor) -> Tensor:
    """log p(token k | state k), (K,), float64. ``state_K`` says which of the states each token follows."""
    asked, values = [], []
    for start in range(0, len(hidden_SH), _STATES_AT_ONCE):
        states_SH = hidden_SH[start : start + _STATES_AT_ONCE]
        here = torch.nonzero((state_K >= start) & (state_K < start + len(states_SH)))[:, 0]
        asked.append(here)
        values.append(_log_probabilities(head, states_SH, state_K[here] - start, token_K[here]))
    return torch.cat(values)[torch.argsort(torch.cat(asked))]


def _log_probabilities(head: Head, hidden_SH: Tensor, state_K: Tensor, token_K: Tensor) -> Tensor:
    total_S, asked, values = None, [], []
    for start, logits in _pieces(head, hidden_SH):
        piece_S = logits.logsumexp(dim=1)
        total_S = piece_S if total_S is None else torch.logaddexp(total_S, piece_S)
        here = torch.nonzero((token_K >= start) & (token_K < start + logits.shape[1]))[:, 0]
        asked.append(here)
        values.append(logits[state_K[here], token_K[here] - start])
    return torch.cat(values)[torch.argsort(torch.cat(asked))] - total_S[state_K]


def most_likely(head: Head, hidden_SH: Tensor) -> Tensor:
    """The token with the largest logit at each state, (S,); the first of equals."""
    parts = []
    for states_SH in hidden_SH.split(_STATES_AT_ONCE):
        best_S = token_S = None
        for start, logits in _pieces(head, states_SH):
            value_S, place_S = logits.max(dim=1)
            if best_S is None:
                best_S, token_S = value_S, place_S
            else:
                token_S = torch.where(value_S > best_S, place_S + start, token_S)
                best_S = torch.maximum(best_S, value_S)
        parts.append(token_S)
    return torch.cat(parts)


def _pieces(head: Head, hidden_SH: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Logits of the vocabulary from its first row on: where a piece starts, and (S, rows of the piece)."""
    states, width = hidden_SH.shape
    rows = max(_LEAST_PIECE, min(_PIECE_LOGITS // max(states, 1), _PIECE_HEAD // width))
    for token_ids in torch.arange(head.vocabulary_size, device=hidden_SH.device).split(rows):
        yield int(token_ids[0]), head.vocabulary_logits(hidden_SH, token_ids)
