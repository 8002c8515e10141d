"""Read and write tables: CSV, TSV, JSON lines, JSON, Parquet, Excel, or a folder that ``datasets`` saved.

The index of a table is the line of each row in a text file, or the row's number. CSV is read by Python's ``csv``, all
cells as text: pandas would read "NA" as a missing value and "007" as a number, and fill rows that are too short.
"""

from __future__ import annotations

import codecs
import csv
import functools
import io
import itertools
import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from zorba_core.errors import InvalidInputError, MissingDataError, first_line, in_short, name_some
from zorba_core.files import atomic_path, check_target

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_SEPARATORS = (",", ";", "\t", "|")
_MOST_BYTES = 2**30  # reading a text file takes about four times its size in memory
_MANY_VALUES = 2_000  # different values of a column; the cells of one with fewer share their strings
_MANY_WORDS = 4  # in a cell that is no name of a column
_PACKED = {".gz": "gunzip", ".bz2": "bunzip2", ".xz": "unxz", ".zst": "unzstd", ".zip": "unzip"}
_OTHER_SHEETS = (".xls", ".xlsb", ".xlsm", ".ods")
Lines = Sequence[int] | np.ndarray  # of a table's rows
csv.field_size_limit(2**30)  # the default refuses texts of more than 131,072 characters


def read_table(path: str | os.PathLike[str], encoding: str = "utf-8", sheet: str | None = None) -> pd.DataFrame:
    """All columns of a file, or of a folder that ``Dataset.save_to_disk`` wrote. An unchanged file is read once.

    If the file has names for the numbers of its labels, ``attrs["names"]`` has them by column; ``attrs["separator"]``
    is the separator of a CSV, ``attrs["sheets"]`` the sheets of a workbook, the one that was read first.

    Args:
        sheet: the sheet of a workbook; default: its first.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: unknown kind of file, wrong encoding, or an invalid row; names file and line.
    """
    path = Path(path)
    if path.is_dir():
        return _read_arrow_folder(path)
    if not path.is_file():
        hub = "" if path.suffix else "; save a data set of the hub first: load_dataset(NAME).save_to_disk(FOLDER)"
        raise MissingDataError(f"data file {str(path)!r} does not exist; give a table: {', '.join(KINDS)}{hub}")
    _check_kind(path)
    status = path.stat()
    if status.st_size > _MOST_BYTES:
        raise InvalidInputError(
            f"{path}: it has {status.st_size / 2**30:.1f} GiB and a file may have {_MOST_BYTES / 2**30:g} GiB; train "
            "on a part of its rows, or save only the needed columns as Parquet"
        )
    return _read_once(path, encoding, sheet, (status.st_mtime_ns, status.st_size)).copy()


def table_of(content: bytes, name: str, kind: str, encoding: str = "utf-8") -> pd.DataFrame:
    """As :func:`read_table`, from a file's content; ``name`` is for messages, ``kind`` an ending such as ``.csv``."""
    check_pointer(Path(name), content)
    return _READERS[kind](Path(name), content, encoding)


def check_pointer(path: Path, content: bytes) -> None:
    """Refuse a pointer that git-lfs puts in place of a large file.

    Raises:
        InvalidInputError: names the file and the command that fetches it.
    """
    if content.startswith(LFS_POINTER):
        raise InvalidInputError(
            f"{path}: a pointer of git-lfs in place of the file itself; fetch it: git lfs pull --include {path.name}"
        )


@functools.lru_cache(maxsize=8)
def _read_once(path: Path, encoding: str, sheet: str | None, stamp: tuple[int, int]) -> pd.DataFrame:
    if path.suffix.lower() == ".xlsx" and sheet is not None:
        return _read_excel(path, path.read_bytes(), encoding, sheet)
    return table_of(path.read_bytes(), str(path), path.suffix.lower(), encoding)


def _check_kind(path: Path) -> None:
    kind = path.suffix.lower()
    if kind in _PACKED:
        raise InvalidInputError(f"{path}: a packed file; unpack it first: {_PACKED[kind]} {path.name}")
    if kind in _OTHER_SHEETS:
        raise InvalidInputError(f"{path}: a workbook of another format; save it as .xlsx or CSV")
    if kind not in KINDS:
        raise InvalidInputError(f"{path}: unknown kind {kind or '(no ending)'}; use one of {', '.join(KINDS)}")


