"""The files of a user's rows: one table, shards of it, the splits of a data set, or a file for each client.

A file's name says what it is. ``train``, ``validation`` (``dev``, ``val``, ...) and ``test`` are splits, as the first
or the last word of the name or as a folder: the hub's ``train-00000-of-00001.parquet``, ``reviews_test.csv``,
``train/0.csv``. ``00000-of-00002`` and Spark's ``part-00000`` are shards. Only files without such names are clients;
so are the tables of several train files, such as ``north/train.csv`` and ``south/train.csv``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from zorba_core.data.task import TableRows
from zorba_core.errors import InvalidInputError, MissingDataError, name_some
from zorba_core.tables import KINDS

_PATTERN = frozenset("*?[")
_SAVED, _SAVED_SPLITS = "state.json", "dataset_dict.json"  # in a folder that ``datasets`` saved
_NO_TABLES = frozenset({_SAVED, _SAVED_SPLITS, "dataset_info.json", "dataset_infos.json"})
_SHARD = re.compile(r"[-_.]?\d{1,6}-of-\d{1,6}(-[0-9a-f]{16})?$|^part-\d{4,}.*$")
_SPLIT_OF = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev", "devel", "development", "eval", "evaluation"), "validation"),
    **dict.fromkeys(("test", "testing", "heldout", "holdout"), "test"),
}
_WORD = rf"(?P<split>{'|'.join(_SPLIT_OF)})(?:set|data)?(?P<number>\d*)"
_FIRST = re.compile(rf"{_WORD}(?:[-_. ]+(?P<rest>.*))?", re.IGNORECASE | re.DOTALL)
_LAST = re.compile(rf"(?P<rest>.*?)[-_. ]+{_WORD}", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Files:
    """Files that are read as one table. ``clients`` has the client of each file; empty if the files name none."""

    files: tuple[str, ...]
    clients: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sources:
    """The files that a path names. ``unread``: files of a further split."""

    train: Files
    test: Files | None = None
    unread: tuple[str, ...] = ()


class _Named(NamedTuple):
    """What a file's name says."""

    file: str
    split: str  # train, validation, test, or empty
    table: str  # the path without split and shard: equal for the splits and shards of one table
    is_shard: bool
    by_folder: bool  # a folder has the name of the split


def sources(path: str) -> Sources:
    """The files of a path: of a file, a folder, or a pattern such as ``clients/*.csv``.

    Raises:
        MissingDataError: no file matches.
        InvalidInputError: splits of a data set among other files.
    """
    if not is_many(path):
        return Sources(Files((path,)))
    files = _matching(path)
    common = os.path.commonpath([os.path.dirname(file) for file in files])
    named = [_named(file, common) for file in files]
    splits = {name.split for name in named}
    if "train" in splits and "" not in splits:
        return _of_splits(named)
    if "train" in splits and (len(splits) > 2 or os.path.isdir(path)) and not _is_saved(path):
        others = [os.path.relpath(name.file, common) for name in named if not name.split]
        raise InvalidInputError(
            f"{path} has the splits of a data set, not a file for each client, and other files ({name_some(others)}); "
            "give its files: --data train.csv --test test.csv"
        )
    if "train" in splits and _is_saved(path):  # further splits of other names are no clients
        return _of_splits([name for name in named if name.split])
    if all(name.is_shard for name in named):
        return Sources(_tables(named))
    return Sources(Files(tuple(files), tuple(file_clients(files))))


def is_many(path: Any) -> bool:
    """Whether this is a pattern or a folder of files."""
    if not isinstance(path, str):
        return False
    if os.path.isdir(path):
        return not os.path.isfile(os.path.join(path, _SAVED))
    return bool(_PATTERN & set(path)) and not os.path.exists(path)


def _is_saved(path: str) -> bool:
    """Whether ``datasets`` saved this folder, with one split or several."""
    return any(os.path.isfile(os.path.join(path, name)) for name in (_SAVED, _SAVED_SPLITS))


def _matching(path: str) -> list[str]:
    """The files of a folder or a pattern, sorted; a folder that ``datasets`` saved counts as a file."""
    if os.path.isfile(splits := os.path.join(path, _SAVED_SPLITS)):
        files = _saved_splits(splits)
    elif os.path.isdir(path):
        files = _in_folder(Path(path))
    else:
        folder, pattern = Path(path), "*"
        while not folder.exists():  # brackets in the name of an existing folder are no pattern
            folder, pattern = folder.parent, os.path.relpath(path, folder.parent)
        files = [file for file in folder.glob(pattern) if not file.name.startswith(".")]
    if not files:
        raise MissingDataError(f"no file matches {path!r}; give a pattern such as clients/*.csv, in quotes")
    return sorted(map(str, files))


def _saved_splits(path: str) -> list[Path]:
    try:
        names = json.loads(Path(path).read_text(encoding="utf-8"))["splits"]
        return [folder for name in names if (folder := Path(path).with_name(name)).is_dir()]
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInputError(f"{path}: not a file that datasets saved; save the data set again") from None


