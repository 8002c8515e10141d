"""Rows that are published or generated, checked and with a task's names of columns and numbers of labels.

Shapes: R rows.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from zorba_core.data.labels import label_text
from zorba_core.data.split import held_out, in_base
from zorba_core.data.task import CLIENTS_SPLIT, MadeRows, PublishedRows, Task
from zorba_core.errors import InvalidInputError, MissingDataError, first_line

DATA_VARIABLE = "ZORBA_DATA"


def data_folder() -> Path | None:
    """The folder ``ZORBA_DATA``; None if it is not set.

    Raises:
        MissingDataError: the folder does not exist.
    """
    data = os.environ.get(DATA_VARIABLE, "")
    folder = Path(os.path.expanduser(data))
    if data and not folder.is_dir():
        raise MissingDataError(f"{DATA_VARIABLE} is {data!r}, which is not a folder: correct it or unset it")
    return folder if data else None


def read_published(task: Task, rows: PublishedRows, split: str) -> pd.DataFrame:
    """The rows of a split of a task with published rows."""
    return _read(task, rows, split, data_folder())


@functools.lru_cache(maxsize=8)
def read_made(task: Task, rows: MadeRows, split: str) -> pd.DataFrame:
    """The rows of a split of a task with generated rows."""
    frame = _checked(task, rows.read_split(split), f"{task.name} {split}")
    frame.attrs = {"source": rows.origin, "note": ""}
    return frame


@functools.lru_cache(maxsize=4)
def _read(task: Task, rows: PublishedRows, split: str, folder: Path | None) -> pd.DataFrame:
    if split != CLIENTS_SPLIT and split in rows.evaluation_splits:
        return _official(task, rows, split, folder)
    train = _official(task, rows, "train", folder)
    if rows.held_out:
        in_other_R = held_out(task, train, rows.held_out)
    elif rows.base_half:
        in_other_R = np.array(in_base(train, rows.base_half))
    else:
        return train
    frame = train.loc[in_other_R == (split != CLIENTS_SPLIT)].reset_index(drop=True)
    frame.attrs = train.attrs
    return frame


def _official(task: Task, rows: PublishedRows, split: str, folder: Path | None) -> pd.DataFrame:
    """One official split, with our names of columns and numbers of labels."""
    file = folder / rows.folder / f"{split}.parquet" if folder and rows.folder else None
    if file is not None and file.is_file():
        frame, origin = _renamed(task, rows, _read_parquet(file)), DATA_VARIABLE
    else:
        frame, origin = _from_hub(task, rows, split), f"hub {rows.hub}"
    frame = _checked(task, frame, f"{task.name} {split} from {origin}")
    partial = split == "train" and len(frame) < rows.official_train_rows
    note = f"subset of train: {len(frame):,} of the official {rows.official_train_rows:,} rows" if partial else ""
    frame.attrs = {"source": origin, "note": note}
    return frame


def _read_parquet(file: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(file)
    except (ValueError, OSError) as error:  # pyarrow's errors are subclasses of these
        raise InvalidInputError(f"{file} cannot be read as Parquet: {first_line(error)}") from None


def _renamed(task: Task, rows: PublishedRows, frame: pd.DataFrame) -> pd.DataFrame:
    """Published rows with our names of columns, our numbers of labels, and the first if there are several answers."""
    frame = frame.copy()
    for ours, published in rows.columns.items():
        name, *path = published.split(".")
        if ours in task.columns and ours not in frame and name in frame:
            frame[ours] = [
                functools.reduce(lambda value, key: value.get(key) if isinstance(value, Mapping) else None, path, value)
                for value in frame[name]
            ]
    if "label" in task.columns and "label" in frame and rows.label_values:
        numbers = {label_text(value): number for number, value in enumerate(rows.label_values)}
        frame["label"] = [numbers.get(label_text(value), -1) for value in frame["label"]]
    for column in set(task.answer_columns) & set(frame):
        frame[column] = [str(_first(value)) for value in frame[column]]
    return frame


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list | np.ndarray) and len(value) else value


def _from_hub(task: Task, rows: PublishedRows, split: str) -> pd.DataFrame:
    columns = ", ".join(task.columns)
    by_folder = (
        f"set {DATA_VARIABLE} to a folder with {rows.folder}/{split}.parquet (columns {columns}), or "
        if rows.folder
        else ""
    )
    if importlib.util.find_spec("datasets") is None:
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: {by_folder}install the package datasets "
            f"(pip install 'datasets>=4.4,<6') to fetch {rows.hub} from the Hugging Face hub; "
            "toy-reviews needs no data"
        )
    import datasets

    try:
        name = rows.train_split if split == "train" else split
        published = datasets.load_dataset(rows.hub, name=rows.config, split=name)
        frame = cast(pd.DataFrame, published.to_pandas())
    except Exception as error:  # the hub's client raises many kinds: offline, not found, corrupted cache
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: {rows.hub} cannot be fetched from the hub "
            f"({type(error).__name__}); {by_folder}check the network; toy-reviews needs no data"
        ) from error
    frame = _renamed(task, rows, frame)
    if "label" in task.columns and "label" in frame:
        frame = frame.loc[frame["label"] != -1]  # SNLI: no gold label; SST-2 test: all labels are hidden
    if frame.empty:
        raise MissingDataError(f"the hub's {rows.hub} has no labels for its {split} split: {by_folder}")
    return frame


def _checked(task: Task, frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """The task's columns.

    Raises:
        InvalidInputError: a column is missing or of another kind, or a cell is empty.
    """
    absent = [column for column in task.columns if column not in frame]
    if absent:
        raise InvalidInputError(f"{what}: no column {', '.join(absent)}; the columns are {', '.join(frame.columns)}")
    frame = frame.loc[:, list(task.columns)].reset_index(drop=True)
    if frame.empty:
        raise InvalidInputError(f"{what}: there are no rows")
    if frame.isna().any(axis=None):
        row = int(frame.isna().any(axis=1).to_numpy().argmax())
        raise InvalidInputError(f"{what}: row {row} has an empty text or label; remove such rows")
    for column in {*task.text_columns, *task.answer_columns}:
        if not pd.api.types.is_string_dtype(frame[column]):
            raise InvalidInputError(f"{what}: column {column} must have text, it has {frame[column].dtype}")
    if "label" not in frame:
        return frame
    if not pd.api.types.is_integer_dtype(frame["label"]):
        raise InvalidInputError(f"{what}: column label must have integers, it has {frame['label'].dtype}")
    label_R = frame["label"].to_numpy()
    low, high = int(label_R.min()), int(label_R.max())
    if low < 0 or high >= task.num_classes:
        raise InvalidInputError(f"{what}: labels are {low} to {high}; they must be 0 to {task.num_classes - 1}")
    return frame.astype({"label": "int64"})
