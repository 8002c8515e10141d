"""Checksums of files that carry numbers, so that a flipped bit is noticed when they are read.

They are optional to read: files without one, of an earlier version or of another program, are read as they are.

    JSON      a last field "checksum": "sha256:<of the other fields>",  sealed, unsealed
              and a first one that says so, for a file that lost its end
    text      a first line "# sha256 <of the rest>"                      with_sum_line, without_sum_line
    a folder  SHA256SUMS, which ``sha256sum -c`` reads too               write_sums, check_sums
    Parquet   in the file's metadata                                     zorba_core.data.checked_tables
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zorba_core.errors import InvalidInputError
from zorba_core.files import check_regular, fingerprint, named_in_errors, read_regular, write_json, write_text

SUMS = "SHA256SUMS"
_CHECKSUM, _PREFIX = "checksum", "sha256:"
_SEALED, _SAYS = "sealed", "by the checksum at the end"
_DEEPEST = 100  # objects and lists in one another; ours have ten
_TAIL = 120  # characters: the checksum is the last field
_DOES_NOT_FIT = "its checksum does not fit what it holds: it was damaged or changed; restore it from a copy, or"
_TOO_DEEP = "nested too deeply"
_MOST_SUMS = 2**20  # bytes of SHA256SUMS; what is cut off there is a damaged line
_MOST_SEALED = 2**26  # bytes; our largest files, of the clients of a federation, have half of that


class ChecksumError(InvalidInputError):
    """A file holds something else than was written into it."""


def parse_json(text: str | bytes) -> Any:
    """The value of a file that may be damaged: also what is nested too deeply is no more than a ValueError.

    Raises:
        ValueError: no JSON, or nested deeper than any file that is read here.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    layer = [[value]]
    for _ in range(_DEEPEST + 1):
        items = (holder.values() if type(holder) is dict else holder for holder in layer)
        layer = [item for item in itertools.chain.from_iterable(items) if type(item) in (dict, list)]
        if not layer:
            return value
    raise ValueError(_TOO_DEEP)


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
    if stated != _PREFIX + _fingerprint_of_read(content):
        raise ChecksumError(f"{_DOES_NOT_FIT} remove its fields {_SEALED} and {_CHECKSUM} if you changed it on purpose")
    fields.pop(_SEALED, None)
    return content


def _fingerprint_of_read(content: Any) -> str:
    """:func:`zorba_core.files.fingerprint` of what came from JSON and needs no copy; of none with a number that is not
    finite: no file of ours has one, and written as a null it would have the null's."""
    try:
        text = json.dumps(content, allow_nan=False, ensure_ascii=False)
    except ValueError:
        return ""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def write_sealed(target: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """:func:`write_json` of an object, with its checksum."""
    write_json(target, sealed(content))


def read_sealed(path: str | os.PathLike[str], most_bytes: int = _MOST_SEALED) -> Any:
    """What a JSON file holds, without its checksum where it has one.

    Raises:
        OSError, ValueError: it cannot be read, or is no JSON.
        InvalidInputError: as :func:`zorba_core.files.read_regular`.
        ChecksumError: as :func:`unsealed`.
    """
    with named_in_errors(path):
        text = read_regular(path, most_bytes).decode("utf-8")
    try:
        return unsealed(parse_json(text), text)
    except ChecksumError as error:
        raise ChecksumError(f"{os.fspath(path)}: {error}") from None


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
    return (folder / SUMS).is_file() and _check_sums(folder, tuple(_stamps(folder)), without)


def _stamps(folder: Path) -> Iterator[tuple[str, int, int, int, int]]:
    """Of each file, by which a change is seen. A link to nothing, such as an editor's lock, has none, and no say."""
    for path in sorted(folder.iterdir()):
        with contextlib.suppress(OSError):
            of = path.stat()
            yield path.name, of.st_mtime_ns, of.st_ctime_ns, of.st_ino, of.st_size


@functools.lru_cache(maxsize=64)
def _check_sums(folder: Path, stamp: tuple[tuple[str, int, int, int, int], ...], without: str | None) -> bool:
    restore = f"restore it from a copy, or remove {SUMS} if you changed it on purpose"
    with open(folder / SUMS, "rb") as file:
        text = file.read(_MOST_SUMS).decode("utf-8", "replace")
    named = set()
    for line in text.splitlines():
        stated = re.fullmatch(r"([0-9a-f]{64})  ([^/\\\0]{1,200})", line)
        if stated is None or stated.group(2) in (".", ".."):
            raise ChecksumError(f"{folder / SUMS}: a line is damaged; {restore}")
        path = folder / stated.group(2)
        named.add(path.name)
        if without is not None and path.name.endswith(without):
            continue
        if not path.is_file():
            raise ChecksumError(f"{path} is missing and {SUMS} beside it names it; {restore}")
        if sha256_of(path) != stated.group(1):
            raise ChecksumError(f"{path} is not the file whose checksum {SUMS} has; {restore}")
    of_a_model = {path.name for path in (*folder.glob("config.json"), *folder.glob("model*.safetensors"))}
    if not text.endswith("\n") or not of_a_model <= named:
        raise ChecksumError(f"{folder / SUMS}: lines are missing; {restore}")
    return True


def sha256_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: it cannot be read.
        InvalidInputError: as :func:`zorba_core.files.check_regular`.
    """
    check_regular(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_sum(path: Path) -> bool:
    return path.is_file() and path.name != SUMS and not path.name.startswith(".") and path.suffix != ".md"
