"""From what a user points at to a task: a file of rows, a task's TOML file, a DataFrame, or a task as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from zorba_core.data.file_rows import FileRows, FrameRows, clients_of
from zorba_core.data.inference import Inferred, Said, infer_task
from zorba_core.data.leaks import leaks
from zorba_core.data.partition import NATURAL
from zorba_core.data.sources import CLIENTS_SPLIT
from zorba_core.data.splits import load_split
from zorba_core.data.task_files import has_files, read_task
from zorba_core.data.tasks import Task
from zorba_core.errors import InvalidInputError, MissingDataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Data = str | os.PathLike[str] | pd.DataFrame | Task
Tokenizer = Callable[[], "PreTrainedTokenizerBase | None"]


def task_for(
    data: Data,
    said: Said | None = None,
    tokenizer: Tokenizer = lambda: None,
    notice: Callable[[str], None] = lambda line: None,
) -> Task:
    """The task of a path, a table in memory, or a task.

    Args:
        said: what is not to be inferred, or what a task file says and is to be otherwise.
        tokenizer: gives the model's, for label words that suit it; called only where words are inferred.
        notice: called with each line about what was inferred, and about what makes a result look better than it is.

    Raises:
        InvalidInputError, MissingDataError: no such file, or rows that no task can be made of.
    """
    task, lines = _task_and_lines(data, said or Said(), tokenizer)
    for line in (*lines, *leaks(task)):
        notice(line)
    return task


def _task_and_lines(data: Data, said: Said, tokenizer: Tokenizer) -> tuple[Task, tuple[str, ...]]:
    if isinstance(data, Task):
        return _changed(data, said), ()
    if isinstance(data, pd.DataFrame):
        inferred = infer_task(FrameRows(data), said, "table", tokenizer())
    elif os.fspath(data).lower().endswith(".toml"):
        return _changed(read_task(data), said), ()
    else:
        inferred = _of_path(os.fspath(data), said, tokenizer)
    return inferred.task, inferred.lines


def _of_path(path: str, said: Said, tokenizer: Tokenizer) -> Inferred:
    test = None if said.test is None else os.path.abspath(os.path.expanduser(said.test))
    rows = FileRows(path)
    if rows.missing():
        raise MissingDataError(f"data file {path!r} does not exist; give a file, or a task file that says where it is")
    rows.frame("train")  # what is wrong with the file comes first, before a tokenizer is loaded
    return infer_task(rows, replace(said, test=test), task_name(path), tokenizer())


def task_name(path: str) -> str:
    """A task's name from a file's: ``Support Tickets (2).csv`` is support-tickets-2."""
    stem = Path(path).stem if not set("*?[") & set(Path(path).name) else Path(path).parent.name
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:60].strip("-") or "task"


def _changed(task: Task, said: Said) -> Task:
    """A task with what the user says instead."""
    if said == Said():
        return task
    if not has_files(task):
        return replace(task, label_words=said.label_words or task.label_words, prompt=said.prompt or task.prompt)
    rows = task.rows
    given = {name: getattr(said, name) for name in ("label", "client", "test") if getattr(said, name)}
    if said.text and not said.prompt:
        raise InvalidInputError("the task file has a prompt; give --prompt with the fields of --text in it")
    if said.answer:
        none = {"kind": "text", "label_names": (), "label_words": (), "options": (), "metric": ""}
        task = replace(task, answer=said.answer, **none)
    relabelled = {"label_names": (), "label_words": ()} if said.label not in (None, rows.label) else {}
    prompt = {"prompt": said.prompt, "text_columns": ()} if said.prompt else {}
    words = {"label_words": said.label_words} if said.label_words else {}
    return replace(task, rows=replace(rows, **given), **{**relabelled, **prompt, **words})


def num_clients_of(task: Task, division: str | None = None) -> int | None:
    """How many clients the rows name; None where they name none, or are to be divided otherwise."""
    if division not in (None, NATURAL) or not getattr(task.rows, "by_client", False):
        return None
    return len(clients_of(load_split(task, CLIENTS_SPLIT)))
