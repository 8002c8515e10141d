"""The tasks of this package from their TOML files. Only here may a file name code of ours: how its rows are made, or
which of them only make-base reads."""

from __future__ import annotations

import tomllib
from pathlib import Path

from zorba_core.data.division import by_hash_of
from zorba_core.data.sources import MadeRows, RowSource
from zorba_core.data.task_files import published_from, task_from
from zorba_core.data.tasks import Task
from zorba_core.registry import imported


def read(name: str) -> Task:
    """The task of ``NAME.toml`` beside this module."""
    path = Path(__file__).with_name(f"{name}.toml")
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return task_from(table, path.parent, source=_source(table["rows"]))


def _source(rows: dict) -> RowSource:
    if "made_by" in rows:
        return MadeRows(imported(rows["made_by"]), rows["origin"], splits=tuple(rows["splits"]))
    hook, column = rows.pop("base_half", None), rows.pop("base_half_by", None)
    in_base = imported(hook) if hook else by_hash_of(column) if column else None
    return published_from(rows, in_base)
