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

from zorba_core.data.file_rows import FileRows, FrameRows, prepared, refuse_rows, text_of
from zorba_core.data.tables import readable_encoding
from zorba_core.data.task_files import is_own
from zorba_core.data.tasks import Task
from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some

Texts = str | Mapping[str, str] | Sequence[str | Mapping[str, str]] | pd.DataFrame
Table = str | os.PathLike[str] | pd.DataFrame


def text_rows(task: Task, texts: Texts | FileRows) -> pd.DataFrame:
    """The columns that the task's prompt reads, and those of its options, as text.

    Raises:
        InvalidInputError: a column is missing, or a row has no text; with file and line where rows are from a file.
    """
    if isinstance(texts, FileRows):
        frame = _table(texts)
    else:
        if not isinstance(texts, pd.DataFrame):
            items = [texts] if isinstance(texts, str | Mapping) else list(texts)
            texts = pd.DataFrame([_row_of(task, item) for item in items])
        if texts.empty:
            raise InvalidInputError("there are no rows to predict: give at least one text")
        frame = FrameRows(texts).frame()
    options = task.answer_columns if task.kind == "options" else ()
    columns = list(dict.fromkeys((*task.text_columns, *options)))
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        there = [column for column in frame.columns if not str(column).startswith("#")]
        raise InvalidInputError(
            f"no column {in_short(missing[0])}, which the run reads; the rows have {name_some(there, 12)}"
        )
    read = {column: text_of(frame, column, task) for column in columns}
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
    own = task.rows if is_own(task) else None
    if task.kind != "text":
        label = label or (own.label if own else "label")
    named = {"label": label, "client": client, "label_values": own.label_values if own else ()}
    if isinstance(table, pd.DataFrame):
        rows = FrameRows(table, **named)
    else:
        rows = FileRows(os.fspath(table), encoding=readable_encoding(table, encoding_of(task)), **named)
    frame = _table(rows) if isinstance(rows, FileRows) else rows.frame()
    if len(frame) == 0:
        raise InvalidInputError("there are no rows to evaluate on")
    if client is None and own and own.client and own.client in frame:
        rows = replace(rows, client=own.client)
    if label is not None and label not in frame:
        there = [column for column in frame.columns if not str(column).startswith("#")]
        raise InvalidInputError(
            f"no column {in_short(label)} with the labels; the rows have {name_some(there, 12)}: name it with --label"
        )
    return prepared(rows, task, frame, test=True)


def encoding_of(task: Task) -> str:
    """Of the text files that a run was trained on."""
    return getattr(task.rows, "encoding", "utf-8") if is_own(task) else "utf-8"


def _table(rows: FileRows) -> pd.DataFrame:
    if rows.missing():
        raise MissingDataError(f"data file {rows.missing()}")
    return rows.frame()


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
