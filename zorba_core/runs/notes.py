"""What people say of a run: a label, a note and tags, in ``notes.json`` beside its files. The folder keeps its name.

All of it is words from outside: it is cut to length, and control characters are left out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zorba_core.checksums import read_words, write_sealed
from zorba_core.errors import InvalidInputError

NOTES = "notes.json"
LONGEST_LABEL, LONGEST_NOTE, LONGEST_TAG, MOST_TAGS = 80, 2_000, 40, 20
_MOST_BYTES = 100_000


@dataclass(frozen=True)
class Notes:
    """A label to read instead of the folder's name, a note, and tags to find runs by."""

    label: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, label: str = "", note: str = "", tags: Iterable[str] = ()) -> Notes:
        """Notes of words as they were typed."""
        short = (_line(tag, LONGEST_TAG) for tag in tags)
        return cls(
            _line(label, LONGEST_LABEL), _lines(note), tuple(dict.fromkeys(tag for tag in short if tag))[:MOST_TAGS]
        )

    def __bool__(self) -> bool:
        return bool(self.label or self.note or self.tags)

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "tags": list(self.tags)}


NO_NOTES = Notes()


def read_notes(run: str | os.PathLike[str]) -> Notes:
    """The notes of a run folder; empty where it has none.

    Raises:
        InvalidInputError: the file is damaged.
    """
    path = os.path.join(run, NOTES)
    return read_words(path, _MOST_BYTES, _notes, "these are no notes of a run; remove the file") or NO_NOTES


def _notes(fields: Any) -> Notes:
    label, note, tags = (fields.get(key, default) for key, default in (("label", ""), ("note", ""), ("tags", [])))
    if not (isinstance(label, str) and isinstance(note, str) and isinstance(tags, list)):
        raise ValueError
    if not all(isinstance(tag, str) for tag in tags):
        raise ValueError
    return Notes.of(label, note, tags)


def notes_or_none(run: str | os.PathLike[str]) -> tuple[Notes, str | None]:
    """(notes, None), or (no notes, what is wrong with the file): a damaged file does not hide the run."""
    try:
        return read_notes(run), None
    except InvalidInputError as error:
        return NO_NOTES, str(error)


def write_notes(run: str | os.PathLike[str], notes: Notes) -> None:
    """Keep ``notes`` beside the run; empty ones leave no file.

    Raises:
        InvalidInputError: the run folder is gone or cannot be written.
    """
    path = Path(run, NOTES)
    if not path.parent.is_dir():
        raise InvalidInputError(f"run {str(run)!r} does not exist any more; its notes cannot be kept")
    if notes:
        write_sealed(path, notes.describe())
        return
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _line(text: str, longest: int) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:longest].strip()


def _lines(text: str) -> str:
    kept = "".join(c for c in text.replace("\r\n", "\n") if c == "\n" or c.isprintable())
    return kept.strip()[:LONGEST_NOTE].strip()
