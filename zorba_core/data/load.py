"""Load the rows of a task's splits.

Published rows come from the folder ``ZORBA_DATA`` (``sst2/train.parquet``, ``ag_news/test.parquet``, ...), else from
the Hugging Face hub if the package ``datasets`` is installed; else one error names both ways.

Shapes: R rows.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pandas as pd

from zorba_core.data import own_rows, published
from zorba_core.data.published import DATA_VARIABLE
from zorba_core.data.sources import missing_file
from zorba_core.data.task import CLIENTS_SPLIT, MadeRows, TableRows, Task, get_task
from zorba_core.errors import InvalidInputError

MOST_TESTED = 5_000  # of a user's test rows, by default


def load(task: str | Task, split: str = CLIENTS_SPLIT) -> pd.DataFrame:
    """The rows of a split, with the columns ``task.columns``; ``label`` is int64. A user's rows also have PLACE, and
    CLIENT if rows name clients.

    ``frame.attrs["source"]`` is their origin ("ZORBA_DATA", "hub stanfordnlp/sst2", "grammar 1"). ``attrs["note"]`` is
    empty, or states that the training rows are not the official set; a result must repeat it.

    Args:
        task: a task, or the name of a built-in one.

    Raises:
        InvalidInputError: unknown task or split, or rows with other columns or labels than the task's.
        MissingDataError: the rows are neither in the folder ``ZORBA_DATA`` nor available from the hub.
    """
    task = task if isinstance(task, Task) else get_task(task)
    if split not in task.rows.splits:
        raise InvalidInputError(
            f"dataset {task.name} has no split {split!r}: choose one of {', '.join(task.rows.splits)}"
        )
    if isinstance(task.rows, TableRows):
        frame = own_rows.read(task, task.rows, split)
    elif isinstance(task.rows, MadeRows):
        frame = published.read_made(task, task.rows, split)
    else:
        frame = published.read_published(task, task.rows, split)
    return frame.copy()  # attrs are copied too


def missing(task: Task) -> str:
    """How to get a task's rows, as a phrase; empty if this machine has them. Reads no rows."""
    rows = task.rows
    if isinstance(rows, TableRows):
        return missing_file(rows)
    if isinstance(rows, MadeRows):
        return ""
    data = os.environ.get(DATA_VARIABLE, "")
    absent = [f"{rows.folder}/{split}.parquet" for split in ("train", *rows.evaluation_splits[:1])]
    if data:
        absent = [file for file in absent if not (Path(os.path.expanduser(data)) / file).is_file()]
    if not absent or (importlib.util.find_spec("datasets") and not os.environ.get("HF_HUB_OFFLINE")):
        return ""
    where = f"the folder {DATA_VARIABLE} has no" if data else f"set {DATA_VARIABLE} to a folder with"
    from_folder = f"{where} {' and '.join(absent)}; or " if rows.folder else ""
    return f"{from_folder}install the package datasets, which fetches {rows.hub}"
