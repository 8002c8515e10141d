"""Files that are either whole or absent: written to a temporary name beside the target, then renamed.

Files that carry numbers also carry a checksum, so that a flipped bit is noticed when they are read. It is optional to
read: files without one, of an earlier version or of another program, are read as they are.

    JSON      a last field "checksum": "sha256:<of the other fields>",  sealed, unsealed
              and a first one that says so, for a file that lost its end
    text      a first line "# sha256 <of the rest>"                      with_sum_line, without_sum_line
    a folder  SHA256SUMS, which ``sha256sum -c`` reads too               write_sums, check_sums
    Parquet   in the file's metadata                                     zorba_core.data.checked_tables
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from zorba_core.errors import InvalidInputError

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
SUMS = "SHA256SUMS"
Understood = TypeVar("Understood")
_CHECKSUM, _PREFIX = "checksum", "sha256:"
_SEALED, _SAYS = "sealed", "by the checksum at the end"
_DEEPEST = 100  # objects and lists in one another; ours have ten
_TAIL = 120  # characters: the checksum is the last field
_DOES_NOT_FIT = "its checksum does not fit what it holds: it was damaged or changed; restore it from a copy, or"
_TOO_DEEP = "nested too deeply"
_LONGEST_NAME = 200  # bytes; file systems take 255, and a temporary name is a little longer


class ChecksumError(InvalidInputError):
    """A file holds something else than was written into it."""


def check_target(target: str | os.PathLike[str]) -> None:
    """Refuse a name that no file can be written under. Commands ask before they compute; nothing is made.

    Raises:
        InvalidInputError: it is a folder, it stands in a file, it is too long, or its folder cannot be written.
    """
    if os.path.isdir(target):
        raise InvalidInputError(f"cannot write {os.fspath(target)!r}: it is a folder; give the name of a file")
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
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it to ``target`` on success, remove it on any failure.

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
        yield temporary
        # mkstemp makes files private (0600); a result is as readable as any other file of its owner.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as error:
        if error.filename is None:  # of a write: it knows its number only
            error.filename = str(target)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process had not yet renamed: of :func:`atomic_path`, and of safetensors, whose files are
    written to ``.tmp`` and six characters first."""
    for leftover in (*folder.glob(".*-*"), *folder.glob(".tmp??????")):
        leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """As :func:`atomic_path`, for a model's folder that does not exist yet."""
    target = Path(os.path.abspath(target))
    check_model_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        yield temporary
        readable_as_usual(temporary)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def parse_json(text: str | bytes) -> Any:
    """The value of a file that may be damaged: also what is nested too deeply is no more than a ValueError.

    Raises:
        ValueError: no JSON, or nested deeper than any file that is read here.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    layer = [value]
    for _ in range(_DEEPEST):
        layer = [item for holder in layer for item in _items(holder) if isinstance(item, dict | list)]
        if not layer:
            return value
    raise ValueError(_TOO_DEEP)


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def fingerprint(value: Any) -> str:
    """SHA-256 of a value's JSON."""
    return hashlib.sha256(to_json(value).encode()).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the checksum of its fields behind them, and before them that there is one: a file that lost a
    stretch keeps one of the two."""
    whole = {_SEALED: _SAYS, **content}
    return {**whole, _CHECKSUM: _PREFIX + fingerprint(whole)}


def unsealed(content: Any, text: str) -> Any:
    """What was read from ``text``, without its checksum.

    Raises:
        ChecksumError: the checksum does not fit, or it is missing and the file says that it has one.
    """
    fields = content if isinstance(content, dict) else {}
    stated = fields.pop(_CHECKSUM, None)
    # The names may be what was damaged.
    says = _SEALED in fields or _SAYS in text[:_TAIL].lower() or _PREFIX in text[-_TAIL:].lower()
    if stated is None and not says:
        return content
    # No file of ours has a number that is not finite; the checksum takes one for a null.
    if stated != _PREFIX + fingerprint(content) or not _is_finite(content):
        raise ChecksumError(f"{_DOES_NOT_FIT} remove its fields {_SEALED} and {_CHECKSUM} if you changed it on purpose")
    fields.pop(_SEALED, None)
    return content


def _is_finite(content: Any) -> bool:
    layer = [content]
    while layer:
        items = [item for holder in layer for item in _items(holder)]
        if any(isinstance(item, float) and not math.isfinite(item) for item in items):
            return False
        layer = [item for item in items if isinstance(item, dict | list)]
    return True


def write_sealed(target: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """:func:`write_json` of an object, with its checksum."""
    write_json(target, sealed(content))


def read_sealed(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds, without its checksum where it has one.

    Raises:
        OSError, ValueError: it cannot be read, or is no JSON.
        ChecksumError: as :func:`unsealed`.
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        return unsealed(parse_json(text), text)
    except ChecksumError as error:
        raise ChecksumError(f"{os.fspath(path)}: {error}") from None


def read_words(
    path: str | os.PathLike[str], most_bytes: int, understand: Callable[[Any], Understood], wrong: str
) -> Understood | None:
    """A small JSON file of words that people may have changed; None where there is none.

    Args:
        most_bytes: a larger file is none of ours.
        understand: what the parsed content means; it may raise what a content of another form leads to.
        wrong: what to say of such a file, "these are no notes of a run; remove the file".

    Raises:
        InvalidInputError: it cannot be read, is damaged, or holds something else.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(most_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidInputError(f"{os.fspath(path)}: {error.strerror}") from None
    try:
        if len(content) > most_bytes:
            raise ValueError
        text = content.decode("utf-8")
        return understand(unsealed(parse_json(text), text))
    except InvalidInputError as error:
        raise InvalidInputError(f"{os.fspath(path)}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInputError(f"{os.fspath(path)}: {wrong}") from None


def with_sum_line(text: str) -> str:
    return f"# sha256 {hashlib.sha256(text.encode()).hexdigest()} of the lines below\n{text}"


def without_sum_line(text: str) -> str:
    """
    Raises:
        ChecksumError: the first line has a checksum that does not fit the rest.
    """
    line, _, rest = text.partition("\n")
    if "sha256" not in line and not line.startswith("#"):
        return text
    stated = re.match(r"#\s*sha256\s+([0-9a-f]{64})\b", line)
    if stated is None or hashlib.sha256(rest.encode()).hexdigest() != stated.group(1):
        raise ChecksumError(f"{_DOES_NOT_FIT} remove its first line if you changed it on purpose")
    return rest


def write_sums(folder: str | os.PathLike[str]) -> None:
    """Write the checksums of a folder's files beside them; pages for people (.md) have none."""
    folder = Path(folder)
    lines = [f"{sha256_of(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if _has_sum(path)]
    write_text(folder / SUMS, "".join(lines))


def check_sums(folder: str | os.PathLike[str], *, without: str | None = None) -> bool:
    """Compare a folder's files with its checksums; False where it has none. Files that it does not name are left alone,
    and those whose names end in ``without``.

    Raises:
        ChecksumError: a file that is named there is missing or another; or the list is damaged.
    """
    folder = Path(folder)
    try:
        stats = [(path.name, path.stat()) for path in sorted(folder.iterdir())]
    except OSError:
        return False
    stamp = tuple((name, of.st_mtime_ns, of.st_ctime_ns, of.st_ino, of.st_size) for name, of in stats)
    return (folder / SUMS).is_file() and _check_sums(folder, stamp, without)


@functools.lru_cache(maxsize=64)
def _check_sums(folder: Path, stamp: tuple[tuple[str, int, int, int, int], ...], without: str | None) -> bool:
    restore = f"restore it from a copy, or remove {SUMS} if you changed it on purpose"
    for line in (folder / SUMS).read_bytes().decode("utf-8", "replace").splitlines():
        stated = re.fullmatch(r"([0-9a-f]{64})  ([^/\\\0]{1,200})", line)
        if stated is None or stated.group(2) in (".", ".."):
            raise ChecksumError(f"{folder / SUMS}: a line is damaged; {restore}")
        path = folder / stated.group(2)
        if without is not None and path.name.endswith(without):
            continue
        if not path.is_file():
            raise ChecksumError(f"{path} is missing and {SUMS} beside it names it; {restore}")
        if sha256_of(path) != stated.group(1):
            raise ChecksumError(f"{path} is not the file whose checksum {SUMS} has; {restore}")
    return True


def sha256_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_sum(path: Path) -> bool:
    return path.is_file() and path.name != SUMS and not path.name.startswith(".") and path.suffix != ".md"
