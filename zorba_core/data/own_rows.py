"""Read a user's rows from files or a table in memory, and turn them into the columns of a task.

Shapes: R rows.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.compute

from zorba_core.data.cells import as_spelled, check_columns, look_of, refuse_rows, refuse_without_text, texts_of
from zorba_core.data.conversations import with_questions
from zorba_core.data.labels import label_numbers, label_text
from zorba_core.data.sources import Files, files_of, stamps_of, stamps_of_files
from zorba_core.data.split import held_out
from zorba_core.data.task import CLIENT, PLACE, Table, TableRows, Task, checked_table
from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some
from zorba_core.tables import is_empty, place, plain_values, read_table

Texts = str | Mapping[str, str] | Sequence[str | Mapping[str, str]] | pd.DataFrame


def read(task: Task, rows: TableRows, split: str) -> pd.DataFrame:
    """The prepared rows of a split of a task with a user's rows: those of the test file, or a part of the rows by
    a hash of their text.

    Raises:
        InvalidInputError, MissingDataError: as :func:`read_rows` and :func:`prepared`.
    """
    task, of_test, stamps = _first_read(task), split == rows.evaluation_split, stamps_of(rows)
    if rows.test is None and files_of(rows, "test") is None:
        frame = _divided(task, rows, stamps)[of_test]
    else:
        frame = _prepared(task, rows, "test" if of_test else "train", stamps)
    frame.attrs = {"source": rows.origin, "note": ""}
    return frame


# A run reads its rows several times, so they are cached. A changed file has other ``stamps``.


def _first_read(task: Task) -> Task:
    """The first task with the same prepared rows. Prompts over the same columns share them, so that a run whose prompt
    is chosen does not prepare its rows twice."""
    same = _alike(task.rows, task.name, task.kind, task.columns, task.label_names, task.options, task.answer)
    if not same:
        same.append(task)
    return same[0]


@functools.lru_cache(maxsize=8)
def _alike(*what: Any) -> list[Task]:
    return []


@functools.lru_cache(maxsize=4)
def _prepared(task: Task, rows: TableRows, which: str, stamps: tuple[Any, ...]) -> pd.DataFrame:
    frame = read_rows(rows, which)
    if which == "test" and rows.label and rows.label not in as_spelled(frame, [rows.label]):
        files = files_of(rows, "test")
        where = "the test rows" if files is None else name_some([os.path.basename(file) for file in files.files], 3)
        raise InvalidInputError(
            f"{where}: no column {in_short(rows.label)} to test on; give rows with labels (--test FILE), or the "
            "training file alone (--data FILE), of which a part is then tested"
        )
    return prepared(task, rows, frame)


@functools.lru_cache(maxsize=2)
def _divided(task: Task, rows: TableRows, stamps: tuple[Any, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows to train on and the rows to test on, if no file has the latter."""
    frame = prepared(task, rows, read_rows(rows))
    in_test_R = held_out(task, frame, rows.test_fraction)
    return frame.loc[~in_test_R].reset_index(drop=True), frame.loc[in_test_R].reset_index(drop=True)


def read_rows(rows: TableRows, which: str = "train") -> pd.DataFrame:
    """All columns of the file, files or table, and PLACE; CLIENT if each file is a client. If a file has names for the
    numbers of its labels, these replace the numbers; ``attrs["names"]`` has them in order, by column.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.tables.read_table`.
    """
    given = table if isinstance(table := getattr(rows, which), pd.DataFrame) else files_of(rows, which)
    if given is None:
        raise MissingDataError(
            "these rows were a table in memory, which is not saved with a run: give them again (data=, or --data FILE)"
        )
    if isinstance(given, pd.DataFrame):
        frame = _plain_frame(given)
        return with_questions(frame.assign(**{PLACE: _places("row ", pd.RangeIndex(1, len(frame) + 1))}))
    return _read_files(given, rows.encoding, rows.sheet, stamps_of_files(given.files)).copy(deep=False)


def _plain_frame(given: pd.DataFrame) -> pd.DataFrame:
    """A user's DataFrame with texts as names of columns; levels of the index that have a name are columns too."""
    levels = [name for name in given.index.names if name is not None and name not in given.columns]
    whole = given.reset_index(levels) if levels else given
    names = [" ".join(filter(None, map(str, name))) if isinstance(name, tuple) else str(name) for name in whole.columns]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInputError(f"rows in memory: two columns are called {in_short(twice[0])}; give each its own name")
    columns = {name: plain_values(whole.iloc[:, place]) for place, name in enumerate(names)}
    return pd.DataFrame(columns, dtype=object)


@functools.lru_cache(maxsize=2)
def _read_files(given: Files, encoding: str, sheet: str | None, stamps: tuple[Any, ...]) -> pd.DataFrame:
    """The rows of all files in one table. ``stamps`` is the key of the cache: it differs if a file has changed."""
    parts = [_read_file(file, encoding, sheet) for file in given.files]
    for part, client in zip(parts, given.clients, strict=False):
        part[CLIENT] = client
    parts, spelled = _spelled_alike(parts, given.files)
    frame, names = parts[0] if len(parts) == 1 else pd.concat(parts), {}
    for column, of_file in chain.from_iterable(part.attrs["names"].items() for part in parts):
        names[column] = list(dict.fromkeys([*names.get(column, []), *of_file]))
    pairs = list(zip(parts, given.files, strict=True))
    partial = {column: os.path.basename(file) for part, file in pairs for column in {*frame} - {*part}}
    formulas = dict(chain.from_iterable(part.attrs.get("formulas", {}).items() for part in parts))
    frame.attrs = {"names": names, "partial": partial, "spelled": spelled, "sheets": parts[0].attrs.get("sheets", ())}
    frame.attrs["formulas"] = formulas
    return with_questions(frame.reset_index(drop=True))


