"""The files of a user's rows: one table, or a file for each client."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from zorba_core.data.task import TableRows
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.tables import KINDS

_PATTERN = frozenset("*?[")


def is_many(path: Any) -> bool:
    """Whether this is a pattern or a folder of files, each of which is one client."""
    if not isinstance(path, str):
        return False
    if os.path.isdir(path):
        return not {"state.json", "dataset_dict.json"} & {*os.listdir(path)}
    return bool(_PATTERN & set(path)) and not os.path.exists(path)


def files_of(path: str) -> list[str]:
    """The files of a path or pattern, sorted; a folder that ``datasets`` saved counts as a file.

    Raises:
        MissingDataError: no file matches.
        InvalidInputError: a folder with the splits of a data set.
    """
    if not is_many(path):
        return [path]
    folder, pattern = Path(path), "*"
    while not folder.exists():  # brackets in the name of an existing folder are no pattern
        folder, pattern = folder.parent, os.path.relpath(path, folder.parent)
    files = sorted(str(file) for file in folder.glob(pattern) if not file.name.startswith("."))
    if os.path.isdir(path):  # without other files, such as a README
        files = [file for file in files if Path(file).suffix.lower() in KINDS or os.path.isdir(file)]
    if not files:
        raise MissingDataError(f"no file matches {path!r}; give a pattern such as clients/*.csv, in quotes")
    if os.path.isdir(path) and "train" in {Path(file).stem for file in files}:
        raise InvalidInputError(
            f"{path} has the splits of a data set, not a file for each client; give its files: --data train.csv "
            "--test test.csv"
        )
    return files


def file_clients(files: Sequence[str]) -> list[str]:
    """A client's name for each file: the file name without its ending, with its ending, the name of its folder, or its
    path below the common folder; the first of these that is different for all files."""
    paths = [Path(file) for file in files]
    common = os.path.commonpath([path.parent for path in paths])
    for name in (lambda path: path.stem, lambda path: path.name, lambda path: path.parent.name):
        if len({*map(name, paths)}) == len(paths):
            return [*map(name, paths)]
    return [os.path.relpath(path, common) for path in paths]


def missing_file(rows: TableRows) -> str:
    """A phrase that names a missing file; empty if none is missing."""
    for path in (rows.train, rows.test):
        if isinstance(path, str) and not is_many(path) and not os.path.exists(path):
            return f"{path} does not exist"
    return ""


def fingerprints(rows: TableRows) -> dict[str, str]:
    """The SHA-256 of each file, or of all files in a folder that ``datasets`` saved, by path."""
    return {file: _sha256(file) for file in _named_files(rows)}


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    for file in _parts(path):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def stamps_of(rows: TableRows) -> tuple[Any, ...]:
    """Name, time and size of the rows' files: a cache key that differs if a file has changed."""
    return stamps_of_files(_named_files(rows))


def stamps_of_files(files: Iterable[str]) -> tuple[Any, ...]:
    statuses = [(part, part.stat()) for file in files for part in _parts(file)]
    return tuple((str(part), status.st_mtime_ns, status.st_size) for part, status in statuses)


def _named_files(rows: TableRows) -> list[str]:
    return [file for path in (rows.train, rows.test) if isinstance(path, str) for file in files_of(path)]


def _parts(file: str) -> list[Path]:
    """The file, or the Arrow files of a folder that ``datasets`` saved; empty if it is missing."""
    path = Path(file)
    return [path] if path.is_file() else sorted(path.rglob("*.arrow"))
