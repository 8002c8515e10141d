"""Faults at the n-th file operation of a process: it stops there, or the operation tears, fails, or loses what was not
yet forced to disk.

Operations that change files are counted in Python's ``os`` and ``open``, through which this project writes. What
libraries write by themselves (Parquet, safetensors) goes to temporary names whose opening and renaming are counted; a
tear at the renaming leaves half of the temporary file.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import io
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEATHS = ("stop", "torn", "lost")
ERRORS = {"full": errno.ENOSPC, "quota": errno.EDQUOT, "read-only": errno.EROFS, "input-output": errno.EIO}
KINDS = (*DEATHS, *ERRORS)
KILLED = 137
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGING = ("write", "fsync", "ftruncate", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "chmod")

Contents = dict[str, bytes | None]  # of a folder, by path below it; None: a folder
Torn = tuple[str, bytes] | None  # a file, and what an operation cut in two leaves in it


class Death(BaseException):
    """The process is dead: nothing that it does from now on reaches a file."""


class Faults:
    """Counts the operations below ``folder`` and makes number ``at`` go wrong; with None it only counts.

    ``once``: an operation that fails does so once, else every later one fails too. As a context it is in force inside.
    """

    def __init__(self, folder: Path, kind: str = "stop", at: int | None = None, *, once: bool = False) -> None:
        self.folder, self.kind, self.at, self.once = os.path.realpath(folder), kind, at, once
        self.count = 0
        self._synced: dict[str, int] = {}  # bytes known to be on disk, of files written to
        self._real: dict[str, Callable[..., Any]] = {}

    def install(self) -> Faults:
        """Replace the operations of this process."""
        for name in _CHANGING:
            self._real[name] = getattr(os, name)
            setattr(os, name, self._wrapped(name))
        self._real["open"], os.open = os.open, self._os_open
        plain_open = self._real["plain open"] = builtins.open

        def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            writes = any(letter in mode for letter in "wxa+")
            if writes and isinstance(file, str | os.PathLike) and self._inside(file):
                self._operation(lambda: None)
                self._synced.setdefault(os.path.realpath(file), 0)
            return plain_open(file, mode, *rest, **named)

        builtins.open = io.open = opened
        return self

    def uninstall(self) -> None:
        for name in (*_CHANGING, "open"):
            setattr(os, name, self._real[name])
        builtins.open = io.open = self._real["plain open"]

    def __enter__(self) -> Faults:
        return self.install()

    def __exit__(self, *raised: object) -> None:
        self.uninstall()

    def _wrapped(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def operation(target: Any, *rest: Any, **named: Any) -> Any:
            path = self._path_of(target) if isinstance(target, int) else target
            if path is None or not self._inside(path):
                return real(target, *rest, **named)
            self._operation(lambda: self._torn(name, target, path, rest))
            result = real(target, *rest, **named)
            self._note(name, target, path, rest)
            return result

        return operation

    def _torn(self, name: str, target: Any, path: Any, rest: tuple[Any, ...]) -> Torn:
        if name == "write" and len(rest[0]) > 1:
            before = self._read(path)
            appends = fcntl.fcntl(target, fcntl.F_GETFL) & os.O_APPEND
            at = len(before) if appends else os.lseek(target, 0, os.SEEK_CUR)
            half = bytes(rest[0])[: len(rest[0]) // 2]
            return os.path.realpath(path), before[:at] + half + before[at + len(half) :]
        if name in ("replace", "rename") and os.path.isfile(path):
            content = self._read(path)
            return os.path.realpath(path), content[: len(content) // 2]
        return None

    def _read(self, path: Any) -> bytes:
        with self._real["plain open"](path, "rb") as file:
            return file.read()

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
            self._operation(lambda: None)
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

    def _operation(self, torn: Callable[[], Torn]) -> None:
        self.count += 1
        if self.at is None or self.count < self.at or (self.once and self.count > self.at):
            return
        if self.kind in ERRORS:
            raise OSError(ERRORS[self.kind], os.strerror(ERRORS[self.kind]))
        if self.count == self.at:
            if self.kind == "torn" and (half := torn()) is not None:
                with self._real["plain open"](half[0], "wb") as file:
                    file.write(half[1])
            if self.kind == "lost":
                for path, size in self._synced.items():
                    with contextlib.suppress(OSError):
                        os.truncate(path, size)
        self.die()

    def die(self) -> None:
        os._exit(KILLED)


class Dying(Faults):
    """The process goes on when it has died, for the others that live in it: what was dying is left by
    :class:`Death`."""

    @property
    def dead(self) -> bool:
        return self.at is not None and self.count >= self.at

    def die(self) -> None:
        raise Death


class Snapshots(Faults):
    """Nothing goes wrong, and ``look(number of the operation, left)`` is called at each; ``left(kind)`` is what a death
    of that kind leaves in the folder there."""

    def __init__(self, folder: Path, look: Callable[[int, Callable[[str], Contents]], None]) -> None:
        super().__init__(folder)
        self._look = look

    def _operation(self, torn: Callable[[], Torn]) -> None:
        self.count += 1

        def left(kind: str) -> Contents:
            contents = read_contents(self.folder, self._real["plain open"])
            if kind == "torn" and (half := torn()) is not None:
                contents[os.path.relpath(half[0], self.folder)] = half[1]
            if kind == "lost":
                for path, size in self._synced.items():
                    name = os.path.relpath(path, self.folder)
                    content = contents.get(name)
                    if content is not None:
                        contents[name] = content[:size]
            return contents

        self._look(self.count, left)


def read_contents(folder: str, opener: Callable[..., Any] = open) -> Contents:
    """Every file and folder below one."""
    contents: Contents = {}
    for place, folders, names in os.walk(folder):
        below = os.path.relpath(place, folder)
        for name in folders:
            contents[os.path.normpath(os.path.join(below, name))] = None
        for name in names:
            with opener(os.path.join(place, name), "rb") as file:
                contents[os.path.normpath(os.path.join(below, name))] = file.read()
    return contents


def write_contents(folder: Path, contents: Contents) -> None:
    """Make an empty folder hold these."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        if content is None:
            (folder / name).mkdir(parents=True, exist_ok=True)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def jumping_clock(random_: random.Random) -> Callable[[], None]:
    """From now on the clock of this process jumps back and forth by up to a year; what is returned mends it."""
    real = time.time
    time.time = lambda: real() + random_.uniform(-3e7, 3e7)

    def mend() -> None:
        time.time = real

    return mend