def _spelled_alike(parts: Sequence[pd.DataFrame], files: Sequence[str]) -> tuple[list[pd.DataFrame], list[str]]:
    """The tables with the most common spelling of each header, and a phrase for each other one."""
    counts: dict[str, Counter[str]] = {}
    for part in parts:
        for column in part:
            counts.setdefault(look_of(column), Counter())[column] += 1
    usual = [count.most_common(1)[0][0] for count in counts.values()]
    if all(len(count) == 1 for count in counts.values()):
        return list(parts), []
    alike = [as_spelled(part, usual) for part in parts]
    changed = [
        f"{before} in {os.path.basename(file)} is read as {after}"
        for part, other, file in zip(parts, alike, files, strict=True)
        for before, after in zip(part, other, strict=True)
        if before != after
    ]
    return alike, changed


def _read_file(file: str, encoding: str, sheet: str | None) -> pd.DataFrame:
    frame = read_table(file, encoding, sheet)
    for column, names in frame.attrs.setdefault("names", {}).items():
        name_of = {-1: None, **dict(enumerate(names))}  # in datasets -1 means no label
        frame[column] = [name_of.get(value, value) if isinstance(value, int) else value for value in frame[column]]
    return frame.assign(**{PLACE: _places(place(file, ""), frame.index)})


def _places(before: str, numbers: pd.Index) -> pd.api.extensions.ExtensionArray:
    """The place of each row, in Arrow's compact form: a string each would take as much memory as the texts."""
    written = pyarrow.compute.cast(pyarrow.array(numbers), pyarrow.string())
    joined = pyarrow.compute.call_function("binary_join_element_wise", [before, written, ""])
    return pd.array(joined, dtype="string[pyarrow]")


def prepared(task: Task, rows: TableRows, frame: pd.DataFrame) -> pd.DataFrame:
    """The task's columns of a table from :func:`read_rows`: texts as str, ``label`` as 0..C-1, CLIENT and PLACE.

    Raises:
        InvalidInputError: a column is missing, or a row has no text, label or client; names file and line.
    """
    read = tuple(dict.fromkeys((*task.text_columns, *task.answer_columns)))
    named = [column for column in (rows.label, rows.client) if column]
    frame = as_spelled(frame, [*read, *named])
    one_text = task.text_columns if len(task.text_columns) == 1 else ()
    check_columns(frame, [*read, *named], filled=[*named, *one_text, *task.answer_columns])
    if "label" in read:
        raise InvalidInputError(
            f"task {task.name}: a column of text is called label, a name reserved for the labels; rename it"
        )
    columns: dict[str, Any] = {column: texts_of(frame, column) for column in read}
    refuse_without_text(frame, columns, task.text_columns, "text")
    refuse_without_text(frame, columns, task.answer_columns, "answer")
    if "label" in task.columns:
        columns["label"] = label_numbers(task, rows, frame)
    if rows.client:
        refuse_rows(frame, [is_empty(value) for value in frame[rows.client]], f"no client in {rows.client}")
        columns[CLIENT] = [label_text(value) for value in frame[rows.client]]
    elif CLIENT in frame:
        columns[CLIENT] = frame[CLIENT].tolist()
    # As objects, the cells of all tables share their strings; pandas' own type of text would copy them.
    made = {name: values if name == "label" else pd.Series(values, dtype=object) for name, values in columns.items()}
    return pd.DataFrame({**made, PLACE: frame[PLACE].array})


def text_rows(task: Task, texts: Texts | TableRows) -> pd.DataFrame:
    """The columns of the task's prompt and options, as text.

    Raises:
        InvalidInputError: a column is missing, or a row has no text; names file and line if rows are from a file.
    """
    if not isinstance(texts, TableRows):
        is_table = hasattr(texts, "to_pandas") or (
            isinstance(texts, Mapping) and any(isinstance(value, list | tuple) for value in texts.values())
        )
        if is_table:
            table = checked_table(texts)
        elif isinstance(texts, pd.DataFrame):
            table = texts
        else:
            items = [texts] if isinstance(texts, str | Mapping) else texts
            table = pd.DataFrame([_row_of(task, item) for item in items])
        if table.empty:
            raise InvalidInputError("there are no rows to predict: give at least one text")
        texts = TableRows(table)
    frame = read_rows(texts)
    options = task.answer_columns if task.kind == "options" else ()
    columns = list(dict.fromkeys((*task.text_columns, *options)))
    frame = as_spelled(frame, columns)
    check_columns(frame, columns)
    read = {column: texts_of(frame, column) for column in columns}
    refuse_without_text(frame, read, task.text_columns, "text")
    return pd.DataFrame(read)


def _row_of(task: Task, item: str | Mapping[str, str]) -> dict[str, str]:
    if isinstance(item, Mapping):
        return dict(item)
    if len(task.text_columns) != 1:
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
    has_test = not isinstance(table, pd.DataFrame) and files_of(rows, "test") is not None
    frame = read_rows(rows, "test" if has_test else "train")  # of the splits of a data set, the test split
    if len(frame) == 0:
        raise InvalidInputError("there are no rows to evaluate on")
    if client is None and own.client in frame:
        rows = replace(rows, client=own.client)
    return prepared(task, rows, frame)
