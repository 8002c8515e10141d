"""Rows of ``zorba runs`` kept between calls, for folders with many runs: reading 10,000 runs takes most of a minute.

A kept row counts only while every file of its run has the size, the time of change and the number on disk that it had
when it was read, so nothing can go stale unnoticed. The rows lie in the user's cache (:mod:`zorba_core.data.cache`),
never in the runs folder; where there is no cache, every run is read. Small folders are read every time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zorba_core.data.cache import cache_folder, fingerprint
from zorba_core.errors import InvalidInputError, ZorbaError, one_line
from zorba_core.files import sealed, unsealed, write_text
from zorba_core.runs import CONFIG, SUMMARY, TRAJECTORY, Run, read_run
from zorba_core.runs.folder import ALLOCATION, ENVIRONMENT, METRICS

MANY = 200  # runs, from which on rows are kept
_FILES = (CONFIG, ENVIRONMENT, ALLOCATION, METRICS, SUMMARY, TRAJECTORY)
_VERSION, _MOST_BYTES = 1, 256_000_000
Stamp = list[list[int] | None]


def indexed_rows(folder: Path, row_of: Callable[[Run], dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """(rows, newest first; a line for each entry that is no readable run): as :func:`zorba_core.runs.list_runs` has
    them.

    Raises:
        OSError: the folder cannot be read.
    """
    if not folder.is_dir():
        return [], []
    names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_dir())
    place = _place(folder) if len(names) >= MANY else None
    kept, entries, changed = _read(place), {}, False
    for name in names:
        stamp = _stamp(folder / name)
        entry = kept.get(name)
        if entry is None or entry[0] != stamp:
            changed = True
            try:
                entry = [stamp, row_of(read_run(folder / name)), None]
            except (ZorbaError, OSError) as error:
                entry = [stamp, None, one_line(error)]
        entries[name] = entry
    if place is not None and (changed or len(kept) != len(entries)):
        with contextlib.suppress(OSError, InvalidInputError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_text(place, json.dumps(sealed({"version": _VERSION, "entries": entries})))
    dated = [(entry[0][0][1], entry[1]) for entry in entries.values() if entry[1] is not None]
    dated.sort(key=lambda item: item[0], reverse=True)
    return [row for _, row in dated], [entry[2] for entry in entries.values() if entry[1] is None]


def _stamp(run: Path) -> Stamp:
    """(size, time of change, number on disk) of each file; None where it is missing."""
    stamp: Stamp = []
    for name in _FILES:
        try:
            facts = os.stat(f"{run}/{name}")
            stamp.append([facts.st_size, facts.st_mtime_ns, facts.st_ino])
        except OSError:
            stamp.append(None)
    return stamp


def _place(folder: Path) -> Path | None:
    cache = cache_folder()
    return None if cache is None else cache / f"runs-{fingerprint([str(folder.resolve())])[:32]}.json"


def _read(place: Path | None) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError, InvalidInputError):
        if place is not None and place.stat().st_size <= _MOST_BYTES:
            text = place.read_text(encoding="utf-8")
            content = unsealed(json.loads(text), text)
            if content["version"] == _VERSION:
                return content["entries"]
    return {}
