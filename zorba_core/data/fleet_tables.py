"""A fleet's table as users have it: text of a CSV, or cells of an editor. An error is one sentence."""

from __future__ import annotations

import codecs
import csv
import io
import math
import os
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some
from zorba_core.planning.fleets import MAX_SPEED, Fleet
from zorba_core.planning.memory import GIB, MAX_CLIENTS, MAX_VRAM_GIB

MAX_CSV_BYTES = 64_000_000
COLUMNS = ("client", "vram_gib")
SPEED = "relative_speed"  # a further column: how fast a client is, where 1 is as fast as the machine that plans
SAVE_AS_CSV = (
    "save the fleet as UTF-8 CSV with columns client,vram_gib separated by commas; zorba fleet check FILE --to "
    "fleet.csv reads lists with other columns"
)
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_DECIMAL_COMMA = re.compile(r"\d+,\d+")


def read_fleet_csv(source: str | os.PathLike[str] | bytes) -> Fleet:
    """A fleet from a CSV with a column ``vram_gib`` and, if they are there, ``client`` and ``relative_speed`` (a path,
    or the bytes themselves).

    Raises:
        MissingDataError: no such file.
        InvalidInputError: too large, not UTF-8 CSV, wrong columns, or a row with text, NaN, or a number not above 0.
    """
    where = "uploaded CSV" if isinstance(source, bytes) else str(source)
    if not isinstance(source, bytes):
        if not os.path.isfile(source):
            raise MissingDataError(f"fleet file {where!r} does not exist; give a CSV with columns client,vram_gib")
        if os.path.getsize(source) > MAX_CSV_BYTES:
            raise InvalidInputError(_too_large(where))
        with open(source, "rb") as file:
            source = file.read()
    if len(source) > MAX_CSV_BYTES:
        raise InvalidInputError(_too_large(where))
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and len(source) % 2 == 0:
        raise InvalidInputError(f"{where}: UTF-16 text and UTF-8 is expected; {SAVE_AS_CSV}")
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{where}: not UTF-8 text; {SAVE_AS_CSV}") from None
    if "\0" in text:
        raise InvalidInputError(f"{where}: a binary file; {SAVE_AS_CSV}")
    try:
        return _of_cells(*cells_of(text))
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None


def fleet_from_frame(frame: pd.DataFrame) -> Fleet:
    """A fleet from a table with a column ``vram_gib`` and, if there is one, ``client``. Rows left wholly empty, as a
    table editor leaves them, are skipped.

    Raises:
        InvalidInputError: wrong columns, no rows, a name given twice, or a cell that is not a number above 0, naming
            row and value.
    """
    return _of_cells([str(column) for column in frame.columns], frame.to_numpy(object).tolist())


def _of_cells(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Fleet:
    names, capacity_N_gib, speed_N = clients_of(header, rows)
    return Fleet(names, np.array(capacity_N_gib) * GIB, None if speed_N is None else np.array(speed_N))


def _too_large(where: str) -> str:
    return f"{where}: larger than {MAX_CSV_BYTES} bytes; a fleet has at most {MAX_CLIENTS} rows"


def cells_of(text: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV, each row as long as the header.

    Raises:
        InvalidInputError: empty, another separator than a comma, an open quote, or a row of another length.
    """
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True) if line]
    except csv.Error:
        raise InvalidInputError(f"not CSV: a quote is left open or a cell is too long; {SAVE_AS_CSV}") from None
    if not lines:
        raise InvalidInputError(f"the file is empty; {SAVE_AS_CSV}")
    header, rows = lines[0], lines[1:]
    first = ",".join(header)
    if first.lower().startswith("sep="):
        raise InvalidInputError(f"its first line is {in_short(first)}, which is Excel's; remove it and {SAVE_AS_CSV}")
    for separator, name in _OTHER_SEPARATORS.items():
        if len(header) == 1 and separator in first:
            raise InvalidInputError(f"its columns are separated by {name} and commas are expected; {SAVE_AS_CSV}")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            comma = "; write numbers with a decimal point, such as 8.5" if len(row) > len(header) else ""
            raise InvalidInputError(
                f"row {number} has {cells} and the header {len(header)}: {in_short(','.join(row))}{comma}"
            )
    return header, rows


def clients_of(
    header: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[tuple[str, ...], list[float], list[float] | None]:
    """Names, VRAM in GiB, and relative speeds if there is such a column. Rows left wholly empty are skipped.

    Raises:
        InvalidInputError: wrong columns, no rows, a name given twice, or a cell that is not a number above 0, naming
            row and value.
    """
    columns = [column.strip().lower() for column in header]
    if "vram_gib" not in columns or set(columns) - {*COLUMNS, SPEED} or len(set(columns)) != len(columns):
        raise InvalidInputError(
            f"columns are {_shown(header)}; want client,vram_gib (client may be left out){_hint(columns)}"
        )
    vram = columns.index("vram_gib")
    client = columns.index("client") if "client" in columns else None
    fast = columns.index(SPEED) if SPEED in columns else None
    capacities: list[float] = []
    speeds: list[float] = []
    row_of: dict[str, int] = {}
    for row, cells in enumerate(rows, start=1):
        cell = cells[vram]
        name = "" if client is None or _empty(cells[client]) else str(cells[client]).strip()
        if _empty(cell) and not name:
            continue
        label = f"row {row}" + (f" (client {in_short(name)})" if name else "")
        value = _number(label, "vram_gib", cell, "a number of GiB", "24", MAX_VRAM_GIB)
        if fast is not None:
            speeds.append(_number(label, SPEED, cells[fast], "a number", "1.5", MAX_SPEED))
        name = name or f"client-{row - 1}"
        if name in row_of:
            raise InvalidInputError(
                f"row {row}: column client is {in_short(name)}, as in row {row_of[name]}; give each client "
                "its own name, or leave the column out"
            )
        row_of[name] = row
        capacities.append(value)
    if not capacities:
        raise InvalidInputError("the fleet has no rows; give each client a row with its VRAM in GiB")
    return tuple(row_of), capacities, None if fast is None else speeds


def _number(label: str, column: str, cell: object, kind: str, such: str, most: float) -> float:
    try:
        if isinstance(cell, str) and "_" in cell:  # Python's 1_6 is 16; a person's is a slip
            raise ValueError
        value = float(cell)  # type: ignore[arg-type]
    except OverflowError:  # a whole number of hundreds of digits
        value = math.inf
    except (TypeError, ValueError):
        comma = isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell.strip())
        example = cell.strip().replace(",", ".") if comma else such
        such = f"with a decimal point, {example}" if comma else f"such as {such}"
        raise InvalidInputError(f"{label}: {column} is {in_short(cell)}; it must be {kind}, {such}") from None
    if not 0 < value <= most:
        raise InvalidInputError(
            f"{label}: {column} is {in_short(cell)}; it must be a finite number above 0 and at most {most:g}"
        )
    return value


def _shown(header: Sequence[str]) -> str:
    named = [in_short(column.strip())[1:-1] or "(no name)" for column in header]
    return name_some(named, 8) or "none"


def _hint(columns: list[str]) -> str:
    """What else to do about columns that programs and people write."""
    if "count" in columns:
        return "; a row is one client: repeat it instead of a count"
    if any("[mib]" in column for column in columns):  # nvidia-smi --query-gpu=name,memory.total --format=csv
        return "; divide MiB by 1024 and leave the other columns out"
    return ""


def _empty(cell: object) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell)) or cell is pd.NA
