"""Words to answer with, from the names of labels."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zorba_core.data.prompts import piece_ids
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BREAKS = re.compile(r"[\s_/|>.-]+")
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def listed(text: str) -> list[str]:
    """Words with commas between; one that holds a comma stands in double quotes.

    Raises:
        InvalidInputError: more than one line.
    """
    try:
        return [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error as error:
        raise InvalidInputError(f"the words {text[:60]!r} cannot be read as one line of a table ({error})") from None


def as_list(words: Sequence[str]) -> str:
    """The text that :func:`listed` reads."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(words)
    return line.getvalue()


def words_for(names: Sequence[str], tokenizer: PreTrainedTokenizerBase | None = None) -> tuple[str, ...]:
    """A different word for each label, by which a model could name it.

    Where the tokenizer has one token for a spelling of every name, or for a word of it, these are taken: such answers
    are the fastest to score. Else each label is answered with its whole name, in as many tokens as it takes; numbers
    are written equally long, and a name that begins another one ("new", "new york") leaves the other its rest, since
    the beginning would always score higher.
    """
    plain = [_BREAKS.sub(" ", _INNER_CAPITAL.sub(" ", name)).strip() or name.strip() for name in names]
    short = _one_token_each(plain, tokenizer) if tokenizer is not None else None
    if short is not None:
        return short
    if all(name.isdigit() for name in plain):
        return tuple(name.zfill(max(map(len, plain))) for name in plain)
    words: list[str] = []
    for name in plain:
        begins = [other for other in plain if other != name and name.startswith(f"{other} ")]
        rest = name.removeprefix(max(begins, key=len)).strip() if begins else name
        words.append(rest if rest not in (*words, *plain) or rest == name else name)
    return tuple(words) if len(set(words)) == len(words) else tuple(names)


def _one_token_each(plain: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...] | None:
    taken: dict[str, None] = {}
    for name in plain:
        spellings = dict.fromkeys([name, name.lower(), name.title(), *_single_words(name)])
        usable = [word for word in spellings if word not in taken and _is_one_token(word, tokenizer)]
        if not usable:
            return None
        taken[usable[0]] = None
    return tuple(taken)


def _single_words(plain: str) -> list[str]:
    words = [word for word in plain.split() if len(word) > 2]
    return [spelling for word in words for spelling in (word, word.lower())] if len(words) > 1 else []


def _is_one_token(word: str, tokenizer: PreTrainedTokenizerBase) -> bool:
    (pieces,) = piece_ids(tokenizer, [" " + word])
    return len(pieces) == 1 and pieces[0] != tokenizer.unk_token_id
