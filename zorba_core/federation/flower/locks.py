"""Who lives, seen from another process by a lock that the kernel gives back however its holder ends. It needs no room
on the disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from zorba_core.errors import InvalidInputError

_A_LOOK, _PAUSE = 1.0, 0.01  # seconds; whoever looks has the lock for far less


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
            if alone is False:
                raise InvalidInputError(
                    f"{folder}: another process runs a federation there; wait for it to end, or stop it first"
                )
            yield
    finally:
        if not was_there:
            with contextlib.suppress(OSError):
                folder.rmdir()  # where nothing came of it


@contextlib.contextmanager
def held(path: Path, wait: float = _A_LOOK) -> Iterator[bool | None]:
    """Within the context :func:`is_held` says so of the file or folder, to all processes. False where another still
    holds it after ``wait`` seconds; None where it cannot be opened, or its file system has no locks."""
    until = time.monotonic() + wait
    with contextlib.ExitStack() as opened:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
            opened.callback(os.close, handle)
            while not (alone := _locked(handle)) and time.monotonic() < until:
                time.sleep(_PAUSE)
        except OSError:
            alone = None
        yield alone


def is_held(path: Path) -> bool:
    """Whether a process is within :func:`held`, as far as anybody can tell; False where the file is not there."""
    with held(path, wait=0.0) as free:
        return not free and path.exists()


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
