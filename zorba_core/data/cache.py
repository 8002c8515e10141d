"""Arrays that take seconds to make and depend on their inputs alone, kept between runs: tokens of texts, a division.

A file's name is the fingerprint of everything that its content follows from, so nothing can go stale. The folder is
``ZORBA_CACHE``, else ``zorba`` in the user's cache folder; ``ZORBA_CACHE=off`` keeps nothing. It holds at most 256 MiB,
the files used last, and only its owner may read it: tokens can be turned back into text. Where nothing can be written,
nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zorba_core.files import write_bytes

VARIABLE, OFF = "ZORBA_CACHE", "off"
MOST_BYTES = 2**28
_SUFFIX = ".npz"


def cache_folder() -> Path | None:
    """Where arrays are kept; None where they are not."""
    named = os.environ.get(VARIABLE)
    if named == OFF:
        return None
    if named:
        folder = os.path.expanduser(named)
        return None if folder.startswith("~") else Path(folder)  # of a user who is unknown
    home = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home directory
        return (Path(home) if home else Path.home() / ".cache") / "zorba"
    return None


def fingerprint(parts: Iterable[str]) -> str:
    """Of texts in their order: SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def kept(name: str, key: str, make: Callable[[], Mapping[str, NDArray]]) -> Mapping[str, NDArray]:
    """What ``make`` gives, from the file of an earlier call where there is one.

    Args:
        name: what it is, the first part of the file's name.
        key: :func:`fingerprint` of all that the arrays follow from.
    """
    folder = cache_folder()
    if folder is None:
        return make()
    path = folder / f"{name}-{key}{_SUFFIX}"
    with contextlib.suppress(OSError, ValueError, EOFError, zipfile.BadZipFile):  # not there, or not whole
        with np.load(path, allow_pickle=False) as file:
            found = {array: file[array] for array in file.files}
        with contextlib.suppress(OSError):  # used now; a cache of another owner's is read all the same
            os.utime(path)
        return found
    arrays = make()
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    if packed.tell() <= MOST_BYTES:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_bytes(path, packed.getvalue())
            _forget_oldest(folder)
    return arrays


def _forget_oldest(folder: Path) -> None:
    """Remove what was used longest ago until the rest is small enough."""
    there = [path for path in folder.iterdir() if path.suffix == _SUFFIX]
    files = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in there), reverse=True)
    total = 0
    for _, size, path in files:
        total += size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