def _in_folder(folder: Path) -> list[Path]:
    """The tables of a folder without other files such as a README; without any, those of the folders in it."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name not in _NO_TABLES]
    folders = [entry for entry in entries if entry.is_dir()]
    tables = [entry for entry in entries if entry.suffix.lower() in KINDS and not entry.is_dir()]
    if tables or any(_is_saved(str(entry)) for entry in folders):
        return tables + folders
    return [table for entry in folders for table in _in_folder(entry)]


def _named(file: str, common: str) -> _Named:
    *folders, name = Path(os.path.relpath(file, common)).parts
    stem = Path(name).stem if Path(name).suffix.lower() in KINDS else name
    rest = _SHARD.sub("", stem)
    is_shard, split, by_folder = rest != stem, "", False
    if match := _FIRST.fullmatch(rest) or _LAST.fullmatch(rest):
        split, rest = _SPLIT_OF[match["split"].lower()], (match["rest"] or "") + match["number"]
    else:
        for folder in folders:
            if not by_folder and folder.lower() in _SPLIT_OF:
                split, by_folder = _SPLIT_OF[folder.lower()], True
                folders = [other for other in folders if other != folder]
    return _Named(file, split, "/".join([*folders, rest]), is_shard, by_folder)


def _of_splits(named: Sequence[_Named]) -> Sources:
    """Train files and, if there are any, the files of the validation split, else of the test split."""
    of = {split: [name for name in named if name.split == split] for split in ("train", "validation", "test")}
    chosen, unread = (of["validation"], of["test"]) if of["validation"] else (of["test"], [])
    trained = {name.table for name in of["train"]}
    if len(trained) > 1 and not chosen and not all(name.is_shard for name in of["train"]):
        files = [name.file for name in of["train"]]
        return Sources(Files(tuple(files), tuple(file_clients(files))))
    paired = trained & {name.table for name in chosen}
    if chosen and not paired and all(name.by_folder for name in of["train"]):  # shards in a folder of the split
        named = [name._replace(table="") for name in of["train"]]
        return Sources(_tables(named), _tables([name._replace(table="") for name in chosen]), _files(unread))
    train = _tables(of["train"])
    client_of = dict(zip((name.table for name in of["train"]), train.clients, strict=False))
    clients = tuple(client_of.get(name.table, "") for name in chosen)
    test = Files(_files(chosen), clients if all(clients) else ()) if chosen else None
    return Sources(train, test, _files(unread))


def _tables(named: Sequence[_Named]) -> Files:
    """Files of one table, or of several tables, each of which is a client."""
    tables = list(dict.fromkeys(name.table for name in named))
    if len(tables) == 1:
        return Files(_files(named))
    paths = [f"{table}rows" if table.endswith("/") or not table else table for table in tables]
    client_of = dict(zip(tables, file_clients([f"/{path}" for path in paths]), strict=True))
    return Files(_files(named), tuple(client_of[name.table] for name in named))


def _files(named: Sequence[_Named]) -> tuple[str, ...]:
    return tuple(name.file for name in named)


def files_of(rows: TableRows, which: str = "train") -> Files | None:
    """The files of the rows to train on, or with ``which="test"`` of those to test on; None if there are none.

    Raises:
        MissingDataError, InvalidInputError: as :func:`sources`.
    """
    if which == "test" and isinstance(rows.test, str):
        given = sources(rows.test)
        return given.test or given.train
    if not isinstance(rows.train, str) or (which == "test" and rows.test is not None):
        return None
    return sources(rows.train).train if which == "train" else sources(rows.train).test


def describe_files(rows: TableRows) -> str:
    """A line about files that are splits, shards or clients; empty for a single file."""
    if not isinstance(rows.train, str) or not is_many(rows.train):
        return ""
    there = sources(rows.train)
    clients, files = list(dict.fromkeys(there.train.clients)), [Path(file).name for file in there.train.files]
    shown = name_some(files, 3) + (" are one table" if len(files) > 1 and not clients else "")
    if clients:
        shown = f"{len(clients)} clients: {name_some(clients, 8)}"
    if there.test is not None and rows.test is None:
        tested = name_some([Path(file).name for file in there.test.files], 3)
        shown += f" to train on, {tested} to test on"
    if there.unread:
        shown += f"; {name_some([Path(file).name for file in there.unread], 3)} not read, for zorba evaluate"
    return shown


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
    return {file: _sha256(file) for file in _all_files(rows)}


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    for file in _parts(path):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def stamps_of(rows: TableRows) -> tuple[Any, ...]:
    """Name, time and size of the rows' files: a cache key that differs if a file has changed."""
    return stamps_of_files(_all_files(rows))


def stamps_of_files(files: Iterable[str]) -> tuple[Any, ...]:
    statuses = [(part, part.stat()) for file in files for part in _parts(file)]
    return tuple((str(part), status.st_mtime_ns, status.st_size) for part, status in statuses)


def _all_files(rows: TableRows) -> list[str]:
    parts = [files_of(rows, which) for which in ("train", "test")]
    return [file for part in parts if part is not None for file in part.files]


def _parts(file: str) -> list[Path]:
    """The file, or the Arrow files of a folder that ``datasets`` saved; empty if it is missing."""
    path = Path(file)
    return [path] if path.is_file() else sorted(path.rglob("*.arrow"))
