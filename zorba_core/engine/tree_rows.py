"""Examples that choose among several answers, one row each: the prompt, and what the answers go through, once.

:class:`zorba_core.engine.choice_rows.ChoiceRows` run a row for each path to a last branching, the prompt anew in each:
77 answers of several tokens make 60 rows of an example. Here the paths stand behind the prompt as a tree. A position
of the tree attends to the prompt, to those before it on its own path and to itself, and is told the place that it has
on its path. So each number is the one that the rows of ChoiceRows have, up to rounding, for a fraction of the work.

Shapes: E examples (R rows, as many), L positions, P positions read of each row (the prompt's last, then the tree's),
C answers, T tokens of the longest, K tokens of all answers of all examples, H hidden size.
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

from zorba_core.engine.choice_rows import ChoiceRows, ChosenAnswers, paths_of, scores_of
from zorba_core.engine.families.interface import Layout
from zorba_core.engine.rows import OneRowEach, as_wide

MANY = 8  # rows of an example; from more on a tree is worth it (measured: not with five)
_NO_TOKEN = -1  # behind the end of an answer
_PIECE = 256  # examples whose rows are made at once for a fingerprint


class TreeNetwork(Protocol):
    """What is used of :class:`zorba_core.engine.network.BlockNetwork`."""

    num_blocks: int
    lays_out: bool

    def run_block(self, block: int, hidden_RLH: Tensor, layout: Layout | None = None) -> Tensor: ...


@dataclass(frozen=True)
class TreeRows(OneRowEach, ChosenAnswers):
    """Made of :class:`ChoiceRows` by :func:`packed`, for the passes of one round or evaluation."""

    token_ids_RL: Tensor  # int64: prompt, tree, padding
    place_RL: Tensor  # int64
    visible_RLL: Tensor  # bool; padding sees itself
    read_RP: Tensor  # int64: which positions are read
    answers_E: Tensor  # int64, how many answers each example chooses among
    label_E: Tensor  # int64, the right answer
    tokens_E: Tensor  # int64, tokens of all its answers
    token_K3: Tensor  # int64: which of the positions that are read, the token, which answer it belongs to

    def layout(self, rows: slice | Tensor = slice(None)) -> Layout:
        """Of these rows."""
        return Layout(self.place_RL[rows], self.visible_RLL[rows][:, None])

    @staticmethod
    def joined(parts: Sequence[TreeRows], device: torch.device | str = "cpu") -> TreeRows:
        """All examples of ``parts``, in their order, padded to the longest."""
        length = max(part.token_ids_RL.shape[1] for part in parts)
        columns = (
            as_wide([part.token_ids_RL for part in parts]),
            as_wide([part.place_RL for part in parts]),
            [_square(part.visible_RLL, length) for part in parts],
            as_wide([part.read_RP for part in parts]),
            *([getattr(part, name) for part in parts] for name in ("answers_E", "label_E", "tokens_E", "token_K3")),
        )
        return TreeRows(*(torch.cat(column).to(device) for column in columns))

    def after_last_block(self, network: TreeNetwork, hidden_RLH: Tensor, rows: slice | Tensor = slice(None)) -> Tensor:
        """The last block's output where a token of an answer is predicted, (R, P, H): nearly everywhere."""
        return self.read(network.run_block(network.num_blocks - 1, hidden_RLH, self.layout(rows)), rows)

    def read(self, hidden_RLH: Tensor, rows: slice | Tensor = slice(None)) -> Tensor:
        """The same of hidden states after the last block, (R, P, H)."""
        read_RP = self.read_RP[rows]
        return hidden_RLH[torch.arange(len(read_RP), device=hidden_RLH.device)[:, None], read_RP]

    def log_scores(self, network: TreeNetwork, final_RPH: Tensor) -> Tensor:
        """As :meth:`ChoiceRows.log_scores`."""
        example_K = torch.repeat_interleave(torch.arange(len(self), device=final_RPH.device), self.tokens_E)
        state_K = example_K * final_RPH.shape[1] + self.token_K3[:, 0]
        chosen = (example_K, self.token_K3[:, 1], self.token_K3[:, 2])
        return scores_of(network, final_RPH.flatten(0, 1), state_K, *chosen, self.answers_E)


