"""The rows of a task, split by split.

Search order of published rows: the folder named by ``ZORBA_DATA`` (``sst2/train.parquet``, ``ag_news/test.parquet``,
...), then the Hugging Face hub when the package ``datasets`` is installed, then one error that names both ways.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data import table_rows
from zorba_core.data.halves import in_base
from zorba_core.data.held_out import held_out
from zorba_core.data.labels import label_text
from zorba_core.data.task import CLIENT, CLIENTS_SPLIT, MadeRows, TableRows, Task, get_task
from zorba_core.errors import InvalidInputError, MissingDataError, first_line

DATA_VARIABLE = "ZORBA_DATA"


def load_split(task: str | Task, split: str = CLIENTS_SPLIT) -> pd.DataFrame:
    """Rows of one split of a task, or of the task of this name: ``task.columns``, of which ``label`` is int64.

    ``frame.attrs`` says where they came from: ``source`` ("ZORBA_DATA", "hub stanfordnlp/sst2", "grammar 1") and
    ``note``, empty unless the training rows are not the official set, which a result must then state.

    Raises:
        InvalidInputError: unknown task or split, or rows whose columns or labels are not this task's.
        MissingDataError: the rows are neither in the folder ``ZORBA_DATA`` nor available from the hub.
    """
    task = task if isinstance(task, Task) else get_task(task)
    if split not in task.rows.splits:
        raise InvalidInputError(
            f"dataset {task.name} has no split {split!r}: choose one of {', '.join(task.rows.splits)}"
        )
    if isinstance(task.rows, TableRows):
        return table_rows.read_split(task, split)
    frame = _made(task, split) if isinstance(task.rows, MadeRows) else _published(task, split, data_folder())
    copy = frame.copy()
    copy.attrs = dict(frame.attrs)
    return copy


def missing(task: Task) -> str:
    """How to get a task's rows, in a few words; empty when they are here. Reads no rows."""
    rows = task.rows
    if isinstance(rows, TableRows):
        return table_rows.missing_file(rows)
    if isinstance(rows, MadeRows):
        return ""
    data = os.environ.get(DATA_VARIABLE, "")
    absent = [f"{rows.folder}/{split}.parquet" for split in ("train", *rows.evaluation_splits[:1])]
    if data:
        absent = [file for file in absent if not (Path(os.path.expanduser(data)) / file).is_file()]
    if not absent or (importlib.util.find_spec("datasets") and not os.environ.get("HF_HUB_OFFLINE")):
        return ""
    where = f"the folder that {DATA_VARIABLE} names lacks" if data else f"set {DATA_VARIABLE} to a folder with"
    return f"{where} {' and '.join(absent)}; or install the package datasets, which fetches {rows.hub}"


def names_clients(task: Task) -> bool:
    """Whether the rows say whose they are: a column does, or each file is a client."""
    rows = task.rows
    return isinstance(rows, TableRows) and (bool(rows.client) or table_rows.is_many(rows.train))


def clients_of(frame: pd.DataFrame) -> tuple[str, ...]:
    """The clients that a split's rows name, sorted; none where they name none."""
    return tuple(sorted(set(frame[CLIENT]))) if CLIENT in frame else ()


def data_folder() -> Path | None:
    """The folder that ``ZORBA_DATA`` names; None where it names none.

    Raises:
        MissingDataError: it is not there.
    """
    data = os.environ.get(DATA_VARIABLE, "")
    folder = Path(os.path.expanduser(data))
    if data and not folder.is_dir():
        raise MissingDataError(f"{DATA_VARIABLE} names {data!r}, which is no folder: correct it or unset it")
    return folder if data else None


@functools.lru_cache(maxsize=8)
def _made(task: Task, split: str) -> pd.DataFrame:
    frame = _checked(task, task.rows.read_split(split), f"{task.name} {split}")
    frame.attrs = {"source": task.rows.origin, "note": ""}
    return frame


@functools.lru_cache(maxsize=4)
def _published(task: Task, split: str, folder: Path | None) -> pd.DataFrame:
    rows = task.rows
    if split != CLIENTS_SPLIT and split in rows.evaluation_splits:
        return _official(task, split, folder)
    train = _official(task, "train", folder)
    if rows.held_out:
        in_other_R = held_out(task, train, rows.held_out)
    elif rows.base_half:
        in_other_R = np.array(in_base(train, rows.base_half))
    else:
        return train
    frame = train[~in_other_R if split == CLIENTS_SPLIT else in_other_R].reset_index(drop=True)
    frame.attrs = train.attrs
    return frame


