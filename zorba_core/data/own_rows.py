"""Read a user's rows from files or a table in memory, and turn them into the columns of a task.

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
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")  # a whole number as pandas writes it in a column with missing values
_HALF = re.compile("[\ud800-\udfff]")  # half of a character, from JSON that was cut within an emoji
_NO_VALUE = list | tuple | dict | set | bytes | np.ndarray


def read_rows(rows: TableRows, which: str = "train") -> pd.DataFrame:
    """All columns of the file, files or table, and PLACE; CLIENT if each file is a client. If a file has names for the
    numbers of its labels, these replace the numbers; ``attrs["names"]`` has them in order, by column.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.tables.read_table`.
    """
    given = getattr(rows, which)
    if given is None:
        raise MissingDataError(
            "these rows were a table in memory, which is not saved with a run: give them again (data=, or --data FILE)"
        )
    if isinstance(given, pd.DataFrame):
        frame = pd.DataFrame({str(name): plain_values(given[name]) for name in given.columns}, dtype=object)
        return frame.assign(**{PLACE: [f"row {number}" for number in range(1, len(frame) + 1)]})
    files = tuple(files_of(given))
    return _read_files(files, is_many(given), rows.encoding, _stamps(files)).copy(deep=False)


@functools.lru_cache(maxsize=2)
def _read_files(files: tuple[str, ...], of_clients: bool, encoding: str, stamps: tuple[Any, ...]) -> pd.DataFrame:
    """The rows of all files in one table. ``stamps`` is the key of the cache: it differs if a file has changed."""
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
        name_of = {-1: None, **dict(enumerate(names))}  # in datasets -1 means no label
        frame[column] = [name_of.get(value, value) if isinstance(value, int) else value for value in frame[column]]
    before = place(file, "")
    return frame.assign(**{PLACE: [f"{before}{index}" for index in frame.index]})


def is_many(path: Any) -> bool:
    """Whether this is a pattern or a folder of files, each of which is one client."""
    if not isinstance(path, str):
        return False
    if os.path.isdir(path):
        return not {"state.json", "dataset_dict.json"} & {*os.listdir(path)}
    return bool(_PATTERN & set(path)) and not os.path.exists(path)


def files_of(path: str) -> list[str]:
    """The files of a path or pattern, sorted; a folder that ``datasets`` saved counts as a file.

    Raises:
        MissingDataError: no file matches.
        InvalidInputError: a folder with the splits of a data set.
    """
    if not is_many(path):
        return [path]
    folder, pattern = Path(path), "*"
    while not folder.exists():  # brackets in the name of an existing folder are no pattern
        folder, pattern = folder.parent, os.path.relpath(path, folder.parent)
    files = sorted(str(file) for file in folder.glob(pattern) if not file.name.startswith("."))
    if os.path.isdir(path):  # without other files, such as a README
        files = [file for file in files if Path(file).suffix.lower() in KINDS or os.path.isdir(file)]
    if not files:
        raise MissingDataError(f"no file matches {path!r}; give a pattern such as clients/*.csv, in quotes")
    if os.path.isdir(path) and "train" in {Path(file).stem for file in files}:
        raise InvalidInputError(
            f"{path} has the splits of a data set, not a file for each client; give its files: --data train.csv "
            "--test test.csv"
        )
    return files


def file_clients(files: Sequence[str]) -> list[str]:
    """A client's name for each file: the file name without its ending, with its ending, the name of its folder, or its
    path below the common folder; the first of these that is different for all files."""
    paths = [Path(file) for file in files]
    common = os.path.commonpath([path.parent for path in paths])
    for name in (lambda path: path.stem, lambda path: path.name, lambda path: path.parent.name):
        if len({*map(name, paths)}) == len(paths):
            return [*map(name, paths)]
    return [os.path.relpath(path, common) for path in paths]


def missing_file(rows: TableRows) -> str:
    """A phrase that names a missing file; empty if none is missing."""
    for path in (rows.train, rows.test):
        if isinstance(path, str) and not is_many(path) and not os.path.exists(path):
            return f"{path} does not exist"
    return ""


def fingerprints(rows: TableRows) -> dict[str, str]:
    """The SHA-256 of each file, or of all files in a folder that ``datasets`` saved, by path."""
    return {file: _sha256(file) for file in _named_files(rows)}


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    for file in _parts(path):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def stamps_of(rows: TableRows) -> tuple[Any, ...]:
    """Name, time and size of the rows' files: a cache key that differs if a file has changed."""
    return _stamps(_named_files(rows))


def _stamps(files: Iterable[str]) -> tuple[Any, ...]:
    statuses = [(part, part.stat()) for file in files for part in _parts(file)]
    return tuple((str(part), status.st_mtime_ns, status.st_size) for part, status in statuses)


def _named_files(rows: TableRows) -> list[str]:
    return [file for path in (rows.train, rows.test) if isinstance(path, str) for file in files_of(path)]


def _parts(file: str) -> list[Path]:
    """The file, or the Arrow files of a folder that ``datasets`` saved; empty if it is missing."""
    path = Path(file)
    return [path] if path.is_file() else sorted(path.rglob("*.arrow"))


def prepared(task: Task, rows: TableRows, frame: pd.DataFrame) -> pd.DataFrame:
    """The task's columns of a table from :func:`read_rows`: texts as str, ``label`` as 0..C-1, CLIENT and PLACE.

    Raises:
        InvalidInputError: a column is missing, or a row has no text, label or client; names file and line.
    """
    read = tuple(dict.fromkeys((*task.text_columns, *task.answer_columns)))
    check_columns(frame, [*read, *(column for column in (rows.label, rows.client) if column)])
    if "label" in read:
        raise InvalidInputError(
            f"task {task.name}: a column of text is called label, a name reserved for the labels; rename it"
        )
    columns: dict[str, Any] = {column: texts_of(frame, column) for column in read}
    refuse_without_text(frame, columns, task.text_columns, "text")
    refuse_without_text(frame, columns, task.answer_columns, "answer")
    if "label" in task.columns:
        if not rows.label:
            raise InvalidInputError(f"task {task.name}: give the column of the label (label under [rows])")
        columns["label"] = label_numbers(task, rows, frame)
    if rows.client:
        refuse_rows(frame, [is_empty(value) for value in frame[rows.client]], f"no client in {rows.client}")
        columns[CLIENT] = [str(value).strip() for value in frame[rows.client]]
    elif CLIENT in frame:
        columns[CLIENT] = frame[CLIENT].tolist()
    return pd.DataFrame({**columns, PLACE: frame[PLACE].tolist()})


def check_columns(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse rows without one of the columns.

    Raises:
        InvalidInputError: names the missing column and the existing ones.
    """
    for column in columns:
        if column not in frame:
            there = [name for name in frame.columns if name not in (PLACE, CLIENT)]
            raise InvalidInputError(f"the rows have no column {in_short(column)}; they have {name_some(there, 12)}")


def texts_of(frame: pd.DataFrame, column: str) -> list[str]:
    """A column as text; an empty cell is an empty text.

    Raises:
        InvalidInputError: a cell has a list or an object, or half of a character.
    """
    values = _values(frame, column, "a text", "name another column")
    texts = ["" if is_empty(value) else str(value) for value in values]
    refuse_rows(frame, [*map(_HALF.search, texts)], f"column {column} has half of a character", "remove it")
    return texts


def _values(frame: pd.DataFrame, column: str, expected: str, cure: str) -> list[Any]:
    """A column's values.

    Raises:
        InvalidInputError: one is a list, an object or bytes in place of ``expected``.
    """
    values = frame[column].tolist()
    invalid = [value for value in values if isinstance(value, _NO_VALUE)]
    if invalid:
        first = invalid[0][0] if isinstance(invalid[0], list) and invalid[0] else None
        if isinstance(first, dict) and "content" in first:
            cure = "write each conversation as a column of questions and one of answers"
        what = f"column {column} has a {type(invalid[0]).__name__} in place of {expected}"
        refuse_rows(frame, [isinstance(value, _NO_VALUE) for value in values], what, cure)
    return values


def refuse_without_text(
    frame: pd.DataFrame, texts: dict[str, list[str]], columns: Sequence[str], what: str = "text"
) -> None:
    """Refuse a row whose texts in all these columns are empty.

    Raises:
        InvalidInputError: names the places of such rows.
    """
    if columns:
        empty_R = [not "".join(parts).strip() for parts in zip(*(texts[column] for column in columns), strict=True)]
        refuse_rows(frame, empty_R, f"no {what} in {' or '.join(columns)}", "remove such rows, or fill them in")


def refuse_rows(
    frame: pd.DataFrame, wrong_R: Sequence[bool], what: str, cure: str = "correct or remove such rows"
) -> None:
    """Refuse rows.

    Args:
        wrong_R: for each row, whether it is wrong.
        what, cure: the problem and its remedy, for the message.

    Raises:
        InvalidInputError: a row is wrong; names the places of the first ones.
    """
    places = [where for where, wrong in zip(frame[PLACE], wrong_R, strict=True) if wrong]
    if places:
        more = f" ({len(places)} such rows: {name_some(places[1:], 3)})" if len(places) > 1 else ""
        raise InvalidInputError(f"{places[0]}: {what}{more}; {cure}")


def label_text(value: Any) -> str:
    """A label's value as text: 1, 1.0, "1", "1.0" and " 1 " are one label, and so are true and "True"."""
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def look_of(text: str) -> str:
    """A label without differences that a person does not see: case, kinds of spaces, encodings of an accent."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def label_texts(frame: pd.DataFrame, column: str) -> list[str]:
    """Each row's label as text; empty for a row without label.

    Raises:
        InvalidInputError: a list, an object or bytes in place of a label.
    """
    cure = "give each row one label as a text or a number, or name another column"
    values = _values(frame, column, "one label", cure)
    return ["" if is_empty(value) else label_text(value) for value in values]


def with_labels(rows: TableRows, frame: pd.DataFrame) -> tuple[TableRows, tuple[str, ...]]:
    """Read the labels of the column ``rows.label``: ``rows`` with its ``label_values``, and the labels. They are in the
    order of the file's own names if it has any; else whole numbers in numeric order; else in alphabetical order.

    Raises:
        InvalidInputError: fewer than two labels, more than :data:`MAX_LABELS`, or two that look alike.
    """
    column, texts = rows.label, label_texts(frame, rows.label)
    labels = sorted({*texts} - {""})
    elsewhere = "name another column of labels (--label), or one of answers to generate (--answer)"
    if len(labels) < 2:
        only = f"one label only, {in_short(labels[0])}" if labels else "no label"
        raise InvalidInputError(f"column {column} has {only}; a classification needs at least two labels: {elsewhere}")
    if len(labels) > MAX_LABELS:
        raise InvalidInputError(
            f"column {column} has {len(labels):,} different labels and a classification has at most {MAX_LABELS:,}: "
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
    """The label of each row as 0..C-1, int64 (R,), from its name, its value or its number.

    A number is a place in the order of the task's labels. If the labels were read from rows, this order is only
    alphabetical: then ``label_values`` has the names, and numbers are refused.

    Raises:
        InvalidInputError: a row has no label, or one that the task does not have.
    """
    if not task.label_names:
        raise InvalidInputError(f"task {task.name} names no labels; task_for(task) reads them from its rows")
    texts = label_texts(frame, rows.label)
    refuse_rows(frame, [not text for text in texts], f"no label in {rows.label}")
    number_of = {
        label_text(value): number
        for values in (task.label_names, rows.label_values)  # values override names
        for number, value in enumerate(values)
    }
    known = f"the task's labels are {name_some(task.label_names, 12)}"
    if not number_of.keys() & {*texts} and all(text.isdigit() for text in texts):
        if rows.label_values:
            raise InvalidInputError(
                f"{frame[PLACE].iloc[0]}: labels are numbers and {known}; write the names, or list the "
                "numbers in the order of label_names: label_values = [...] under [rows] of a task file"
            )
        number_of = {str(number): number for number in range(task.num_classes)}
    unknown = [text for text in texts if text not in number_of]
    if unknown:
        alike = [label for label in number_of if look_of(label) == look_of(unknown[0])]
        refuse_rows(
            frame,
            [text not in number_of for text in texts],
            f"unknown label {in_short(unknown[0])}" + (f", which looks like {in_short(alike[0])}" if alike else ""),
            f"{known}: correct the row, or add the label to the training rows",
        )
    return np.array([number_of[text] for text in texts], dtype=np.int64)


def text_rows(task: Task, texts: Texts | TableRows) -> pd.DataFrame:
    """The columns of the task's prompt and options, as text.

    Raises:
        InvalidInputError: a column is missing, or a row has no text; names file and line if rows are from a file.
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
        raise InvalidInputError(f"the run reads several columns ({names}); give a mapping from each column to its text")
    return {task.text_columns[0]: item}


def labelled_rows(task: Task, table: Table, label: str | None = None, client: str | None = None) -> pd.DataFrame:
    """The task's columns of a file or a table: texts, ``label`` as 0..C-1 (int64), and CLIENT if rows name clients.

    Args:
        label, client: columns; default: those of the run's rows, and ``label`` for a built-in task. Each file of a
            pattern such as ``clients/*.csv`` is a client.

    Raises:
        InvalidInputError, MissingDataError: no such file or column; a row has no text or label, or the run was not
            trained on its label; names file and line.
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
