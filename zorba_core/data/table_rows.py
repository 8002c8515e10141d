"""Rows of the user's own, from files on this machine or from a table in memory, in the form that a task reads.

Every training row is a client's: nothing is withheld but what a test needs (:mod:`zorba_core.data.held_out`).
"""

from __future__ import annotations

import hashlib
import os
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.held_out import held_out
from zorba_core.data.labels import label_numbers, refuse_rows
from zorba_core.data.tables import KINDS, is_empty, place, plain_values, read_table
from zorba_core.data.task import CLIENT, PLACE, TableRows, Task
from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some

_PATTERN = frozenset("*?[")


def read_rows(rows: TableRows, which: str = "train") -> pd.DataFrame:
    """All columns of the file, files or table, and PLACE; CLIENT where each file is a client. Whole-number labels that
    a file itself names are these names, each file's own; ``attrs["names"]`` has their order.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.data.tables.read_table`.
    """
    given = getattr(rows, which)
    if given is None:
        raise MissingDataError(
            "these rows were a table in memory, which no folder keeps: give them again (data=, or --data FILE)"
        )
    if isinstance(given, pd.DataFrame):
        frame = pd.DataFrame({str(name): plain_values(given[name]) for name in given.columns}, dtype=object)
        return frame.assign(**{PLACE: [f"row {number}" for number in range(1, len(frame) + 1)]})
    files = files_of(given)
    parts = [_read_file(file, rows.encoding) for file in files]
    if is_many(given):
        for part, client in zip(parts, file_clients(files), strict=True):
            part[CLIENT] = client
    frame = parts[0] if len(parts) == 1 else pd.concat(parts)
    columns = dict.fromkeys(chain.from_iterable(part.attrs["names"] for part in parts))
    frame.attrs = {"names": {column: _all_names(parts, column) for column in columns}}
    return frame.reset_index(drop=True)


def _read_file(file: str, encoding: str) -> pd.DataFrame:
    frame = read_table(file, encoding)
    for column, names in frame.attrs.setdefault("names", {}).items():
        in_range = [isinstance(value, int) and 0 <= value < len(names) for value in frame[column]]
        frame[column] = [
            names[value] if named else None if value == -1 else value  # -1: datasets' mark of no label
            for value, named in zip(frame[column], in_range, strict=True)
        ]
    frame[PLACE] = [place(file, index) for index in frame.index]
    return frame


def _all_names(parts: list[pd.DataFrame], column: str) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(part.attrs["names"].get(column, []) for part in parts)))


def is_many(path: Any) -> bool:
    """Whether a path stands for several files, each of which is one client: a pattern, or a folder of files."""
    if not isinstance(path, str):
        return False
    if os.path.isdir(path):
        return not {"state.json", "dataset_dict.json"} & {*os.listdir(path)}
    return bool(_PATTERN & set(path)) and not os.path.exists(path)


def files_of(path: str) -> list[str]:
    """The files that a path stands for, sorted; folders that ``datasets`` saved count as files.

    Raises:
        MissingDataError: nothing matches.
        InvalidInputError: a folder that holds a set's splits.
    """
    if not is_many(path):
        return [path]
    folder, pattern = Path(path), "*"
    while not folder.exists():  # brackets in a folder's name are no pattern
        folder, pattern = folder.parent, os.path.relpath(path, folder.parent)
    files = sorted(str(file) for file in folder.glob(pattern) if not file.name.startswith("."))
    if os.path.isdir(path):  # a README beside the rows is none of them
        files = [file for file in files if Path(file).suffix.lower() in KINDS or os.path.isdir(file)]
    if not files:
        raise MissingDataError(f"no file matches {path!r}; give a pattern such as clients/*.csv, in quotes")
    if os.path.isdir(path) and "train" in {Path(file).stem for file in files}:
        raise InvalidInputError(
            f"{path} holds the splits of a set and not a file for each client; name its files: --data train.csv "
            "--test test.csv"
        )
    return files


def file_clients(files: list[str]) -> list[str]:
    """A client's name for each file: the file's, without its ending where that is enough, else its folder's, else its
    whole path below the common folder."""
    paths = [Path(file) for file in files]
    common = os.path.commonpath([path.parent for path in paths])
    for names in (
        [path.stem for path in paths],
        [path.name for path in paths],
        [path.parent.name for path in paths],
    ):
        if len({*names}) == len(names):
            return names
    return [os.path.relpath(path, common) for path in paths]


