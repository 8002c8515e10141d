"""The rounds of a run in progress, from its trajectory log: each read starts where the last one ended.

Each line is compared with its checksum, as by whoever resumes or replays the log (``zorba_core.runs.trajectory``); what
follows a damaged one is not shown.

Shapes: N clients.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zorba_core.runs.trajectory import checked_record

_MOST_AT_ONCE = 64_000_000  # bytes read in one look
_REPORTED = 0  # a client's status in the log: its scalars were taken


class Round(NamedTuple):
    """One round as the log has it. Seconds and counts are totals since the start."""

    round: int
    train_loss: float
    seconds: float
    forward_passes: int
    scalars_up: int
    scalars_down: int


class Evaluated(NamedTuple):
    """One evaluation."""

    round: int
    loss: float
    accuracy: float


@dataclass
class LiveLog:
    """A log that grows. ``update`` reads what is new; a file that became shorter or another one is read anew."""

    path: Path
    rounds: list[Round] = field(default_factory=list)
    evaluations: list[Evaluated] = field(default_factory=list)
    resumed_after: int = 0  # rounds done when the run was last resumed
    damaged_at: int | None = None  # byte of a line whose checksum or content is wrong; nothing is read from there on
    _offset: int = 0
    _checksum: int = 0  # of the last line that was read

    def update(self) -> LiveLog:
        try:
            if not self.path.is_file():
                return self
            began = self._offset
            if self.path.stat().st_size < began or self.damaged_at is not None:
                began = 0
                self._forget()
            self._read_on()
            if self.damaged_at is not None and began:  # cut back and written again since the last look, perhaps
                self._forget()
                self._read_on()
        except OSError:
            return self
        return self

    def _forget(self) -> None:
        self.rounds, self.evaluations, self.resumed_after, self.damaged_at = [], [], 0, None
        self._offset = self._checksum = 0

    def _read_on(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._offset)
            new = file.read(_MOST_AT_ONCE)
        whole = new.rfind(b"\n") + 1  # the line that is being written comes with the next look
        for line in new[:whole].splitlines(keepends=True):
            record = checked_record(line, self._checksum)
            if record is None or not self._take(record):
                self.damaged_at = self._offset
                return
            self._offset, self._checksum = self._offset + len(line), int(line[:8], 16)

    @property
    def rounds_done(self) -> int:
        return self.rounds[-1].round if self.rounds else 0

    def seconds_left(self, rounds_asked: int, evaluation_seconds: float = 0.0, eval_every: int = 1) -> float | None:
        """Seconds until the last round, at the pace of the last ten; None before the first."""
        recent = self.rounds[-11:]
        if not recent:
            return None
        before = recent[0] if len(recent) > 1 else Round(0, 0.0, 0.0, 0, 0, 0)
        pace = (recent[-1].seconds - before.seconds) / max(1, recent[-1].round - before.round)
        left = max(0, rounds_asked - self.rounds_done)
        return left * pace + left / eval_every * evaluation_seconds

    def _take(self, record: dict[str, Any]) -> bool:
        """Whether the record is one of a log."""
        try:
            kind = record.get("kind")
            if kind == "round":
                _put(self.rounds, _round(record))
            elif kind == "evaluation":
                judged = Evaluated(int(record["round"]), float(record["loss"]), float(record["accuracy"]))
                _put(self.evaluations, judged)
            elif kind == "resumed":
                self.resumed_after = int(record["round"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, IndexError):
            return False
        return True


def _put(entries: list, entry: Round | Evaluated) -> None:
    """Append; a round computed again after a torn record replaces the earlier one."""
    while entries and entries[-1].round >= entry.round:
        entries.pop()
    entries.append(entry)


def _round(record: dict[str, Any]) -> Round:
    status_N = np.frombuffer(base64.b64decode(record["status_N"]), "u1")
    loss_N = np.frombuffer(base64.b64decode(record["loss_N"]), "<f8")
    taken_N = loss_N[status_N == _REPORTED]
    return Round(
        round=int(record["round"]),
        train_loss=float(taken_N.mean()) if taken_N.size else float("nan"),
        seconds=float(record["seconds"]),
        forward_passes=int(record["forward_passes"]),
        scalars_up=int(record["scalars_up"]),
        scalars_down=int(record["scalars_down"]),
    )


def tail(path: Path, lines: int = 12, most_bytes: int = 16_000) -> Sequence[str]:
    """The last lines of a text file; none when it cannot be read."""
    if not path.is_file():
        return ()
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most_bytes))
            text = file.read(most_bytes).decode("utf-8", "replace")
    except OSError:
        return ()
    return [line[:400] for line in text.splitlines() if line.strip()][-lines:]
