"""Parquet tables with a checksum of what they hold: pages have their own, the file's metadata has one of all values.

Tables without one, of an earlier version or of another program, are read as they are.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from zorba_core.data.unpacked_size import check_parquet
from zorba_core.errors import InvalidInputError
from zorba_core.files import as_named, atomic_path

_KEY = b"zorba_sha256"
# What pyarrow raises for bytes that are no table, or are one that it cannot read.
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
_MOST_BYTES = 2**30  # of a table in memory: a small damaged file can claim any number of rows


def write_table(path: Path, table: pa.Table) -> None:
    """Write atomically."""
    table = table.replace_schema_metadata({_KEY: _digest(table).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_table(path: Path, most_rows: int) -> pa.Table:
    """
    Raises:
        InvalidInputError: too many rows, or a checksum that does not fit.
        Exception: one of ``UNREADABLE``: no table.
    """
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise InvalidInputError("it is something else than a file")
    with pq.ParquetFile(as_named(path), page_checksum_verification=True) as file:
        groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
        grouped = sum(group.num_rows for group in groups)
        if file.metadata.num_rows != grouped:
            raise InvalidInputError(f"it says {file.metadata.num_rows} rows and has {grouped}: it was damaged")
        if grouped > most_rows:
            raise InvalidInputError(f"{grouped} rows are too many (limit {most_rows})")
        if sum(max(group.total_byte_size, 0) for group in groups) > _MOST_BYTES:
            raise InvalidInputError(f"it unpacks to more than {_MOST_BYTES} bytes")
        check_parquet(file, most_rows)
        table = file.read()
    stated = (table.schema.metadata or {}).get(_KEY)
    if stated is None and _KEY in _footer(path):
        raise InvalidInputError("its checksum is there and cannot be read: it was damaged")
    if stated is not None and stated != _digest(table).encode():
        raise InvalidInputError("its checksum does not fit what it holds: it was damaged or changed")
    return table


def has_checksum(path: Path) -> bool:
    """Whether a table that could be read carries one."""
    return _KEY in (pq.read_schema(as_named(path)).metadata or {})


def _footer(path: Path) -> bytes:
    """The bytes of the file's metadata, whatever a reader makes of them."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - 8  # its length, four bytes, and four of the format's name
        file.seek(end)
        length = min(int.from_bytes(file.read(4), "little"), end)
        file.seek(end - length)
        return file.read(length)


def _digest(table: pa.Table) -> str:
    """SHA-256 of names, types, nulls and values, the same in every version of pyarrow."""
    sha = hashlib.sha256(str(table.num_rows).encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = str(column.type).replace("<element: ", "<item: ")  # a list's items, as made and as read back
        sha.update(f"|{name}|{kind}|".encode())
        sha.update(column.is_null().to_numpy(zero_copy_only=False).tobytes())
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            filled = column.fill_null(pa.scalar(0, column.type))
            sha.update(filled.to_numpy(zero_copy_only=False).tobytes())
        else:
            for value in column.to_pylist():
                text = repr(value).encode("utf-8", "backslashreplace")
                sha.update(len(text).to_bytes(8, "little") + text)
    return sha.hexdigest()
