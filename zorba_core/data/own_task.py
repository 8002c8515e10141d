"""The task that a user points at: a file of rows, a task's TOML file, a DataFrame, or a task as it is."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from zorba_core.data.infer import infer_task
from zorba_core.data.own_rows import check_columns, missing_file, read_rows, with_labels
from zorba_core.data.task import Overrides, TableRows, Task, read_task
from zorba_core.errors import InvalidInputError, MissingDataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Data = str | os.PathLike[str] | pd.DataFrame | Task


def task_for(
    data: Data,
    overrides: Overrides | None = None,
    tokenizer: Callable[[], PreTrainedTokenizerBase | None] = lambda: None,
    notice: Callable[[str], None] = lambda line: None,
) -> Task:
    """The task of a path, of a table in memory, or of a task that does not name its labels yet.

    Args:
        said: what is not to be inferred, or what replaces an entry of a task file.
        tokenizer: returns the model's, for label words that suit it; called only where words are inferred.
        notice: called with each line about what was inferred.

    Raises:
        InvalidInputError, MissingDataError: no such file, or rows that no task can be made of.
    """
    overrides = overrides or Overrides()
    if isinstance(data, Task):
        return _changed(data, overrides)
    if isinstance(data, str | os.PathLike) and os.fspath(data).lower().endswith(".toml"):
        return _changed(read_task(data), overrides)
    rows = TableRows(data, test=overrides.test)
    if missing_file(rows):
        raise MissingDataError(f"data file {missing_file(rows)}; give a file, or a task file that says where it is")
    read_rows(rows)  # a fault in the file comes first, before a tokenizer is loaded
    return infer_task(rows, overrides, task_name(data), tokenizer(), notice)


def task_name(data: Data) -> str:
    """A task's name from a file's: ``Support Tickets (2).csv`` is support-tickets-2, ``clients/*.csv`` is clients."""
    if isinstance(data, pd.DataFrame):
        return "table"
    path = Path(data)
    stem = path.parent.name if set("*?[") & set(path.name) else path.stem
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:60].strip("-") or "task"


def _changed(task: Task, overrides: Overrides) -> Task:
    """The task with what the user says instead, and with its labels."""
    if not isinstance(task.rows, TableRows):
        return replace(
            task, label_words=overrides.label_words or task.label_words, prompt=overrides.prompt or task.prompt
        )
    if overrides.text and not overrides.prompt:
        raise InvalidInputError("the task file has a prompt; give --prompt with the fields of --text in it")
    given: dict[str, Any] = {
        name: getattr(overrides, name) for name in ("label", "client", "test") if getattr(overrides, name)
    }
    changes: dict[str, Any] = {"prompt": overrides.prompt or task.prompt}
    if overrides.answer:
        changes |= {"kind": "text", "answer": overrides.answer, "options": (), "metric": ""}
    if overrides.answer or overrides.label not in (None, task.rows.label):
        changes |= {"label_names": (), "label_words": (), "prior": ()}
        given |= {"label_values": ()}
    task = replace(task, rows=replace(task.rows, **given), **changes)
    if task.kind != "labels" or (task.label_names and not overrides.label_words):
        return task
    names, rows = task.label_names, task.rows
    if not names:
        frame = read_rows(rows)
        if not rows.label:
            raise InvalidInputError(f"task {task.name}: say which column holds the label, or name the labels")
        check_columns(frame, [rows.label])
        rows, names = with_labels(rows, frame)
    words = overrides.label_words or task.label_words or names
    return replace(task, rows=rows, label_names=names, label_words=words)


def listed(text: str) -> list[str]:
    """Words with commas between; one that holds a comma stands in double quotes.

    Raises:
        InvalidInputError: more than one line.
    """
    try:
        return [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error as error:
        raise InvalidInputError(f"the words {text[:60]!r} cannot be read as one line of a table ({error})") from None
