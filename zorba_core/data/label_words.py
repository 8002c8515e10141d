"""Words to answer with, from the names of labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BREAKS = re.compile(r"[\s_/|>.-]+")
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def words_for(names: Sequence[str], tokenizer: PreTrainedTokenizerBase | None = None) -> tuple[str, ...]:
    """A different word for each label: its name as it is written in a sentence.

    With a tokenizer, a spelling of the name that is one token is preferred, then one word of it that is, since such
    answers are the fastest to score; else the whole name stands, in as many tokens as it takes.
    """
    taken: dict[str, None] = {}
    for name in names:
        plain = _BREAKS.sub(" ", _INNER_CAPITAL.sub(" ", name)).strip() or name.strip()
        spellings = dict.fromkeys([plain, plain.lower(), plain.title(), *_single_words(plain)])
        usable = [word for word in spellings if word not in taken]
        chosen = next((word for word in usable if tokenizer is not None and _is_one_token(word, tokenizer)), None)
        taken[chosen or next(iter(usable), name)] = None
    return tuple(taken)


def _single_words(plain: str) -> list[str]:
    words = [word for word in plain.split() if len(word) > 2]
    return [spelling for word in words for spelling in (word, word.lower())] if len(words) > 1 else []


def _is_one_token(word: str, tokenizer: PreTrainedTokenizerBase) -> bool:
    pieces = tokenizer.encode(" " + word, add_special_tokens=False)
    return len(pieces) == 1 and pieces[0] != tokenizer.unk_token_id
