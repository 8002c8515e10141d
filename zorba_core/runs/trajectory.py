"""The trajectory log: every round's seeds and scalars. With the base model it is the run's checkpoint.

A round's update is a function of the seeds, the clients' scalars and the allocation, so a few kilobytes a round take
the place of the model's weights: replaying the log from the base gives the weights of any round, bit for bit.

The file is text, one record a line::

    <crc32, 8 hexadecimal digits> <one JSON object>\n

Each checksum covers its record's JSON and the checksum before it, so a record that is altered, missing or out of place
is noticed. Record kinds, by ``kind`` (:mod:`zorba_core.runs.trajectory_records`):

    header      first line: format version, fingerprints of config, allocation and base model, N and M
    round       see :class:`RoundEntry`
    evaluation  see :class:`EvaluationEntry`; follows its round
    resumed     the run was resumed after that round
    note        see :class:`Note`; after which round it was made

Every record is written by one call and forced to disk (fsync) before the next round begins. A process that dies leaves
at most one torn record, at the end; it is dropped, since the round can be computed again. Damage before the end is
refused with its position. What the end lacks of what the summary has, :func:`lacking` says. One process writes at a
time: the writer holds a lock (flock) on the file.
"""

from __future__ import annotations

import binascii
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from zorba_core.engine.records import EvaluationEntry, RoundEntry
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.runs.trajectory_records import (
    Header,
    Note,
    header_from_record,
    header_to_record,
    round_from_record,
    round_to_record,
)

_MAX_LINE_BYTES, _MAX_HEADER_BYTES = 2**28, 2**16


@dataclass(frozen=True)
class Trajectory:
    """A log as read."""

    path: Path
    header: Header | None  # None: nothing usable was written yet
    rounds: tuple[RoundEntry, ...]
    evaluations: tuple[EvaluationEntry, ...]
    resumed_after: tuple[int, ...]  # rounds done at each resume
    end: int  # bytes of whole records
    dropped_bytes: int  # of a torn record behind them
    checksum: int = field(repr=False)  # of the last whole record
    notes: tuple[Note, ...] = ()
    evaluation_ends: tuple[tuple[int, int], ...] = field(default=(), repr=False)  # (byte, checksum) after each

    @property
    def rounds_done(self) -> int:
        return len(self.rounds)


