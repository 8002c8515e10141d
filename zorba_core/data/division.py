"""The two halves of published training rows: ``base``, which only ``zorba make-base`` reads, and ``federated``, which
clients hold.

The side is the first bit of the SHA-256 of a text's letters and digits, so it depends neither on the order of the rows
nor on where they came from. Which text decides is the task's: see :mod:`zorba_core.data.catalogue`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable

import pandas as pd

BASE_FRACTION = 0.5
_NOT_WORD = re.compile(r"[\W_]+")


def hash_says_base(text: str) -> bool:
    folded = _NOT_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())
    return hashlib.sha256(folded.encode()).digest()[0] < 256 * BASE_FRACTION


def by_hash_of(column: str) -> Callable[[pd.DataFrame], list[bool]]:
    """The division of rows by the text of one column: which rows are in the base half."""
    return lambda train: [hash_says_base(text) for text in train[column]]
