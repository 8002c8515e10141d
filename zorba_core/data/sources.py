"""Sources of a task's rows.

Search order of published rows: the folder named by ``ZORBA_DATA`` (``sst2/train.parquet``, ``ag_news/test.parquet``,
...), then the Hugging Face hub when the package ``datasets`` is installed, then one error that names both ways.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from zorba_core.data.hash_split import hash_split
from zorba_core.data.labels import label_text
from zorba_core.errors import InvalidInputError, MissingDataError, first_line

if TYPE_CHECKING:
    from zorba_core.data.tasks import Task

DATA_VARIABLE = "ZORBA_DATA"
CLIENTS_SPLIT = "federated"  # the rows that clients hold
# The largest file of these sets is 0.1 GB: anything beyond is not what it says it is.
_MAX_FILE_BYTES, _MAX_ROWS = 2 * 2**30, 10_000_000


class RowSource(Protocol):
    """Rows by split. ``federated`` are those that clients hold."""

    @property
    def splits(self) -> tuple[str, ...]: ...

    @property
    def evaluation_split(self) -> str:
        """The labelled split that results are reported on."""
        ...

    def read(self, task: Task, split: str) -> pd.DataFrame:
        """One split's ``task.columns``; ``attrs`` as :func:`zorba_core.data.splits.load_split` says.

        Raises:
            InvalidInputError, MissingDataError: rows of another shape; rows that are nowhere.
        """
        ...

    def missing(self) -> str:
        """How to get the rows, in a few words; empty when they are here. Reads no rows."""
        ...


@dataclass(frozen=True, eq=False)
class MadeRows:
    """Rows that a function makes, split by split; they need no data and no network.

    ``read_split`` returns a frame with the task's text columns and ``label``. It must give the same rows each time.
    """

    read_split: Callable[[str], pd.DataFrame]
    origin: str  # what a run's record says of them: "grammar 1"
    splits: tuple[str, ...] = (CLIENTS_SPLIT, "validation")
    evaluation_split: str = "validation"
    _cache: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)

    def read(self, task: Task, split: str) -> pd.DataFrame:
        if split not in self._cache:
            frame = checked(task, self.read_split(split), f"{task.name} {split}")
            frame.attrs = {"source": self.origin, "note": ""}
            self._cache[split] = frame
        return self._cache[split]

    def missing(self) -> str:
        return ""


@dataclass(frozen=True, eq=False)
class PublishedRows:
    """A published set, from the folder ``ZORBA_DATA`` or the Hugging Face hub.

    The training rows of some are divided into two halves that share no text: ``base``, which only ``zorba make-base``
    reads, and ``federated``, which clients hold (:mod:`zorba_core.data.division`). Of all others clients hold every
    row, but ``held_out`` where none are published to evaluate on.
    """

    hub: str
    folder: str = ""  # below ZORBA_DATA
    evaluation_splits: tuple[str, ...] = ()  # official labelled splits kept whole; the first is evaluated on
    official_train_rows: int = 0
    in_base: Callable[[pd.DataFrame], list[bool]] | None = None  # of each training row
    columns: Mapping[str, str] = field(default_factory=dict)  # our column name -> the published one, or a path in it
    config: str | None = None  # of the hub's
    train_split: str = "train"
    label_values: tuple[object, ...] = ()  # what is published for labels 0..C-1, where it is not these numbers
    held_out: float = 0.0  # part of the training rows, by a hash of their text

    def __post_init__(self) -> None:
        if bool(self.evaluation_splits) == bool(self.held_out):
            raise InvalidInputError(f"rows of {self.hub}: give evaluation_splits, or held_out between 0 and 1")

    @property
    def splits(self) -> tuple[str, ...]:
        base = () if self.in_base is None else ("base",)
        return (*base, CLIENTS_SPLIT, *(self.evaluation_splits or ("validation",)))

    @property
    def evaluation_split(self) -> str:
        return self.evaluation_splits[0] if self.evaluation_splits else "validation"

    def read(self, task: Task, split: str) -> pd.DataFrame:
        data = os.environ.get(DATA_VARIABLE, "")
        return (
            _divided(self, task, data)[split]
            if split in ("base", CLIENTS_SPLIT) or self.held_out
            else _official(self, task, split, data)
        )

    def missing(self) -> str:
        data = os.environ.get(DATA_VARIABLE, "")
        absent = [f"{self.folder}/{split}.parquet" for split in ("train", *self.evaluation_splits[:1])]
        if data:
            absent = [file for file in absent if not (Path(os.path.expanduser(data)) / file).is_file()]
        if not absent or (importlib.util.find_spec("datasets") and not os.environ.get("HF_HUB_OFFLINE")):
            return ""
        where = f"the folder that {DATA_VARIABLE} names lacks" if data else f"set {DATA_VARIABLE} to a folder with"
        return f"{where} {' and '.join(absent)}; or install the package datasets, which fetches {self.hub}"


# Cached for the folder they were read from, as the variable can change.
@functools.lru_cache(maxsize=8)
def _official(source: PublishedRows, task: Task, split: str, data: str) -> pd.DataFrame:
    """One official split as published."""
    folder = data_folder(data)
    file = folder / source.folder / f"{split}.parquet" if folder else None
    if source.folder and file is not None and file.is_file():
        frame = _in_our_words(source, task, read_published(file, source, list(task.columns)))
        origin = DATA_VARIABLE
    else:
        frame = _from_hub(task, source, split)
        origin = f"hub {source.hub}"
    frame = checked(task, frame, f"{task.name} {split} from {origin}")
    rows = len(frame)
    partial = split == "train" and rows < source.official_train_rows
    note = f"subset of train: {rows:,} of the official {source.official_train_rows:,} rows" if partial else ""
    frame.attrs = {"source": origin, "note": note}
    return frame


@functools.lru_cache(maxsize=3)
def _divided(source: PublishedRows, task: Task, data: str) -> dict[str, pd.DataFrame]:
    train = _official(source, task, "train", data)
    if source.held_out:
        other, mask_R = "validation", hash_split(task, train, source.held_out)
    elif source.in_base is not None:
        other, mask_R = "base", source.in_base(train)
    else:
        return {CLIENTS_SPLIT: train}
    mask = pd.Series(mask_R, index=train.index)
    parts = {other: train[mask].reset_index(drop=True), CLIENTS_SPLIT: train[~mask].reset_index(drop=True)}
    for part in parts.values():
        part.attrs = dict(train.attrs)
    return parts


def data_folder(data: str) -> Path | None:
    if not data:
        return None
    folder = Path(os.path.expanduser(data))
    if not folder.is_dir():
        raise MissingDataError(f"{DATA_VARIABLE} names {data!r}, which is no folder: correct it or unset it")
    return folder


def check_parquet_size(file: Path) -> None:
    if file.stat().st_size > _MAX_FILE_BYTES:
        raise InvalidInputError(f"{file} is larger than {_MAX_FILE_BYTES // 2**30} GiB: not the file expected here")


def read_parquet(file: Path, columns: list[str]) -> pd.DataFrame:
    """Columns of a Parquet file, or one line that names the file and what is wrong with it."""
    check_parquet_size(file)
    try:
        with pyarrow.parquet.ParquetFile(file) as packed:
            schema = packed.schema_arrow
            missing = [column for column in columns if column not in schema.names]
            if missing:
                there = ", ".join(schema.names)
                raise InvalidInputError(f"{file} lacks the column(s) {', '.join(missing)}; it has {there}")
            if packed.metadata.num_rows > _MAX_ROWS:
                raise InvalidInputError(f"{file}: {packed.metadata.num_rows:,} rows are more than {_MAX_ROWS:,}")
            return packed.read(columns=columns).to_pandas(ignore_metadata=True)
    except (pyarrow.ArrowException, OSError, MemoryError) as error:
        raise InvalidInputError(f"{file} cannot be read as Parquet: {first_line(error)}") from error


def read_published(file: Path, source: PublishedRows, columns: list[str]) -> pd.DataFrame:
    """The needed columns of a Parquet file, under our names or the published ones."""
    check_parquet_size(file)
    try:
        present = pyarrow.parquet.read_schema(file).names
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInputError(f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    published = {column: source.columns.get(column, column).split(".")[0] for column in columns}
    here = [name if column not in present and name in present else column for column, name in published.items()]
    return read_parquet(file, list(dict.fromkeys(here)))


def _in_our_words(source: PublishedRows, task: Task, frame: pd.DataFrame) -> pd.DataFrame:
    """Published rows with our names of columns and numbers of labels."""
    frame = frame.copy()
    for ours, published in source.columns.items():
        name, *path = published.split(".")
        if ours in task.columns and ours not in frame.columns and name in frame.columns:
            frame[ours] = [_inside(value, path) for value in frame[name]]
    if "label" in task.columns and "label" in frame and source.label_values:
        numbers = {label_text(value): number for number, value in enumerate(source.label_values)}
        frame["label"] = [numbers.get(label_text(value), -1) for value in frame["label"]]
    for column in task.answer_columns:
        if column in frame:
            frame[column] = frame[column].map(_first).astype(str)
    return frame


def _inside(value: object, path: list[str]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _first(value: object) -> object:
    """Of several right answers the first."""
    return value[0] if isinstance(value, list | np.ndarray) and len(value) else value


def _from_hub(task: Task, source: PublishedRows, split: str) -> pd.DataFrame:
    where = f"{source.folder}/{split}.parquet"
    by_folder = f"set {DATA_VARIABLE} to a folder with {where} (columns {', '.join(task.columns)})"
    if importlib.util.find_spec("datasets") is None:
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: {by_folder}, or install the package datasets "
            f"(pip install 'zorba-core[hub]') to fetch {source.hub} from the Hugging Face hub; "
            "toy-reviews needs no data"
        )
    import datasets

    try:
        named = {} if source.config is None else {"name": source.config}
        split_name = source.train_split if split == "train" else split
        loaded = datasets.load_dataset(source.hub, split=split_name, **named)
    except Exception as error:  # the hub's client raises many kinds: offline, not found, corrupted cache
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: the hub did not give {source.hub} "
            f"({type(error).__name__}); check the network, or {by_folder}; toy-reviews needs no data"
        ) from error
    frame = _in_our_words(source, task, loaded.to_pandas())
    if "label" in task.columns and "label" in frame.columns:
        frame = frame[frame["label"] != -1]  # SNLI: no gold label; SST-2 test: hidden, which leaves nothing
    if frame.empty:
        raise MissingDataError(f"the hub's {source.hub} has no labels for its {split} split: {by_folder}")
    return frame


def checked(task: Task, frame: pd.DataFrame, what: str) -> pd.DataFrame:
    columns = list(task.columns)
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise InvalidInputError(f"{what}: column(s) {', '.join(missing)} missing; found {', '.join(frame.columns)}")
    frame = frame[columns].reset_index(drop=True)
    if frame.empty:
        raise InvalidInputError(f"{what}: there are no rows")
    if frame.isna().any(axis=None):
        row = int(frame.isna().any(axis=1).idxmax())
        raise InvalidInputError(f"{what}: row {row} has an empty text or label; remove such rows")
    if task.kind != "text":
        if not pd.api.types.is_integer_dtype(frame["label"]):
            raise InvalidInputError(f"{what}: column label must hold integers, it is {frame['label'].dtype}")
        low, high = int(frame["label"].min()), int(frame["label"].max())
        if low < 0 or high >= task.num_classes:
            raise InvalidInputError(f"{what}: labels must be 0..{task.num_classes - 1}, found {low}..{high}")
        frame = frame.astype({"label": "int64"})
    for column in {*task.text_columns, *task.answer_columns}:
        if not pd.api.types.is_string_dtype(frame[column]):
            raise InvalidInputError(f"{what}: column {column} must hold text, it is {frame[column].dtype}")
    return frame
