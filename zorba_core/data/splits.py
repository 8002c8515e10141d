"""Rows of a task by split, and the corpus of the base model."""

from __future__ import annotations

import os

import pandas as pd

from zorba_core.data.sources import DATA_VARIABLE, data_folder, read_parquet
from zorba_core.data.tasks import Task, get_task
from zorba_core.errors import InvalidInputError, MissingDataError


def load_split(task: str | Task, split: str) -> pd.DataFrame:
    """Rows of one split of a task, or of the task of this name: ``task.columns``, of which ``label`` is int64.

    ``frame.attrs`` says where they came from: ``source`` ("ZORBA_DATA", "hub stanfordnlp/sst2", "grammar 1") and
    ``note``, empty unless the training rows are not the official set, which a result must then state.

    Raises:
        InvalidInputError: unknown task or split, or a file whose columns or labels are not this task's.
        MissingDataError: the rows are neither in the folder ``ZORBA_DATA`` nor available from the hub.
    """
    task = task if isinstance(task, Task) else get_task(task)
    if split not in task.rows.splits:
        names = ", ".join(task.rows.splits)
        raise InvalidInputError(f"dataset {task.name} has no split {split!r}: choose one of {names}")
    frame = task.rows.read(task, split)
    copy = frame.copy()
    copy.attrs = dict(frame.attrs)
    return copy


def load_corpus() -> dict[str, list[str]]:
    """Unlabelled texts by file name (``corpus/*.parquet`` below ``ZORBA_DATA``), which only ``zorba make-base`` reads.

    Raises:
        MissingDataError: the folder is not there.
    """
    folder = data_folder(os.environ.get(DATA_VARIABLE, ""))
    files = sorted((folder / "corpus").glob("*.parquet")) if folder else []
    if not files:
        raise MissingDataError(
            f"no text corpus: set {DATA_VARIABLE} to a folder with corpus/*.parquet (column text); "
            "or use --profile tiny, which needs no data"
        )
    return {file.stem: read_parquet(file, ["text"])["text"].tolist() for file in files}
