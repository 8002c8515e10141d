"""A task as a TOML file beside its rows, and as the plain table that a run's config keeps.

    name = "tickets"
    prompt = "{subject} {body} Topic:"
    label_words = ["billing", "crash", "login"]     # for each of label_names; both may be left out

    [rows]
    train = "tickets.csv"                           # beside this file; or "clients/*.csv", one file a client
    test = "tickets-test.csv"                       # or test_fraction = 0.2
    label = "topic"
    client = "branch"

Keys are the fields of :class:`Task`, and under ``[rows]`` those of :class:`TableRows`, or with ``hub`` of
:class:`PublishedRows`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from zorba_core.data.tables import text_of_file
from zorba_core.data.task import MadeRows, PublishedRows, TableRows, Task
from zorba_core.errors import InvalidInputError, MissingDataError, first_line, in_short

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_Kind = TypeVar("_Kind", Task, TableRows, PublishedRows)


def read_task(path: str | os.PathLike[str]) -> Task:
    """The task of a TOML file. Labels that it does not name are read from the rows by
    :func:`zorba_core.data.infer.task_for`.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: not TOML, or not of a task; names the file and the key.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"task file {str(path)!r} does not exist")
    try:
        return task_from(tomllib.loads(text_of_file(path)), path.parent)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{path}: not TOML: {first_line(error)}") from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None


def task_from(table: Mapping[str, Any], folder: str | os.PathLike[str] = ".", *, made: MadeRows | None = None) -> Task:
    """The task that a table describes; its paths are beside ``folder``. ``made``: its rows, instead of ``[rows]``.

    Raises:
        InvalidInputError: an unknown key, or a value that cannot be.
    """
    rows = table.get("rows")
    if not isinstance(rows, Mapping):
        raise InvalidInputError('the table [rows] is missing; it says where the rows are: train = "tickets.csv"')
    return _validated(Task, {**table, "rows": made or _rows_from(rows, Path(folder))})


def _rows_from(rows: Mapping[str, Any], folder: Path) -> TableRows | PublishedRows:
    if "hub" in rows:
        return _validated(PublishedRows, dict(rows), "[rows] ")
    paths = {name: folder / os.path.expanduser(str(rows[name])) for name in ("train", "test") if name in rows}
    return _validated(TableRows, {**rows, **paths}, "[rows] ")


def _validated(kind: type[_Kind], table: dict[str, Any], where: str = "") -> _Kind:
    try:
        return TypeAdapter(kind).validate_python(table)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if first["type"] == "unexpected_keyword_argument":
            known = ", ".join(field.name for field in fields(kind))
            problem = f"has an unknown key {in_short(name)}; it has {known}"
            raise InvalidInputError(f"{where or 'a task '}{problem}") from None
        if first["type"] == "missing":
            raise InvalidInputError(f"{where}the key {name} is missing") from None
        raise InvalidInputError(f"{where}{name} is {in_short(first['input'])}: {first['msg'].lower()}") from None


def table_of(task: Task) -> dict[str, Any]:
    """All that is needed to read rows of the same form again, as :func:`task_from` reads it. Paths are whole."""
    return {**_said(task, "rows"), "rows": _said(task.rows)}


def _said(part: Any, *without: str) -> dict[str, Any]:
    """The fields that differ from their defaults, as plain values; a table in memory is no plain value."""
    said = {}
    for field in fields(part):
        value = getattr(part, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        default = getattr(default, "default", default)  # pydantic's Field
        if field.name not in without and not isinstance(value, pd.DataFrame) and value not in (default, {}):
            said[field.name] = list(value) if isinstance(value, tuple) else value
    return said


def to_toml(task: Task, comment: str = "") -> str:
    """The task as the text of a TOML file."""
    table = table_of(task)
    rows = table.pop("rows")
    lines = [*(f"# {line}" for line in comment.splitlines()), *_lines(table), "", "[rows]", *_lines(rows)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{name if _BARE_KEY.fullmatch(name) else _value(name)} = {_value(value)}" for name, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_lines(value))} }}"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")  # a JSON text is a TOML text
