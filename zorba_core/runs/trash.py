"""Runs set aside: a deleted run is moved into ``.trash`` of its runs folder, from where it comes back whole.

Listings pass over hidden folders, so nothing there counts as a run. Nothing leaves the disk before the trash is
emptied.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from zorba_core.errors import InvalidInputError
from zorba_core.files import check_own_folder

TRASH = ".trash"
_COPY = "~"  # no run's name has it: the second deleted run of a name gets it, and a number
_MOST_COPIES = 1_000


class Discarded(NamedTuple):
    """A run in the trash."""

    entry: str  # the folder's name there
    name: str  # that it had, and gets back
    deleted: float  # seconds since the epoch


def discard(run: str | os.PathLike[str]) -> str:
    """Move a run folder to the trash beside it; its entry there.

    Raises:
        InvalidInputError: the folder is gone, or cannot be moved; the trash is a link.
    """
    run = Path(run)
    trash = _trash(run.parent)
    try:
        trash.mkdir(exist_ok=True)
        entry = next(name for name in _names(run.name) if not os.path.lexists(trash / name))
        run.rename(trash / entry)
        os.utime(trash / entry)
    except (OSError, StopIteration) as error:
        raise InvalidInputError(f"cannot delete {str(run)!r}: {_why(error)}") from None
    return entry


def restore(folder: str | os.PathLike[str], entry: str) -> Path:
    """Move a run from the trash of a runs folder back to its place.

    Raises:
        InvalidInputError: it is not there any more, or a run of its name is.
    """
    source, target = _entry(folder, entry), Path(folder, entry.partition(_COPY)[0])
    if os.path.lexists(target):
        raise InvalidInputError(
            f"cannot restore {target.name!r}: a run of this name is there; rename that folder first"
        )
    try:
        source.rename(target)
    except OSError as error:
        raise InvalidInputError(f"cannot restore {target.name!r}: {_why(error)}") from None
    return target


def discarded(folder: str | os.PathLike[str]) -> list[Discarded]:
    """What is in the trash, last deleted first."""
    try:
        entries = [item for item in os.scandir(_trash(folder)) if not item.name.startswith(".")]
        rows = [
            Discarded(item.name, item.name.partition(_COPY)[0], item.stat(follow_symlinks=False).st_mtime)
            for item in entries
        ]
    except (OSError, InvalidInputError):
        return []
    return sorted(rows, key=lambda row: row.deleted, reverse=True)


def empty_trash(folder: str | os.PathLike[str]) -> int:
    """Remove what is in the trash for good; how many runs it was.

    Raises:
        InvalidInputError: something cannot be removed; the trash is a link.
    """
    _trash(folder)
    rows = discarded(folder)
    for row in rows:
        path = _entry(folder, row.entry)
        try:
            path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)
        except OSError as error:
            raise InvalidInputError(f"cannot remove {str(path)!r}: {_why(error)}") from None
    return len(rows)


def _entry(folder: str | os.PathLike[str], entry: str) -> Path:
    if entry in ("", ".", "..") or os.path.basename(entry) != entry:
        raise InvalidInputError(f"{entry[:80]!r} is no entry of the trash")
    return _trash(folder) / entry


def _trash(folder: str | os.PathLike[str]) -> Path:
    """The trash of a runs folder; never what a link leads to, since all that lies there is removed some day."""
    trash = Path(folder, TRASH)
    check_own_folder(trash)
    return trash


def _names(name: str):
    yield name
    for number in range(2, _MOST_COPIES):
        yield f"{name}{_COPY}{number}"


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or "the trash is full; empty it").lower()