def is_empty(value: Any) -> bool:
    """Whether a cell is empty: no text, only spaces, missing, or NaN, also written as a word."""
    if isinstance(value, str):
        first = value[:1]  # most cells are texts, which their first character decides
        return not first or ((first in "nN" or first.isspace()) and value.strip().lower() in ("", "nan"))
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def plain_values(column: pd.Series) -> list[Any]:
    """A column of any pandas type as Python's own values."""
    return [value.item() if isinstance(value, np.generic) else value for value in column.astype(object)]


def place(path: str | os.PathLike[str], index: Any) -> str:
    """``"tickets.csv, line 7"``: the place of a row of :func:`read_table`."""
    of_lines = Path(path).suffix.lower() not in (".parquet", ".xlsx", "")
    return f"{Path(path).name}, {'line' if of_lines else 'row'} {index}"


def text_of_file(path: Path) -> str:
    """The content of a text file in UTF-8 or UTF-16, without a byte order mark.

    Raises:
        InvalidInputError: it has another encoding (names the line), is empty, or is a binary file.
    """
    return _decoded(path, path.read_bytes(), "utf-8")[0]


def _decoded(path: Path, content: bytes, encoding: str) -> tuple[str, str]:
    """The text without a byte order mark, and its encoding."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        try:
            text, used = content.decode("utf-8-sig"), "utf-8-sig"
        except UnicodeDecodeError:
            text, used = content.decode(encoding), encoding
    except LookupError:
        raise InvalidInputError(f"{path}: unknown encoding {encoding!r}; name one such as utf-8 or cp1252") from None
    except UnicodeDecodeError as error:
        if b"\0" in content:
            raise _binary(path) from None
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            f"{path.name}, line {line}: byte 0x{content[error.start]:02X} is not {encoding.upper()} text; save it as "
            'UTF-8, or give the encoding of training rows in a task file (encoding = "cp1252" under [rows])'
        ) from None
    if not text.strip():
        raise InvalidInputError(f"{path}: the file is empty")
    if "\0" in text:
        raise _binary(path)
    return text, used


def _binary(path: Path) -> InvalidInputError:
    return InvalidInputError(f"{path}: a binary file; give a table: {', '.join(KINDS)}")


def _read_csv(path: Path, content: bytes, encoding: str) -> pd.DataFrame:
    text, encoding = _decoded(path, content, encoding)
    start = text[: text.find("\n", 2**16) + 1 or len(text)]
    is_separator = text[:4].lower() == "sep="  # Excel's first line
    separator = text[4:5] if is_separator else _separator_of(start)
    first = start.strip().partition("\n")[0]
    if path.suffix.lower() == ".tsv" and not is_separator and ("\t" in first or separator not in first):
        separator = "\t"
    del text  # a large file is decoded again in pieces, so that it is not in memory twice
    header, columns, lines = _columns(path, content, encoding, separator, is_separator)
    frame = _frame(path, header, columns, lines)
    _check_header(path, frame)
    frame.attrs["separator"] = separator
    return frame


def _columns(
    path: Path, content: bytes, encoding: str, separator: str, is_separator: bool
) -> tuple[list[str], list[list[str]], np.ndarray]:
    """The header, the cells of each column, and the line of each row.

    Raises:
        InvalidInputError: no rows, or a row has more or fewer cells than the header; names the line.
    """
    records = _records(path, content, encoding, separator)
    if is_separator:
        next(records)
    (first, header), (line, cells) = next(records, (0, [])), next(records, (0, []))
    if not header or not cells:
        raise InvalidInputError(f"{path}: it has a header and no rows")
    if len(header) == 1 < len(cells):
        raise InvalidInputError(
            f"{path.name}, line {first}: it has 1 cell and line {line} has {len(cells)}; if line {first} is a "
            "title above the header, remove it"
        )
    columns: list[list[str]] = [[] for _ in header]
    lines, seen = array("q"), [{} for _ in header]
    for number, row in itertools.chain([(line, cells)], records):
        if len(row) != len(header):
            raise InvalidInputError(
                f"{path.name}, line {number}: {len(row)} cell{'s' if len(row) > 1 else ''} and the header has "
                f"{len(header)}; put a text with the separator or a line break in double quotes, and write numbers "
                "with a decimal point"
            )
        lines.append(number)
        for column, known, cell in zip(columns, seen, row, strict=True):
            column.append(known.setdefault(cell, cell) if len(known) < _MANY_VALUES else cell)
    return header, columns, np.frombuffer(lines, np.int64)


def _separator_of(text: str) -> str:
    """The separator (comma, semicolon, tab or bar) that gives most columns in the first record."""

    def columns(separator: str) -> int:
        records = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        return len(next(cells for cells in records if cells))

    return max(_SEPARATORS, key=columns)


def _records(path: Path, content: bytes, encoding: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield all records that are not empty, each with the line on which it begins.

    Many programs write quotes in a TSV as plain characters. If reading them as quotes fails or joins lines, and all
    lines have the same number of cells, they are read as plain characters.

    Raises:
        InvalidInputError: not CSV; names the line.
    """
    if separator == "\t" and b'"' in content and (plain := _plain_records(path, content, encoding)) is not None:
        yield from plain
        return
    line, problem = 1, ""
    reader = csv.reader(_lines(content, encoding), delimiter=separator, strict=True, skipinitialspace=True)
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        problem = "a quote is not closed" if "end of data" in str(error) else str(error)
    if problem:
        raise InvalidInputError(f"{path.name}, line {line}: not CSV ({problem}); double every quote within quotes")


