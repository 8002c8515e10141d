"""Rows that choose among answers of any number of tokens: label words that the tokenizer splits, or options per row.

The score of an answer is the sum of its tokens' log-probabilities after the prompt, and the loss is the cross-entropy
over the scores. (With one token each that is the softmax over label words of :class:`zorba_core.engine.rows.Encoded`:
what is common to all scores cancels.)

The answers of an example form a tree: two that start alike share the states in between. One row is run for each path to
a last branching, prompt and path in one sequence, so C answers of two tokens take as many rows as they have different
first tokens. The last token of an answer is only predicted. With one token each, an example is one row.

Shapes: E examples, R rows, L token positions, P positions read of each row (the prompt's last, then those of a path),
C answers of an example at most, K tokens of all answers of all examples, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.rows import Judged, Network, as_wide, digest_of, whole_length
from zorba_core.engine.vocabulary import log_probabilities

Tokens = Sequence[int]


@dataclass(frozen=True)
class ChoiceRows:
    """Examples of one or several rows each, ragged: what belongs to an example stands together, in order."""

    token_ids_RL: Tensor  # int64, padded on the right
    prompt_R: Tensor  # int64, index of the last prompt token
    path_R: Tensor  # int64, tokens of the path after the prompt
    sequences_E: Tensor  # int64, rows of each example
    answers_E: Tensor  # int64, how many answers each example chooses among
    label_E: Tensor  # int64, the right answer
    tokens_E: Tensor  # int64, tokens of all its answers
    token_K4: Tensor  # int64: row within the example, steps after the prompt, the token, which answer it belongs to

    metric: ClassVar[str] = "accuracy"

    @staticmethod
    def of(
        prompts: Sequence[Tokens], answers: Sequence[Sequence[Tokens]], label_E: np.ndarray, seq_len: int, pad_id: int
    ) -> ChoiceRows:
        """From each example's prompt and its answers' tokens; no answer may begin another of the same example."""
        ids, prompt_R, path_R, rows_E, tokens_E, tokens = [], [], [], [], [], []
        trees: dict[tuple[tuple[int, ...], ...], tuple[list[tuple[int, ...]], list[tuple[int, ...]]]] = {}
        for prompt, choices in zip(prompts, answers, strict=True):
            key = tuple(tuple(choice) for choice in choices)
            paths, steps = trees.get(key) or trees.setdefault(key, _tree(key))
            for path in paths:
                sequence = [*prompt, *path]
                ids.append(sequence + [pad_id] * (seq_len - len(sequence)))
                prompt_R.append(len(prompt) - 1)
                path_R.append(len(path))
            rows_E.append(len(paths))
            tokens_E.append(len(steps))
            tokens.extend(steps)
        columns = (ids, prompt_R, path_R, rows_E, [len(choices) for choices in answers], label_E, tokens_E, tokens)
        return ChoiceRows(*(torch.from_numpy(np.array(column, dtype=np.int64)) for column in columns))

    def __len__(self) -> int:
        return len(self.label_E)

    @property
    def weights(self) -> np.ndarray:
        """Each example's weight in the mean, (E,), float64."""
        return np.ones(len(self))

    @property
    def length_E(self) -> Tensor:
        """Positions that each example needs."""
        end_R = self.prompt_R + self.path_R + 1
        return torch.zeros_like(self.label_E).scatter_reduce(0, _owners(self.sequences_E), end_R, "amax")

    def rows(self, index_B: np.ndarray | Tensor) -> ChoiceRows:
        """The given examples, in the given order."""
        index_B = torch.as_tensor(index_B, dtype=torch.int64)
        row_R, token_K = _parts(self.sequences_E, index_B), _parts(self.tokens_E, index_B)
        by_row = (self.token_ids_RL[row_R], self.prompt_R[row_R], self.path_R[row_R])
        by_example = (part[index_B] for part in (self.sequences_E, self.answers_E, self.label_E, self.tokens_E))
        return ChoiceRows(*by_row, *by_example, self.token_K4[token_K])

    @staticmethod
    def joined(parts: Sequence[ChoiceRows], device: torch.device | str = "cpu") -> ChoiceRows:
        """All examples of ``parts``, in their order, padded to the longest."""
        padded = as_wide([part.token_ids_RL for part in parts])
        others = zip(*[list(vars(part).values())[1:] for part in parts], strict=True)
        return ChoiceRows(torch.cat(padded).to(device), *(torch.cat(column).to(device) for column in others))

    def trimmed(self, device: torch.device | str = "cpu") -> ChoiceRows:
        """The same examples without the positions that are padding in all of them."""
        ids_RL, *others = vars(self).values()
        length = whole_length(int(self.length_E.max()), device)
        return ChoiceRows(ids_RL[:, :length].to(device), *(part.to(device) for part in others))

    def read(self, hidden_RLH: Tensor, rows: slice | Tensor = slice(None)) -> Tensor:
        """The same of hidden states after the last block, (R, P, H)."""
        position_RP = self._position_RP(rows)
        return hidden_RLH[torch.arange(len(position_RP), device=hidden_RLH.device)[:, None], position_RP]

    def _position_RP(self, rows: slice | Tensor) -> Tensor:
        step_P = torch.arange(int(self.path_R.max()) + 1, device=self.path_R.device)
        return self.prompt_R[rows][:, None] + torch.minimum(step_P, self.path_R[rows][:, None])

    def log_scores(self, network: Network, final_RPH: Tensor) -> Tensor:
        """Sum of the log-probabilities of each answer's tokens, (E, C), float64; -inf where an example has fewer."""
        example_K = _owners(self.tokens_E)
        row_K = (_starts(self.sequences_E)[example_K] + self.token_K4[:, 0]) * final_RPH.shape[1] + self.token_K4[:, 1]
        state_S, state_K = torch.unique(row_K, return_inverse=True)
        log_p_K = log_probabilities(network, final_RPH.flatten(0, 1)[state_S], state_K, self.token_K4[:, 2])
        examples, most = len(self), int(self.answers_E.max())
        place_K = example_K * most + self.token_K4[:, 3]
        score_EC = log_p_K.new_zeros(examples * most).index_add(0, place_K, log_p_K).view(examples, most)
        absent_EC = torch.arange(most, device=score_EC.device) >= self.answers_E[:, None]
        return score_EC.masked_fill(absent_EC, float("-inf"))

    def losses(self, network: Network, final_RPH: Tensor) -> Tensor:
        """Cross-entropy of each example over its answers' scores, (E,), float64."""
        return _losses_of(self.log_scores(network, final_RPH), self.label_E)

    def judged(self, network: Network, final_RPH: Tensor) -> Judged:
        """An example is right when the right answer has the largest score."""
        score_EC = self.log_scores(network, final_RPH)
        losses_E = _losses_of(score_EC, self.label_E)
        return Judged(float(losses_E.sum()), float(len(self)), int((score_EC.argmax(dim=1) == self.label_E).sum()))

    @property
    def example_rows(self) -> np.ndarray:
        """The first row of each example, (E,)."""
        return _starts(self.sequences_E).cpu().numpy()

    def sha256(self) -> str:
        """A fingerprint of the tokens and labels."""
        return digest_of(*vars(self).values())


