"""Tables written back with further columns: what was read stays as it was.

Cells of CSV and TSV stay the text that they are ("007" is no number) and keep their separator, JSON lines their
objects, Parquet its types.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from zorba_core.data.tables import LINE_KINDS, json_lines, read_cached, readable_encoding, separator_of
from zorba_core.errors import InvalidInputError
from zorba_core.files import atomic_path, check_target


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table and the file that it was read from."""

    path: Path
    frame: pd.DataFrame
    encoding: str = "utf-8"

    @classmethod
    def read(cls, path: str | os.PathLike[str], encoding: str = "utf-8") -> TableFile:
        """As :func:`zorba_core.data.tables.read_table`. ``encoding``: of a text file that is not UTF-8."""
        encoding = readable_encoding(path, encoding)
        return cls(Path(path), read_cached(path, encoding), encoding)

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse to add a column that is there already.

        Raises:
            InvalidInputError: names it.
        """
        taken = [name for name in names if name in self.frame.columns]
        if taken:
            raise InvalidInputError(
                f"{self.path}: it has a column {taken[0]!r} already; rename or remove it, since the output gets one"
            )

    def write(self, target: str | os.PathLike[str], added: Mapping[str, Sequence[Any]]) -> None:
        """Write the rows with the columns ``added`` behind the others, whole or not at all, in the target's format.

        Raises:
            InvalidInputError: the target is unusable, or there is a column of such a name already.
        """
        self.check_columns([*added])
        writer = _writer_of(Path(target))
        with atomic_path(target) as temporary:
            writer(temporary, self, added)


def check_output(target: str | os.PathLike[str]) -> None:
    """Refuse, before anything is computed, a file that exists, an unknown format, or a folder that is not there.

    Raises:
        InvalidInputError: one of these.
    """
    target = Path(target)
    _writer_of(target)
    if os.path.lexists(target):
        raise InvalidInputError(f"{target} exists already; give a name that does not")
    if not target.absolute().parent.is_dir():
        raise InvalidInputError(f"cannot write {str(target)!r}: there is no folder {target.parent}; make it first")
    check_target(target)


def _write_csv(target: Path, table: TableFile, added: Mapping[str, Sequence[Any]]) -> None:
    separator = "\t" if target.suffix.lower() == ".tsv" else ","
    if table.path.suffix.lower() == target.suffix.lower():
        separator = separator_of(table.path, table.encoding)
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow([*table.frame.columns, *added])
        for row in zip(*(table.frame[name] for name in table.frame), *added.values(), strict=True):
            writer.writerow(["" if cell is None else cell for cell in row])


def _write_lines(target: Path, table: TableFile, added: Mapping[str, Sequence[Any]]) -> None:
    with target.open("w", encoding="utf-8") as file:
        for row, *values in zip(_objects(table), *added.values(), strict=True):
            line = {**row, **dict(zip(added, values, strict=True))}
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")


def _write_json(target: Path, table: TableFile, added: Mapping[str, Sequence[Any]]) -> None:
    rows = zip(table.frame.to_dict("records"), *added.values(), strict=True)
    content = [{**row, **dict(zip(added, values, strict=True))} for row, *values in rows]
    target.write_text(json.dumps(content, ensure_ascii=False, default=str, indent=1) + "\n", encoding="utf-8")


def _objects(table: TableFile) -> list[dict[str, Any]]:
    if table.path.suffix.lower() in LINE_KINDS:  # an object that lacks a field keeps lacking it
        return json_lines(table.path, table.encoding)
    return table.frame.to_dict("records")


def _write_parquet(target: Path, table: TableFile, added: Mapping[str, Sequence[Any]]) -> None:
    if table.path.suffix.lower() == ".parquet":
        content = pq.read_table(table.path)
    else:
        content = pa.table({name: pa.array(table.frame[name].tolist()) for name in table.frame})
    for name, values in added.items():
        content = content.append_column(name, pa.array(values))
    pq.write_table(content, target)


_Writer = Callable[[Path, TableFile, Mapping[str, Sequence[Any]]], None]
_WRITERS: Mapping[str, _Writer] = {
    ".csv": _write_csv,
    ".tsv": _write_csv,
    **dict.fromkeys(LINE_KINDS, _write_lines),
    ".json": _write_json,
    ".parquet": _write_parquet,
}


def _writer_of(target: Path) -> _Writer:
    writer = _WRITERS.get(target.suffix.lower())
    if writer is None:
        raise InvalidInputError(f"{target}: the end of the name says the format; use one of {', '.join(_WRITERS)}")
    return writer
