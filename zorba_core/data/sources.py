"""Where the rows of a task come from, and which of them the base model may see.

Search order: the folder named by ``ZORBA_DATA`` (``sst2/train.parquet``, ``ag_news/test.parquet``, ...), then the
Hugging Face hub when the package ``datasets`` is installed, then one error that names both ways. ``toy-reviews`` needs
neither.

**The training rows are divided in two halves** that share no text: ``base``, which only ``zorba make-base`` reads, and
``federated``, which clients hold. The side is the first bit of the SHA-256 of a row's *source*, so it depends neither
on the order of the rows nor on where they came from:

- AG-News: the source is the text.
- SNLI: the source is the premise, which several rows share.
- SST-2: rows are phrases cut out of sentences. A row that no other row contains is a sentence, and a phrase goes where
  the sentences it is cut from go. Short phrases found in sentences of both sides (one text in 23) go by their own hash.

Texts are compared by their letters and digits alone.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow
import pyarrow.parquet

from zorba_core.data.tasks import Task, get_task
from zorba_core.data.toy_reviews import GRAMMAR_VERSION, toy_reviews
from zorba_core.errors import InvalidInputError, MissingDataError

DATA_VARIABLE = "ZORBA_DATA"
BASE_FRACTION = 0.5
_MAX_FILE_BYTES = 2 * 2**30  # the largest file of these sets is 0.1 GB: anything beyond is not what it says it is
_NOT_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class _Source:
    folder: str  # below ZORBA_DATA
    hub_name: str
    hub_columns: dict[str, str]  # the hub's column name -> ours
    evaluation_splits: tuple[str, ...]  # official labelled splits kept whole; the first is evaluated on
    official_train_rows: int
    group_column: str  # what a row's side of the division depends on


_SOURCES = {
    "sst2": _Source("sst2", "stanfordnlp/sst2", {"sentence": "text"}, ("validation", "test"), 67_349, "text"),
    "ag-news": _Source("ag_news", "fancyzhx/ag_news", {}, ("test",), 120_000, "text"),
    "snli": _Source("snli", "stanfordnlp/snli", {}, ("validation", "test"), 549_367, "premise"),
}


def evaluation_split(task_name: str) -> str:
    """The labelled split that results are reported on: ``validation``, and ``test`` for AG-News."""
    task = get_task(task_name)
    return "validation" if task.name == "toy-reviews" else _SOURCES[task.name].evaluation_splits[0]


def splits(task_name: str) -> tuple[str, ...]:
    """Names of the splits that :func:`load_split` knows for this task."""
    task = get_task(task_name)
    official = ("validation",) if task.name == "toy-reviews" else _SOURCES[task.name].evaluation_splits
    return ("base", "federated", *official)


def load_split(task_name: str, split: str) -> pd.DataFrame:
    """Rows of one split: the task's text columns and an int64 ``label``.

    ``frame.attrs`` says where they came from: ``source`` ("ZORBA_DATA", "hub stanfordnlp/sst2", "grammar 1") and
    ``note``, empty unless the training rows are not the official set, which must be said beside a result.

    Raises:
        InvalidInputError: unknown task or split, or a file whose columns or labels are not this task's.
        MissingDataError: the rows are neither in the folder ``ZORBA_DATA`` nor to be had from the hub.
    """
    task = get_task(task_name)
    if split not in splits(task.name):
        known = ", ".join(splits(task.name))
        raise InvalidInputError(f"dataset {task.name} has no split {split!r}: choose one of {known}")
    if task.name == "toy-reviews":
        frame = _toy(split)
    elif split in ("base", "federated"):
        frame = _divided(task.name, os.environ.get(DATA_VARIABLE, ""))[split]
    else:
        frame = _official(task.name, split, os.environ.get(DATA_VARIABLE, ""))
    copy = frame.copy()
    copy.attrs = dict(frame.attrs)
    return copy


def load_corpus() -> dict[str, list[str]]:
    """Unlabelled texts by file name (``corpus/*.parquet`` below ``ZORBA_DATA``), which only ``zorba make-base`` reads.

    Raises:
        MissingDataError: the folder is not there.
    """
    folder = _data_folder(os.environ.get(DATA_VARIABLE, ""))
    files = sorted((folder / "corpus").glob("*.parquet")) if folder else []
    if not files:
        raise MissingDataError(
            f"no text corpus: set {DATA_VARIABLE} to a folder with corpus/*.parquet (column text); "
            "or use --profile tiny, which needs no data"
        )
    return {file.stem: _read(file, ["text"])["text"].tolist() for file in files}


@functools.lru_cache(maxsize=3)
def _toy(split: str) -> pd.DataFrame:
    frame = toy_reviews(split)
    frame.attrs = {"source": f"grammar {GRAMMAR_VERSION}", "note": ""}
    return frame


@functools.lru_cache(maxsize=8)
def _official(task_name: str, split: str, data: str) -> pd.DataFrame:
    """One official split as published. Cached for the folder it was read from, as the variable can change."""
    task, source = get_task(task_name), _SOURCES[task_name]
    folder = _data_folder(data)
    file = folder / source.folder / f"{split}.parquet" if folder else None
    if file is not None and file.is_file():
        frame = _read(file, [*task.text_columns, "label"])
        origin = DATA_VARIABLE
    else:
        frame = _from_hub(task, source, split)
        origin = f"hub {source.hub_name}"
    frame = _checked(task, frame, f"{task.name} {split} from {origin}")
    rows = len(frame)
    partial = split == "train" and rows < source.official_train_rows
    note = f"subset of train: {rows:,} of the official {source.official_train_rows:,} rows" if partial else ""
    frame.attrs = {"source": origin, "note": note}
    return frame


@functools.lru_cache(maxsize=3)
def _divided(task_name: str, data: str) -> dict[str, pd.DataFrame]:
    train = _official(task_name, "train", data)
    if task_name == "sst2":
        in_base = _phrases_in_base(train["text"].tolist())
    else:
        in_base = [_hash_says_base(text) for text in train[_SOURCES[task_name].group_column]]
    mask = pd.Series(in_base, index=train.index)
    parts = {"base": train[mask].reset_index(drop=True), "federated": train[~mask].reset_index(drop=True)}
    for part in parts.values():
        part.attrs = dict(train.attrs)
    return parts


def _hash_says_base(text: str) -> bool:
    folded = _NOT_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())
    return hashlib.sha256(folded.encode()).digest()[0] < 256 * BASE_FRACTION


def _phrases_in_base(texts: list[str]) -> list[bool]:
    """The side of each phrase: its sentences' side where they agree, its own hash where they do not.

    From the longest text down, every run of words of a sentence is looked up among the texts: 1.7 million look-ups for
    SST-2, under a second.
    """
    sides: dict[str, set[bool]] = {text: set() for text in texts}
    for text in sorted(sides, key=lambda text: (-len(text), text)):
        if sides[text]:
            continue  # a phrase of a sentence seen before
        side = _hash_says_base(text)
        spaces = [index for index, character in enumerate(text) if character == " "]
        starts, stops = [0, *(index + 1 for index in spaces)], [*spaces, len(text)]
        for first, start in enumerate(starts):
            for stop in stops[first:]:
                if (owners := sides.get(text[start:stop])) is not None:
                    owners.add(side)
    agreed = {text: next(iter(found)) if len(found) == 1 else _hash_says_base(text) for text, found in sides.items()}
    return [agreed[text] for text in texts]


def _data_folder(data: str) -> Path | None:
    if not data:
        return None
    folder = Path(data).expanduser()
    if not folder.is_dir():
        raise MissingDataError(f"{DATA_VARIABLE} names {data!r}, which is no folder: correct it or unset it")
    return folder


def _read(file: Path, columns: list[str]) -> pd.DataFrame:
    """Columns of a Parquet file, or one line that names the file and what is wrong with it."""
    if file.stat().st_size > _MAX_FILE_BYTES:
        raise InvalidInputError(f"{file} is larger than {_MAX_FILE_BYTES // 2**30} GiB: not the file expected here")
    try:
        present = pyarrow.parquet.read_schema(file).names
        missing = [column for column in columns if column not in present]
        if missing:
            raise InvalidInputError(f"{file} lacks the column(s) {', '.join(missing)}; it has {', '.join(present)}")
        return pd.read_parquet(file, columns=columns)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInputError(f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _from_hub(task: Task, source: _Source, split: str) -> pd.DataFrame:
    where = f"{source.folder}/{split}.parquet"
    by_folder = f"set {DATA_VARIABLE} to a folder with {where} (columns {', '.join(task.text_columns)}, label)"
    if importlib.util.find_spec("datasets") is None:
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: {by_folder}, or install the package datasets "
            f"(pip install 'zorba-core[hub]') to fetch {source.hub_name} from the Hugging Face hub; "
            "toy-reviews needs no data"
        )
    import datasets

    try:
        loaded = datasets.load_dataset(source.hub_name, split=split)
    except Exception as error:  # the hub's client raises many kinds: offline, not found, corrupted cache
        raise MissingDataError(
            f"dataset {task.name} ({split}) not found: the hub did not give {source.hub_name} "
            f"({type(error).__name__}); check the network, or {by_folder}; toy-reviews needs no data"
        ) from error
    frame = loaded.to_pandas().rename(columns=source.hub_columns)
    if "label" in frame.columns:
        frame = frame[frame["label"] != -1]  # SNLI: no gold label; SST-2 test: hidden, which leaves nothing
    if frame.empty:
        raise MissingDataError(f"the hub's {source.hub_name} has no labels for its {split} split: {by_folder}")
    return frame


def _checked(task: Task, frame: pd.DataFrame, what: str) -> pd.DataFrame:
    columns = [*task.text_columns, "label"]
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise InvalidInputError(f"{what}: column(s) {', '.join(missing)} missing; found {', '.join(frame.columns)}")
    frame = frame[columns].reset_index(drop=True)
    if frame.empty:
        raise InvalidInputError(f"{what}: there are no rows")
    if frame.isna().any(axis=None):
        row = int(frame.isna().any(axis=1).idxmax())
        raise InvalidInputError(f"{what}: row {row} has an empty text or label; remove such rows")
    if not pd.api.types.is_integer_dtype(frame["label"]):
        raise InvalidInputError(f"{what}: column label must hold integers, it is {frame['label'].dtype}")
    low, high = int(frame["label"].min()), int(frame["label"].max())
    if low < 0 or high >= task.num_classes:
        raise InvalidInputError(f"{what}: labels must be 0..{task.num_classes - 1}, found {low}..{high}")
    for column in task.text_columns:
        if not pd.api.types.is_string_dtype(frame[column]):
            raise InvalidInputError(f"{what}: column {column} must hold text, it is {frame[column].dtype}")
    return frame.astype({"label": "int64"})
