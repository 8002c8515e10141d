"""A task's prompts as tokens: fixed words and the texts between them, cut to fit; and label words for a tokenizer.

A prompt is tokenised in pieces, and a piece within it must not be treated as its beginning. Byte-level tokenizers join
a space to the next word, so a piece is tokenised as it is. SentencePiece tokenizers (Llama, Mistral and others, which
write a space as U+2581) add a space before each input, so a piece would have one space too many.

Shapes: R rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from zorba_core.data.task import FIELD, Task
from zorba_core.errors import InvalidInputError, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SPACE = "\u2581"
_ANCHORS = ("\n", ":", "a")  # a piece is tokenised after one of them, as if within a text
_MARK = "THE-USERS-TURN"
# Between words; not the sign or the decimal point of a number.
_BREAKS = re.compile(r"(?:(?!(?<!\S)-\.?\d|(?<![^\s-])\.\d|(?<=\d)\.\d)[\s_/|>.-])+")
_NUMBER = re.compile(r"(-?)(\d+)(?:([.,])(\d+))?")
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Prompts:
    """The uncut prompts of all rows of a frame, which has the columns of the task's prompt.

    Attributes:
        num_texts: number of text columns in the prompt.
        fixed: number of tokens of the prompt's own words.
    """

    def __init__(self, task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> None:
        self.num_texts = len(task.text_columns)
        self._start, self._segments = _start_tokens(task, tokenizer), []
        for is_text, pieces, first in _pieces(task, frame, tokenizer):
            tokens_R = piece_ids(tokenizer, pieces, first=first)
            self._segments.append((is_text, tokens_R if is_text else tokens_R * len(frame)))
        fixed = [tokens_R[0] for is_text, tokens_R in self._segments if not is_text and tokens_R]
        self.fixed = len(self._start) + sum(map(len, fixed))

    def length(self, row: int) -> int:
        """Tokens of a row's texts, uncut."""
        return sum(len(tokens_R[row]) for is_text, tokens_R in self._segments if is_text)

    def tokens(self, row: int, room: int) -> list[int]:
        """A row's prompt with at most ``room`` tokens of texts. The ends of the texts are cut, the longest first."""
        texts = [tokens_R[row] for is_text, tokens_R in self._segments if is_text]
        lengths = iter(_shorten([*map(len, texts)], room))
        ids = list(self._start)
        for is_text, tokens_R in self._segments:
            ids += tokens_R[row][: next(lengths)] if is_text else tokens_R[row]
        return ids


def answer_space(prompt: str) -> str:
    """The space between prompt and answer; empty if the answer starts a new line."""
    return "" if prompt[-1:].isspace() and not prompt.endswith(" ") else " "


def chat_turn(task: Task, tokenizer: PreTrainedTokenizerBase) -> tuple[str, str] | None:
    """The text of the chat template before a user's turn, and between the turn and the answer. None if the task is no
    chat or the tokenizer has no template.

    Raises:
        InvalidInputError: the template fails.
    """
    if not task.chat or not getattr(tokenizer, "chat_template", None):
        return None
    try:
        turn = [{"role": "user", "content": _MARK}]
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        before, after = str(text).split(_MARK)
    except Exception as error:  # a template is a program from outside and can fail in any way
        raise InvalidInputError(
            f"task {task.name}: the tokenizer's chat template cannot be used ({first_line(error)[:120]}); set "
            "chat = false in the task"
        ) from None
    return before, after


def fill(template: str, frame: pd.DataFrame) -> list[str]:
    """The stripped text of each row: ``template`` with its fields filled in, or the column of this name."""
    parts = FIELD.split(template)
    if len(parts) == 1:
        return frame[template].astype(str).str.strip().tolist()
    columns = {field: frame[field].astype(str).str.strip().tolist() for field in parts[1::2]}
    return [
        "".join(columns[part][row] if place % 2 else part for place, part in enumerate(parts)).strip()
        for row in range(len(frame))
    ]


def piece_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, first: bool = False) -> list[list[int]]:
    """The tokens of each piece within a text, or with ``first`` at the beginning of one, without special tokens."""
    if first or not puts_space_first(tokenizer):
        return _plain(tokenizer, texts)
    ids = _plain(tokenizer, [text[1:] if text.startswith(" ") else text for text in texts])
    inside = [place for place, text in enumerate(texts) if text and not text.startswith(" ")]
    for place, within in zip(inside, _within(tokenizer, [texts[place] for place in inside]), strict=True):
        ids[place] = within
    return ids


