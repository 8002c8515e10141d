"""A task's prompts as tokens: its fixed words, and the texts between them, cut to fit.

Shapes: R rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from zorba_core.data.cache import fingerprint, kept
from zorba_core.data.pieces import piece_ids, puts_space_first
from zorba_core.data.tasks import FIELD, Task
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_WORTH_KEEPING = 2_000  # texts; fewer are tokenised as fast as they are read

_MARK = "THE-USERS-TURN"


@dataclass(frozen=True)
class _Texts:
    """The tokens of one text column, row by row."""

    token_ids_R: list[list[int]]


class Prompts:
    """The prompts of all rows of a frame, not yet cut."""

    def __init__(self, task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> None:
        self._start, self._segments = _prompt_segments(task, frame, tokenizer)
        self.num_texts = len(task.text_columns)
        words = [segment for segment in self._segments if not isinstance(segment, _Texts)]
        self.fixed = len(self._start) + sum(len(segment) for segment in words)  # tokens of the prompt itself

    def texts(self, row: int) -> list[list[int]]:
        return [segment.token_ids_R[row] for segment in self._segments if isinstance(segment, _Texts)]

    def tokens(self, row: int, room: int) -> list[int]:
        """The prompt with at most ``room`` tokens of texts: a longer one loses the ends of its texts, the longest text
        first, never the prompt's own words."""
        lengths = iter(_shorten([len(text) for text in self.texts(row)], room))
        ids = list(self._start)
        for segment in self._segments:
            ids += segment.token_ids_R[row][: next(lengths)] if isinstance(segment, _Texts) else segment
        return ids


def answer_space(prompt: str) -> str:
    """What stands between the prompt and the answer: a space, but nothing at the start of a line."""
    return "" if prompt[-1:].isspace() and not prompt.endswith(" ") else " "


def chat_turn(task: Task, tokenizer: PreTrainedTokenizerBase) -> tuple[str, str] | None:
    """What the tokenizer's chat template writes before a user's turn and between it and the answer; None where the task
    asks for no chat, or the tokenizer has no template.

    Raises:
        InvalidInputError: a template that cannot be used.
    """
    if not task.chat or not getattr(tokenizer, "chat_template", None):
        return None
    turn = [{"role": "user", "content": _MARK}]
    try:
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # whatever a template of somebody else's does
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InvalidInputError(
            f"task {task.name}: the tokenizer's chat template cannot be used ({reason}); set chat = false in the task"
        ) from None
    before, mark, after = text.partition(_MARK)
    if not mark:
        raise InvalidInputError(
            f"task {task.name}: the tokenizer's chat template leaves the user's turn out; set chat = false in the task"
        )
    return before, after


def fill(template: str, frame: pd.DataFrame) -> list[str]:
    """The text of each row, without space around it: a template's, or a column's where ``template`` has no field."""
    parts = FIELD.split(template)
    if len(parts) == 1:
        return frame[template].astype(str).str.strip().tolist()
    columns = {field: frame[field].astype(str).str.strip().tolist() for field in parts[1::2]}
    return [
        "".join(columns[part][row] if place % 2 else part for place, part in enumerate(parts)).strip()
        for row in range(len(frame))
    ]


def _prompt_segments(
    task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase
) -> tuple[list[int], list[_Texts | list[int]]]:
    """Tokens the tokenizer starts every text with (OPT: ``</s>``), then the prompt as fixed words and text columns."""
    turn = chat_turn(task, tokenizer)
    with_start = tokenizer.encode("a")
    start = (
        tokenizer.encode(turn[0], add_special_tokens=False)
        if turn is not None
        else with_start[: 1 if with_start and with_start[0] == tokenizer.bos_token_id else 0]
    )
    segments: list[_Texts | list[int]] = []
    space = ""  # tokenizers write a space at the front of the word that follows it
    first = turn is None
    for position, part in enumerate(FIELD.split(task.prompt)):
        if position % 2:
            texts = [space + text.strip() for text in frame[part].astype(str)]
            segments.append(_Texts(_token_ids(tokenizer, texts, first)))
            space, first = "", False
        elif part:
            body = space + part.rstrip(" ")
            space = " " if part.endswith(" ") else ""
            if body:
                segments += piece_ids(tokenizer, [body], first=first)
                first = False
    if turn is not None and turn[1]:
        segments += piece_ids(tokenizer, [turn[1]])
    return start, segments


def _token_ids(tokenizer: PreTrainedTokenizerBase, texts: list[str], first: bool) -> list[list[int]]:
    """Tokens of each text, none added. Those of many texts are kept for the next run."""

    def ids() -> list[list[int]]:
        return piece_ids(tokenizer, texts, first=first)

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if len(texts) < _WORTH_KEEPING or backend is None:
        return ids()

    def make() -> dict[str, np.ndarray]:
        ids_R = ids()
        stop_R = np.cumsum([len(row) for row in ids_R], dtype=np.int64)
        return {"ids": np.array([token for row in ids_R for token in row], dtype=np.int32), "stop": stop_R}

    # The backend's text form is the whole tokenizer; the class may do more with it.
    where = ["within"] if not first and puts_space_first(tokenizer) else []
    arrays = kept("tokens", fingerprint([type(tokenizer).__name__, backend.to_str(), *where, *texts]), make)
    flat, stop_R = arrays["ids"].tolist(), arrays["stop"].tolist()
    return [flat[start:stop] for start, stop in zip([0, *stop_R[:-1]], stop_R, strict=True)]


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
