"""Rows of a user in the form that a run's task reads: texts to predict, or rows with labels to be judged by.

Shapes: R rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from zorba_core.data.own_rows import check_columns, missing_file, prepared, read_rows, refuse_rows, texts_of
from zorba_core.data.task import TableRows, Task
from zorba_core.errors import InvalidInputError, MissingDataError

Texts = str | Mapping[str, str] | Sequence[str | Mapping[str, str]] | pd.DataFrame
Table = str | os.PathLike[str] | pd.DataFrame


def text_rows(task: Task, texts: Texts | TableRows) -> pd.DataFrame:
    """The columns that the task's prompt reads, and those of its options, as text.

    Raises:
        InvalidInputError: a column is missing, or a row has no text; with file and line where rows are from a file.
    """
    if not isinstance(texts, TableRows):
        if not isinstance(texts, pd.DataFrame):
            items = [texts] if isinstance(texts, str | Mapping) else texts
            texts = pd.DataFrame([_row_of(task, item) for item in items])
        if texts.empty:
            raise InvalidInputError("there are no rows to predict: give at least one text")
        texts = TableRows(texts)
    frame = _table(texts)
    options = task.answer_columns if task.kind == "options" else ()
    columns = list(dict.fromkeys((*task.text_columns, *options)))
    check_columns(frame, columns)
    read = {column: texts_of(frame, column) for column in columns}
    empty_R = np.logical_and.reduce([[not text.strip() for text in read[column]] for column in task.text_columns])
    what = f"no text in {' or '.join(task.text_columns)}"
    refuse_rows(frame, empty_R, what, "fill such rows in, or remove them")
    return pd.DataFrame(read)


def labelled_rows(task: Task, table: Table, label: str | None = None, client: str | None = None) -> pd.DataFrame:
    """The task's columns of a file or a table: texts, ``label`` as 0..C-1 (int64), and CLIENT where it is known.

    Args:
        label, client: columns; by default those of the run's own rows, and ``label`` for a built-in task. Of a pattern
            such as ``clients/*.csv`` each file is a client.

    Raises:
        InvalidInputError, MissingDataError: no such file or column, or a row without text or label, or with a label
            that the run was not trained on; with file and line.
    """
    own = task.rows if isinstance(task.rows, TableRows) else TableRows(label="label")
    label = None if task.kind == "text" else label or own.label
    rows = TableRows(table, label=label, client=client, label_values=own.label_values, encoding=own.encoding)
    frame = _table(rows)
    if len(frame) == 0:
        raise InvalidInputError("there are no rows to evaluate on")
    if client is None and own.client in frame:
        rows = replace(rows, client=own.client)
    return prepared(task, rows, frame)


def _table(rows: TableRows) -> pd.DataFrame:
    if missing_file(rows):
        raise MissingDataError(f"data file {missing_file(rows)}")
    return read_rows(rows)


def named(table: Table) -> str:
    """What a report calls the rows."""
    if isinstance(table, pd.DataFrame):
        return "a table in memory"
    path = Path(table)
    return path.name if path.exists() else "/".join(path.parts[-2:])  # of a pattern, also the folder


def _row_of(task: Task, item: str | Mapping[str, str]) -> dict[str, str]:
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, str) and len(task.text_columns) > 1:
        names = ", ".join(task.text_columns)
        raise InvalidInputError(f"the run reads several texts ({names}); give each by its name, not one text alone")
    return {task.text_columns[0]: item}
