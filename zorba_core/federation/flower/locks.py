"""Who lives, seen from another process by a lock that the kernel gives back however its holder ends. It needs no room
on the disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from zorba_core.errors import InvalidInputError


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Within the context the folder is this process's: what another wrote there would end the federation at hand.

    Raises:
        InvalidInputError: another process has it.
    """
    was_there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with held(folder) as alone:
            if not alone:
                raise InvalidInputError(
                    f"{folder}: another process runs a federation there; wait for it to end, or stop it first"
                )
            yield
    finally:
        if not was_there:
            with contextlib.suppress(OSError):
                folder.rmdir()  # where nothing came of it


@contextlib.contextmanager
def held(path: Path) -> Iterator[bool]:
    """Within the context :func:`is_held` says so of the file or folder, to all processes. False where another holds it
    or it cannot be opened."""
    with contextlib.ExitStack() as opened:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
            opened.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def is_held(path: Path) -> bool:
    """Whether a process is within :func:`held`; False where the file is not there."""
    with held(path) as free:
        return not free and path.exists()
