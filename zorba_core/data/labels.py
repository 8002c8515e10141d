"""The labels that stand in a column of the user's rows, and their numbers 0..C-1.

Shapes: R rows, C labels.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.tables import is_empty
from zorba_core.data.task import MAX_LABELS, PLACE, TableRows, Task
from zorba_core.errors import InvalidInputError, in_short, name_some

_WHOLE = re.compile(r"-?[0-9]+\.0+")  # as a table writes a column of whole numbers with gaps


def label_text(value: Any) -> str:
    """A label's value as the text that names it: 1, 1.0, "1", "1.0" and " 1 " are one label, as are true and "True"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text


def seen(text: str) -> str:
    """What a person reads in a label: without case, kinds of spaces and ways to write an accent."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def labels_in(frame: pd.DataFrame, column: str) -> tuple[str, ...]:
    """The distinct labels of a column: as the file itself names them, else whole numbers in their order, else by the
    alphabet.

    Raises:
        InvalidInputError: one label only, more than a classification can have, or two that look alike.
    """
    texts = label_texts(frame, column)
    labels = sorted({text for text in texts if text})
    if len(labels) < 2:
        only = f"one label only, {in_short(labels[0])}" if labels else "no label"
        raise InvalidInputError(
            f"column {column} holds {only}; a classification needs rows of at least two labels: name another "
            "column with --label, or --answer for text to be generated"
        )
    if len(labels) > MAX_LABELS:
        raise InvalidInputError(
            f"column {column} holds {len(labels):,} different labels and at most {MAX_LABELS:,} can be told apart: "
            "name another column with --label, or --answer for text to be generated"
        )
    named = frame.attrs.get("names", {}).get(column)
    if named:
        return tuple(named)
    by_look: dict[str, str] = {}
    for label in labels:
        other = by_look.setdefault(seen(label), label)
        if other != label:
            rows = frame[[text in (label, other) for text in texts]]
            raise InvalidInputError(
                f"column {column}: the labels {other!a} and {label!a} look alike (the first is in "
                f"{rows[PLACE].iloc[0]}); write them the same way, or list both as label_names in a task file"
            )
    if all(label.lstrip("-").isdigit() for label in labels):
        return tuple(sorted(labels, key=int))
    return tuple(labels)


def with_labels(rows: TableRows, frame: pd.DataFrame) -> tuple[TableRows, tuple[str, ...]]:
    """The rows with the values that stand for their labels, and the labels that ``frame`` has. Where the file itself
    names labels, their numbers stand for them as well."""
    names = labels_in(frame, rows.label)
    return (rows if frame.attrs.get("names", {}).get(rows.label) else replace(rows, label_values=names)), names


def label_texts(frame: pd.DataFrame, column: str) -> list[str]:
    """Each row's label as text; empty where a row has none.

    Raises:
        InvalidInputError: a list, an object or bytes in place of a label.
    """
    values = frame[column].tolist()
    kinds = [type(value).__name__ for value in values]
    strange = [isinstance(value, list | tuple | dict | set | bytes | np.ndarray) for value in values]
    if any(strange):
        what = f"column {column} holds a {kinds[strange.index(True)]} where one label belongs"
        refuse_rows(frame, strange, what, "give each row one label as a text or a number, or name another column")
    return ["" if is_empty(value) else label_text(value) for value in values]


def label_numbers(task: Task, rows: TableRows, frame: pd.DataFrame) -> np.ndarray:
    """The label of each row as 0..C-1, int64 (R,), by its name, by its value, or by its number.

    Numbers mean the order of the task's labels. Where labels were read from the rows that order is the alphabet's,
    which nobody said: then ``label_values`` has the names, and numbers are refused.

    Raises:
        InvalidInputError: a row without a label, or with one that the task does not have.
    """
    if not task.label_names:
        raise InvalidInputError(f"task {task.name} names no labels; task_for(task) reads them from its rows")
    texts = label_texts(frame, rows.label)
    refuse_rows(frame, [not text for text in texts], f"no label in {rows.label}")
    number_of: dict[str, int] = {}
    for values in (task.label_names, rows.label_values):  # the later ones win
        number_of |= {label_text(value): number for number, value in enumerate(values)}
    known = f"the task's labels are {name_some(task.label_names, 12)}"
    if not number_of.keys() & {*texts} and all(text.isdigit() for text in texts):
        if rows.label_values:
            raise InvalidInputError(
                f"{frame[PLACE].iloc[0]}: labels are numbers and {known}; write the names, or say which number is "
                "which label: label_values = [...] under [rows] of a task file, in the order of label_names"
            )
        number_of |= {str(number): number for number in range(task.num_classes)}
    unknown = [text not in number_of for text in texts]
    if any(unknown):
        first = texts[unknown.index(True)]
        alike = [label for label in number_of if seen(label) == seen(first)]
        what = f"the label {in_short(first)} is none of those trained on"
        what += f", and looks like {in_short(alike[0])}" if alike else ""
        refuse_rows(frame, unknown, what, f"{known}: correct the row, or add the label to the rows that are trained on")
    return np.array([number_of[text] for text in texts], dtype=np.int64)


def refuse_rows(frame: pd.DataFrame, at_fault_R: Any, what: str, cure: str = "correct or remove such rows") -> None:
    """Raise for the rows at fault, if there are any, naming where the first ones stand."""
    places = [where for where, wrong in zip(frame[PLACE], at_fault_R, strict=True) if wrong]
    if places:
        more = f" ({len(places)} such rows: {name_some(places[1:], 3)})" if len(places) > 1 else ""
        raise InvalidInputError(f"{places[0]}: {what}{more}; {cure}")
