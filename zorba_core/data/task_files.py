"""A task as a TOML file beside its rows, and as the plain table that a run's config keeps.

    name = "tickets"
    prompt = "{subject} {body} Topic:"
    label_words = ["billing", "crash", "login"]     # for each of label_names; both may be left out

    [rows]
    train = "tickets.csv"                           # beside this file; or "clients/*.csv", one file a client
    test = "tickets-test.csv"                       # or test_fraction = 0.2
    label = "topic"
    client = "branch"

Keys are the fields of :class:`Task` and of :class:`zorba_core.data.file_rows.FileRows`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from zorba_core.data.file_rows import FileRows, FrameRows, check_rows_table, rows_from
from zorba_core.data.sources import PublishedRows, RowSource
from zorba_core.data.tasks import TASKS, Task
from zorba_core.errors import InvalidInputError, MissingDataError, in_short

MAX_BYTES = 4_000_000
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_task(path: str | os.PathLike[str]) -> Task:
    """The task of a TOML file.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: not TOML, or not of a task; names the file and the key.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"task file {str(path)!r} does not exist")
    if path.stat().st_size > MAX_BYTES:
        raise InvalidInputError(f"{path}: larger than {MAX_BYTES:,} bytes, which is no task file")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: not TOML: {str(error).splitlines()[0]}") from None
    try:
        return task_from(table, path.parent)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None


def task_from(
    table: Mapping[str, Any], folder: str | os.PathLike[str] = ".", *, source: RowSource | None = None
) -> Task:
    """The task that a table describes; its paths are beside ``folder``. ``source``: its rows, instead of ``[rows]``.

    Raises:
        InvalidInputError: an unknown key, or a value that cannot be.
    """
    fields = {field.name: field for field in dataclasses.fields(Task) if field.name != "rows"}
    values = {}
    for name, value in table.items():
        if name == "rows":
            continue
        if name not in fields:
            raise InvalidInputError(
                f"unknown key {in_short(name)}; a task has {', '.join(fields)} and the table [rows]"
            )
        values[name] = _checked(name, value, fields[name])
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING:
            raise InvalidInputError(f"the key {name} is missing")
    rows = table.get("rows")
    if not isinstance(rows, Mapping):
        raise InvalidInputError('the table [rows] is missing; it says where the rows are: train = "tickets.csv"')
    return Task(**values, rows=source or source_from(rows, Path(folder)))


def source_from(rows: Mapping[str, Any], folder: Path) -> RowSource:
    """The source of rows that a table ``[rows]`` describes: files, a set of the hub, or none yet."""
    if "train" in rows:
        return rows_from(rows, folder)
    if "hub" in rows:
        return published_from(rows)
    return FrameRows(**_frame(rows))


def published_from(
    rows: Mapping[str, Any], in_base: Callable[[pd.DataFrame], list[bool]] | None = None
) -> PublishedRows:
    """A published set: ``hub`` and, where it has them, ``config``, ``train_split``, ``evaluation_splits``, ``columns``
    (ours = published), ``label_values``; ``folder`` below ZORBA_DATA.

    Raises:
        InvalidInputError: an unknown key, or a value of another kind.
    """
    fields = {field.name: field for field in dataclasses.fields(PublishedRows) if field.name != "in_base"}
    for name, value in rows.items():
        if name not in fields:
            raise InvalidInputError(
                f"[rows] has an unknown key {in_short(name)}; of the hub's it has {', '.join(fields)}"
            )
        _checked(name, value, fields[name])
        if name == "columns" and not (
            isinstance(value, Mapping) and all(isinstance(published, str) for published in value.values())
        ):
            raise InvalidInputError(f"[rows] columns is {in_short(value)}; it must be a table of texts")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in rows.items()}
    return PublishedRows(**values, in_base=in_base)


def _frame(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Rows without a place: those of a table in memory, or what a server tells of the form of its clients' rows."""
    if "test" in rows or "encoding" in rows:
        raise InvalidInputError("[rows] has no train: the file with the rows")
    check_rows_table(rows)
    return {"train": None, **rows}


_KINDS = {  # of a field's annotation
    "str": (lambda value: isinstance(value, str), "text"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "float": (lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number"),
    "tuple[str, ...]": (
        lambda value: isinstance(value, list | tuple) and all(isinstance(item, str) for item in value),
        "a list of texts",
    ),
}


def _checked(name: str, value: Any, field: dataclasses.Field) -> Any:
    fits, words = _KINDS.get(str(field.type).removesuffix(" | None"), (lambda value: True, ""))
    if not fits(value):
        raise InvalidInputError(f"{name} is {in_short(value)}; it must be {words}")
    return tuple(value) if isinstance(value, list) else value


def table_of(task: Task) -> dict[str, Any]:
    """All that is needed to read rows of the same form again, as :func:`task_from` reads it. Paths are whole."""
    table = {
        field.name: _plain(getattr(task, field.name))
        for field in dataclasses.fields(Task)
        if field.name != "rows" and (field.default is dataclasses.MISSING or getattr(task, field.name) != field.default)
    }
    rows = {
        field.name: _plain(getattr(task.rows, field.name))
        for field in dataclasses.fields(task.rows)
        if not field.name.startswith("_") and field.name not in _in_memory(task.rows)
    }
    defaults = {field.name: field.default for field in dataclasses.fields(task.rows)}
    said = {name: value for name, value in rows.items() if value != _plain(defaults[name]) and value != {}}
    return {**table, "rows": {name: value for name, value in said.items() if name != "in_base"}}


def has_files(task: Task) -> bool:
    """Whether the task's rows are a user's own, in files or a table in memory."""
    return isinstance(task.rows, FileRows | FrameRows)


def is_own(task: Task) -> bool:
    """Whether no name says which task it is: a run on it keeps the task beside its config."""
    return has_files(task) or (isinstance(task.rows, PublishedRows) and task.name not in TASKS)


def to_toml(task: Task, comment: str = "") -> str:
    """The task as the text of a TOML file."""
    table = table_of(task)
    rows = table.pop("rows")
    lines = [*(f"# {line}" for line in comment.splitlines()), *_lines(table), "", "[rows]", *_lines(rows)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{name if _BARE_KEY.fullmatch(name) else _value(name)} = {_value(value)}" for name, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_lines(value))} }}" if value else "{}"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")  # a JSON text is a TOML text


def _in_memory(rows: Any) -> tuple[str, ...]:
    return ("train", "test") if isinstance(rows, FrameRows) else ()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