def _lines(content: bytes, encoding: str) -> Iterator[str]:
    return io.TextIOWrapper(io.BytesIO(content), encoding, newline="")


def _plain_records(path: Path, content: bytes, encoding: str) -> list[tuple[int, list[str]]] | None:
    """The records of a TSV whose quotes are plain characters; None if they are quotes."""
    text = _decoded(path, content, encoding)[0]
    lines = enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
    plain = [(number, cells.split("\t")) for number, cells in lines if cells]
    if len({len(cells) for _, cells in plain}) > 1 or len(plain[0][1]) == 1:
        return None
    reader = csv.reader(_lines(content, encoding), delimiter="\t", strict=True, skipinitialspace=True)
    try:
        return None if sum(map(bool, reader)) == len(plain) else plain
    except csv.Error:
        return plain


def _check_header(path: Path, frame: pd.DataFrame) -> None:
    """Refuse a file without header: a cell of its first line is also a value of its column, and is a number, or a cell
    of the line is a sentence."""
    repeated = [name for name in frame if name in map(str.strip, frame[name])]
    numbers = [name for name in repeated if name.replace(".", "").isdecimal()]
    sentences = [name for name in frame if len(name.split()) >= _MANY_WORDS]
    if numbers or (repeated and sentences):
        raise InvalidInputError(
            f"{path.name}, line 1: {in_short(repeated[0])} is also a value of its column, so the file seems to have no "
            "header; put a line with the columns' names above the rows"
        )


def _read_json_lines(path: Path, content: bytes, encoding: str) -> pd.DataFrame:
    objects: list[tuple[int, Any]] = []
    encoding = _decoded(path, content, encoding)[1]
    for number, line in enumerate(io.TextIOWrapper(io.BytesIO(content), encoding, newline="\n"), start=1):
        if line.strip():
            try:
                objects.append((number, json.loads(line)))
            except ValueError as error:
                reason = getattr(error, "msg", error)
                raise InvalidInputError(
                    f"{path.name}, line {number}: not JSON ({reason}); each line must be one whole object"
                ) from None
    return _of_objects(path, objects)


def _read_json(path: Path, content: bytes, encoding: str) -> pd.DataFrame:
    try:
        value = json.loads(_decoded(path, content, encoding)[0])
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"{path.name}, line {error.lineno}: not JSON; if each line is an object, name the file .jsonl"
        ) from None
    value = _rows_of_json(value)
    if not isinstance(value, list) or (value and isinstance(value[0], list)):
        inside = "lists without names" if isinstance(value, list) else f"a {type(value).__name__}"
        raise InvalidInputError(
            f"{path.name}: it has {inside} in place of a list of objects; with pandas: to_json(FILE, orient='records')"
        )
    return _of_objects(path, list(enumerate(value, start=1)))


