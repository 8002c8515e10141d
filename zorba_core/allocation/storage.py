"""Allocations as files: NPZ (the matrix), JSON (block ids per client), CSV (a row per client). Read as data only.

Shapes: M blocks, N clients. ``A_MN`` bool.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np

from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.allocation.problem import Allocation
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import fingerprint, to_json, write_bytes

FORMATS = ("npz", "json", "csv")
MAX_FILE_BYTES = 256_000_000
MAX_CELLS = 1_000_000_000
_HEADER = ("client", "num_blocks", "blocks")


def allocation_to_bytes(allocation: AllocationMetrics, file_format: str) -> bytes:
    """The content of a file that :func:`allocation_from_file` reads back.

    Raises:
        InvalidInputError: a format other than npz, json and csv.
    """
    if file_format == "npz":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, A_MN=allocation.A_MN)
        return buffer.getvalue()
    if file_format == "json":
        shape = {"num_blocks": allocation.num_blocks, "num_clients": allocation.num_clients}
        return to_json({**shape, "blocks_per_client": allocation.blocks_per_client}).encode()
    if file_format == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_HEADER)
        for client, blocks in enumerate(allocation.blocks_per_client):
            writer.writerow((client, allocation.num_blocks, " ".join(map(str, blocks))))
        return text.getvalue().encode()
    raise InvalidInputError(f"unknown allocation format {file_format!r}; use a name that ends in {', '.join(FORMATS)}")


def write_allocation(path: str | os.PathLike[str], allocation: AllocationMetrics) -> None:
    """Write atomically, in the format that the name's ending asks for."""
    write_bytes(path, allocation_to_bytes(allocation, Path(path).suffix.lstrip(".").lower()))


def allocation_from_file(path: str | os.PathLike[str]) -> Allocation:
    """Read an allocation from ``.npz``, ``.json`` or ``.csv``.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: too large, or not what :func:`write_allocation` writes.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"allocation file {str(path)!r} does not exist")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InvalidInputError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    readers = {".npz": _read_npz, ".json": _read_json, ".csv": _read_csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidInputError(f"{path}: unknown format; want a name that ends in {', '.join(FORMATS)}")
    try:
        return reader(path)
    except (InvalidInputError, ValueError, KeyError, TypeError, OverflowError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInputError(f"{path}: not an allocation ({error})") from None


def _read_npz(path: Path) -> Allocation:
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo("A_MN.npy").file_size > MAX_CELLS:  # a small file can unpack to a huge one
            raise ValueError("matrix too large")
    with np.load(path, allow_pickle=False) as arrays:
        return Allocation(arrays["A_MN"])


def _read_json(path: Path) -> Allocation:
    content = json.loads(path.read_text(encoding="utf-8"))
    return _from_ids(content["blocks_per_client"], content["num_blocks"])


def _read_csv(path: Path) -> Allocation:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise ValueError("no rows")
    return _from_ids([[int(block) for block in row["blocks"].split()] for row in rows], int(rows[0]["num_blocks"]))


def _from_ids(blocks_per_client: list[list[int]], num_blocks: int) -> Allocation:
    if num_blocks < 1 or num_blocks * len(blocks_per_client) > MAX_CELLS:
        raise ValueError(f"{num_blocks} blocks for {len(blocks_per_client)} clients")
    return Allocation.from_blocks(blocks_per_client, num_blocks)


def allocation_sha256(allocation: AllocationMetrics) -> str:
    return fingerprint(allocation.blocks_per_client)
