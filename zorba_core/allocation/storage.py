"""Allocations as files: JSON (block ids per client) or CSV (a row per client)."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

from zorba_core import files
from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import MAX_BLOCKS, MAX_CELLS
from zorba_core.errors import InvalidInputError, MissingDataError, in_short

FORMATS = ("json", "csv")
MAX_FILE_BYTES = 256_000_000
_COLUMNS = ("client", "num_blocks", "blocks")
_ANOTHER_COPY = "restore the file from a copy, or write it again"


def allocation_to_bytes(allocation: Allocation, file_format: str) -> bytes:
    """The content of a file that :func:`allocation_from_file` reads back.

    Raises:
        InvalidInputError: a format other than json and csv.
    """
    if file_format == "json":
        shape = {"num_blocks": allocation.num_blocks, "num_clients": allocation.num_clients}
        return files.to_json({**shape, "blocks_per_client": allocation.blocks_per_client}).encode()
    if file_format == "csv":
        text = io.StringIO()
        rows = [(n, allocation.num_blocks, " ".join(map(str, of))) for n, of in enumerate(allocation.blocks_per_client)]
        csv.writer(text, lineterminator="\n").writerows([_COLUMNS, *rows])
        return text.getvalue().encode()
    raise InvalidInputError(f"unknown allocation format {file_format!r}; use a name that ends in {', '.join(FORMATS)}")


def write_allocation(path: str | os.PathLike[str], allocation: Allocation) -> None:
    """Write atomically, in the format that the name's ending asks for."""
    files.write_bytes(path, allocation_to_bytes(allocation, Path(path).suffix.lstrip(".").lower()))


def allocation_sha256(allocation: Allocation) -> str:
    """A fingerprint of who activates which blocks."""
    return files.fingerprint(allocation.blocks_per_client)


def allocation_from_file(path: str | os.PathLike[str]) -> Allocation:
    """Read an allocation from ``.json`` or ``.csv``.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: too large, damaged, or not what :func:`write_allocation` writes.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise MissingDataError(f"allocation file {str(path)!r} does not exist")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InvalidInputError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    readers = {".json": _read_json, ".csv": _read_csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidInputError(f"{path}: unknown format; want a name that ends in {', '.join(FORMATS)}")
    try:
        return reader(path)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: not an allocation ({error})") from None


def _read_json(path: Path) -> Allocation:
    try:
        content = json.loads(_text(path))
    except ValueError:  # also a number of too many digits
        raise InvalidInputError(f"not JSON; {_ANOTHER_COPY}") from None
    try:
        num_blocks, blocks_per_client = content["num_blocks"], content["blocks_per_client"]
    except (KeyError, TypeError):
        raise InvalidInputError("want an object with num_blocks and blocks_per_client") from None
    if not isinstance(blocks_per_client, list) or not all(isinstance(blocks, list) for blocks in blocks_per_client):
        raise InvalidInputError("blocks_per_client must be a list with a list of block ids for each client")
    return _from_ids(blocks_per_client, num_blocks)


def _read_csv(path: Path) -> Allocation:
    """A row per client, in any order: the column ``client`` names the client."""
    reader = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True, skipinitialspace=True)
    try:
        if not {*_COLUMNS} <= {*(reader.fieldnames or ())}:
            raise InvalidInputError(f"its first line must name the columns {','.join(_COLUMNS)}, separated by commas")
        rows = [(int(row["client"]), int(row["num_blocks"]), [*map(int, row["blocks"].split())]) for row in reader]
    except csv.Error:
        raise InvalidInputError(f"not CSV: a quote is left open or a cell is too long; {_ANOTHER_COPY}") from None
    except (TypeError, ValueError, AttributeError):
        raise InvalidInputError(f"line {reader.line_num}: want whole numbers in {', '.join(_COLUMNS)}") from None
    rows.sort()
    if [client for client, _, _ in rows] != list(range(len(rows))):
        raise InvalidInputError(f"{len(rows)} rows must be of the clients 0 to {len(rows) - 1}, each once")
    if len({num_blocks for _, num_blocks, _ in rows}) != 1:
        raise InvalidInputError("num_blocks must be one number in all rows")
    return _from_ids([blocks for _, _, blocks in rows], rows[0][1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"not UTF-8 text; {_ANOTHER_COPY}") from None


def _from_ids(blocks_per_client: list[list[int]], num_blocks: Any) -> Allocation:
    """Refuse a matrix that nobody can hold before it is made."""
    if not _is_whole(num_blocks) or not 1 <= num_blocks <= MAX_BLOCKS:
        raise InvalidInputError(f"num_blocks is {in_short(num_blocks)}; it must be a whole number, 1 to {MAX_BLOCKS}")
    if not 1 <= num_blocks * len(blocks_per_client) <= MAX_CELLS:
        raise InvalidInputError(f"{num_blocks} blocks for {len(blocks_per_client)} clients: not 1 to {MAX_CELLS} cells")
    for client, blocks in enumerate(blocks_per_client):
        if not all(map(_is_whole, blocks)):
            raise InvalidInputError(f"client {client}: block ids must be whole numbers")
    return Allocation.from_blocks(blocks_per_client, num_blocks)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
