"""Pieces of a text as tokens: what stands in the middle of a text must not be read as its beginning.

Byte-level tokenizers write a space at the front of the word that follows it, so a piece is tokenised as it is.
SentencePiece's (Llama, Mistral and others, which write a space as U+2581) put a space before whatever they are given:
a piece that begins with one would have two, a piece that begins with none would have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SPACE = "\u2581"
_ANCHORS = ("\n", ":", "a")  # texts to put in front of a piece, for its tokens within a text


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
    if not texts:
        return []
    for anchor in _ANCHORS:
        (before,), behind = _plain(tokenizer, [anchor]), _plain(tokenizer, [anchor + text for text in texts])
        if tokenizer.unk_token_id not in before and all(ids[: len(before)] == before for ids in behind):
            return [ids[len(before) :] for ids in behind]
    return _plain(tokenizer, texts)


def _plain(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    return tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if len(texts) else []