def _official(task: Task, split: str, folder: Path | None) -> pd.DataFrame:
    """One official split as published, with our names of columns and numbers of labels."""
    rows = task.rows
    file = folder / rows.folder / f"{split}.parquet" if folder else None
    if rows.folder and file is not None and file.is_file():
        frame, origin = _in_our_words(task, _read_parquet(file)), DATA_VARIABLE
    else:
        frame, origin = _from_hub(task, split), f"hub {rows.hub}"
    frame = _checked(task, frame, f"{task.name} {split} from {origin}")
    partial = split == "train" and len(frame) < rows.official_train_rows
    note = f"subset of train: {len(frame):,} of the official {rows.official_train_rows:,} rows" if partial else ""
    frame.attrs = {"source": origin, "note": note}
    return frame


def _read_parquet(file: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(file)
    except (ValueError, OSError) as error:  # pyarrow's errors are of these kinds
        raise InvalidInputError(f"{file} cannot be read as Parquet: {first_line(error)}") from None


def _in_our_words(task: Task, frame: pd.DataFrame) -> pd.DataFrame:
    rows, frame = task.rows, frame.copy()
    for ours, published in rows.columns.items():
        name, *path = published.split(".")
        if ours in task.columns and ours not in frame.columns and name in frame.columns:
            frame[ours] = [_inside(value, path) for value in frame[name]]
    if "label" in task.columns and "label" in frame and rows.label_values:
        numbers = {label_text(value): number for number, value in enumerate(rows.label_values)}
        frame["label"] = [numbers.get(label_text(value), -1) for value in frame["label"]]
    for column in task.answer_columns:
        if column in frame:
            frame[column] = frame[column].map(_first).astype(str)
    return frame


def _inside(value: Any, path: list[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _first(value: Any) -> Any:
    """Of several right answers the first."""
    return value[0] if isinstance(value, list | np.ndarray) and len(value) else value


def _from_hub(task: Task, split: str) -> pd.DataFrame:
    rows = task.rows
    by_folder = (
        f"set {DATA_VARIABLE} to a folder with {rows.folder}/{split}.parquet (columns {', '.join(task.columns)})"
    )
    if importlib.util.find_spec("datasets") is None:
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: {by_folder}, or install the package datasets "
            f"(pip install 'zorba-core[hub]') to fetch {rows.hub} from the Hugging Face hub; "
            "toy-reviews needs no data"
        )
    import datasets

    try:
        name = rows.train_split if split == "train" else split
        frame = datasets.load_dataset(rows.hub, name=rows.config, split=name).to_pandas()
    except Exception as error:  # the hub's client raises many kinds: offline, not found, corrupted cache
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: the hub did not give {rows.hub} "
            f"({type(error).__name__}); check the network, or {by_folder}; toy-reviews needs no data"
        ) from error
    frame = _in_our_words(task, frame)
    if "label" in task.columns and "label" in frame.columns:
        frame = frame[frame["label"] != -1]  # SNLI: no gold label; SST-2 test: hidden, which leaves nothing
    if frame.empty:
        raise MissingDataError(f"the hub's {rows.hub} has no labels for its {split} split: {by_folder}")
    return frame


def _checked(task: Task, frame: pd.DataFrame, what: str) -> pd.DataFrame:
    absent = [column for column in task.columns if column not in frame.columns]
    if absent:
        raise InvalidInputError(f"{what}: column(s) {', '.join(absent)} missing; found {', '.join(frame.columns)}")
    frame = frame[list(task.columns)].reset_index(drop=True)
    if frame.empty:
        raise InvalidInputError(f"{what}: there are no rows")
    if frame.isna().any(axis=None):
        row = int(frame.isna().any(axis=1).idxmax())
        raise InvalidInputError(f"{what}: row {row} has an empty text or label; remove such rows")
    for column in {*task.text_columns, *task.answer_columns}:
        if not pd.api.types.is_string_dtype(frame[column]):
            raise InvalidInputError(f"{what}: column {column} must hold text, it is {frame[column].dtype}")
    if "label" not in frame:
        return frame
    if not pd.api.types.is_integer_dtype(frame["label"]):
        raise InvalidInputError(f"{what}: column label must hold integers, it is {frame['label'].dtype}")
    low, high = int(frame["label"].min()), int(frame["label"].max())
    if low < 0 or high >= task.num_classes:
        raise InvalidInputError(f"{what}: labels must be 0..{task.num_classes - 1}, found {low}..{high}")
    return frame.astype({"label": "int64"})