def _losses_of(score_EC: Tensor, label_E: Tensor) -> Tensor:
    """Cross-entropy of each example over its answers' scores, (E,)."""
    return score_EC.logsumexp(dim=1) - score_EC.gather(1, label_E[:, None])[:, 0]


def _tree(
    answers: tuple[tuple[int, ...], ...],
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The paths that must be run, and of each answer's tokens: the row and the step at which it is predicted, the token
    and the answer."""
    prefixes = sorted({answer[:-1] for answer in answers}, key=lambda path: (-len(path), path))
    paths: list[tuple[int, ...]] = []
    for prefix in prefixes:  # the longest first
        if not any(path[: len(prefix)] == prefix for path in paths):
            paths.append(prefix)
    row_of = {path[:step]: row for row, path in reversed(list(enumerate(paths))) for step in range(len(path) + 1)}
    steps = [
        (row_of[answer[:step]], step, token, number)
        for number, answer in enumerate(answers)
        for step, token in enumerate(answer)
    ]
    return paths, steps


def _starts(count_E: Tensor) -> Tensor:
    """Where each example's part starts."""
    return count_E.cumsum(0) - count_E


def _owners(count_E: Tensor) -> Tensor:
    """The example that each row (or token) belongs to."""
    return torch.repeat_interleave(torch.arange(len(count_E), device=count_E.device), count_E)


def _parts(count_E: Tensor, index_B: Tensor) -> Tensor:
    """The rows (or tokens) of the given examples."""
    taken_B = count_E[index_B]
    shift_B = _starts(count_E)[index_B] - _starts(taken_B)
    return torch.repeat_interleave(shift_B, taken_B) + torch.arange(int(taken_B.sum()), device=count_E.device)
