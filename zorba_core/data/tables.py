"""Tables as users have them: CSV, TSV, JSON lines, JSON, Parquet, or a folder that ``datasets`` saved.

A table's index says where each row stands: the line of a text file, counted as an editor counts, or the row's number.
Text files are read cell by cell as text; nothing is guessed from a cell. Every problem is one line with file and line.
"""

from __future__ import annotations

import codecs
import csv
import functools
import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.parquet

from zorba_core.errors import InvalidInputError, MissingDataError, first_line, in_short
from zorba_core.files import read_json

MAX_TEXT_BYTES = 2**30  # a text file takes about four times its size while it is read
MAX_TABLE_BYTES = 2 * 2**30  # Parquet, Arrow
MAX_ROWS = 10_000_000
MAX_CELL = 2**24  # characters
MAX_COLUMNS = 4096
LINE_KINDS = (".jsonl", ".ndjson")
TEXT_KINDS = (".csv", ".tsv", ".txt", *LINE_KINDS, ".json")
KINDS = (*TEXT_KINDS, ".parquet")
_SEPARATORS = (",", ";", "\t", "|")
_UTF_8 = ("utf-8", "utf8")
_KNOWN = "CSV, TSV, JSON lines (.jsonl), JSON or Parquet"


def read_table(path: str | os.PathLike[str], encoding: str = "utf-8") -> pd.DataFrame:
    """All columns of a file, or of a folder that ``Dataset.save_to_disk`` wrote.

    ``attrs["names"]`` has the names of whole-number labels, by column, where the file itself says them.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: too large, of an unknown kind, not of its encoding, or a row that does not fit the others,
            with file and line.
    """
    path = Path(path)
    if path.is_dir():
        return _read_arrow_folder(path)
    if not path.is_file():
        raise MissingDataError(f"data file {str(path)!r} does not exist; give a file of rows: {_KNOWN}")
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise InvalidInputError(f"{path}: of an unknown kind {kind or '(no ending)'}; give {_KNOWN}")
    check_size(path, MAX_TEXT_BYTES if kind in TEXT_KINDS else MAX_TABLE_BYTES)
    if kind == ".parquet":
        return _read_parquet(path)
    encoding = _encoding_of(path, encoding)
    try:
        if kind == ".json":
            return _read_json(path, encoding)
        return _of_objects(path, _json_lines(path, encoding)) if kind in LINE_KINDS else _read_csv(path, encoding)
    except UnicodeDecodeError:
        raise _wrongly_encoded(path, encoding) from None


def check_size(path: Path, limit: int) -> None:
    """Refuse a file before it is read.

    Raises:
        InvalidInputError: it is larger than ``limit`` bytes.
    """
    size = path.stat().st_size
    if size > limit:
        raise InvalidInputError(
            f"{path}: {size / 2**30:.1f} GiB, and at most {limit / 2**30:g} GiB is read of one file; "
            "train on a part of its rows, or save it as Parquet with the needed columns alone"
        )
    if size == 0:
        raise InvalidInputError(f"{path}: the file is empty")


def is_empty(value: Any) -> bool:
    """Whether a cell says nothing: empty, blanks, null, or a NaN, which some programs write as a word."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return isinstance(value, str) and value.strip().lower() in ("", "nan")


def place(path: str | os.PathLike[str], index: Any) -> str:
    """``"tickets.csv, line 7"``: where a row of :func:`read_table` stands."""
    name = Path(path).name
    return f"{name}, {'line' if Path(path).suffix.lower() in TEXT_KINDS else 'row'} {index}"


def file_sha256(path: str | os.PathLike[str]) -> str:
    """The fingerprint of a file, or of the rows' files in a folder."""
    digest = hashlib.sha256()
    path = Path(path)
    for file in [path] if path.is_file() else sorted(path.rglob("*.arrow")):
        with file.open("rb") as stream:
            while block := stream.read(2**20):
                digest.update(block)
    return digest.hexdigest()


def readable_encoding(path: str | os.PathLike[str], other: str) -> str:
    """UTF-8 where a text file is that, else ``other``: the encoding of rows that came from the same place before."""
    path = Path(path)
    if other.lower() in _UTF_8 or path.suffix.lower() not in TEXT_KINDS or not path.is_file():
        return other
    check_size(path, MAX_TEXT_BYTES)
    try:
        with path.open("rb") as stream:
            decoder = codecs.getincrementaldecoder("utf-8")()
            while block := stream.read(2**20):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return other
    return "utf-8"


