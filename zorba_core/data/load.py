"""Load the rows of a task's splits.

Published rows come from the folder ``ZORBA_DATA`` (``sst2/train.parquet``, ``ag_news/test.parquet``, ...), else from
the Hugging Face hub if the package ``datasets`` is installed; else one error names both ways.

Shapes: R rows.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.own_rows import label_text, missing_file, prepared, read_rows, stamps_of
from zorba_core.data.task import CLIENT, CLIENTS_SPLIT, MadeRows, TableRows, Task, get_task
from zorba_core.errors import InvalidInputError, MissingDataError, first_line

DATA_VARIABLE = "ZORBA_DATA"
_NOT_WORD = re.compile(r"[\W_]+")


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
        frame = _own(task, split)
    elif isinstance(task.rows, MadeRows):
        frame = _made(task, split)
    else:
        frame = _published(task, split, data_folder())
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


def held_out(task: Task, frame: pd.DataFrame, fraction: float) -> np.ndarray:
    """The rows for the test, bool (R,): those whose text has a hash below ``fraction``. So equal texts are on one side,
    and the order of the rows does not matter.

    Rows of a label or client without any other row are for training.

    Raises:
        InvalidInputError: there are no rows for the test, or none for training.
    """
    texts = ["\x1f".join(parts) for parts in zip(*(frame[column] for column in task.text_columns), strict=True)]
    plain = [" ".join(text.casefold().split()) for text in texts]
    digests = [hashlib.sha256(text.encode()).digest() for text in plain]
    in_test_R = np.array([int.from_bytes(digest[:8], "big") < int(fraction * 2**64) for digest in digests])
    for column in ("label", CLIENT):
        if column in frame:
            lost_R = ~frame[column].isin(set(frame[column][~in_test_R])).to_numpy()
            taken_back = {text for text, lost in zip(texts, lost_R, strict=True) if lost}
            in_test_R &= np.array([text not in taken_back for text in texts])
    if not in_test_R.any() or in_test_R.all():
        side = "train" if in_test_R.any() else "test"
        raise InvalidInputError(
            f"task {task.name}: none of {len(frame)} rows is left to {side} on: they have {len({*plain})} different "
            f"texts in {' and '.join(task.text_columns)}, equal texts stay on one side, and each label and client "
            "needs a text to train on; give more rows, or rows to test on with --test FILE"
        )
    return in_test_R


def _own(task: Task, split: str) -> pd.DataFrame:
    rows, of_test = task.rows, split == task.rows.evaluation_split
    if rows.test is None:
        frame = _divided(task, stamps_of(rows))[of_test]
    else:
        frame = _prepared(task, "test" if of_test else "train", stamps_of(rows))
    frame.attrs = {"source": rows.origin, "note": ""}
    return frame


# A run reads its rows several times, so they are cached. A changed file has other ``stamps``.


@functools.lru_cache(maxsize=4)
def _prepared(task: Task, which: str, stamps: tuple[Any, ...]) -> pd.DataFrame:
    return prepared(task, task.rows, read_rows(task.rows, which))


@functools.lru_cache(maxsize=2)
def _divided(task: Task, stamps: tuple[Any, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows to train on and the rows to test on, if no file has the latter."""
    frame = prepared(task, task.rows, read_rows(task.rows))
    in_test_R = held_out(task, frame, task.rows.test_fraction)
    return frame[~in_test_R].reset_index(drop=True), frame[in_test_R].reset_index(drop=True)


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
    frame = train[in_other_R == (split != CLIENTS_SPLIT)].reset_index(drop=True)
    frame.attrs = train.attrs
    return frame