def prepared(task: Task, rows: TableRows, frame: pd.DataFrame) -> pd.DataFrame:
    """The task's columns of a raw table: texts as text, ``label`` as 0..C-1, CLIENT and PLACE.

    Raises:
        InvalidInputError: a column is missing, or a row without text, label or client; by file and line.
    """
    read = tuple(dict.fromkeys((*task.text_columns, *task.answer_columns)))
    check_columns(frame, [*read, *(column for column in (rows.label, rows.client) if column)])
    if "label" in read:
        raise InvalidInputError(
            f"task {task.name}: a column of text is called label, a name kept for labels to choose among; rename it"
        )
    columns: dict[str, Any] = {column: texts_of(frame, column) for column in read}
    for what, parts in (("text", task.text_columns), ("answer", task.answer_columns)):
        if parts:
            empty_R = np.logical_and.reduce([[not text.strip() for text in columns[part]] for part in parts])
            refuse_rows(frame, empty_R, f"no {what} in {' or '.join(parts)}", "remove such rows, or fill them in")
    if "label" in task.columns:
        if not rows.label:
            raise InvalidInputError(f"task {task.name}: no column is named for the label (label under [rows])")
        columns["label"] = label_numbers(task, rows, frame)
    if rows.client:
        refuse_rows(frame, [is_empty(value) for value in frame[rows.client]], f"no client in {rows.client}")
        columns[CLIENT] = [str(value).strip() for value in frame[rows.client]]
    elif CLIENT in frame:
        columns[CLIENT] = frame[CLIENT].tolist()
    return pd.DataFrame({**columns, PLACE: frame[PLACE].tolist()})


def check_columns(frame: pd.DataFrame, columns: list[str]) -> None:
    """Refuse a column that the rows do not have.

    Raises:
        InvalidInputError: names it, and those that they have.
    """
    for column in columns:
        if column not in frame:
            there = [name for name in frame.columns if name not in (PLACE, CLIENT)]
            raise InvalidInputError(f"the rows have no column {in_short(column)}; they have {name_some(there, 12)}")


def texts_of(frame: pd.DataFrame, column: str) -> list[str]:
    """A column as text; an empty cell is an empty text.

    Raises:
        InvalidInputError: a list or an object where a text belongs.
    """
    values = frame[column].tolist()
    for where, value in zip(frame[PLACE], values, strict=True):
        if isinstance(value, list | dict | np.ndarray | bytes):
            chat = ": write each conversation as a column of what is asked and one of what is answered"
            raise InvalidInputError(
                f"{where}: column {column} holds a {type(value).__name__} where a text belongs"
                + (chat if _is_chat(value) else "; name another column")
            )
    texts = ["" if is_empty(value) else str(value) for value in values]
    # JSON cut in the middle of an emoji holds half of it, which no tokenizer reads.
    halved = [any("\ud800" <= letter <= "\udfff" for letter in text) for text in texts]
    refuse_rows(frame, halved, f"column {column} holds half of a character", "remove it")
    return texts


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "content" in value[0]


def read_split(task: Task, split: str) -> pd.DataFrame:
    """As :func:`zorba_core.data.load.load_split` says, with the columns CLIENT and PLACE."""
    rows = task.rows
    if rows.test is not None and split == rows.evaluation_split:
        frame = prepared(task, rows, read_rows(rows, "test"))
    else:
        frame = prepared(task, rows, read_rows(rows))
        if rows.test is None:
            in_test_R = held_out(task, frame, rows.test_fraction)
            frame = frame[in_test_R if split == rows.evaluation_split else ~in_test_R].reset_index(drop=True)
    frame.attrs = {"source": rows.origin, "note": ""}
    return frame


def missing_file(rows: TableRows) -> str:
    """Which file is not there; empty where all are."""
    for path in (rows.train, rows.test):
        if isinstance(path, str) and not is_many(path) and not os.path.exists(path):
            return f"{path} does not exist"
    return ""


def fingerprints(rows: TableRows) -> dict[str, str]:
    """The SHA-256 of each file, or of the rows' files in a folder, by its path."""
    named = [file for path in (rows.train, rows.test) if isinstance(path, str) for file in files_of(path)]
    return {file: _sha256(Path(file)) for file in named}


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(path.rglob("*.arrow")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
