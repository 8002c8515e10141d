"""Faults at the n-th file operation of a process: it stops there, or the operation tears, fails, or loses what was not
yet forced to disk.

Operations that change files are counted in Python's ``os`` and ``open``, through which this project writes. What
libraries write by themselves (Parquet, safetensors) goes to temporary names whose opening and renaming are counted.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KINDS = ("stop", "torn", "lost", "full", "quota", "read-only", "input-output")
ERRORS = {"full": errno.ENOSPC, "quota": errno.EDQUOT, "read-only": errno.EROFS, "input-output": errno.EIO}
KILLED = 137
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Faults:
    """Counts the operations below ``folder`` and makes number ``at`` go wrong; with None it only counts.

    ``once``: an operation that fails does so once, else every later one fails too.
    """

    def __init__(self, folder: Path, kind: str = "stop", at: int | None = None, *, once: bool = False) -> None:
        self.folder, self.kind, self.at, self.once = os.path.realpath(folder), kind, at, once
        self.count = 0
        self._synced: dict[str, int] = {}  # bytes known to be on disk, of files written to
        self._real: dict[str, Callable[..., Any]] = {}

    def install(self) -> Faults:
        """Replace the operations of this process, for good."""
        for name in ("write", "fsync", "ftruncate", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "chmod"):
            self._real[name] = getattr(os, name)
            setattr(os, name, self._wrapped(name))
        self._real["open"], os.open = os.open, self._os_open
        plain_open = builtins.open

        def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            writes = any(letter in mode for letter in "wxa+")
            if writes and isinstance(file, str | os.PathLike) and self._inside(file):
                self._operation("open", lambda: None)
                self._synced.setdefault(os.path.realpath(file), 0)
            return plain_open(file, mode, *rest, **named)

        builtins.open = io.open = opened
        return self

    def _wrapped(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def operation(target: Any, *rest: Any, **named: Any) -> Any:
            path = self._path_of(target) if isinstance(target, int) else target
            if path is None or not self._inside(path):
                return real(target, *rest, **named)

            def tear() -> None:
                if name == "write" and len(rest[0]) > 1:
                    real(target, bytes(rest[0])[: len(rest[0]) // 2])

            self._operation(name, tear)
            result = real(target, *rest, **named)
            self._note(name, target, path, rest)
            return result

        return operation

    def _note(self, name: str, target: Any, path: Any, rest: tuple[Any, ...]) -> None:
        where = os.path.realpath(path)
        if name == "write":
            self._synced.setdefault(where, os.path.getsize(where) - len(rest[0]))
        elif name == "fsync":
            self._synced[where] = os.fstat(target).st_size
        elif name in ("replace", "rename"):
            if where in self._synced:
                self._synced[os.path.realpath(rest[0])] = self._synced.pop(where)
        elif name in ("unlink", "remove"):
            self._synced.pop(where, None)

    def _os_open(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        writes = bool(flags & _WRITING) and self._inside(path)
        if writes:
            self._operation("open", lambda: None)
        number = self._real["open"](path, flags, *rest, **named)
        if writes:
            self._synced.setdefault(os.path.realpath(path), os.fstat(number).st_size)
        return number

    def _path_of(self, number: int) -> str | None:
        try:
            return os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            return None

    def _inside(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and f"{os.path.realpath(path)}/".startswith(f"{self.folder}/")

    def _operation(self, name: str, tear: Callable[[], None]) -> None:
        self.count += 1
        if self.at is None or self.count < self.at or (self.once and self.count > self.at):
            return
        if self.kind in ERRORS:
            raise OSError(ERRORS[self.kind], os.strerror(ERRORS[self.kind]))
        if self.kind == "torn":
            tear()
        if self.kind == "lost":
            for path, size in self._synced.items():
                with contextlib.suppress(OSError):
                    os.truncate(path, size)
        os._exit(KILLED)


def jumping_clock(random_: random.Random) -> None:
    """From now on the clock of this process jumps back and forth by up to a year."""
    real = time.time
    time.time = lambda: real() + random_.uniform(-3e7, 3e7)
