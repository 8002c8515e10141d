"""Split rows by a hash of their text: rows to test on, and the half of a published set that trained ``opt-mini``.

Shapes: R rows.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

import numpy as np
import pandas as pd

from zorba_core.data.task import CLIENT, Task
from zorba_core.errors import InvalidInputError

_NOT_WORD = re.compile(r"[\W_]+")


def held_out(task: Task, frame: pd.DataFrame, fraction: float) -> np.ndarray:
    """The rows for the test, bool (R,): those whose text has a hash below ``fraction``. So equal texts are on one side,
    and the order of the rows does not matter.

    Rows of a label or client without any other row are for training.

    Raises:
        InvalidInputError: there are no rows for the test, or none for training.
    """
    columns = [frame[column].tolist() for column in task.text_columns]
    texts = columns[0] if len(columns) == 1 else ["\x1f".join(parts) for parts in zip(*columns, strict=True)]
    limit = int(fraction * 2**64).to_bytes(8, "big")
    in_test_R = np.array([hashlib.sha256(_plain(text).encode()).digest()[:8] < limit for text in texts])
    for column in ("label", CLIENT):
        if column in frame:
            lost_R = ~frame[column].isin(frame.loc[~in_test_R, column].unique()).to_numpy()
            if taken_back := {texts[row] for row in np.flatnonzero(lost_R)}:
                in_test_R &= np.array([text not in taken_back for text in texts])
    if not in_test_R.any() or in_test_R.all():
        side = "train" if in_test_R.any() else "test"
        different = len({*map(_plain, texts)})
        raise InvalidInputError(
            f"task {task.name}: none of {len(frame)} rows is left to {side} on: they have {different} different "
            f"texts in {' and '.join(task.text_columns)}, equal texts stay on one side, and each label and client "
            "needs a text to train on; give more rows, or rows to test on with --test FILE"
        )
    return in_test_R


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def in_base(train: pd.DataFrame, by: str) -> list[bool]:
    """Whether each training row is in the half on which ``opt-mini`` was trained; clients have the other half.

    The first bit of the SHA-256 of the letters and digits in column ``by`` decides; for ``phrases`` see
    :func:`phrases_in_base`.
    """
    return phrases_in_base(train["text"].tolist()) if by == "phrases" else [_hash_is_base(text) for text in train[by]]


def _hash_is_base(text: str) -> bool:
    folded = _NOT_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())
    return hashlib.sha256(folded.encode()).digest()[0] < 128


def phrases_in_base(texts: list[str]) -> list[bool]:
    """The half of each phrase: that of the sentences that contain it, or by its own hash if these are in both halves.

    SST-2's training rows are phrases cut from sentences; a row that no other row contains is a sentence. In order of
    decreasing length, each sequence of words in a sentence is searched among the texts: 1.7 million look-ups in half a
    second.
    """
    sides: dict[str, set[bool]] = {text: set() for text in texts}
    for text in sorted(sides, key=lambda text: (-len(text), text)):
        if sides[text]:
            continue  # a phrase of a longer sentence
        side = _hash_is_base(text)
        spaces = [index for index, character in enumerate(text) if character == " "]
        starts, stops = [0, *(index + 1 for index in spaces)], [*spaces, len(text)]
        for first, start in enumerate(starts):
            for stop in stops[first:]:
                if (owners := sides.get(text[start:stop])) is not None:
                    owners.add(side)
    agreed = {text: next(iter(votes)) if len(votes) == 1 else _hash_is_base(text) for text, votes in sides.items()}
    return [agreed[text] for text in texts]