def puts_space_first(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the tokenizer adds a space before a text, as SentencePiece tokenizers do."""
    ids = tokenizer.encode("a", add_special_tokens=False)
    return bool(ids) and str(tokenizer.convert_ids_to_tokens(ids[0])).startswith(_SPACE)


def _within(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text after an anchor, without the anchor's tokens."""
    for anchor in _ANCHORS:
        (before,), behind = _plain(tokenizer, [anchor]), _plain(tokenizer, [anchor + text for text in texts])
        if tokenizer.unk_token_id not in before and all(ids[: len(before)] == before for ids in behind):
            return [ids[len(before) :] for ids in behind]
    return _plain(tokenizer, texts)


def _plain(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    return tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if len(texts) else []


def _start_tokens(task: Task, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The first tokens of each prompt: the chat template's, or the tokenizer's start token (OPT: ``</s>``)."""
    turn = chat_turn(task, tokenizer)
    if turn is not None:
        return tokenizer.encode(turn[0], add_special_tokens=False)
    with_start = tokenizer.encode("a")
    return with_start[:1] if with_start and with_start[0] == tokenizer.bos_token_id else []


def _pieces(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> list[tuple[bool, list[str], bool]]:
    """The parts of the prompt in order: (is it a text column, its text in each row or once if fixed, is it the first).
    A space between two parts belongs to the second."""
    turn = chat_turn(task, tokenizer)
    pieces: list[tuple[bool, list[str], bool]] = []
    space = ""
    for position, part in enumerate(FIELD.split(task.prompt)):
        first = turn is None and not pieces
        if position % 2:
            pieces.append((True, [space + text.strip() for text in frame[part].astype(str)], first))
            space = ""
        elif part:
            body = space + part.rstrip(" ")
            space = " " if part.endswith(" ") else ""
            if body:
                pieces.append((False, [body], first))
    if turn is not None and turn[1]:
        pieces.append((False, [turn[1]], False))
    return pieces


def _shorten(lengths: list[int], room: int) -> list[int]:
    """Lengths that fit ``room``; the longest is cut first."""
    lengths = list(lengths)
    excess = sum(lengths) - room
    while excess > 0:
        longest = max(range(len(lengths)), key=lengths.__getitem__)
        others = [length for index, length in enumerate(lengths) if index != longest]
        cut = min(excess, max(1, lengths[longest] - max(others, default=0)))
        lengths[longest] -= cut
        excess -= cut
    return lengths


def words_for(names: Sequence[str], tokenizer: PreTrainedTokenizerBase | None = None) -> tuple[str, ...]:
    """A different label word for each label name.

    If each name, or a word in it, has a spelling that is one token, these are the words: they are the fastest to score.
    Otherwise the words are the whole names. Numbers are padded to one length on both sides of the decimal point. If a
    name begins with another one ("new york", "new"), only its rest is used, since the shorter one would always have the
    higher score.
    """
    plain = [_BREAKS.sub(" ", _INNER_CAPITAL.sub(" ", name)).strip() or name.strip() for name in names]
    short = _one_token_each(plain, tokenizer) if tokenizer is not None else None
    if short is not None:
        return short
    if (padded := _padded_numbers(plain)) is not None:
        return padded
    words: list[str] = []
    for name in plain:
        begins = [other for other in plain if other != name and name.startswith(f"{other} ")]
        rest = name.removeprefix(max(begins, key=len)).strip() if begins else name
        words.append(rest if rest not in (*words, *plain) or rest == name else name)
    return tuple(words) if len(set(words)) == len(words) else tuple(names)


def _padded_numbers(plain: Sequence[str]) -> tuple[str, ...] | None:
    """Numbers, of which none begins with another: 1, 1.5 and 10 are 01.0, 01.5 and 10.0. None if the names are no
    numbers, or two of them are the same number."""
    matches = [match for name in plain if (match := _NUMBER.fullmatch(name))]
    if len(matches) < len(plain):
        return None
    whole = max(len(match[2]) for match in matches)
    decimals = max(len(match[4] or "") for match in matches)
    point = next((match[3] for match in matches if match[3]), "")
    words = tuple(f"{m[1]}{m[2].zfill(whole)}{point}{(m[4] or '').ljust(decimals, '0')}" for m in matches)
    return words if len({*words}) == len(words) else tuple(plain)


def _one_token_each(plain: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...] | None:
    taken: dict[str, None] = {}
    for name in plain:
        parts = [word for word in name.split() if len(word) > 2]
        parts = [spelling for word in parts for spelling in (word, word.lower())] if len(parts) > 1 else []
        spellings = dict.fromkeys([name, name.lower(), name.title(), *parts])
        usable = [word for word in spellings if word not in taken and _is_one_token(word, tokenizer)]
        if not usable:
            return None
        taken[usable[0]] = None
    return tuple(taken)


def _is_one_token(word: str, tokenizer: PreTrainedTokenizerBase) -> bool:
    (pieces,) = piece_ids(tokenizer, [" " + word])
    return len(pieces) == 1 and pieces[0] != tokenizer.unk_token_id
