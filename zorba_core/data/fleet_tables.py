"""A fleet's table: a column of GiB and, if it is there, one of names; in a CSV, an Excel file or an editor's cells.

What ``nvidia-smi --query-gpu=name,memory.total --format=csv`` prints is such a table too. An error is one sentence.

Shapes: N clients.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some
from zorba_core.planning.fleets import Fleet
from zorba_core.planning.memory import GIB, MAX_CLIENTS, MAX_VRAM_GIB

MAX_BYTES = 64_000_000
NAMES, SIZES = ("client", "name", "gpu"), ("vram_gib", "vram", "gib", "memory_gib")
_OF_NVIDIA_SMI = "memory_total_mib"
_WANT = "give a table with columns client,vram_gib"
_EXCEL = b"PK\x03\x04"
_DECIMAL_COMMA = re.compile(r"\d+,\d+")


def read_fleet_table(source: str | os.PathLike[str] | bytes) -> Fleet:
    """The fleet of a CSV or Excel file (a path, or the bytes themselves).

    Raises:
        MissingDataError: no such file.
        InvalidInputError: too large, no such table, or a row with text, NaN, or a number not above 0.
    """
    where = "uploaded table" if isinstance(source, bytes) else str(source)
    if not isinstance(source, bytes):
        if not os.path.isfile(source):
            raise MissingDataError(f"fleet file {where!r} does not exist; {_WANT}")
        with open(source, "rb") as file:
            source = file.read(MAX_BYTES + 1)
    if len(source) > MAX_BYTES:
        raise InvalidInputError(f"{where}: larger than {MAX_BYTES} bytes; a fleet has at most {MAX_CLIENTS} rows")
    try:
        return _fleet_of(*(_excel_cells(source) if source.startswith(_EXCEL) else _csv_cells(source)))
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None


def fleet_from_frame(frame: pd.DataFrame) -> Fleet:
    """A fleet from a table with a column ``vram_gib`` and, if there is one, ``client``. Rows left wholly empty, as a
    table editor leaves them, are skipped.

    Raises:
        InvalidInputError: wrong columns, no rows, a name given twice, or a cell that is not a number above 0, naming
            row and value.
    """
    return _fleet_of([str(column) for column in frame.columns], frame.to_numpy(object).tolist())


def _csv_cells(content: bytes) -> tuple[list[str], list[list[str]]]:
    """Header and rows, each row as long as the header. The header shows what separates the cells."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"not UTF-8 text; {_WANT} as UTF-8 CSV") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    cells = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        lines = [line for line in cells if line]
    except csv.Error as error:
        raise InvalidInputError(f"not CSV ({error}); {_WANT}") from None
    if not lines:
        raise InvalidInputError(f"the file is empty; {_WANT}")
    header, *rows = lines
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise InvalidInputError(
                f"row {number} has {len(row)} cells and the header {len(header)}: {in_short(separator.join(row))}; "
                "write numbers with a decimal point"
            )
    return header, rows


def _excel_cells(content: bytes) -> tuple[list[str], list[list[object]]]:
    """Of the first sheet."""
    try:
        frame = pd.read_excel(io.BytesIO(content), dtype=object, engine="openpyxl")
    except ImportError:
        raise InvalidInputError("an Excel file needs openpyxl: pip install openpyxl; or save it as CSV") from None
    except Exception:  # a file from outside can be broken in any way
        raise InvalidInputError("the Excel file cannot be read; save it as CSV") from None
    return [str(column) for column in frame.columns], frame.to_numpy(object).tolist()


def _fleet_of(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Fleet:
    columns = [re.sub(r"[^a-z0-9]+", "_", column.lower()).strip("_") for column in header]
    size = _only([column for column in columns if column in (*SIZES, _OF_NVIDIA_SMI)])
    name = _only([column for column in columns if column in NAMES])
    if size is None or len(columns) != (1 if name is None else 2):
        shown = name_some([in_short(column.strip())[1:-1] or "(no name)" for column in header], 8)
        raise InvalidInputError(f"columns are {shown or 'none'}; want client,vram_gib (client may be left out)")
    in_mib = size == _OF_NVIDIA_SMI
    names, gib_N = [], []
    for number, cells in enumerate(rows, start=1):
        cell = cells[columns.index(size)]
        named = None if name is None else cells[columns.index(name)]
        client = "" if _is_empty(named) else str(named).strip()
        if _is_empty(cell) and not client:
            continue
        label = f"row {number}" + (f" (client {in_short(client)})" if client else "")
        names.append(client or f"client-{number - 1}")
        gib_N.append(_mib(label, cell) / 1024 if in_mib else _gib(label, cell))
    if not names:
        raise InvalidInputError("the fleet has no rows; give each client a row with its VRAM in GiB")
    repeated = {client: count for client, count in Counter(names).items() if count > 1}
    if repeated and not in_mib:
        raise InvalidInputError(f"client {in_short(next(iter(repeated)))} is there twice; give each its own name")
    place: Counter[str] = Counter()
    for index, client in enumerate(names):  # cards of one kind on one machine
        place[client] += 1
        names[index] = f"{client} #{place[client]}" if client in repeated else client
    return Fleet(tuple(names), np.array(gib_N) * GIB)


def _only(columns: Sequence[str]) -> str | None:
    return columns[0] if len(columns) == 1 else None


def _gib(label: str, cell: object) -> float:
    try:
        if isinstance(cell, str) and "_" in cell:  # Python's 1_6 is 16; a person's is a slip
            raise ValueError
        value = float(cell)  # type: ignore[arg-type]
    except OverflowError:  # a whole number of hundreds of digits
        value = math.inf
    except (TypeError, ValueError):
        comma = isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell.strip())
        such = f"with a decimal point, {cell.strip().replace(',', '.')}" if comma else "such as 24"
        raise InvalidInputError(f"{label}: vram_gib is {in_short(cell)}; it must be a number of GiB, {such}") from None
    if not 0 < value <= MAX_VRAM_GIB:
        raise InvalidInputError(
            f"{label}: vram_gib is {in_short(cell)}; it must be a finite number above 0 and at most {MAX_VRAM_GIB:g}"
        )
    return value


def _mib(label: str, cell: object) -> int:
    """Of ``24564 MiB``."""
    digits = str(cell).removesuffix("MiB").strip()
    if not re.fullmatch(r"[1-9][0-9]{0,8}", digits):
        raise InvalidInputError(f"{label}: memory.total is {in_short(cell)}; want a size such as 24564 MiB")
    return int(digits)


def _is_empty(cell: object) -> bool:
    return cell is None or cell == "" or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell))
