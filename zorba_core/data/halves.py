"""The two halves of published training rows: ``base``, which only ``zorba make-base`` reads, and ``federated``, which
clients hold.

The side is the first bit of the SHA-256 of a text's letters and digits, so it depends neither on the order of the rows
nor on where they came from.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

import pandas as pd

PHRASES = "phrases"
_NOT_WORD = re.compile(r"[\W_]+")


def in_base(train: pd.DataFrame, by: str) -> list[bool]:
    """Which rows are in the base half: by a hash of the column ``by``, or for PHRASES of the sentences of ``text``."""
    return phrases_in_base(train["text"].tolist()) if by == PHRASES else [hash_says_base(text) for text in train[by]]


def hash_says_base(text: str) -> bool:
    folded = _NOT_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())
    return hashlib.sha256(folded.encode()).digest()[0] < 128


def phrases_in_base(texts: list[str]) -> list[bool]:
    """The side of each phrase: its sentences' side where they agree, its own hash where they do not.

    SST-2's training rows are phrases cut out of sentences. A row that no other row contains is a sentence, and a phrase
    goes where the sentences go that it is cut from. From the longest text down, every run of words of a sentence is
    looked up among the texts: 1.7 million look-ups, half a second.
    """
    sides: dict[str, set[bool]] = {text: set() for text in texts}
    for text in sorted(sides, key=lambda text: (-len(text), text)):
        if sides[text]:
            continue  # a phrase of a sentence seen before
        side = hash_says_base(text)
        spaces = [index for index, character in enumerate(text) if character == " "]
        starts, stops = [0, *(index + 1 for index in spaces)], [*spaces, len(text)]
        for first, start in enumerate(starts):
            for stop in stops[first:]:
                if (owners := sides.get(text[start:stop])) is not None:
                    owners.add(side)
    agreed = {text: next(iter(votes)) if len(votes) == 1 else hash_says_base(text) for text, votes in sides.items()}
    return [agreed[text] for text in texts]
