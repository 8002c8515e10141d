"""A task's prompts as tokens: its fixed words, and the texts between them, cut to fit.

What stands in the middle of a text must not be read as its beginning. Byte-level tokenizers write a space at the front
of the word that follows it, so a piece is tokenised as it is. SentencePiece's (Llama, Mistral and others, which write a
space as U+2581) put a space before whatever they are given: a piece that begins with one would have two, a piece that
begins with none would have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from zorba_core.data.task import FIELD, Task
from zorba_core.errors import InvalidInputError, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SPACE = "\u2581"
_ANCHORS = ("\n", ":", "a")  # texts to put in front of a piece, for its tokens within a text
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
        """The tokens of each text of a row, whole."""
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
    try:
        turn = [{"role": "user", "content": _MARK}]
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        before, after = text.split(_MARK)
    except Exception as error:  # whatever a template of somebody else's does
        raise InvalidInputError(
            f"task {task.name}: the tokenizer's chat template cannot be used ({first_line(error)[:120]}); set "
            "chat = false in the task"
        ) from None
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


def piece_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, first: bool = False) -> list[list[int]]:
    """Tokens of each piece as it stands within a text, or with ``first`` at its beginning; none added."""
    if first or not puts_space_first(tokenizer):
        return _plain(tokenizer, texts)
    ids = _plain(tokenizer, [text[1:] if text.startswith(" ") else text for text in texts])
    inside = [place for place, text in enumerate(texts) if text and not text.startswith(" ")]
    for place, within in zip(inside, _within(tokenizer, [texts[place] for place in inside]), strict=True):
        ids[place] = within
    return ids


def puts_space_first(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a text that begins with a letter gets a token with a space."""
    ids = tokenizer.encode("a", add_special_tokens=False)
    return bool(ids) and str(tokenizer.convert_ids_to_tokens(ids[0])).startswith(_SPACE)


def _within(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """What follows an anchor's own tokens when the text stands behind it."""
    for anchor in _ANCHORS:
        (before,), behind = _plain(tokenizer, [anchor]), _plain(tokenizer, [anchor + text for text in texts])
        if tokenizer.unk_token_id not in before and all(ids[: len(before)] == before for ids in behind):
            return [ids[len(before) :] for ids in behind]
    return _plain(tokenizer, texts)


def _plain(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    return tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if len(texts) else []


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
            segments.append(_Texts(piece_ids(tokenizer, texts, first=first)))
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
