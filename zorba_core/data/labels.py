"""Labels of a user's rows: their text, their order, and their numbers 0..C-1.

Shapes: R rows.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.cells import look_of, refuse_rows, values_of
from zorba_core.data.task import MAX_LABELS, PLACE, TableRows, Task
from zorba_core.errors import InvalidInputError, in_short, name_some
from zorba_core.tables import is_empty

_NUMBER = re.compile(r"-?\d+(\.\d+)?")  # \d: digits that int() and float() read, not ² or ①
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")  # a whole number as pandas writes it in a column with missing values


def label_text(value: Any) -> str:
    """A label's value as text: 1, 1.0, "1", "1.0" and " 1 " are one label, and so are true and "True"."""
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def label_texts(frame: pd.DataFrame, column: str) -> list[str]:
    """Each row's label as text; empty for a row without label.

    Raises:
        InvalidInputError: a list, an object or bytes in place of a label.
    """
    cure = "give each row one label as a text or a number, or name another column"
    values = values_of(frame, column, "one label", cure)
    if len({*map(type, values)}) > 1:  # 1 and True are equal, and different labels
        return ["" if is_empty(value) else label_text(value) for value in values]
    text_of = {value: "" if is_empty(value) else label_text(value) for value in {*values}}
    return [text_of[value] for value in values]


def with_labels(rows: TableRows, frame: pd.DataFrame) -> tuple[TableRows, tuple[str, ...]]:
    """Read the labels of the column ``rows.label``: ``rows`` with its ``label_values``, and the labels. They are in the
    order of the file's own names if it has any; else numbers in numeric order; else in alphabetical order.

    Raises:
        InvalidInputError: fewer than two labels, more than :data:`MAX_LABELS`, or two that look alike.
    """
    column = rows.label_column
    texts = label_texts(frame, column)
    labels = sorted({*texts} - {""})
    elsewhere = "name another column of labels (--label), or one of answers to generate (--answer)"
    if len(labels) < 2:
        only = f"one label only, {in_short(labels[0])}" if labels else "no label"
        raise InvalidInputError(f"column {column} has {only}; a classification needs at least two labels: {elsewhere}")
    if len(labels) > MAX_LABELS:
        raise InvalidInputError(
            f"column {column} has {len(labels):,} different labels and a classification has at most {MAX_LABELS:,}: "
            + elsewhere
        )
    if names := frame.attrs.get("names", {}).get(column):
        return rows, tuple(names)
    by_look: dict[str, str] = {}
    for label in labels:
        other = by_look.setdefault(look_of(label), label)
        if other != label:
            first = next(where for where, text in zip(frame[PLACE], texts, strict=True) if text in (label, other))
            raise InvalidInputError(
                f"column {column}: the labels {other!a} and {label!a} look alike (the first is in {first}); write them "
                "the same way, or list both as label_names in a task file"
            )
    if all(map(_NUMBER.fullmatch, labels)):
        labels.sort(key=float)
    return replace(rows, label_values=tuple(labels)), tuple(labels)


def label_numbers(task: Task, rows: TableRows, frame: pd.DataFrame) -> np.ndarray:
    """The label of each row as 0..C-1, int64 (R,), from its name, its value or its number.

    A number is a place in the order of the task's labels. If the labels were read from rows, this order is only
    alphabetical: then ``label_values`` has the names, and numbers are refused.

    Raises:
        InvalidInputError: a row has no label, or one that the task does not have.
    """
    if not task.label_names:
        raise InvalidInputError(f"task {task.name} names no labels; task_for(task) reads them from its rows")
    texts = label_texts(frame, rows.label_column)
    refuse_rows(frame, [not text for text in texts], f"no label in {rows.label}")
    number_of = {
        label_text(value): number
        for values in (task.label_names, rows.label_values)  # values override names
        for number, value in enumerate(values)
    }
    known = f"the task's labels are {name_some(task.label_names, 12)}"
    if not number_of.keys() & {*texts} and all(text.isdecimal() for text in texts):
        if rows.label_values:
            raise InvalidInputError(
                f"{frame[PLACE].iloc[0]}: labels are numbers and {known}; write the names, or list the "
                "numbers in the order of label_names: label_values = [...] under [rows] of a task file"
            )
        number_of = {str(number): number for number in range(task.num_classes)}
    unknown = [text for text in texts if text not in number_of]
    if unknown:
        alike = [label for label in number_of if look_of(label) == look_of(unknown[0])]
        refuse_rows(
            frame,
            [text not in number_of for text in texts],
            f"unknown label {in_short(unknown[0])}" + (f", which looks like {in_short(alike[0])}" if alike else ""),
            f"{known}: correct the row, or add the label to the training rows",
        )
    return np.array([number_of[text] for text in texts], dtype=np.int64)
