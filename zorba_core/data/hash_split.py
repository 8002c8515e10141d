"""Which rows of a file are for the test, where no file of their own has them: chosen by a hash of their text.

Shapes: R rows.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from zorba_core.data.tasks import Task

CLIENT = "#client"  # the column that says whose row it is


def hash_split(task: Task, frame: pd.DataFrame, fraction: float) -> np.ndarray:
    """Which rows are for the test, bool (R,): those whose text hashes below ``fraction``.

    A label or client that would have no row left to train on takes its rows back.

    Raises:
        InvalidInputError: nothing is left to test on, or to train on.
    """
    texts = ["\x1f".join(parts) for parts in zip(*(frame[column] for column in task.text_columns), strict=True)]
    limit = int(fraction * 2**64)
    drawn_R = in_test_R = np.array([_hash(text) < limit for text in texts])
    for column in ("label", CLIENT):
        if column in frame:
            trained = set(frame[column][~in_test_R])
            lost_R = ~frame[column].isin(trained).to_numpy()
            taken_back = {text for text, lost in zip(texts, lost_R, strict=True) if lost}
            in_test_R = in_test_R & np.array([text not in taken_back for text in texts])
    if not in_test_R.any() or in_test_R.all():
        side = "test" if not in_test_R.any() else "train"
        why = _why_none(task, frame, len(set(map(_plain, texts))), bool(drawn_R.any()) and side == "test")
        raise InvalidInputError(f"task {task.name}: of {len(frame)} rows none is left to {side} on{why}")
    return in_test_R


def _why_none(task: Task, frame: pd.DataFrame, distinct: int, taken_back: bool) -> str:
    """The cause and what to do about it, where the rows cannot be divided into some to train and some to test on."""
    test_file, columns = "rows to test on with --test FILE", " and ".join(task.text_columns)
    if distinct == 1 < len(frame):
        return (
            f": all have the same text in {columns}, and equal texts stay on one side; name another column with "
            f"--text, or give {test_file}"
        )
    if taken_back:
        held = {column: frame.groupby(column).size() for column in ("label", CLIENT) if column in frame}
        column = max(held, key=lambda column: (held[column] == 1).sum())
        of, once = column.removeprefix("#"), int((held[column] == 1).sum())
        if once:
            many = f"{once} of the {len(held[column])} {of}s have one row alone"
            return f": each {of} keeps a row to train on, and {many}; give several rows of each {of}, or {test_file}"
        return f": each {of} keeps a text to train on; give more texts of each {of}, or {test_file}"
    if distinct < len(frame):
        return (
            f": they hold {distinct} texts, again and again, and equal texts stay on one side; give rows with other "
            f"texts, or {test_file}"
        )
    return f"; give more rows, or {test_file}"


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(_plain(text).encode()).digest()[:8], "big")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
