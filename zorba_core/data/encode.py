"""Encode a task's rows as tokens: the prompt with its texts, cut to fit, and the possible answers.

Shapes: R rows, L token positions (``seq_len``), C classes.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from zorba_core.data.prompts import Prompts, answer_space, chat_turn, fill, piece_ids
from zorba_core.data.task import Task
from zorba_core.engine.rows import Prior, Rows
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


MOST_SUITED, _MEASURED, _ENCODED_TOGETHER = 96, 2_000, 10_000


def label_tokens(task: Task, tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """The tokens of each label word, with the space before it.

    Raises:
        InvalidInputError: the tokenizer has no tokens for a word, or the tokens of one word begin with those of
            another, which would always have the higher score.
    """
    space = answer_space(task.prompt)
    tokens = piece_ids(tokenizer, [space + word for word in task.label_words])
    for word, pieces in zip(task.label_words, tokens, strict=True):
        if not pieces or tokenizer.unk_token_id in pieces:
            raise InvalidInputError(
                f"task {task.name}: the tokenizer has no tokens for the label word {word!r}; choose another label word"
            )
    clash = _beginning(tokens)
    if clash is not None:
        short, long = (task.label_words[place] for place in clash)
        raise InvalidInputError(
            f"task {task.name}: for this tokenizer the label word {long!r} begins with the label word {short!r} (or "
            "equals it) and could never be chosen; give words of which none begins with another (--label-words)"
        )
    return tokens


def encode(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> Rows:
    """The rows of :func:`encode_counted`."""
    return encode_counted(task, frame, tokenizer, seq_len)[0]


def encode_counted(
    task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int, *, labelled: bool = True
) -> tuple[Rows, dict[str, int]]:
    """Encode rows as prompt and answer of at most ``seq_len`` tokens together, padded on the right to ``seq_len``.

    The ends of long texts are cut, the longest text first; the prompt's own words, label words and options are never
    cut. A written answer is cut to half of the room that the prompt's own words leave, or to more if the texts are
    short.

    Args:
        labelled: False if the rows have no ``label``, for prediction: they get label 0.

    Returns:
        The rows, and the counts of :func:`count_cuts`.

    Raises:
        InvalidInputError: columns are missing, an answer is empty, or ``seq_len`` is too short for prompt and answer.
    """
    _check_columns(task, frame, [column for column in task.columns if labelled or column != "label"])
    if len(frame) == 0:
        raise InvalidInputError(f"task {task.name}: there are no rows to encode")
    prompts, answers_R = Prompts(task, frame, tokenizer), _answers(task, frame, tokenizer)
    rooms_R = _rooms(task, prompts, answers_R, seq_len)
    for row, (room, length) in enumerate(rooms_R):
        if length < 1 or (task.kind != "text" and room < prompts.num_texts):
            answer = f", the longest answer's {length} (row {frame.index[row]})" if length > 1 else ""
            least = prompts.fixed + prompts.num_texts + (0 if task.kind == "text" else length - 1)
            raise InvalidInputError(
                f"task {task.name}: seq_len {seq_len} cannot hold the prompt's own {prompts.fixed} tokens{answer} and "
                f"some text; use at least {least}"
            )
    tokens_R = [prompts.tokens(row, room) for row, (room, _) in enumerate(rooms_R)]
    cuts = _cuts(task, prompts, answers_R, rooms_R)
    if task.kind == "text":
        answers_R = [[answer[:length]] for (answer,), (_, length) in zip(answers_R, rooms_R, strict=True)]
    label_R = frame["label"].to_numpy(np.int64) if labelled and "label" in task.columns else np.zeros(len(frame))
    pad_id = next(token for token in (tokenizer.pad_token_id, tokenizer.eos_token_id, 0) if isinstance(token, int))
    rows = Rows.of(tokens_R, answers_R, label_R, seq_len, pad_id, mean=task.score == "mean")
    return rows.with_prior(task.prior), cuts


@dataclass(frozen=True, eq=False)
class RowsOnDemand:
    """The examples of a large table as :class:`zorba_core.engine.rows.Rows`, of which only those of a batch are encoded
    when it is drawn: a run reads few of a million rows, and the tokens of all take minutes and gigabytes."""

    task: Task
    frame: pd.DataFrame
    tokenizer: PreTrainedTokenizerBase
    seq_len: int
    prior: Prior
    is_centred: bool = False  # whether a batch has the centred loss

    @classmethod
    def of(cls, task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> RowsOnDemand:
        """Rows of the task, with its prior."""
        return cls(task, frame, tokenizer, seq_len, task.prior)

    def __len__(self) -> int:
        return len(self.frame)

    def rows(self, index_B: np.ndarray | torch.Tensor) -> Rows:
        """The given examples, in the given order."""
        some = self.frame.iloc[np.asarray(index_B)]
        rows = encode(self.task, some, self.tokenizer, self.seq_len).with_prior(self.prior)
        return rows.centred() if self.is_centred else rows

    def with_prior(self, prior: Prior) -> RowsOnDemand:
        """The same examples, with these numbers subtracted from the scores."""
        return replace(self, prior=prior)

    def centred(self) -> RowsOnDemand:
        """The same examples, each batch of which has the centred loss."""
        return replace(self, is_centred=True)

    @property
    def answers(self) -> int:
        """C, the answers that an example chooses among; 1 for written answers."""
        return max(1, len(self.task.label_words))

    @property
    def largest_token(self) -> int:
        """The largest token id that occurs. All rows are encoded for it, some thousands at a time."""
        parts = np.array_split(np.arange(len(self)), -(-len(self) // _ENCODED_TOGETHER))
        return max(self.rows(part).largest_token for part in parts)

    def sha256(self) -> str:
        """SHA-256 of the texts and labels."""
        digest = hashlib.sha256(f"{self.task.prompt} {self.seq_len}".encode())
        for column in self.task.columns:
            for part in np.array_split(self.frame[column].to_numpy(), -(-len(self) // _ENCODED_TOGETHER)):
                digest.update("".join(f"{value}\0" for value in part).encode())
        return digest.hexdigest()


def encode_prompts(
    task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int, *, max_new_tokens: int
) -> tuple[list[list[int]], int]:
    """The prompts without answers, cut so that ``max_new_tokens`` more fit into ``seq_len``, and how many were cut.

    Raises:
        InvalidInputError: columns are missing, or ``seq_len`` is too short for the prompt and the new tokens.
    """
    _check_columns(task, frame, task.text_columns)
    prompts = Prompts(task, frame, tokenizer)
    room = seq_len - prompts.fixed - max_new_tokens
    if room < prompts.num_texts:
        raise InvalidInputError(
            f"task {task.name}: seq_len {seq_len} cannot hold the prompt's own {prompts.fixed} tokens, some text and "
            f"{max_new_tokens} new tokens; use at least {prompts.fixed + max_new_tokens + prompts.num_texts}"
        )
    rows = range(len(frame))
    return [prompts.tokens(row, room) for row in rows], sum(prompts.length(row) > room for row in rows)


def count_cuts(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> dict[str, int]:
    """The number of rows whose texts ``seq_len`` cuts (``prompts_cut``), and whose written answer (``answers_cut``),
    which then loses its end token too."""
    prompts, answers_R = Prompts(task, frame, tokenizer), _answers(task, frame, tokenizer)
    return _cuts(task, prompts, answers_R, _rooms(task, prompts, answers_R, seq_len))


def _cuts(
    task: Task, prompts: Prompts, answers_R: Sequence[Sequence[Sequence[int]]], rooms_R: Sequence[tuple[int, int]]
) -> dict[str, int]:
    cuts = {"prompts_cut": sum(prompts.length(row) > room for row, (room, _) in enumerate(rooms_R))}
    if task.kind == "text":
        cuts["answers_cut"] = sum(len(row[0]) > length for row, (_, length) in zip(answers_R, rooms_R, strict=True))
    return cuts


def suited_length(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> int:
    """The sequence length, L, that fits prompt and answer of 99 % of the rows: a multiple of 8, and at most
    :data:`MOST_SUITED`, or for a long prompt its own words and half of that. Of candidate prompts, the longest fits."""
    frame = frame.head(_MEASURED)
    most = max(MOST_SUITED, _fixed(task, frame, tokenizer) + MOST_SUITED // 2)
    return min(most, enough_length(task, frame, tokenizer))


def enough_length(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> int:
    """The multiple of 8 that fits the uncut prompt and the longest answer of 99 % of the rows, in tokens."""
    prompts, answers_R = Prompts(task, frame, tokenizer), _answers(task, frame, tokenizer)
    fixed = _fixed(task, frame, tokenizer)
    length_R = [fixed + prompts.length(r) + max(map(len, answers_R[r])) - 1 for r in range(len(frame))]
    return -(-int(np.quantile(length_R, 0.99)) // 8) * 8


def _fixed(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> int:
    """The number of tokens of the prompt's own words; of several prompts, the largest."""
    each = (replace(task, prompt=prompt, prompts=()) for prompt in task.prompts or (task.prompt,))
    return max(Prompts(one, frame.head(1), tokenizer).fixed for one in each)


