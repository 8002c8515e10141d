"""Damage for files and requests, the same for the same seed, and what the command must still promise after it."""

from __future__ import annotations

import contextlib
import copy
import csv
import hashlib
import io
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import zorba_core.cli

# Written into JSON as they stand: json.dumps would refuse some of them, or write them more kindly.
RAW = (
    "null", "true", "false", "-0", "-0.0", "0", "-1", "1", "0.5", "1e400", "-1e400", "NaN", "Infinity", "9" * 400,
    "9" * 5000, "9223372036854775807", "9223372036854775808", "1e308", '""', '"x"', '"é\\ud800"', '"\\u0000"', "[]",
    "[[]]", "[null]", "[0,0]", "{}", '{"a": 1}', "[" * 3000 + "]" * 3000,
)  # fmt: skip
CELLS = (
    "", " ", "0", "-0", "-1", "1e400", "nan", "inf", "9" * 400, "9" * 5000, "1,5", "é", "x", "True", '"', "\t", ";",
    "0x10", "1_0", "\u0661", "a\nb",
)  # fmt: skip


class Left(NamedTuple):
    """How a call of the command ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip()]


def call(*arguments: str) -> Left:
    """``zorba`` with these arguments in this process. What escapes it other than an exit is raised."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = sys.argv
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)  # numpy's words where a number overflows
        sys.argv = ["zorba", *arguments]
        try:
            zorba_core.cli.main()
            status: Any = 0
        except SystemExit as left:
            status = left.code
        finally:
            sys.argv = before
    texts = [stream.buffer.getvalue().decode("utf-8") for stream in (out, err)]
    return Left(0 if status is None else status, *texts)


def tree(folder: Path) -> dict[str, str]:
    """Every entry below ``folder``, hidden ones too, with a fingerprint of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


def check_refused(left: Left) -> None:
    """One line on stderr, status 1 or 2, nothing on stdout."""
    assert left.status in (1, 2), left
    assert len(left.lines) == 1, left.err
    assert left.lines[0].startswith("zorba: "), left.err
    assert "Traceback" not in left.err
    assert len(left.lines[0]) < 1200, left.err
    assert not left.out.strip(), left.out


def damage_bytes(random_: random.Random, content: bytes) -> bytes:
    """Flipped bits, another digit, a cut; a stretch of zeros or noise, twice, missing, reversed, or in the place of
    another."""
    kind = random_.randrange(11)
    at = random_.randrange(len(content) or 1)
    end = min(len(content), at + random_.choice((1, 7, random_.randint(1, 40), random_.randint(1, 1000))))
    if kind <= 2:
        changed = bytearray(content)
        for _ in range((1, 2, 8)[kind]):
            if changed:
                changed[random_.randrange(len(changed))] ^= 1 << random_.randrange(8)
        return bytes(changed)
    if kind == 3:
        digits = [place for place, byte in enumerate(content) if chr(byte).isdigit()]
        place = random_.choice(digits) if digits else at
        return content[:place] + b"%d" % random_.randrange(10) + content[place + 1 :]
    later = random_.randint(end, len(content))  # another stretch of that length begins there
    other = content[later : later + end - at]
    return (
        content[:at],
        content[:at] + bytes(end - at) + content[end:],
        content[:at] + random_.randbytes(end - at) + content[at:],
        content[:end] + content[at:],
        content[:at] + content[end:],
        content[:at] + content[at:end][::-1] + content[end:],
        content[:at] + other + content[end:later] + content[at:end] + content[later + len(other) :],
    )[kind - 4]


def damage_json(random_: random.Random, content: bytes) -> bytes:
    """One value anywhere replaced by another, or one field left out."""
    value = copy.deepcopy(json.loads(content))
    places = list(_places(value))
    holder, key = random_.choice(places)
    if isinstance(holder, dict) and random_.random() < 0.2:
        del holder[key]
        return json.dumps(value).encode()
    holder[key] = "@@"
    return json.dumps(value).replace('"@@"', random_.choice(RAW)).encode()


def damage_csv(random_: random.Random, content: bytes) -> bytes:
    """One cell replaced, or a cell or a row lost or doubled."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    row = random_.choice(rows)
    column = random_.randrange(len(row))
    kind = random_.randrange(6)
    if kind == 0:
        del row[column]
    elif kind == 1:
        row.insert(column, random_.choice(CELLS))
    elif kind == 2:
        rows.insert(random_.randrange(len(rows)), list(row))
    else:
        row[column] = random_.choice(CELLS)
    text = io.StringIO()
    csv.writer(text, quoting=random_.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)), lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", random_.choice(("strict", "strict")))


def damaged(random_: random.Random, name: str, content: bytes) -> bytes:
    """Damage that suits the file: to its bytes, or half of the time to a value of its format."""
    by_value: dict[str, Callable[[random.Random, bytes], bytes]] = {".json": damage_json, ".csv": damage_csv}
    by_value_of = by_value.get(Path(name).suffix)
    if by_value_of is not None and random_.random() < 0.7:
        return by_value_of(random_, content)
    return damage_bytes(random_, content)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])