def read_trajectory(path: str | os.PathLike[str]) -> Trajectory:
    """Read a log, also while a run writes it.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: a damaged record before the last, or one of another version, with its place in the file.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(
            f"{path}: there is no such log; only runs that keep a trajectory can be resumed or replayed"
        )
    return _read(path, path.stat().st_size)


def lacking(trajectory: Trajectory, summary: Mapping[str, Any]) -> str:
    """What a log lacks of what its run had when its summary was written; nothing where it is whole.

    Args:
        summary: the run's, empty while it is unfinished. Read it before the log: a run may end meanwhile.
    """
    done = summary.get("rounds_done", 0)
    return f"it ends at round {trajectory.rounds_done} and the run had {done}" if trajectory.rounds_done < done else ""


def header_of_rounds(path: str | os.PathLike[str]) -> Header | None:
    """The header of a log that has records behind it, from its first line alone; None where there is no such log, or
    its first record is damaged (:func:`read_trajectory` says so)."""
    try:
        with open(path, "rb") as file:
            record = checked_record(file.readline(_MAX_HEADER_BYTES), 0)
            if record is None or record.pop("kind", "") != "header" or not file.read(1):
                return None
        return header_from_record(record)
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _read(path: Path, size: int) -> Trajectory:
    """The first ``size`` bytes of a log."""
    header: Header | None = None
    rounds: list[RoundEntry] = []
    evaluations: list[EvaluationEntry] = []
    resumed: list[int] = []
    notes: list[Note] = []
    evaluation_ends: list[tuple[int, int]] = []
    end = checksum = 0
    for number, (start, line) in enumerate(_lines(path, size), start=1):
        record = checked_record(line, checksum)
        if record is None:
            if start + len(line) >= size:
                break  # the last one: torn
            raise InvalidInputError(
                f"{path}: record {number} (byte {start} of {size}) is damaged, its checksum does not fit, and whole "
                "records follow; restore the file from a copy, or cut it there to lose what follows"
            )
        where = f"{path}: record {number} (byte {start})"
        try:
            kind = record.pop("kind")
            if (kind == "header") != (number == 1):
                raise ValueError("a header is the first record and no other")
            if kind == "header":
                header = header_from_record(record)
            elif kind == "round":
                rounds.append(round_from_record(record, header))
                if rounds[-1].round != len(rounds):
                    raise ValueError(f"round {rounds[-1].round} stands where round {len(rounds)} belongs")
            elif kind == "evaluation":
                evaluations.append(EvaluationEntry(**record))
                if evaluations[-1].round != len(rounds):
                    raise ValueError(f"an evaluation of round {evaluations[-1].round} follows round {len(rounds)}")
            elif kind == "resumed":
                resumed.append(int(record["round"]))
            elif kind == "note":
                notes.append(Note(**record))
            else:
                raise ValueError(f"unknown kind {kind!r}")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, binascii.Error) as error:
            raise InvalidInputError(f"{where} cannot be used: {error}") from None
        end, checksum = start + len(line), int(line[:8], 16)
        if kind == "evaluation":
            evaluation_ends.append((end, checksum))
    return Trajectory(
        path,
        header,
        tuple(rounds),
        tuple(evaluations),
        tuple(resumed),
        end,
        size - end,
        checksum,
        tuple(notes),
        tuple(evaluation_ends),
    )


class TrajectoryLog:
    """The one writer of a log. Opening it takes the lock, reads what is there and cuts off a torn end.

    Raises:
        RunError: while writing: the disk is full, or fails.
        InvalidInputError: another process is writing; or as :func:`read_trajectory`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = self._path = Path(path)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInputError(
                    f"{path.parent}: another process is writing this run; wait for it to end, or stop it first"
                ) from None
            self.trajectory = read_trajectory(path)
            os.ftruncate(self._file, self.trajectory.end)
        except BaseException:
            os.close(self._file)
            raise
        self._checksum = self.trajectory.checksum

    def cut_back(self, round_index: int) -> None:
        """Drop what follows the evaluation after ``round_index`` rounds: those rounds will be computed again."""
        of_round = [entry.round for entry in self.trajectory.evaluations]
        if round_index not in of_round or round_index == self.trajectory.rounds_done:
            return
        end, self._checksum = self.trajectory.evaluation_ends[of_round.index(round_index)]
        os.ftruncate(self._file, end)
        os.fsync(self._file)
        self.trajectory = read_trajectory(self._path)

    def write_header(self, header: Header) -> None:
        self._append({"kind": "header", **header_to_record(header)})

    def write_round(self, entry: RoundEntry) -> None:
        self._append({"kind": "round", **round_to_record(entry)})

    def write_evaluation(self, entry: EvaluationEntry) -> None:
        self._append({"kind": "evaluation", **asdict(entry)})

    def write_note(self, note: Note) -> None:
        self._append({"kind": "note", **asdict(note)})

    def write_resumed(self) -> None:
        self._append({"kind": "resumed", "round": self.trajectory.rounds_done})

    def close(self) -> None:
        """Give the lock back. Closing twice does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, record: dict[str, Any]) -> None:
        content = json.dumps(record, allow_nan=False, separators=(",", ":")).encode("ascii")
        self._checksum = binascii.crc32(content, self._checksum)
        line = b"%08x %s\n" % (self._checksum, content)
        try:
            written = os.write(self._file, line)
            os.fsync(self._file)
            problem = "" if written == len(line) else f"only {written} of {len(line)} bytes were taken"
        except OSError as error:
            problem = error.strerror
        if problem:
            raise RunError(f"{self._path} cannot be written ({problem}); make room and resume the run")


def _lines(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """(start, line) up to ``size``, the file's size when reading began: a writer may be at work."""
    with path.open("rb") as file:
        start = 0
        while start < size:
            line = file.readline(min(size - start, _MAX_LINE_BYTES))
            if not line:  # cut back meanwhile
                return
            yield start, line
            start += len(line)


def checked_record(line: bytes, before: int) -> dict[str, Any] | None:
    """The record of a whole line, where ``before`` is the checksum of the line before it (0: there is none); None where
    its form or checksum is wrong."""
    if len(line) < 12 or line[8:9] != b" " or not line.endswith(b"\n"):
        return None
    content = line[9:-1]
    if line[:8] != b"%08x" % binascii.crc32(content, before):
        return None
    try:
        record = json.loads(content)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
