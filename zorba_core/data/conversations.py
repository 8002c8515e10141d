"""Conversations, as rows for fine-tuning have them: the last user's turn and the answer after it.

A conversation is a list of turns, ``{"role": "user", "content": ...}`` (``messages``) or ``{"from": "human", "value":
...}`` (``conversations``), or its JSON in a cell of text. Two columns ``prompt`` and ``completion`` may be one
conversation too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

QUESTION, ANSWER = "question", "answer"  # the columns that are made
_ROLES, _CONTENTS = ("role", "from"), ("content", "value")
_USERS = frozenset({"user", "human", "prompter", "question"})
_ANSWERERS = frozenset({"assistant", "gpt", "model", "bot", "chatgpt", "answer"})
_NAMES = ("messages", "conversations", "conversation", "chat", "dialogue", "dialog", "turns")
_LOOKED_AT = 20  # cells


def with_questions(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the columns ``question`` and ``answer`` of its conversations, and ``attrs["conversations"]``, a
    line about them. Unchanged if it has none, or has these columns already. Without a user's turn with an answer after
    it, the question is the last user's turn and the answer is empty, as in rows to predict.
    """
    columns = [name for name, cells in frame.items() if _holds_turns(cells)]
    if not columns or {QUESTION, ANSWER} & {*frame.columns}:
        return frame
    if {"prompt", "completion"} <= {*columns}:
        used, cells = "prompt and completion", [*zip(frame["prompt"], frame["completion"], strict=True)]
        talks = [_turns(asked) + _turns(answered) for asked, answered in cells]
    else:
        used = next((name for name in _NAMES if name in columns), columns[0])
        talks = [_turns(cell) for cell in frame[used]]
    pairs = [_last_pair(talk) for talk in talks]
    longer = sum(len(talk) > 2 for talk in talks)
    with_others = sum(not all(turn.is_text for turn in talk) for talk in talks)
    made = {QUESTION: [pair[0] for pair in pairs], ANSWER: [pair[1] for pair in pairs]}
    changed = frame.assign(**{name: pd.Series(cells, frame.index, dtype=object) for name, cells in made.items()})
    changed.attrs = {
        **frame.attrs,
        "conversations": f"{used}: the last user's turn is {QUESTION}, what follows it {ANSWER}"
        + (f"; other turns of {longer:,} rows are not read" if longer else "")
        + (f"; pictures and other parts without text of {with_others:,} rows are not read" if with_others else ""),
    }
    return changed


def _holds_turns(column: pd.Series) -> bool:
    some = column.dropna().head(_LOOKED_AT).tolist()
    return bool(some) and all(_turns(cell) for cell in some)


class _Turn(NamedTuple):
    role: str
    text: str
    is_text: bool  # it has no picture or other part


def _turns(cell: Any) -> list[_Turn]:
    """The turns of a cell; empty if it has none."""
    if isinstance(cell, str):
        if not cell.lstrip().startswith("[{"):
            return []
        try:
            cell = json.loads(cell)
        except ValueError:
            return []
    if isinstance(cell, np.ndarray):
        cell = cell.tolist()
    if not isinstance(cell, list):
        return []
    turns = []
    for turn in cell:
        role = next((turn[key] for key in _ROLES if key in turn), None) if isinstance(turn, Mapping) else None
        if not isinstance(role, str):
            return []
        turns.append(_Turn(role.strip().casefold(), *_text(next((turn[key] for key in _CONTENTS if key in turn), ""))))
    return turns


def _text(content: Any) -> tuple[str, bool]:
    """The text of a turn, whose parts may be in a list, and whether all parts are text."""
    if isinstance(content, list | np.ndarray):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        return " ".join(texts), len(texts) == len(parts)
    return content if isinstance(content, str) else "", True


def _last_pair(turns: Sequence[_Turn]) -> tuple[str, str]:
    """The last user's turn with an answer before the next one, and the last such answer: calls of tools and their
    results may be in between."""
    question, pair = "", None
    for role, text, _ in turns:
        if role in _USERS:
            question = text
        elif role in _ANSWERERS and question.strip() and text.strip():
            pair = (question, text)
    return pair or (question, "")
