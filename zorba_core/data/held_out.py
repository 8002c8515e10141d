"""Which rows are for the test, where no file of their own has them: chosen by a hash of their text, so that equal texts
never stand on both sides and the choice does not depend on the order of the rows.

Shapes: R rows.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

from zorba_core.data.task import CLIENT, Task
from zorba_core.errors import InvalidInputError


def held_out(task: Task, frame: pd.DataFrame, fraction: float) -> np.ndarray:
    """Which rows are for the test, bool (R,): those whose text hashes below ``fraction``.

    A label or client that would have no row left to train on takes its rows back.

    Raises:
        InvalidInputError: nothing is left to test on, or to train on.
    """
    texts = ["\x1f".join(parts) for parts in zip(*(frame[column] for column in task.text_columns), strict=True)]
    limit = int(fraction * 2**64)
    in_test_R = np.array([_hash(text) < limit for text in texts])
    for column in ("label", CLIENT):
        if column in frame:
            trained = set(frame[column][~in_test_R])
            lost_R = ~frame[column].isin(trained).to_numpy()
            taken_back = {text for text, lost in zip(texts, lost_R, strict=True) if lost}
            in_test_R = in_test_R & np.array([text not in taken_back for text in texts])
    if not in_test_R.any() or in_test_R.all():
        side = "test" if not in_test_R.any() else "train"
        distinct = len({*map(_plain, texts)})
        raise InvalidInputError(
            f"task {task.name}: of {len(frame)} rows none is left to {side} on: they have {distinct} different texts "
            f"in {' and '.join(task.text_columns)}, equal texts stay on one side, and each label and client keeps a "
            "text to train on; give more rows, or rows to test on with --test FILE"
        )
    return in_test_R


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(_plain(text).encode()).digest()[:8], "big")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
