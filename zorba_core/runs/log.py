"""The log of a run, ``rounds.jsonl``: a line of JSON for each round. Log and base model give the weights of any round.

A round's update is a function of its seeds, its scalars and the allocation, so a few kilobytes a round replace the
model's weights. The arrays of :class:`zorba_core.engine.round.Round` are plain lists; float64 values are exact.

Each line ends with a CRC of its text that continues the CRC of the line before; the first continues that of
``config.json``. So reading detects a changed byte, a missing line and another config. Each line is on disk before the
next round begins. A killed process leaves at most one incomplete line, at the end; it is dropped, and its round is
computed again. A lock on the file (flock) admits one writer.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

import binascii
import fcntl
import json
import os
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from zorba_core.engine.round import Round
from zorba_core.errors import InvalidInputError, RunError

LOG, CONFIG = "rounds.jsonl", "config.json"
_DTYPES = {"seeds_Q": "uint32", "status_N": "uint8"}
_DTYPES |= dict.fromkeys(("rho_NQ", "loss_N", "rho_bar_MQ", "prior_C"), "float64")
_CRC = ',"crc":"%08x"}\n'
_CRC_BYTES = len(_CRC % 0)
_MAX_LINE_BYTES = 2**28


class LogContent(NamedTuple):
    """The content of a log."""

    rounds: list[Round]
    crc: int  # of the last complete line
    ends: list[tuple[int, int]]  # (bytes, CRC) after each line
    torn_bytes: int  # of an incomplete line at the end


def read_log(folder: str | os.PathLike[str]) -> LogContent:
    """Read the log of a run folder, also while a run writes it. A missing log has no rounds.

    Raises:
        InvalidInputError: a line before the last is damaged, or config.json was changed.
    """
    folder = Path(folder)
    crc, end, rounds, ends = binascii.crc32((folder / CONFIG).read_bytes()), 0, [], []
    path = folder / LOG
    size = path.stat().st_size if path.is_file() else 0
    if size:
        with path.open("rb") as file:
            while end < size and (line := file.readline(min(size - end, _MAX_LINE_BYTES))):
                record = _checked(line, crc)
                if record is None:
                    if end + len(line) < size:
                        raise InvalidInputError(_damage(path, len(rounds), end))
                    break
                crc, end = int(record.pop("crc"), 16), end + len(line)
                try:
                    rounds.append(_round_of(record))
                    if rounds[-1].round != len(rounds) - 1:
                        raise ValueError(f"it has round {rounds[-1].round} in place of round {len(rounds) - 1}")
                except (KeyError, TypeError, ValueError, OverflowError) as error:
                    raise InvalidInputError(f"{path}: line {len(rounds)} cannot be used: {error}") from None
                ends.append((end, crc))
    return LogContent(rounds, crc, ends, size - end)


class Log:
    """The writer of a run's log. Opening it takes the lock, reads the log and cuts off an incomplete line.

    Raises:
        InvalidInputError: another process is writing; or as :func:`read_log`.
        RunError: in :meth:`append`: the disk is full, or fails.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder) / LOG
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInputError(
                    f"{folder}: another process is writing this run; wait for it to end, or stop it first"
                ) from None
            content = read_log(folder)
            self.rounds, self._crc, self._ends, self.torn_bytes = content
            if self.torn_bytes:
                os.ftruncate(self._file, self._ends[-1][0] if self._ends else 0)
        except BaseException:
            os.close(self._file)
            raise

    def append(self, done: Round) -> None:
        """Write a round to disk, before this returns."""
        record = _record_of(done)
        text = json.dumps(record, allow_nan=False, separators=(",", ":"))[:-1]
        crc = binascii.crc32(text.encode("ascii"), self._crc)
        line = (text + _CRC % crc).encode("ascii")
        try:
            written = os.write(self._file, line)
            os.fsync(self._file)
            problem = "" if written == len(line) else f"only {written} of {len(line)} bytes were written"
        except OSError as error:
            problem = error.strerror
        if problem:
            raise RunError(f"{self._path} cannot be written ({problem}); make room and resume the run")
        self._crc = crc
        self.rounds.append(done)
        self._ends.append((os.fstat(self._file).st_size, crc))

    def cut_back(self, round_index: int) -> None:
        """Drop the rounds after ``round_index``."""
        end, self._crc = self._ends[round_index]
        os.ftruncate(self._file, end)
        os.fsync(self._file)
        del self.rounds[round_index + 1 :], self._ends[round_index + 1 :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._file)


def _record_of(done: Round) -> dict[str, Any]:
    """The round's fields as plain JSON; those that are None, empty or false are left out."""
    record = {}
    for field in fields(Round):
        value = getattr(done, field.name)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        elif field.name == "method_state":
            value = {name: array.tolist() for name, array in value.items()}
        elif isinstance(value, tuple):
            value = list(value)
        if value is not False and value not in (None, [], {}):
            record[field.name] = value
    return record


def _round_of(record: dict[str, Any]) -> Round:
    for name, dtype in _DTYPES.items():
        if name in record:
            record[name] = np.array(record[name], dtype)
    if "method_state" in record:
        record["method_state"] = {name: np.array(of, np.float64) for name, of in record["method_state"].items()}
    record["events"] = tuple(record.get("events", ()))
    return Round(**record)


def _checked(line: bytes, before: int) -> dict[str, Any] | None:
    """The record of a line; None if its CRC does not continue ``before``, the CRC of the line before."""
    text = line[:-_CRC_BYTES]
    if line[-_CRC_BYTES:] != (_CRC % binascii.crc32(text, before)).encode("ascii"):
        return None
    try:
        return json.loads(line)
    except ValueError:
        return None


def _damage(path: Path, lines: int, end: int) -> str:
    if lines == 0:
        return f"{path}: its first line does not match {CONFIG}: one of the two was changed; restore the original"
    return (
        f"{path}: line {lines + 1} (byte {end}) is damaged: its CRC does not match; restore the file from a copy, or "
        "cut it there and lose the rounds that follow"
    )
