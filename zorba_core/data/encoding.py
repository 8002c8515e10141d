"""A task's rows as tokens: the prompt around the texts, cut to fit, and the label words' token ids.

Shapes: R rows, L token positions (``seq_len``), C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from zorba_core.data.tasks import FIELD, Task
from zorba_core.engine.rows import Encoded
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def label_token_ids(
    task: Task, tokenizer: PreTrainedTokenizerBase, words: tuple[str, ...] | None = None
) -> torch.Tensor:
    """Token id of each class's answer, int64 of shape (C,), each word taken with a space before it.

    Args:
        words: other answers than ``task.label_words``, one per class.

    Raises:
        InvalidInputError: the number of words is not C, two are the same, or the tokenizer splits one.
    """
    words = task.label_words if words is None else tuple(words)
    if len(words) != task.num_classes or len(set(words)) != len(words):
        raise InvalidInputError(f"task {task.name} needs {task.num_classes} different label words, got {list(words)}")
    ids = []
    for word in words:
        pieces = tokenizer.encode(" " + word, add_special_tokens=False)
        if len(pieces) != 1 or pieces[0] == tokenizer.unk_token_id:
            shown = [tokenizer.convert_ids_to_tokens(piece) for piece in pieces]
            raise InvalidInputError(
                f"task {task.name}: the tokenizer splits the label word {word!r} into {shown}; "
                "a label word must be one token, choose other label words for this model"
            )
        ids.append(pieces[0])
    return torch.tensor(ids, dtype=torch.int64)


def encode(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> Encoded:
    """Turn rows into prompts of at most ``seq_len`` tokens, padded on the right to ``seq_len``.

    A prompt that is too long loses the ends of its texts, the longest text first, never the prompt's own words.

    Raises:
        InvalidInputError: columns are missing, a label is out of range, or ``seq_len`` cannot hold the prompt itself.
    """
    missing = [column for column in (*task.text_columns, "label") if column not in frame.columns]
    if missing:
        raise InvalidInputError(f"task {task.name}: the rows lack the column(s) {', '.join(missing)}")
    label_R = frame["label"].to_numpy(dtype=np.int64)
    if len(label_R) == 0:
        raise InvalidInputError(f"task {task.name}: there are no rows to encode")
    if label_R.min() < 0 or label_R.max() >= task.num_classes:
        label_range = f"{label_R.min()}..{label_R.max()}"
        raise InvalidInputError(f"task {task.name}: labels must be 0..{task.num_classes - 1}, found {label_range}")

    start, segments = _prompt_segments(task, frame, tokenizer)
    fixed = len(start) + sum(len(segment) for segment in segments if not isinstance(segment, _Texts))
    room = seq_len - fixed
    if room < len(task.text_columns):
        raise InvalidInputError(
            f"task {task.name}: seq_len {seq_len} cannot hold the prompt's own {fixed} tokens and some text; "
            f"use at least {fixed + len(task.text_columns)}"
        )
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    token_ids_RL = np.full((len(label_R), seq_len), pad_id, dtype=np.int64)
    last_R = np.empty(len(label_R), dtype=np.int64)
    for row in range(len(label_R)):
        texts = [segment.token_ids_R[row] for segment in segments if isinstance(segment, _Texts)]
        lengths = iter(_shorten([len(text) for text in texts], room))
        ids = list(start)
        for segment in segments:
            ids += segment.token_ids_R[row][: next(lengths)] if isinstance(segment, _Texts) else segment
        token_ids_RL[row, : len(ids)] = ids
        last_R[row] = len(ids) - 1
    return Encoded(torch.from_numpy(token_ids_RL), torch.from_numpy(last_R), torch.from_numpy(label_R.copy()))


@dataclass(frozen=True)
class _Texts:
    """The tokens of one text column, row by row."""

    token_ids_R: list[list[int]]


def _prompt_segments(
    task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase
) -> tuple[list[int], list[_Texts | list[int]]]:
    """Tokens the tokenizer starts every text with (OPT: ``</s>``), then the prompt as fixed words and text columns."""
    with_start = tokenizer.encode("a")
    start = with_start[: 1 if with_start and with_start[0] == tokenizer.bos_token_id else 0]
    segments: list[_Texts | list[int]] = []
    space = ""  # byte-level BPE writes a space at the front of the word that follows it
    for position, part in enumerate(FIELD.split(task.prompt)):
        if position % 2:
            texts = [space + text.strip() for text in frame[part].astype(str)]
            segments.append(_Texts(tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]))
            space = ""
        elif part:
            body = space + part.rstrip(" ")
            space = " " if part.endswith(" ") else ""
            if body:
                segments.append(tokenizer.encode(body, add_special_tokens=False))
    return start, segments


def _shorten(lengths: list[int], room: int) -> list[int]:
    """Lengths that fit ``room``: the longest is cut first, so two texts never differ because one came first."""
    lengths = list(lengths)
    excess = sum(lengths) - room
    while excess > 0:
        longest = max(range(len(lengths)), key=lengths.__getitem__)
        others = [length for index, length in enumerate(lengths) if index != longest]
        cut = min(excess, max(1, lengths[longest] - max(others, default=0)))
        lengths[longest] -= cut
        excess -= cut
    return lengths
