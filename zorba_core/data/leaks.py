"""What makes a result on rows of one's own look better than it is: the answer in the prompt, tests on trained rows."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pandas as pd

from zorba_core.data.file_rows import FileRows, FrameRows
from zorba_core.data.tasks import Task
from zorba_core.errors import InvalidInputError

_MANY = 0.1  # of the test rows


def leaks(task: Task) -> list[str]:
    """A line about each; none for a built-in task.

    Raises:
        InvalidInputError: the prompt contains the label.
    """
    return [*answer_in_prompt(task), *_trained_on(task)]


def answer_in_prompt(task: Task) -> list[str]:
    """A line where the prompt has the column that is to be written, as where a text is to be copied.

    Raises:
        InvalidInputError: it has the label that is to be chosen.
    """
    if not isinstance(task.rows, FileRows | FrameRows):
        return []
    if task.kind != "text" and task.rows.label in task.text_columns:
        raise InvalidInputError(
            f"task {task.name}: the prompt contains {task.rows.label}, the column of the label, so the model is told "
            "what it is asked for; leave it out of the prompt and of --text"
        )
    told = [column for column in task.text_columns if task.kind == "text" and column in task.answer_columns]
    what = "the prompt contains {}, the column of the answer: the model is told what it is asked for"
    return ["warning: " + what.format(told[0])] if told else []


def _trained_on(task: Task) -> list[str]:
    rows = task.rows
    if not isinstance(rows, FileRows | FrameRows) or rows.missing() or rows.test is None:
        return []
    if isinstance(rows, FileRows) and os.path.realpath(rows.train) == os.path.realpath(rows.test):
        return ["warning: the test rows are the file that is trained on: the result says nothing of other rows"]
    train, test = rows.frame("train"), rows.frame("test")
    if not {*task.text_columns} <= {*train.columns} & {*test.columns}:
        return []  # said where they are read
    trained, tested = (_texts(frame, task.text_columns) for frame in (train, test))
    again = int(tested.isin(set(trained)).sum())
    if again < _MANY * len(tested):
        return []
    return [f"warning: {again:,} of {len(tested):,} test rows are trained on too: the result says less of other rows"]


def _texts(frame: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    return pd.Series(list(zip(*(frame[column].astype(str) for column in columns), strict=True)), dtype=object)
