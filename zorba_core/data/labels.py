"""The labels that stand in a column of a user's rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zorba_core.data.tables import is_empty
from zorba_core.errors import InvalidInputError, in_short

if TYPE_CHECKING:
    from zorba_core.data.file_rows import FileRows, FrameRows

MAX_LABELS = 1000
_WHOLE = re.compile(r"-?[0-9]+\.0+")  # as a table writes a column of whole numbers with gaps


def labels_in(rows: FileRows | FrameRows, task_name: str) -> tuple[str, ...]:
    """The distinct labels of the rows that are trained on: whole numbers in their order, else by the alphabet.

    Raises:
        InvalidInputError: no column named for them, one label only, or more than a classification can have.
    """
    if not rows.label:
        raise InvalidInputError(f"task {task_name}: say which column holds the label, or name the labels")
    frame = rows.frame("train")
    if rows.label not in frame:
        there = ", ".join(str(column) for column in frame.columns if not str(column).startswith("#"))
        raise InvalidInputError(f"task {task_name}: no column {in_short(rows.label)}; there are {there}")
    named = frame.attrs.get("names", {}).get(rows.label)
    if named:
        return tuple(named)
    labels = {label_text(value) for value in frame[rows.label] if not is_empty(value)}
    if len(labels) < 2:
        only = f"one label only, {in_short(next(iter(labels)))}" if labels else "no label"
        raise InvalidInputError(
            f"column {rows.label} holds {only}; a classification needs rows of at least two labels: name another "
            "column with --label, or --answer for text to be generated"
        )
    if len(labels) > MAX_LABELS:
        raise InvalidInputError(
            f"column {rows.label} holds {len(labels):,} different labels and at most {MAX_LABELS:,} can be told apart: "
            "name another column with --label, or --answer for text to be generated"
        )
    if all(label.lstrip("-").isdigit() for label in labels):
        return tuple(sorted(labels, key=int))
    return tuple(sorted(labels))


def label_text(value: Any) -> str:
    """A label's value as the text that names it: 1, 1.0, "1", "1.0" and " 1 " are one label, as are true and "True"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text
