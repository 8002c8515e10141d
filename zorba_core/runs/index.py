"""What lists say of each run, kept between calls for folders with many runs: reading 10,000 runs takes a minute.

What is kept of a run counts only while every file of it has the size, the time of change and the number on disk that it
had when it was read, so nothing can go stale unnoticed. It lies in the user's cache (:mod:`zorba_core.data.cache`),
never in the runs folder; where there is no cache, or its file is damaged, every run is read. Small folders are read
every time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zorba_core.checksums import with_sum_line, without_sum_line
from zorba_core.data.cache import cache_folder, fingerprint
from zorba_core.errors import InvalidInputError, ZorbaError, one_line
from zorba_core.files import read_regular, write_text
from zorba_core.garbage import no_collections
from zorba_core.runs.folder import ALLOCATION, CONFIG, ENVIRONMENT, METRICS, SUMMARY, TRAJECTORY, Run, read_run

MANY = 200  # runs, from which on they are kept
_FILES = (CONFIG, ENVIRONMENT, ALLOCATION, METRICS, SUMMARY, TRAJECTORY)
_VERSION, _MOST_BYTES = 2, 512_000_000
Stamp = list[list[int] | None]


@dataclass(frozen=True)
class Indexed:
    """``entries``: (name, when its request was written in seconds since the epoch, what is said of it), newest first;
    ``problems``: a line for each entry that is no readable run."""

    entries: tuple[tuple[str, float, dict[str, Any]], ...]
    problems: tuple[str, ...]


def run_folders(folder: Path) -> list[str]:
    """The names that may be runs: hidden entries and plain files are passed over."""
    return sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_dir())


def stamps(folder: Path) -> dict[str, Stamp]:
    """By the names that may be runs, a stamp that changes with every file that a list is made from.

    Raises:
        OSError: the folder cannot be read.
    """
    return {name: _stamp(f"{folder}/{name}") for name in run_folders(folder)}


def indexed(
    folder: Path, say_of: Callable[[Run], dict[str, Any]], kind: str, now: dict[str, Stamp] | None = None
) -> Indexed:
    """What ``say_of`` says of each run of a folder, in the order of :func:`zorba_core.runs.list_runs`.

    Args:
        say_of: JSON can hold what it returns.
        kind: names what is said, and its version: another has an index of its own.
        now: the folder's :func:`stamps`, where they have just been taken.

    Raises:
        OSError: the folder cannot be read.
    """
    if not folder.is_dir():
        return Indexed((), ())
    now = stamps(folder) if now is None else now
    place = _place(folder, kind) if len(now) >= MANY else None
    kept, entries, changed = _read(place), {}, False
    for name, stamp in now.items():
        entry = kept.get(name)
        if entry is None or entry[0] != stamp:
            changed = True
            try:
                entry = [stamp, say_of(read_run(folder / name)), None]
            except (ZorbaError, OSError) as error:
                entry = [stamp, None, one_line(error)]
        entries[name] = entry
    if place is not None and (changed or len(kept) != len(entries)):
        with contextlib.suppress(OSError, InvalidInputError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_text(place, with_sum_line(json.dumps({"version": _VERSION, "entries": entries})))
    dated = [(name, _seconds(entry[0][0][1]), entry[1]) for name, entry in entries.items() if entry[1] is not None]
    dated.sort(key=lambda item: item[1], reverse=True)
    return Indexed(tuple(dated), tuple(entry[2] for entry in entries.values() if entry[1] is None))


def _seconds(nanoseconds: int) -> float:
    """As ``os.stat`` has them, to the bit."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return seconds + 1e-9 * rest


def _stamp(run: str) -> Stamp:
    """(size, time of change, number on disk) of each file; None where it is missing."""
    stamp: Stamp = []
    for name in _FILES:
        try:
            facts = os.stat(f"{run}/{name}")
            stamp.append([facts.st_size, facts.st_mtime_ns, facts.st_ino])
        except OSError:
            stamp.append(None)
    return stamp


def _place(folder: Path, kind: str) -> Path | None:
    cache = cache_folder()
    return None if cache is None else cache / f"{kind}-{fingerprint([str(folder.resolve())])[:32]}.json"


def _read(place: Path | None) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError, InvalidInputError):
        if place is not None:
            text = read_regular(place, _MOST_BYTES).decode("utf-8")  # a pipe would be waited for
            with no_collections():
                content = json.loads(without_sum_line(text)) if text.startswith("#") else {}
            if content.get("version") == _VERSION:
                return content["entries"]
    return {}
