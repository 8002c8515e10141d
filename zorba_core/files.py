"""Files that are either whole or absent: written to a temporary name beside the target, then renamed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

# Numbers of errors that say that the path is wrong, not that the machine fails.
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
_AWAY = "move it away, or give the name of a file"
_LONGEST_NAME = 200  # bytes; file systems take 255, and a temporary name is a little longer


def check_target(target: str | os.PathLike[str]) -> None:
    """Refuse a name that no file can be written under. Commands ask before they compute; nothing is made.

    Raises:
        InvalidInputError: it is a folder or a device, it stands in a file, it is too long, or its folder cannot be
            written.
    """
    if os.path.isdir(target):
        raise InvalidInputError(f"cannot write {os.fspath(target)!r}: it is a folder; {_AWAY}")
    if os.path.exists(target) and not os.path.isfile(target):  # renaming over a device would end it for every program
        raise InvalidInputError(f"cannot write {os.fspath(target)!r}: it is a device or a pipe; {_AWAY}")
    check_folder(os.path.dirname(os.path.abspath(target)), os.fspath(target))


def check_folder(folder: str | os.PathLike[str], for_what: str | None = None) -> None:
    """Refuse a folder in which nothing can be written; it may be missing where it can be made.

    Raises:
        InvalidInputError: it, or one it stands in, is a file, has too long a name or one that is no text, or cannot be
            written.
    """
    path = Path(os.path.abspath(folder))
    problem = ""
    if not _is_text(f"{path}{for_what or ''}"):
        problem = "the name is no text in UTF-8; rename the folder, or choose another one"
    elif any(len(os.fsencode(part)) > _LONGEST_NAME for part in (*path.parts, os.path.basename(for_what or ""))):
        problem = f"a name has at most {_LONGEST_NAME} bytes"
    else:
        there = next(part for part in (path, *path.parents) if os.path.lexists(part))
        if not os.path.isdir(there):
            problem = f"{there} is no folder"
        elif not os.access(there, os.W_OK | os.X_OK):
            problem = f"{there} cannot be written; choose another folder"
        elif os.statvfs(there).f_blocks == 0 and not _takes_files(there):  # /proc and its kind say that root may write
            problem = f"{there} takes no files; choose another folder"
    if problem:
        raise InvalidInputError(f"cannot write {for_what or os.fspath(folder)!r}: {problem}")


def _is_text(name: str) -> bool:
    """False for bytes that are no UTF-8, which Python keeps as halves of characters, and for a NUL."""
    with contextlib.suppress(UnicodeEncodeError):
        return b"\0" not in name.encode()
    return False


def as_named(path: str | os.PathLike[str]) -> str:
    """The path for a library that takes a leading ``~`` for a home: here it is a name as any other, as for Python."""
    return os.path.abspath(path)


def _takes_files(folder: Path) -> bool:
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".zorba-", dir=folder))
    except OSError:
        return False
    return True


def check_model_folder(folder: str | os.PathLike[str]) -> None:
    """As :func:`check_folder`, for a folder that safetensors writes: it takes Unicode names only.

    Raises:
        InvalidInputError: as :func:`check_folder`, or a name that is no Unicode.
    """
    try:
        os.path.abspath(folder).encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"cannot write {os.fspath(folder)!r}: a model's folder needs a Unicode name") from None
    check_folder(folder)


@contextlib.contextmanager
def atomic_path(target: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it to ``target`` on success, remove it on any failure.

    Args:
        private: for the owner alone, such as rows of one's own.

    Raises:
        InvalidInputError: as :func:`check_target`.
    """
    target = Path(target)
    check_target(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # The suffix is kept because some writers (np.savez, plotly) choose the format, or add one, by it.
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
    except OSError as error:
        if error.errno not in WRONG_PATH:
            raise
        raise InvalidInputError(f"cannot write {str(target)!r}: {(error.strerror or '').lower()}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        with named_in_errors(target):
            yield temporary
            # mkstemp makes files private (0600); a result is as readable as any other file of its owner.
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o600 if private else 0o666 & ~umask)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def named_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """An error of reading or writing within the context names the file: a disk that fails says no more than that.
    safetensors has an error of its own for it, which becomes an OSError."""
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


def check_regular(path: str | os.PathLike[str]) -> int:
    """The bytes of a file that can be read to its end: a pipe would be waited for, and a device may have no end.

    Raises:
        OSError: it is not there, or its folder cannot be read.
        InvalidInputError: it is a folder, a device or a pipe, or a link to one.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "device or a pipe"
        raise InvalidInputError(f"{os.fspath(path)}: it is a {kind} where a file belongs; restore the file from a copy")
    return status.st_size


def open_own(path: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """A descriptor of a lock or a log, which are written in place: an ``opener`` for :func:`open`. A link in its place
    may lead to a file of another program, and a pipe would be waited for. Nothing is emptied before that is known.

    Raises:
        OSError: it cannot be opened.
        InvalidInputError: it is a link, a folder, a device or a pipe.
    """
    try:
        handle = os.open(path, (flags & ~os.O_TRUNC) | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
    except OSError:
        _refuse_strange(path)
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        _refuse_strange(path)
    os.set_blocking(handle, True)
    if flags & os.O_TRUNC:
        os.ftruncate(handle, 0)
    return handle


def create_new(path: str | os.PathLike[str], flags: int = os.O_WRONLY, mode: int = 0o666) -> int:
    """A descriptor of a file that was not there: an ``opener`` for :func:`open`. What lies there is removed first; of a
    link only the link."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)


def check_own_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a link, or what is no folder, where a folder belongs whose files this program removes. It may be missing.

    Raises:
        InvalidInputError: it is one.
    """
    link = os.path.islink(folder)
    if link or (os.path.lexists(folder) and not os.path.isdir(folder)):
        problem = f"it is {'a link' if link else 'no folder'}, and a folder belongs there; move it away"
        raise InvalidInputError(f"cannot use {os.fspath(folder)!r}: {problem}")


def _refuse_strange(path: str | os.PathLike[str]) -> None:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "device or a pipe")
        raise InvalidInputError(f"cannot write {os.fspath(path)!r}: it is a {kind}; move it away")


def read_regular(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """What a file holds whose size nobody vouches for. No more than ``most_bytes`` are ever read.

    Raises:
        OSError: it cannot be read.
        InvalidInputError: as :func:`check_regular`, or it is larger.
    """
    if check_regular(path) <= most_bytes:  # a sparse file costs nobody anything until it is read
        with open(path, "rb") as file:
            content = file.read(most_bytes + 1)  # it may grow meanwhile, and files of /proc say that they are empty
        if len(content) <= most_bytes:
            return content
    raise InvalidInputError(
        f"{os.fspath(path)}: it has more than {most_bytes} bytes, which no such file has; restore it from a copy"
    )


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process had not yet renamed: of :func:`atomic_path`, and of safetensors, whose files are
    written to ``.tmp`` and six characters first."""
    for leftover in (*folder.glob(".*-*"), *folder.glob(".tmp??????")):
        leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """As :func:`atomic_path`, for a model's folder that does not exist yet.

    Raises:
        InvalidInputError: as :func:`check_model_folder`, or it exists when it is to get its name.
    """
    target = Path(os.path.abspath(target))
    check_model_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        with named_in_errors(target):
            yield temporary
            readable_as_usual(temporary)
            place_folder(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def place_folder(made: Path, target: Path, otherwise: str = "give a folder that does not") -> None:
    """Give a folder its name, unless another process took it meanwhile. One that is empty gives way.

    Raises:
        InvalidInputError: something is there.
    """
    try:
        made.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR) or not os.path.lexists(target):
            raise
        raise InvalidInputError(f"{target} exists now; {otherwise}") from None


def readable_as_usual(folder: Path) -> None:
    """Let a folder and its files be as readable as others of their owner: safetensors and mkdtemp keep them private."""
    umask = os.umask(0)
    os.umask(umask)
    folder.chmod(0o777 & ~umask)
    for file in folder.iterdir():
        if file.is_file() and not file.is_symlink():
            file.chmod(0o666 & ~umask)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(target: str | os.PathLike[str], content: bytes) -> None:
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)


def write_json(target: str | os.PathLike[str], value: Any) -> None:
    write_text(target, to_json(value, indent=2) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds.

    Raises:
        OSError, ValueError: it cannot be read, or is no JSON.
    """
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_parquet(target: str | os.PathLike[str], table: pa.Table) -> None:
    import pyarrow.parquet as pq

    with atomic_path(target) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON: NumPy scalars and arrays become numbers and lists, a NaN or infinity becomes ``null``, and bytes of
    a file's name that are no Unicode are escaped, so that the text can be encoded."""
    text = json.dumps(_plain(value), indent=indent, allow_nan=False, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()


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