def _encoding_of(path: Path, encoding: str) -> str:
    """The encoding that a mark at the file's start names, else the one given."""
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise InvalidInputError(f"{path}: unknown encoding {encoding!r}; name one such as utf-8 or cp1252") from None
    with path.open("rb") as stream:
        start = stream.read(4096)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start and "16" not in encoding and "32" not in encoding:
        raise InvalidInputError(f"{path}: a binary file; give {_KNOWN}")
    return "utf-8-sig" if encoding.lower().replace("_", "-") in _UTF_8 else encoding


def _wrongly_encoded(path: Path, encoding: str) -> InvalidInputError:
    line, plain = 0, encoding.removesuffix("-sig")
    with path.open("rb") as stream:
        for line, content in enumerate(stream, start=1):  # noqa: B007 - the line at fault is what is wanted
            try:
                content.decode(plain)
            except UnicodeDecodeError as error:
                byte = f"byte 0x{content[error.start]:02X} at column {error.start + 1}"
                break
        else:
            byte = "its end"
    return InvalidInputError(
        f"{path.name}, line {line}: {byte} is not {plain.upper()} text; save the file as UTF-8, or name the encoding "
        f'of the whole file in a task file (encoding = "cp1252" under [rows])'
    )


def _read_csv(path: Path, encoding: str) -> pd.DataFrame:
    before = csv.field_size_limit(MAX_CELL)
    start = 1  # line of the record at hand
    try:
        with path.open(encoding=encoding, newline="") as stream:
            reader = csv.reader(stream, delimiter=separator_of(path, encoding), strict=True, skipinitialspace=True)
            header: list[str] = []
            columns: list[list[str]] = []
            lines: list[int] = []
            for cells in reader:
                if cells and not header:
                    header = _header(path, cells)
                    columns = [[] for _ in header]
                elif cells:
                    if len(cells) != len(header):
                        raise InvalidInputError(
                            f"{path.name}, line {start}: {_count(cells)} and the header has {len(header)}; "
                            "put a text that holds the separator or a line break in double quotes"
                        )
                    if len(lines) == MAX_ROWS:
                        raise InvalidInputError(f"{path}: more than {MAX_ROWS:,} rows; train on a part of them")
                    for column, cell in zip(columns, cells, strict=True):
                        column.append(cell)
                    lines.append(start)
                start = reader.line_num + 1
    except csv.Error as error:
        reason = "a quote is opened and not closed" if "end of data" in str(error) else str(error)
        raise InvalidInputError(
            f"{path.name}, line {start}: not CSV ({reason}); double every quote within a quoted text"
        ) from None
    finally:
        csv.field_size_limit(before)
    if not lines:
        raise InvalidInputError(f"{path}: it has a header and no rows" if header else f"{path}: the file is empty")
    data = dict(zip(header, columns, strict=True))
    return pd.DataFrame(data, index=pd.Index(lines, name="line"), dtype=object)


def _count(cells: Sequence[str]) -> str:
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


def separator_of(path: Path, encoding: str = "utf-8") -> str:
    """A tab for .tsv; else whichever of comma, semicolon, tab and bar makes most columns of the first record."""
    encoding = _encoding_of(path, encoding)
    if path.suffix.lower() == ".tsv":
        return "\t"
    counts = {}
    for separator in _SEPARATORS:
        with path.open(encoding=encoding, newline="") as stream:
            try:
                counts[separator] = len(next((cells for cells in csv.reader(stream, delimiter=separator) if cells), ()))
            except csv.Error:
                counts[separator] = 0
    return max(_SEPARATORS, key=counts.__getitem__)  # the first of equals


