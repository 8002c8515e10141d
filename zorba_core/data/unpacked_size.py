"""What a table's rows take in memory, counted before they are read.

A column of equal texts takes a few bytes of a Parquet file and any amount of memory, and what the file says of its own
sizes is of the packed rows. So the rows are unpacked a few at a time, counted and forgotten; only then are they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zorba_core.errors import InvalidInputError

# As much as the largest text file takes while it is read (zorba_core.data.tables), so 2 GiB of text: the rows are in
# memory twice while they become Python's.
MOST_BYTES = 4 * 2**30
_ROWS = 64  # unpacked at a time: of texts of a million characters 64 MB
_OF_CELL = 48  # bytes of a Python object and of the reference to it


def check_parquet(file: pq.ParquetFile, most_rows: int, most: int = MOST_BYTES, *, columns: Sequence[str] = ()) -> None:
    """Refuse a Parquet file before its rows are read.

    Args:
        most: bytes of memory.
        columns: those that will be read; none: all.

    Raises:
        InvalidInputError: it has more rows, or they take more memory. The message does not name the file.
        pyarrow.ArrowException, OSError: it is damaged.
    """
    metadata = file.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    if rows > most_rows:
        raise InvalidInputError(f"{rows:,} rows are more than {most_rows:,}; use a part of them")
    schema = file.schema_arrow
    fields = [field for field in schema if not columns or field.name in columns]
    fixed = [field.type for field in fields if pa.types.is_primitive(field.type)]
    counted = rows * sum(2 * (-(-kind.bit_width // 8)) + _OF_CELL for kind in fixed)
    _check(counted, most)
    if len(fixed) == len(fields):
        return
    for batch in file.iter_batches(_ROWS, columns=list(columns) or None, use_threads=False):
        variable = (column for column in batch.columns if not pa.types.is_primitive(column.type))
        counted += sum(map(_bytes_of, variable))
        _check(counted, most)


def check_batches(batches: Iterable[pa.RecordBatch], most: int = MOST_BYTES) -> None:
    """Refuse rows that are mapped and not read yet.

    Raises:
        InvalidInputError: they take more than ``most`` bytes of memory. The message does not name the file.
    """
    counted = 0
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            counted += sum(map(_bytes_of, batch.slice(start, _ROWS).columns))
            _check(counted, most)


def _check(counted: int, most: int) -> None:
    if counted > most:
        raise InvalidInputError(
            f"its rows take more than {most / 2**30:g} GiB of memory, which is the limit; use a part of them, or save "
            "the needed columns alone"
        )


def _bytes_of(column: pa.Array) -> int:
    """Bytes of a column's cells, as Arrow's and as Python's objects; what is stored once for many counts for each."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _bytes_of(column.storage)
    if pa.types.is_dictionary(kind):
        return _bytes_of(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _bytes_of(pc.run_end_decode(column))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _bytes_of(column.cast(pa.large_binary()))
    if pa.types.is_struct(kind):
        return _OF_CELL * len(column) + sum(map(_bytes_of, column.flatten()))
    if pa.types.is_map(kind):  # which has no flatten
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        parts = (part.slice(first, last - first) for part in (column.keys, column.items))
        return (_OF_CELL + 8) * len(column) + sum(map(_bytes_of, parts))
    if pa.types.is_nested(kind) and hasattr(column, "flatten"):  # lists of every kind
        return (_OF_CELL + 8) * len(column) + _bytes_of(column.flatten())
    return 2 * column.nbytes + _OF_CELL * len(column)
