"""Write files whole or not at all: under a temporary name in the target's folder, which is then renamed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

# Errors of a wrong path. All others are failures of the machine, such as a full disk.
WRONG_PATH = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EINVAL,
)


def check_target(target: str | os.PathLike[str]) -> None:
    """Refuse a path to which no file can be written. Commands call this before they compute; it creates nothing.

    Raises:
        InvalidInputError: it is a folder, a parent is a file, or its folder is not writable.
    """
    if os.path.isdir(target):
        raise InvalidInputError(
            f"cannot write {os.fspath(target)!r}: it is a folder; move it away, or give the name of a file"
        )
    check_folder(os.path.dirname(os.path.abspath(target)), os.fspath(target))


def check_folder(folder: str | os.PathLike[str], for_what: str | None = None) -> None:
    """Refuse a folder that is not writable; a missing one must be in a writable folder.

    Args:
        for_what: the path in the message; default: ``folder``.

    Raises:
        InvalidInputError: the folder or a parent is a file or not writable.
    """
    path = Path(os.path.abspath(folder))
    there = next(part for part in (path, *path.parents) if os.path.lexists(part))
    problem = ""
    if not os.path.isdir(there):
        problem = f"{there} is not a folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        problem = f"{there} cannot be written; choose another folder"
    if problem:
        raise InvalidInputError(f"cannot write {for_what or os.fspath(folder)!r}: {problem}")


def check_new_folder(folder: str | os.PathLike[str]) -> None:
    """As :func:`check_folder`, for a folder that must not exist."""
    if os.path.lexists(folder):
        raise InvalidInputError(f"{os.fspath(folder)} exists already; give a folder that does not")
    check_folder(folder)


@contextlib.contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it to ``target`` on success, remove it on any failure.

    Raises:
        InvalidInputError: as :func:`check_target`.
    """
    target = Path(target)
    check_target(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # With the target's suffix, because some writers (np.savez, plotly) choose the format by it.
        temporary = target.with_name(f".{target.stem}-{secrets.token_hex(4)}{target.suffix}")
        temporary.touch(exist_ok=False)
    except OSError as error:
        if error.errno not in WRONG_PATH:
            raise
        raise InvalidInputError(f"cannot write {str(target)!r}: {(error.strerror or '').lower()}") from None
    mode = temporary.stat().st_mode
    try:
        with named_in_errors(target):
            yield temporary
            temporary.chmod(mode)  # safetensors puts a private file in its place
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def named_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Context manager: add the file's path to an OSError that has none, such as that of a full disk; turn an error of
    safetensors that has an errno into an OSError."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if type(error).__name__ != "SafetensorError" or number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), os.fspath(path)) from error


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of a killed process: those of :func:`atomic_path`, and those of safetensors, which are
    named ``.tmp`` and six characters."""
    for leftover in (*folder.glob(".*-*"), *folder.glob(".tmp??????")):
        leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """As :func:`atomic_path`, for a new folder.

    Raises:
        InvalidInputError: as :func:`check_folder`, or another process has made the folder meanwhile.
    """
    target = Path(os.path.abspath(target))
    check_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        with named_in_errors(target):
            yield temporary
            mode = temporary.stat().st_mode & 0o666  # safetensors makes private files
            for file in temporary.iterdir():
                if file.is_file() and not file.is_symlink():
                    file.chmod(mode)
            try:
                temporary.rename(target)  # replaces an empty folder
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR) or not os.path.lexists(target):
                    raise
                raise InvalidInputError(f"{target} exists now; give a folder that does not") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(target: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes, whole or not at all."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)


def write_json(target: str | os.PathLike[str], value: Any) -> None:
    """Write a value as indented JSON, whole or not at all; see :func:`to_json`."""
    write_text(target, to_json(value, indent=2) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file.

    Raises:
        OSError, ValueError: it cannot be read, or is not JSON.
    """
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_parquet(target: str | os.PathLike[str], table: pa.Table) -> None:
    """Write a table as Parquet, whole or not at all."""
    import pyarrow.parquet as pq

    with atomic_path(target) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON: NumPy scalars and arrays become numbers and lists, a NaN or infinity becomes ``null``."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def fingerprint(value: Any) -> str:
    """SHA-256 of a value's JSON."""
    return hashlib.sha256(to_json(value).encode()).hexdigest()