def in_trees(network: TreeNetwork, batches: Sequence[object]) -> list[object]:
    """The batches, with answers as trees where a batch has enough of them and the network can run that."""
    worth = [isinstance(of, ChoiceRows) and network.lays_out and int(of.sequences_E.max()) > MANY for of in batches]
    return [packed(batch) if is_worth_it else batch for batch, is_worth_it in zip(batches, worth, strict=True)]


def packed(rows: ChoiceRows) -> TreeRows:
    """The same examples with one row each."""
    trees: dict[tuple[tuple[int, ...], ...], _Tree] = {}
    ids_RL, prompt_R, path_R = rows.token_ids_RL.tolist(), rows.prompt_R.tolist(), rows.path_R.tolist()
    steps = np.split(rows.token_K4.cpu().numpy(), np.cumsum(rows.tokens_E.cpu().numpy())[:-1])
    prompts, of_example, row = [], [], 0
    for count in rows.sequences_E.tolist():
        end = prompt_R[row] + 1
        paths = tuple(tuple(ids_RL[r][end : end + path_R[r]]) for r in range(row, row + count))
        prompts.append(ids_RL[row][:end])
        of_example.append(trees.get(paths) or trees.setdefault(paths, _Tree.of(paths)))
        row += count
    length = max(len(prompt) + len(tree.token_ids) for prompt, tree in zip(prompts, of_example, strict=True))
    reads = 1 + max(len(tree.token_ids) for tree in of_example)
    ids, place, read = (np.zeros((len(prompts), size), np.int64) for size in (length, length, reads))
    visible = np.zeros((len(prompts), length, length), bool)
    visible[:, range(length), range(length)] = True
    for e, (prompt, tree) in enumerate(zip(prompts, of_example, strict=True)):
        start, stop = len(prompt), len(prompt) + len(tree.token_ids)
        ids[e, :stop] = [*prompt, *tree.token_ids]
        place[e, :stop] = [*range(start), *(start - 1 + tree.depth)]
        visible[e, :start, :start] = np.tri(start, dtype=bool)
        visible[e, start:stop, :start] = True
        visible[e, start:stop, start:stop] = tree.sees
        read[e, : 1 + stop - start] = range(start - 1, stop)
    tokens = [
        np.column_stack([tree.at[part[:, 0], part[:, 1]], part[:, 2:]])
        for tree, part in zip(of_example, steps, strict=True)
    ]
    device = rows.token_ids_RL.device
    made = (torch.from_numpy(part).to(device) for part in (ids, place, visible, read))
    told = (rows.answers_E, rows.label_E, rows.tokens_E, torch.from_numpy(np.concatenate(tokens)).to(device))
    return TreeRows(*made, *told)


@dataclass(frozen=True, eq=False)
class _Tree:
    """The positions that lie on the given paths, a path's beginning before what follows it."""

    token_ids: list[int]
    depth: np.ndarray  # from 1
    sees: np.ndarray  # bool: which of them stand on the way to each, itself among them
    at: np.ndarray  # by path and step: which position is there; 0 is the prompt's last, 1 the first of the tree

    @classmethod
    def of(cls, paths: Sequence[tuple[int, ...]]) -> _Tree:
        number: dict[tuple[int, ...], int] = {(): 0}
        for path in paths:
            for step in range(1, len(path) + 1):
                number.setdefault(path[:step], len(number))
        prefixes = list(number)[1:]
        sees = np.zeros((len(prefixes), len(prefixes)), bool)
        for place, prefix in enumerate(prefixes):
            sees[place, [number[prefix[:step]] - 1 for step in range(1, len(prefix) + 1)]] = True
        at = np.zeros((len(paths), 1 + max(map(len, paths))), np.int64)
        for row, path in enumerate(paths):
            at[row, : len(path) + 1] = [number[path[:step]] for step in range(len(path) + 1)]
        return cls([prefix[-1] for prefix in prefixes], np.array([len(p) for p in prefixes], np.int64), sees, at)


def _square(visible_RLL: Tensor, length: int) -> Tensor:
    """The same for rows of so many positions; padding sees itself."""
    grown = length - visible_RLL.shape[1]
    square = F.pad(visible_RLL, (0, grown, 0, grown))
    square[:, range(length - grown, length), range(length - grown, length)] = True
    return square


