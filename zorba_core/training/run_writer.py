"""Writing a run folder while the run goes on (its layout is in ``zorba_core.runs``)."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zorba_core import runs
from zorba_core.allocation import AllocationMetrics, write_allocation
from zorba_core.errors import InvalidInputError
from zorba_core.files import atomic_path, to_json, write_json
from zorba_core.training.callbacks import Callback, RoundRecord

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_REPEATS = 10_000


def check_name(name: str) -> str:
    """A run's name becomes part of a folder's.

    Raises:
        InvalidInputError: anything but letters, digits, dot, dash and underscore, or longer than 100.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"run name {name!r}: use up to 100 letters, digits, dots, dashes and underscores")
    return name


class RunWriter(Callback):
    """Owns one new run folder. Every file is written whole or not at all, and ``finish`` writes the summary last."""

    def __init__(
        self,
        runs_folder: str | os.PathLike[str],
        name: str,
        config: dict[str, Any],
        environment: dict[str, Any],
        allocation: AllocationMetrics,
    ) -> None:
        digest = hashlib.sha256(to_json(config).encode()).hexdigest()[:8]
        self.path = _new_folder(Path(runs_folder), f"{check_name(name)}-{digest}")
        self._records: list[RoundRecord] = []
        write_json(self.path / runs.CONFIG, config)
        write_json(self.path / runs.ENVIRONMENT, environment)
        write_allocation(self.path / runs.ALLOCATION, allocation)
        self.flush()

    def on_round(self, record: RoundRecord) -> None:
        self._records.append(record)
        if record.eval_accuracy is not None:
            self.flush()

    def flush(self) -> None:
        """Write the metrics so far."""
        table = pa.Table.from_pylist([asdict(record) for record in self._records], schema=runs.METRIC_SCHEMA)
        with atomic_path(self.path / runs.METRICS) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    def finish(self, summary: dict[str, Any]) -> None:
        """The run is over: write what is left of the metrics, then the summary."""
        self.flush()
        write_json(self.path / runs.SUMMARY, summary)


def _new_folder(runs_folder: Path, name: str) -> Path:
    """A folder that did not exist before, by creating it: two runs that start together get two."""
    try:
        runs_folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _MOST_REPEATS):
            path = runs_folder / (name if attempt == 1 else f"{name}-{attempt}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise InvalidInputError(f"runs folder {str(runs_folder)!r} cannot be used: {error.strerror}") from None
    raise InvalidInputError(f"{runs_folder / name}: already {_MOST_REPEATS} runs of this name and config; remove some")
