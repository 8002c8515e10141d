"""``zorba`` called within the test's process, and what the command promises where it refuses."""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import zorba_core.cli


class Left(NamedTuple):
    """How a call of the command ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip()]


def call(*arguments: object) -> Left:
    """``zorba`` with these arguments in this process. What escapes it other than an exit is raised."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = sys.argv
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)  # numpy's words where a number overflows
        sys.argv = ["zorba", *map(str, arguments)]
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
