"""Writing a run folder during the run (its layout is in ``zorba_core.runs``).

The trajectory log is written round by round; the metrics table is made from the same rounds and rewritten whole at
every evaluation, so what a killed process had not yet put there comes back from the log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from zorba_core.allocation import Allocation, write_allocation
from zorba_core.engine.callbacks import Callback, RoundRecord
from zorba_core.engine.records import EvaluationEntry, RoundEntry
from zorba_core.errors import InvalidInputError
from zorba_core.files import fingerprint, write_json, write_parquet
from zorba_core.runs import folder as runs
from zorba_core.runs.folder import check_name
from zorba_core.runs.trajectory import Note, TrajectoryLog

_MOST_REPEATS = 10_000


class RunWriter(Callback):
    """The one writer of a run folder. Every file is written whole or not at all (the log: record after record), and
    ``finish`` writes the summary last. It holds the log's lock until ``close``."""

    def __init__(
        self,
        runs_folder: str | os.PathLike[str],
        name: str,
        config: dict[str, Any],
        environment: dict[str, Any],
        allocation: Allocation,
    ) -> None:
        """A new folder, with everything in it that is known before the first round."""
        # Of rows of one's own the folder has columns, labels and scalars, which tell of the rows to who has the model.
        private = "task" in config or "federation" in config
        self.path = _new_folder(Path(runs_folder), f"{check_name(name)}-{fingerprint(config)[:8]}", private)
        self._records: list[RoundRecord] = []
        self._written: pa.Table | None = None
        self._rounds_done = 0
        write_json(self.path / runs.CONFIG, config)
        write_json(self.path / runs.ENVIRONMENT, environment)
        write_allocation(self.path / runs.ALLOCATION, allocation)
        self._log = TrajectoryLog(self.path / runs.TRAJECTORY)
        try:
            self._log.write_header(runs.header_of(config, environment, allocation))
            self.flush()
        except BaseException:
            self._log.close()  # or this process could not resume it
            raise

    @classmethod
    def reopen(cls, path: Path, log: TrajectoryLog, records: Sequence[RoundRecord]) -> RunWriter:
        """Resume in a folder whose log this process holds; ``records`` are the metrics so far."""
        writer = cls.__new__(cls)
        writer.path, writer._log, writer._records = path, log, list(records)
        writer._rounds_done, writer._written = log.trajectory.rounds_done, None
        writer.flush()
        return writer

    def on_step(self, entry: RoundEntry) -> None:
        self._log.write_round(entry)
        self._rounds_done = entry.round

    def on_evaluation(self, entry: EvaluationEntry) -> None:
        self._log.write_evaluation(entry)

    def note(self, what: str, content: dict[str, Any]) -> None:
        """Something that happened beside the rounds, into the log."""
        self._log.write_note(Note(self._rounds_done, what, content))

    def on_round(self, record: RoundRecord) -> None:
        if self._records and self._records[-1].round == record.round:
            self._records.pop()  # killed during its evaluation, and evaluated now
            self._written = None
        self._records.append(record)
        if record.eval_accuracy is not None:
            self.flush()

    def flush(self) -> None:
        """Write the metrics so far."""
        before = self._written if self._written is not None else runs.METRIC_SCHEMA.empty_table()
        new = [asdict(record) for record in self._records[len(before) :]]  # a long run's rows are made once
        table = pa.concat_tables([before, pa.Table.from_pylist(new, schema=runs.METRIC_SCHEMA)]).combine_chunks()
        write_parquet(self.path / runs.METRICS, table)
        self._written = table

    def finish(self, summary: dict[str, Any]) -> None:
        """The run is over: write what is left of the metrics, then the summary."""
        self.flush()
        write_json(self.path / runs.SUMMARY, summary)

    def close(self) -> None:
        """Let another process write the folder."""
        self._log.close()


def _new_folder(runs_folder: Path, name: str, private: bool) -> Path:
    """A folder that did not exist before, by creating it: two runs that start together get two. ``private``: for its
    owner alone, whatever the umask."""
    try:
        runs_folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _MOST_REPEATS):
            path = runs_folder / (name if attempt == 1 else f"{name}-{attempt}")
            try:
                path.mkdir(mode=0o700 if private else 0o777)
            except FileExistsError:
                continue
            return path
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise InvalidInputError(f"runs folder {str(runs_folder)!r} cannot be used: {error.strerror}") from None
    raise InvalidInputError(f"{runs_folder / name}: already {_MOST_REPEATS} runs of this name and config; remove some")