def tree_positions(answers: Sequence[Sequence[int]]) -> int:
    """How many positions the answers' tree has."""
    return len({tuple(answer[:step]) for answer in answers for step in range(1, len(answer))})


@dataclass(frozen=True)
class ManyLabelRows:
    """Examples that all choose among the same many answers: their prompts alone, and the answers once.

    ``trimmed`` makes the :class:`ChoiceRows` that passes run, for the few examples of a batch.
    """

    token_ids_RL: Tensor  # int64: prompts, padded on the right
    prompt_R: Tensor  # int64, index of the last prompt token
    label_E: Tensor  # int64, the right answer
    answer_CT: Tensor  # int64: the answers' tokens, then -1

    metric: ClassVar[str] = "accuracy"

    @staticmethod
    def of(
        prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], label_E: np.ndarray, seq_len: int, pad: int
    ) -> ManyLabelRows:
        ids = np.full((len(prompts), seq_len), pad, np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = prompt
        answer_CT = np.full((len(answers), max(map(len, answers))), _NO_TOKEN, np.int64)
        for number, answer in enumerate(answers):
            answer_CT[number, : len(answer)] = answer
        prompt_R = np.array([len(prompt) - 1 for prompt in prompts], np.int64)
        return ManyLabelRows(*(torch.from_numpy(part) for part in (ids, prompt_R, label_E.copy(), answer_CT)))

    def __len__(self) -> int:
        return len(self.label_E)

    @property
    def answers(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of each."""
        return tuple(tuple(token for token in answer if token != _NO_TOKEN) for answer in self.answer_CT.tolist())

    @property
    def answers_E(self) -> Tensor:
        return torch.full_like(self.label_E, len(self.answer_CT))

    @property
    def length_E(self) -> Tensor:
        """Positions that each example needs in its longest row."""
        return self.prompt_R + max(map(len, self.answers))

    @property
    def sequences_E(self) -> Tensor:
        """Rows of each example."""
        return torch.full_like(self.label_E, len(paths_of(self.answers)))

    @property
    def weights(self) -> np.ndarray:
        """Each example's weight in the mean, (E,), float64."""
        return np.ones(len(self))

    def rows(self, index_B: np.ndarray | Tensor) -> ManyLabelRows:
        """The given examples, in the given order."""
        index_B = torch.as_tensor(index_B, dtype=torch.int64)
        return ManyLabelRows(self.token_ids_RL[index_B], self.prompt_R[index_B], self.label_E[index_B], self.answer_CT)

    def trimmed(self, device: torch.device | str = "cpu") -> ChoiceRows:
        """The examples with a row for each path, without positions that are padding in all of them."""
        ids, answers = self.token_ids_RL.tolist(), self.answers
        prompts = [row[: end + 1] for row, end in zip(ids, self.prompt_R.tolist(), strict=True)]
        length = int(self.length_E.max())
        return ChoiceRows.of(prompts, [answers] * len(prompts), self.label_E.numpy(), length, 0).trimmed(device)

    def sha256(self) -> str:
        """The fingerprint of these examples as :class:`ChoiceRows`, of which no more are made at once than a piece."""
        one, (examples, length) = self.rows([0]).trimmed(), self.token_ids_RL.shape
        paths, prompt_R = paths_of(self.answers), self.prompt_R.numpy()
        digest = hashlib.sha256()
        digest.update(f"{(examples * len(paths), length)}".encode())
        for start in range(0, examples, _PIECE):
            ids = self.token_ids_RL[start : start + _PIECE].numpy()
            rows = np.repeat(ids[:, None], len(paths), axis=1)
            for number, path in enumerate(paths):
                for step, token in enumerate(path, start=1):
                    rows[np.arange(len(ids)), number, prompt_R[start : start + _PIECE] + step] = token
            digest.update(np.ascontiguousarray(rows))
        digest.update(f"{(examples * len(paths),)}".encode())
        digest.update(np.repeat(prompt_R, len(paths)))
        for part in (one.path_R, one.sequences_E, one.answers_E, self.label_E, one.tokens_E, one.token_K4):
            whole = part is self.label_E
            shape = (len(part), *part.shape[1:]) if whole else (examples * len(part), *part.shape[1:])
            digest.update(f"{tuple(shape)}".encode())
            for _ in range(1 if whole else examples):
                digest.update(part.contiguous().numpy())
        return digest.hexdigest()