def _rows_of_json(value: Any) -> Any:
    """The rows of a JSON value as a list of objects, if it has a form that pandas or ``datasets`` writes: a column or a
    row by its name, ``columns`` with ``data``, or a list of rows within an object. Else the value itself."""
    if not isinstance(value, dict) or not value:
        return value
    if isinstance(value.get("columns"), list) and isinstance(rows := value.get("data"), list):  # orient split
        return [dict(zip(value["columns"], row, strict=False)) if isinstance(row, list) else row for row in rows]
    parts = list(value.values())
    if all(isinstance(part, list) for part in parts) and len({*map(len, parts)}) == 1 and not _objects_in(parts):
        return [dict(zip(value, cells, strict=True)) for cells in zip(*parts, strict=True)]  # a list for each column
    lists = [part for part in parts if isinstance(part, list) and _objects_in([part])]
    if len(lists) == 1:  # {"data": [...]}, {"schema": ..., "data": [...]}
        return lists[0]
    if len(parts) > 0 and all(isinstance(part, dict) for part in parts):
        numbered = all(str(key).isdecimal() for part in parts for key in part)
        if not numbered:  # orient index: a row by its name
            return parts
        keys = list(dict.fromkeys(key for part in parts for key in part))  # orient columns
        return [{name: part.get(key) for name, part in value.items()} for key in keys]
    return value


def _objects_in(parts: Sequence[list[Any]]) -> bool:
    return any(isinstance(cell, dict) for part in parts for cell in part[:1])


def _of_objects(path: Path, objects: Sequence[tuple[int, Any]]) -> pd.DataFrame:
    """A column for each field of any object; None if an object does not have the field."""
    for number, value in objects:
        if not isinstance(value, dict):
            where = place(path, number)
            raise InvalidInputError(f"{where}: a {type(value).__name__} in place of an object such as {{...}}")
    names = list(dict.fromkeys(name for _, value in objects for name in value))
    return _frame(path, names, [[value.get(name) for _, value in objects] for name in names], [n for n, _ in objects])


def _read_parquet(path: Path, content: bytes, encoding: str) -> pd.DataFrame:
    try:
        with pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)) as file:
            return _of_arrow(path, file.read())
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInputError(f"{path} cannot be read as Parquet: {first_line(error)}") from None


def _read_arrow_folder(folder: Path) -> pd.DataFrame:
    """A ``Dataset``, or the training split of a ``DatasetDict``. Only the files in ``state.json`` are rows: ``map``
    leaves other files in the folder."""
    if (folder / "dataset_dict.json").is_file():
        return _read_arrow_folder(folder / "train")
    if not (folder / "state.json").is_file():
        raise InvalidInputError(f"{folder} is a folder, not a table; give a file, or several as '{folder}/*.csv'")
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        files = [folder / Path(entry["filename"]).name for entry in state["_data_files"]]
        tables = [pyarrow.ipc.open_stream(pyarrow.memory_map(str(file))).read_all() for file in files]
        return _of_arrow(folder, pyarrow.concat_tables(tables))
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{folder}: not a folder that datasets saved ({first_line(error)})") from None