def _check_columns(task: Task, frame: pd.DataFrame, wanted: Sequence[str]) -> None:
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise InvalidInputError(f"task {task.name}: the rows have no column {', '.join(missing)}")


def _rooms(
    task: Task, prompts: Prompts, answers_R: Sequence[Sequence[Sequence[int]]], seq_len: int
) -> list[tuple[int, int]]:
    """For each row, the most tokens of its texts and of its longest answer. The last token of an answer is only
    predicted, so it takes no position."""
    rooms, both = [], seq_len - prompts.fixed + 1
    for row, answers in enumerate(answers_R):
        length = max(map(len, answers))
        if task.kind == "text":  # a long answer gets half of the room, or more if the texts are short
            texts = prompts.length(row)
            least = max(prompts.num_texts, 1) if texts else 0
            length = min(length, max(both // 2, both - max(texts, least)), both - least)
        rooms.append((both - length, length))
    return rooms


def _answers(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """The tokens of each row's candidate answers: the label words, its options, or its written answer and the token
    that ends a text.

    Raises:
        InvalidInputError: an answer is empty, two options are equal, or the tokenizer has no end token.
    """
    if task.kind == "labels":
        return [label_tokens(task, tokenizer)] * len(frame)
    end, turn = tokenizer.eos_token_id, chat_turn(task, tokenizer)
    space = answer_space(task.prompt if turn is None else turn[1])
    columns = []
    for template in (task.answer,) if task.kind == "text" else task.options:
        texts = fill(template, frame)
        if "" in texts:
            what = "answer" if task.kind == "text" else f"option {template!r}"
            raise InvalidInputError(
                f"task {task.name}: the {what} of row {frame.index[texts.index('')]} is empty; remove such rows"
            )
        columns.append(piece_ids(tokenizer, [space + text for text in texts]))
    rows = [list(candidates) for candidates in zip(*columns, strict=True)]
    if task.kind == "text" and end is None:
        raise InvalidInputError(
            f"task {task.name}: the tokenizer has no token that ends a text (eos_token), so answers cannot be learned; "
            "set one in its tokenizer_config.json"
        )
    for row, candidates in enumerate(rows):
        if task.kind == "text" or _beginning(candidates) is not None:  # if one begins another, all get an end token
            if len({tuple(tokens) for tokens in candidates}) < len(candidates) or end is None:
                raise InvalidInputError(
                    f"task {task.name}: row {frame.index[row]} has options that this tokenizer cannot distinguish; "
                    "remove the row"
                )
            rows[row] = [[*tokens, end] for tokens in candidates]
    return rows


def _beginning(answers: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """The indices of two answers, the second of which begins with the first or equals it; None if there are none."""
    order = sorted(range(len(answers)), key=lambda place: list(answers[place]))
    for first, second in itertools.pairwise(order):  # in sorted order such answers are neighbours
        if list(answers[second][: len(answers[first])]) == list(answers[first]):
            return first, second
    return None
