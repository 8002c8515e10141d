"""A user's rows: from files on this machine, or a table in memory, to the columns that a task reads.

Shapes: R rows.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.task import CLIENT, MAX_LABELS, PLACE, TableRows, Task
from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some
from zorba_core.tables import KINDS, is_empty, place, plain_values, read_table

Texts = str | Mapping[str, str] | Sequence[str | Mapping[str, str]] | pd.DataFrame
Table = str | os.PathLike[str] | pd.DataFrame
_PATTERN = frozenset("*?[")
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")  # as a table writes a column of whole numbers with gaps
_HALF = re.compile("[\ud800-\udfff]")  # of a character: JSON cut in the middle of an emoji, which no tokenizer reads
_NO_VALUE = list | tuple | dict | set | bytes | np.ndarray


def read_rows(rows: TableRows, which: str = "train") -> pd.DataFrame:
    """All columns of the file, files or table, and PLACE; CLIENT where each file is a client. Where a file names its
    whole-number labels, the names are put in; ``attrs["names"]`` has their order, by column.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.tables.read_table`.
    """
    given = getattr(rows, which)
    if given is None:
        raise MissingDataError(
            "these rows were a table in memory, which no folder keeps: give them again (data=, or --data FILE)"
        )
    if isinstance(given, pd.DataFrame):
        frame = pd.DataFrame({str(name): plain_values(given[name]) for name in given.columns}, dtype=object)
        return frame.assign(**{PLACE: [f"row {number}" for number in range(1, len(frame) + 1)]})
    files = tuple(files_of(given))
    return _read_files(files, is_many(given), rows.encoding, _stamps(files)).copy(deep=False)


@functools.lru_cache(maxsize=2)
def _read_files(files: tuple[str, ...], of_clients: bool, encoding: str, stamps: tuple[Any, ...]) -> pd.DataFrame:
    """The rows of all files, in one table; read again where a stamp has changed."""
    parts = [_read_file(file, encoding) for file in files]
    if of_clients:
        for part, client in zip(parts, file_clients(files), strict=True):
            part[CLIENT] = client
    frame, names = parts[0] if len(parts) == 1 else pd.concat(parts), {}
    for column, of_file in chain.from_iterable(part.attrs["names"].items() for part in parts):
        names[column] = list(dict.fromkeys([*names.get(column, []), *of_file]))
    frame.attrs = {"names": names}
    return frame.reset_index(drop=True)


def _read_file(file: str, encoding: str) -> pd.DataFrame:
    frame = read_table(file, encoding)
    for column, names in frame.attrs.setdefault("names", {}).items():
        name_of = {-1: None, **dict(enumerate(names))}  # -1: datasets' mark of no label
        frame[column] = [name_of.get(value, value) if isinstance(value, int) else value for value in frame[column]]
    before = place(file, "")
    return frame.assign(**{PLACE: [f"{before}{index}" for index in frame.index]})


def is_many(path: Any) -> bool:
    """Is this a pattern or a folder of files, of which each is one client?"""
    if not isinstance(path, str):
        return False
    if os.path.isdir(path):
        return not {"state.json", "dataset_dict.json"} & {*os.listdir(path)}
    return bool(_PATTERN & set(path)) and not os.path.exists(path)


def files_of(path: str) -> list[str]:
    """The files of a path, sorted; a folder that ``datasets`` saved counts as a file.

    Raises:
        MissingDataError: nothing matches.
        InvalidInputError: a folder that holds the splits of a set.
    """
    if not is_many(path):
        return [path]
    folder, pattern = Path(path), "*"
    while not folder.exists():  # brackets in a folder's name are no pattern
        folder, pattern = folder.parent, os.path.relpath(path, folder.parent)
    files = sorted(str(file) for file in folder.glob(pattern) if not file.name.startswith("."))
    if os.path.isdir(path):  # without a README beside the rows
        files = [file for file in files if Path(file).suffix.lower() in KINDS or os.path.isdir(file)]
    if not files:
        raise MissingDataError(f"no file matches {path!r}; give a pattern such as clients/*.csv, in quotes")
    if os.path.isdir(path) and "train" in {Path(file).stem for file in files}:
        raise InvalidInputError(
            f"{path} holds the splits of a set and not a file for each client; name its files: --data train.csv "
            "--test test.csv"
        )
    return files


def file_clients(files: Sequence[str]) -> list[str]:
    """A client's name for each file: the file's without its ending, else with it, else its folder's, else its path
    below the common folder; the first of these that tells all files apart."""
    paths = [Path(file) for file in files]
    common = os.path.commonpath([path.parent for path in paths])
    for name in (lambda path: path.stem, lambda path: path.name, lambda path: path.parent.name):
        if len({*map(name, paths)}) == len(paths):
            return [*map(name, paths)]
    return [os.path.relpath(path, common) for path in paths]


def missing_file(rows: TableRows) -> str:
    """Which file is missing; empty where all are here."""
    for path in (rows.train, rows.test):
        if isinstance(path, str) and not is_many(path) and not os.path.exists(path):
            return f"{path} does not exist"
    return ""


def fingerprints(rows: TableRows) -> dict[str, str]:
    """The SHA-256 of each file, or of the rows' files in a folder, by its path."""
    return {file: _sha256(file) for file in _named_files(rows)}


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    for file in _parts(path):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def stamps_of(rows: TableRows) -> tuple[Any, ...]:
    """Time and size of the rows' files: equal where no file has changed."""
    return _stamps(_named_files(rows))


def _stamps(files: Iterable[str]) -> tuple[Any, ...]:
    statuses = [(part, part.stat()) for file in files for part in _parts(file)]
    return tuple((str(part), status.st_mtime_ns, status.st_size) for part, status in statuses)


def _named_files(rows: TableRows) -> list[str]:
    return [file for path in (rows.train, rows.test) if isinstance(path, str) for file in files_of(path)]


def _parts(file: str) -> list[Path]:
    """The file, or those with rows of a folder that ``datasets`` saved; none where it is missing."""
    path = Path(file)
    return [path] if path.is_file() else sorted(path.rglob("*.arrow"))


def prepared(task: Task, rows: TableRows, frame: pd.DataFrame) -> pd.DataFrame:
    """The task's columns of a table that :func:`read_rows` read: texts as text, ``label`` as 0..C-1, CLIENT and PLACE.

    Raises:
        InvalidInputError: a column is missing, or a row without text, label or client; by file and line.
    """
    read = tuple(dict.fromkeys((*task.text_columns, *task.answer_columns)))
    check_columns(frame, [*read, *(column for column in (rows.label, rows.client) if column)])
    if "label" in read:
        raise InvalidInputError(
            f"task {task.name}: a column of text is called label, a name for labels to choose among; rename it"
        )
    columns: dict[str, Any] = {column: texts_of(frame, column) for column in read}
    refuse_without_text(frame, columns, task.text_columns, "text")
    refuse_without_text(frame, columns, task.answer_columns, "answer")
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


def check_columns(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """
    Raises:
        InvalidInputError: the rows do not have one of the columns; names it, and those that they have.
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
    values = _values(frame, column, "a text", "name another column")
    texts = ["" if is_empty(value) else str(value) for value in values]
    refuse_rows(frame, [*map(_HALF.search, texts)], f"column {column} holds half of a character", "remove it")
    return texts


def _values(frame: pd.DataFrame, column: str, expected: str, cure: str) -> list[Any]:
    """A column without lists and objects."""
    values = frame[column].tolist()
    invalid = [value for value in values if isinstance(value, _NO_VALUE)]
    if invalid:
        first = invalid[0][0] if isinstance(invalid[0], list) and invalid[0] else None
        if isinstance(first, dict) and "content" in first:
            cure = "write each conversation as a column of what is asked and one of what is answered"
        what = f"column {column} holds a {type(invalid[0]).__name__} where {expected} belongs"
        refuse_rows(frame, [isinstance(value, _NO_VALUE) for value in values], what, cure)
    return values


def refuse_without_text(
    frame: pd.DataFrame, texts: dict[str, list[str]], columns: Sequence[str], what: str = "text"
) -> None:
    """
    Raises:
        InvalidInputError: a row whose texts in all these columns are empty.
    """
    if columns:
        empty_R = [not "".join(parts).strip() for parts in zip(*(texts[column] for column in columns), strict=True)]
        refuse_rows(frame, empty_R, f"no {what} in {' or '.join(columns)}", "remove such rows, or fill them in")


def refuse_rows(
    frame: pd.DataFrame, wrong_R: Sequence[bool], what: str, cure: str = "correct or remove such rows"
) -> None:
    """
    Raises:
        InvalidInputError: some rows are wrong; names the places of the first ones.
    """
    places = [where for where, wrong in zip(frame[PLACE], wrong_R, strict=True) if wrong]
    if places:
        more = f" ({len(places)} such rows: {name_some(places[1:], 3)})" if len(places) > 1 else ""
        raise InvalidInputError(f"{places[0]}: {what}{more}; {cure}")


def label_text(value: Any) -> str:
    """A label's value as the text that names it: 1, 1.0, "1", "1.0" and " 1 " are one label, as are true and "True"."""
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def look_of(text: str) -> str:
    """What a person reads in a label: without case, kinds of spaces and ways to write an accent."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def label_texts(frame: pd.DataFrame, column: str) -> list[str]:
    """Each row's label as text; empty where a row has none.

    Raises:
        InvalidInputError: a list, an object or bytes in place of a label.
    """
    cure = "give each row one label as a text or a number, or name another column"
    values = _values(frame, column, "one label", cure)
    return ["" if is_empty(value) else label_text(value) for value in values]


def with_labels(rows: TableRows, frame: pd.DataFrame) -> tuple[TableRows, tuple[str, ...]]:
    """The rows with the values that stand for their labels, and the labels of the column ``rows.label``: in the order
    of the file's own names where it has any, else whole numbers in their order, else by the alphabet.

    Raises:
        InvalidInputError: one label only, more than a classification can have, or two that look alike.
    """
    column, texts = rows.label, label_texts(frame, rows.label)
    labels = sorted({*texts} - {""})
    elsewhere = "name another column with --label, or --answer for text to be generated"
    if len(labels) < 2:
        only = f"one label only, {in_short(labels[0])}" if labels else "no label"
        raise InvalidInputError(
            f"column {column} holds {only}; a classification needs rows of at least two labels: {elsewhere}"
        )
    if len(labels) > MAX_LABELS:
        raise InvalidInputError(
            f"column {column} holds {len(labels):,} different labels and at most {MAX_LABELS:,} can be told apart: "
            + elsewhere
        )
    if names := frame.attrs.get("names", {}).get(column):
        return rows, tuple(names)
    by_look: dict[str, str] = {}
    for label in labels:
        other = by_look.setdefault(look_of(label), label)
        if other != label:
            first = next(where for where, text in zip(frame[PLACE], texts, strict=True) if text in (label, other))
            raise InvalidInputError(
                f"column {column}: the labels {other!a} and {label!a} look alike (the first is in {first}); write them "
                "the same way, or list both as label_names in a task file"
            )
    if all(label.lstrip("-").isdigit() for label in labels):
        labels.sort(key=int)
    return replace(rows, label_values=tuple(labels)), tuple(labels)


def label_numbers(task: Task, rows: TableRows, frame: pd.DataFrame) -> np.ndarray:
    """The label of each row as 0..C-1, int64 (R,), by its name, by its value, or by its number.

    Numbers mean the order of the task's labels. Where labels were read from the rows that order is the alphabet's,
    which nobody chose: then ``label_values`` has the names, and numbers are refused.

    Raises:
        InvalidInputError: a row without a label, or with one that the task does not have.
    """
    if not task.label_names:
        raise InvalidInputError(f"task {task.name} names no labels; task_for(task) reads them from its rows")
    texts = label_texts(frame, rows.label)
    refuse_rows(frame, [not text for text in texts], f"no label in {rows.label}")
    number_of = {
        label_text(value): number
        for values in (task.label_names, rows.label_values)  # the later ones win
        for number, value in enumerate(values)
    }
    known = f"the task's labels are {name_some(task.label_names, 12)}"
    if not number_of.keys() & {*texts} and all(text.isdigit() for text in texts):
        if rows.label_values:
            raise InvalidInputError(
                f"{frame[PLACE].iloc[0]}: labels are numbers and {known}; write the names, or say which number is "
                "which label: label_values = [...] under [rows] of a task file, in the order of label_names"
            )
        number_of = {str(number): number for number in range(task.num_classes)}
    unknown = [text for text in texts if text not in number_of]
    if unknown:
        alike = [label for label in number_of if look_of(label) == look_of(unknown[0])]
        refuse_rows(
            frame,
            [text not in number_of for text in texts],
            f"the label {in_short(unknown[0])} is none of those trained on"
            + (f", and looks like {in_short(alike[0])}" if alike else ""),
            f"{known}: correct the row, or add the label to the rows that are trained on",
        )
    return np.array([number_of[text] for text in texts], dtype=np.int64)


def text_rows(task: Task, texts: Texts | TableRows) -> pd.DataFrame:
    """The columns that the task's prompt reads, and those of its options, as text.

    Raises:
        InvalidInputError: a column is missing, or a row has no text; with file and line where rows are from a file.
    """
    if not isinstance(texts, TableRows):
        if not isinstance(texts, pd.DataFrame):
            items = [texts] if isinstance(texts, str | Mapping) else texts
            texts = pd.DataFrame([_row_of(task, item) for item in items])
        if texts.empty:
            raise InvalidInputError("there are no rows to predict: give at least one text")
        texts = TableRows(texts)
    frame = read_rows(texts)
    options = task.answer_columns if task.kind == "options" else ()
    columns = list(dict.fromkeys((*task.text_columns, *options)))
    check_columns(frame, columns)
    read = {column: texts_of(frame, column) for column in columns}
    refuse_without_text(frame, read, task.text_columns, "text")
    return pd.DataFrame(read)


def _row_of(task: Task, item: str | Mapping[str, str]) -> dict[str, str]:
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, str) and len(task.text_columns) > 1:
        names = ", ".join(task.text_columns)
        raise InvalidInputError(f"the run reads several texts ({names}); give each by its name, not one text alone")
    return {task.text_columns[0]: item}


def labelled_rows(task: Task, table: Table, label: str | None = None, client: str | None = None) -> pd.DataFrame:
    """The task's columns of a file or a table: texts, ``label`` as 0..C-1 (int64), and CLIENT where it is known.

    Args:
        label, client: columns; by default those of the run's own rows, and ``label`` for a built-in task. Of a pattern
            such as ``clients/*.csv`` each file is a client.

    Raises:
        InvalidInputError, MissingDataError: no such file or column, or a row without text or label, or with a label
            that the run was not trained on; with file and line.
    """
    own = task.rows if isinstance(task.rows, TableRows) else TableRows(label="label")
    label = None if task.kind == "text" else label or own.label
    rows = TableRows(table, label=label, client=client, label_values=own.label_values, encoding=own.encoding)
    frame = read_rows(rows)
    if len(frame) == 0:
        raise InvalidInputError("there are no rows to evaluate on")
    if client is None and own.client in frame:
        rows = replace(rows, client=own.client)
    return prepared(task, rows, frame)
