"""Tables in files of four formats, read as they are and written back with further columns.

CSV and TSV cells stay the text that they are ("007" is no number), JSON Lines keep their objects, Parquet its types.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from zorba_core.errors import InvalidInputError, MissingDataError, in_short
from zorba_core.files import atomic_path, check_target

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
MAX_BYTES = 2**30
_DELIMITERS = ",;\t|"


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table as read. ``frame`` has its cells as they stand in the file."""

    path: Path
    frame: pd.DataFrame

    def write(self, target: str | os.PathLike[str], added: Mapping[str, Sequence[Any]]) -> None:
        """Write the rows with the columns ``added`` behind the others, whole or not at all, in the target's format.

        Raises:
            InvalidInputError: the target is unusable, or has a column of such a name already.
        """
        target = Path(target)
        self.check_columns(added)
        writer = _writer_of(target)
        with atomic_path(target) as temporary:
            writer(temporary, self, added)

    def check_columns(self, names: Sequence[str] | Mapping[str, Any]) -> None:
        """Refuse to add a column that is there already."""
        taken = [name for name in names if name in self.frame.columns]
        if taken:
            raise InvalidInputError(
                f"{self.path}: it has a column {taken[0]!r} already; rename or remove it, since the output gets one"
            )


def read_table(path: str | os.PathLike[str]) -> TableFile:
    """Read a CSV, TSV, JSON Lines or Parquet file, by the end of its name.

    Raises:
        MissingDataError: there is no such file.
        InvalidInputError: another format, too large, no rows, or damaged; names the line where there are lines.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"{path}: there is no such file")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInputError(f"{path}: {_WANTED}")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise InvalidInputError(
            f"{path}: {size / 2**30:.1f} GiB is more than the limit of {MAX_BYTES // 2**30} GiB; split the file"
        )
    try:
        frame = reader(path)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path}: not UTF-8 (byte {error.start} of a block cannot be read); save it as UTF-8"
        ) from None
    if frame.empty:
        raise InvalidInputError(f"{path}: there are no rows")
    return TableFile(path, frame)


def check_output(target: str | os.PathLike[str]) -> None:
    """Refuse, before anything is computed, a file that exists, another format, or a folder that is not there.

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


def _read_csv(path: Path) -> pd.DataFrame:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=_delimiter(path, file), strict=True)
        try:
            header = next(reader, None)
            if not header or not any(name.strip() for name in header):
                raise InvalidInputError(f"{path}: the first line must name the columns, and it is empty")
            twice = {name for name in header if header.count(name) > 1}
            if twice:
                raise InvalidInputError(f"{path}: two columns have the name {sorted(twice)[0]!r}; rename one")
            rows = list(_csv_rows(path, reader, len(header)))
        except csv.Error as error:
            raise InvalidInputError(f"{path}: line {reader.line_num} cannot be read: {error}") from None
    return pd.DataFrame(rows, columns=header, dtype=object)


def _csv_rows(path: Path, reader: Any, width: int) -> Iterator[list[str]]:
    for row in reader:
        if not row:
            continue  # an empty line
        if len(row) != width:
            raise InvalidInputError(
                f"{path}: line {reader.line_num} has {len(row)} cells and the first line names {width} columns; "
                "put text with a separator in it between quotes"
            )
        yield row


def _delimiter(path: Path, file: IO[str]) -> str:
    """A TSV's tab; of a CSV the separator that its first line has most of."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    first = file.readline(2**16)
    file.seek(0)
    return max(_DELIMITERS, key=first.count)


def _read_jsonl(path: Path) -> pd.DataFrame:
    rows = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise InvalidInputError(f"{path}: line {number} is not JSON: {in_short(line.strip())}") from None
            if not isinstance(row, dict):
                raise InvalidInputError(f"{path}: line {number} holds a {type(row).__name__}, not an object {{...}}")
            rows.append(row)
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in _names(rows)})


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pq.read_table(path).to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _write_csv(target: Path, table: TableFile, added: Mapping[str, Sequence[Any]], delimiter: str = ",") -> None:
    if table.path.suffix.lower() == ".csv" and delimiter == ",":
        with table.path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(table.path, file)
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow([*table.frame.columns, *added])
        for row in zip(*(table.frame[name] for name in table.frame), *added.values(), strict=True):
            writer.writerow(["" if cell is None else cell for cell in row])


def _write_tsv(target: Path, table: TableFile, added: Mapping[str, Sequence[Any]]) -> None:
    _write_csv(target, table, added, "\t")


def _write_jsonl(target: Path, table: TableFile, added: Mapping[str, Sequence[Any]]) -> None:
    frame = table.frame.assign(**added)
    with target.open("w", encoding="utf-8") as file:
        for row in frame.to_dict("records"):
            file.write(json.dumps(row, ensure_ascii=False, default=_plain) + "\n")


def _write_parquet(target: Path, table: TableFile, added: Mapping[str, Sequence[Any]]) -> None:
    if table.path.suffix.lower() == ".parquet":
        content = pq.read_table(table.path)
        for name, values in added.items():
            content = content.append_column(name, pa.array(values))
    else:
        content = pa.Table.from_pandas(table.frame.assign(**added), preserve_index=False)
    pq.write_table(content, target)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


_READERS: Mapping[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
_WRITERS: Mapping[str, Callable[[Path, TableFile, Mapping[str, Sequence[Any]]], None]] = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
_WANTED = f"the end of the name says the format; use one of {', '.join(SUFFIXES)}"


def _writer_of(target: Path) -> Callable[[Path, TableFile, Mapping[str, Sequence[Any]]], None]:
    writer = _WRITERS.get(target.suffix.lower())
    if writer is None:
        raise InvalidInputError(f"{target}: {_WANTED}")
    return writer