def _of_arrow(path: Path, table: pyarrow.Table) -> pd.DataFrame:
    columns = [_values(path, name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    frame = _frame(path, table.column_names, columns, range(1, table.num_rows + 1))
    described = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    features = (described.get("info", {}).get("features") or {}).items()
    labels = {name: kind["names"] for name, kind in features if kind.get("_type") == "ClassLabel"}
    frame.attrs["names"] = {name: [*map(str, names)] for name, names in labels.items()}
    return frame


def _values(path: Path, name: str, column: pyarrow.ChunkedArray) -> list[Any]:
    try:
        return column.to_pylist()
    except (pyarrow.ArrowException, ValueError, OverflowError, KeyError) as error:
        if pyarrow.types.is_temporal(column.type):  # a date outside Python's range; no task reads dates
            return [None] * len(column)
        raise InvalidInputError(f"{path}: column {name} cannot be read: {first_line(error)}") from None


def _read_excel(path: Path, content: bytes, encoding: str, sheet: str | None = None) -> pd.DataFrame:
    """A sheet, by default the first; rows have Excel's numbers. ``attrs["sheets"]`` has the names of all sheets, this
    one first; ``attrs["formulas"]`` by column the place of a formula without a stored result."""
    try:
        names = pd.ExcelFile(io.BytesIO(content)).sheet_names
        if sheet is None or sheet in names:
            cells = _sheet(content, sheet or names[0])
    except ImportError:
        raise InvalidInputError(f"{path}: reading Excel needs openpyxl; install it, or save the sheet as CSV") from None
    except Exception as error:  # an archive from outside can be broken in any way
        raise InvalidInputError(f"{path} cannot be read as Excel: {first_line(error)}") from None
    if sheet is not None and sheet not in names:
        raise InvalidInputError(f"{path}: it has no sheet {in_short(sheet)}; its sheets are {name_some(names, 8)}")
    if len(cells) < 2:
        filled = [name for name in names if len(_sheet(content, name)) > 1]
        which = "its first sheet" if sheet is None else f"sheet {sheet}"
        there = f"; rows are on {name_some(filled)} (--sheet {in_short(filled[0])})" if filled else ""
        raise InvalidInputError(f"{path}: {which} ({sheet or names[0]}) has no header with rows below{there}")
    header = ["" if name is None else str(name) for name in cells.iloc[0]]
    rows = [cells[column].iloc[1:] for column in cells]
    formulas = _formulas(content, sheet or names[0], cells)
    frame = _frame(path, header, rows, [row + 1 for row in cells.index[1:]])
    frame.attrs["formulas"] = {
        frame.columns[place]: f"{path.name}, cell {formulas[column]}"
        for place, column in enumerate(cells.columns)
        if column in formulas
    }
    frame.attrs["sheets"] = [sheet or names[0], *(name for name in names if name != (sheet or names[0]))]
    return frame


def _sheet(content: bytes, sheet: str) -> pd.DataFrame:
    """The cells of a sheet without empty rows and columns; None in an empty cell."""
    cells = pd.read_excel(
        io.BytesIO(content), sheet_name=sheet, header=None, dtype=object, keep_default_na=False, na_values=[""]
    )
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    return cells.astype(object).where(cells.notna(), None)


def _formulas(content: bytes, sheet: str, cells: pd.DataFrame) -> dict[int, str]:
    """The first cell with a formula without a stored result, by column, as programs write them that do not compute."""
    import openpyxl

    if not cells.isna().any(axis=None) and len(cells) == cells.index[-1] - cells.index[0] + 1:
        return {}
    first: dict[int, str] = {}
    rows = openpyxl.load_workbook(io.BytesIO(content), read_only=True)[sheet].iter_rows(min_row=cells.index[0] + 2)
    for cell in itertools.chain.from_iterable(rows):
        if cell.data_type != "f" or cell.row is None or cell.column is None:
            continue
        row, column = cell.row - 1, cell.column - 1
        stored = row in cells.index and column in cells.columns and cells.at[row, column] is not None
        if column in cells.columns and column not in first and not stored:
            first[column] = cell.coordinate
    return first


def _frame(path: Path, header: Sequence[str], columns: Iterable[Iterable[Any]], index: Lines) -> pd.DataFrame:
    if len(index) == 0:
        raise InvalidInputError(f"{path}: there are no rows")
    names = [name.strip() or f"column {number}" for number, name in enumerate(header, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInputError(f"{path.name}: two columns are called {in_short(twice[0])}; give each its own name")
    data = {
        name: column if isinstance(column, list) else list(column) for name, column in zip(names, columns, strict=True)
    }
    return pd.DataFrame(data, index=pd.Index(index, name="row"), dtype=object)


_READERS: Mapping[str, Callable[[Path, bytes, str], pd.DataFrame]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _read_csv),
    **dict.fromkeys((".jsonl", ".ndjson"), _read_json_lines),
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".xlsx": _read_excel,
}
KINDS = tuple(_READERS)


def check_output(target: str | os.PathLike[str]) -> None:
    """Refuse an output file before anything is computed.

    Raises:
        InvalidInputError: it exists, its kind is unknown, or its folder does not exist.
    """
    target = Path(target)
    _check_kind(target)
    if os.path.lexists(target):
        raise InvalidInputError(f"{target} exists already; give a name that does not")
    if not target.absolute().parent.is_dir():
        raise InvalidInputError(f"cannot write {str(target)!r}: there is no folder {target.parent}; make it first")
    check_target(target)


def write_table(frame: pd.DataFrame, target: str | os.PathLike[str]) -> None:
    """Write a table in the target's format. ``attrs["separator"]`` of :func:`read_table` is used again."""
    with atomic_path(target) as path:
        kind = path.suffix.lower()
        if kind == ".parquet":
            frame.to_parquet(path, index=False)
        elif kind == ".xlsx":
            frame.to_excel(path, index=False)
        elif _READERS[kind] is _read_csv:
            separator = "\t" if kind == ".tsv" else frame.attrs.get("separator", ",")
            frame.to_csv(path, sep=separator, index=False, lineterminator="\n")
        else:
            rows = [json.dumps(row, ensure_ascii=False, default=str) for row in frame.to_dict("records")]
            text = "[\n" + ",\n".join(rows) + "\n]\n" if kind == ".json" else "\n".join(rows) + "\n"
            path.write_text(text, encoding="utf-8")