def _header(path: Path, cells: Sequence[str]) -> list[str]:
    names = [cell.strip() or f"column {number}" for number, cell in enumerate(cells, start=1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(f"{path.name}: two columns are called {in_short(twice[0])}; give each its own name")
    return names


def json_lines(path: Path, encoding: str = "utf-8") -> list[Any]:
    """The objects of a file that :func:`read_table` reads, as they stand in it: one that lacks a field lacks it."""
    return [value for _, value in _json_lines(path, _encoding_of(path, encoding))]


def _json_lines(path: Path, encoding: str) -> list[tuple[int, Any]]:
    """Each line's number and what is written there."""
    objects: list[tuple[int, Any]] = []
    with path.open(encoding=encoding) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            if len(objects) == MAX_ROWS:
                raise InvalidInputError(f"{path}: more than {MAX_ROWS:,} rows; train on a part of them")
            try:
                value = json.loads(line)
            except ValueError as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else "a value that cannot be read"
                raise InvalidInputError(
                    f"{path.name}, line {number}: not JSON ({reason}); each line must be one whole object"
                ) from None
            objects.append((number, value))
    return objects


def _read_json(path: Path, encoding: str) -> pd.DataFrame:
    try:
        value = json.loads(path.read_text(encoding=encoding))
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        at = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInputError(f"{path.name}{at}: not JSON; one object a line belongs in a .jsonl file") from None
    if not isinstance(value, list):
        raise InvalidInputError(f"{path.name}: a {type(value).__name__} where a list of objects belongs")
    return _of_objects(path, list(enumerate(value, start=1)))


def _of_objects(path: Path, objects: Sequence[tuple[int, Any]]) -> pd.DataFrame:
    """A column for each field of any object; None where an object lacks it, which matters where a task reads it."""
    if not objects:
        raise InvalidInputError(f"{path}: there are no rows")
    names: dict[str, None] = {}
    for number, value in objects:
        if not isinstance(value, dict):
            where = place(path, number)
            raise InvalidInputError(f"{where}: a {type(value).__name__} where an object such as {{...}} belongs")
        names |= dict.fromkeys(value)
        if not 1 <= len(names) <= MAX_COLUMNS:
            raise InvalidInputError(f"{place(path, number)}: {len(names)} fields so far; 1 to {MAX_COLUMNS} are read")
    index = pd.Index([number for number, _ in objects], name="line")
    return pd.DataFrame({name: [value.get(name) for _, value in objects] for name in names}, index=index, dtype=object)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_rows(path, file.metadata.num_rows)
            table = file.read()
    except (pyarrow.ArrowException, OSError, MemoryError) as error:
        raise InvalidInputError(f"{path} cannot be read as Parquet: {first_line(error)}") from None
    return _of_arrow(path, table)


def _check_rows(path: Path, number: int) -> None:
    if number > MAX_ROWS:
        raise InvalidInputError(f"{path}: {number:,} rows are more than {MAX_ROWS:,}; train on a part of them")


def _of_arrow(path: Path, table: pyarrow.Table) -> pd.DataFrame:
    if table.num_rows == 0:
        raise InvalidInputError(f"{path}: there are no rows")
    _check_rows(path, table.num_rows)
    metadata = table.schema.metadata or {}
    frame = pd.DataFrame({name: table.column(name).to_pylist() for name in table.column_names}, dtype=object)
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
    frame.attrs["names"] = _class_names(metadata.get(b"huggingface", b"{}"))
    return frame


def _class_names(described: bytes | str) -> dict[str, list[str]]:
    """Names of class labels by column, from what ``datasets`` writes beside its rows."""
    try:
        value = json.loads(described)
        features = value.get("info", value)["features"]
        return {
            column: [str(name) for name in feature["names"]]
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def splits_of(folder: Path) -> list[str]:
    """The splits of a folder that ``DatasetDict.save_to_disk`` wrote; none where it holds one table."""
    try:
        splits = read_json(folder / "dataset_dict.json")["splits"]
        return [split for split in splits if isinstance(split, str) and "/" not in split and split not in ("", "..")]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _read_arrow_folder(folder: Path) -> pd.DataFrame:
    splits = splits_of(folder)
    if splits:
        return _read_arrow_folder(folder / ("train" if "train" in splits else splits[0]))
    state = folder / "state.json"
    if not state.exists():
        raise InvalidInputError(
            f"{folder}: a folder without state.json, so none that datasets' save_to_disk wrote; give a file "
            f"({_KNOWN}), or a pattern such as clients/*.csv for one file a client"
        )
    try:
        names = [entry["filename"] for entry in read_json(state)["_data_files"]]
        files = [folder / Path(name).name for name in names]
        for file in files:
            check_size(file, MAX_TABLE_BYTES)
        tables = [pyarrow.ipc.open_stream(pyarrow.memory_map(str(file))).read_all() for file in files]
        table = pyarrow.concat_tables(tables)
    except InvalidInputError as error:
        raise InvalidInputError(f"{folder}: {error}") from None
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise InvalidInputError(f"{folder}: cannot be read ({first_line(error)}); save it again") from None
    frame = _of_arrow(folder, table)
    if (folder / "dataset_info.json").is_file():
        frame.attrs["names"] |= _class_names((folder / "dataset_info.json").read_text(encoding="utf-8"))
    return frame


@functools.lru_cache(maxsize=4)
def _cached(path: str, encoding: str, stamp: tuple[int, int]) -> pd.DataFrame:
    return read_table(path, encoding)


def read_cached(path: str | os.PathLike[str], encoding: str = "utf-8") -> pd.DataFrame:
    """As :func:`read_table`; a file that did not change is read once. The frame is shared: do not write to it."""
    try:
        stat = os.stat(path)
    except OSError:
        return read_table(path, encoding)
    return _cached(os.fspath(path), encoding, (stat.st_mtime_ns, stat.st_size))
