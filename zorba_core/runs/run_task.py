"""The task of a run: a built-in one by its name, one of the user's own by what the run's folder keeps of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zorba_core.data.own_rows import fingerprints, missing_file
from zorba_core.data.task import TableRows, Task, get_task, table_of, task_from, to_toml
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import write_text
from zorba_core.runs import Request, Run
from zorba_core.runs import folder as runs


def task_of(run: Mapping[str, Any] | Request | Run) -> Task:
    """The task of a run, from its config, its request or the run itself, with the label words that it was trained with.

    No row is read: what the run keeps says all that is needed to read rows of the same form.

    Raises:
        InvalidInputError: no such task here, or a damaged description.
    """
    config = run if isinstance(run, Mapping) else run.config
    if "task" not in config and "dataset" not in config:
        raise InvalidInputError("the run's config.json names neither dataset nor task: it is damaged")
    task = task_from(config["task"]) if "task" in config else get_task(config["dataset"])
    words = tuple(config.get("label_words") or task.label_words)
    return task if words == task.label_words else replace(task, label_words=words)


def task_config(task: Task) -> dict[str, Any]:
    """What a run's config says of its task: the name, and of one of the user's own the whole task."""
    return {"dataset": task.name, **({"task": table_of(task)} if task.is_own else {})}


def write_task(folder: Path, task: Task) -> None:
    """Put a user's own task beside the run's config, to be read, edited and used again."""
    if task.is_own:
        write_text(
            folder / runs.TASK, to_toml(task, f"The task of this run. Use it again: zorba train --data {runs.TASK}")
        )


def with_data(
    task: Task, data: str | os.PathLike[str] | None = None, test: str | os.PathLike[str] | None = None
) -> Task:
    """The task with its rows where they lie now.

    Raises:
        InvalidInputError: a built-in task, whose rows have their own place.
    """
    if data is None and test is None:
        return task
    if not isinstance(task.rows, TableRows):
        raise InvalidInputError(f"--data is for runs on your own files; {task.name} is read from ZORBA_DATA or the hub")
    moved = {name: os.fspath(path) for name, path in (("train", data), ("test", test)) if path is not None}
    return replace(task, rows=replace(task.rows, **moved))


def check_files(expected: Mapping[str, str], task: Task, run: str | os.PathLike[str]) -> None:
    """Refuse files that are missing or are not those that a run began with, before they are read.

    Raises:
        MissingDataError, InvalidInputError: which file, and what to do.
    """
    if not isinstance(task.rows, TableRows):
        return
    absent = missing_file(task.rows)
    if absent:
        raise MissingDataError(f"{absent}: if it was moved, name its place with --data FILE (and --test FILE)")
    if not expected:
        return
    for file, sha256 in fingerprints(task.rows).items():
        if sha256 not in expected.values():
            raise InvalidInputError(
                f"{file} is not as it was when {os.fspath(run)} began; put that file back, or name its copy with --data"
            )