def _official(task: Task, split: str, folder: Path | None) -> pd.DataFrame:
    """One official split, with our names of columns and numbers of labels."""
    rows = task.rows
    file = folder / rows.folder / f"{split}.parquet" if folder and rows.folder else None
    if file is not None and file.is_file():
        frame, origin = _renamed(task, _read_parquet(file)), DATA_VARIABLE
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
    except (ValueError, OSError) as error:  # pyarrow's errors are subclasses of these
        raise InvalidInputError(f"{file} cannot be read as Parquet: {first_line(error)}") from None


def _renamed(task: Task, frame: pd.DataFrame) -> pd.DataFrame:
    """Published rows with our names of columns, our numbers of labels, and the first if there are several answers."""
    rows, frame = task.rows, frame.copy()
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


def _from_hub(task: Task, split: str) -> pd.DataFrame:
    rows = task.rows
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
        frame = datasets.load_dataset(rows.hub, name=rows.config, split=name).to_pandas()
    except Exception as error:  # the hub's client raises many kinds: offline, not found, corrupted cache
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: {rows.hub} cannot be fetched from the hub "
            f"({type(error).__name__}); {by_folder}check the network; toy-reviews needs no data"
        ) from error
    frame = _renamed(task, frame)
    if "label" in task.columns and "label" in frame:
        frame = frame[frame["label"] != -1]  # SNLI: no gold label; SST-2 test: all labels are hidden
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
    frame = frame[list(task.columns)].reset_index(drop=True)
    if frame.empty:
        raise InvalidInputError(f"{what}: there are no rows")
    if frame.isna().any(axis=None):
        row = int(frame.isna().any(axis=1).idxmax())
        raise InvalidInputError(f"{what}: row {row} has an empty text or label; remove such rows")
    for column in {*task.text_columns, *task.answer_columns}:
        if not pd.api.types.is_string_dtype(frame[column]):
            raise InvalidInputError(f"{what}: column {column} must have text, it has {frame[column].dtype}")
    if "label" not in frame:
        return frame
    if not pd.api.types.is_integer_dtype(frame["label"]):
        raise InvalidInputError(f"{what}: column label must have integers, it has {frame['label'].dtype}")
    low, high = int(frame["label"].min()), int(frame["label"].max())
    if low < 0 or high >= task.num_classes:
        raise InvalidInputError(f"{what}: labels are {low} to {high}; they must be 0 to {task.num_classes - 1}")
    return frame.astype({"label": "int64"})


def in_base(train: pd.DataFrame, by: str) -> list[bool]:
    """Whether each training row is in the half on which ``opt-mini`` was trained; clients have the other half.

    The first bit of the SHA-256 of the letters and digits in column ``by`` decides; for ``phrases`` see
    :func:`phrases_in_base`.
    """
    return phrases_in_base(train["text"].tolist()) if by == "phrases" else [_hash_is_base(text) for text in train[by]]


def _hash_is_base(text: str) -> bool:
    folded = _NOT_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())
    return hashlib.sha256(folded.encode()).digest()[0] < 128


def phrases_in_base(texts: list[str]) -> list[bool]:
    """The half of each phrase: that of the sentences that contain it, or by its own hash if these are in both halves.

    SST-2's training rows are phrases cut from sentences; a row that no other row contains is a sentence. In order of
    decreasing length, each sequence of words in a sentence is searched among the texts: 1.7 million look-ups in half a
    second.
    """
    sides: dict[str, set[bool]] = {text: set() for text in texts}
    for text in sorted(sides, key=lambda text: (-len(text), text)):
        if sides[text]:
            continue  # a phrase of a longer sentence
        side = _hash_is_base(text)
        spaces = [index for index, character in enumerate(text) if character == " "]
        starts, stops = [0, *(index + 1 for index in spaces)], [*spaces, len(text)]
        for first, start in enumerate(starts):
            for stop in stops[first:]:
                if (owners := sides.get(text[start:stop])) is not None:
                    owners.add(side)
    agreed = {text: next(iter(votes)) if len(votes) == 1 else _hash_is_base(text) for text, votes in sides.items()}
    return [agreed[text] for text in texts]
