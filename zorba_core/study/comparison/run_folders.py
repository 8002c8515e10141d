"""The runs of a folder as records. Of folders with many runs an index is read (:mod:`zorba_core.runs.index`), and of a
run the rest when it is looked at."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.allocation import Allocation
from zorba_core.runs import CONFIG, DEFAULT_FOLDER, Run, index, list_runs, read_run
from zorba_core.study.comparison.curves import metric_name_of
from zorba_core.study.comparison.records import Listing, Record
from zorba_core.study.comparison.sent import bytes_sent

_STOPPED = {"target": "at target", "interrupt": "interrupted", "rounds": "finished"}


def folder_records(
    folder: str | os.PathLike[str] = DEFAULT_FOLDER, now: dict[str, index.Stamp] | None = None
) -> Listing:
    """The runs of a folder.

    Args:
        now: the folder's :func:`zorba_core.runs.index.stamps`, where they have just been taken.

    Raises:
        OSError: the folder cannot be read.
    """
    folder = Path(folder)
    if folder.is_dir() and len(index.run_folders(folder) if now is None else now) >= index.MANY:
        listed = index.indexed(folder, _said_of, "records", now)
        records = tuple(_IndexedRecord(folder / name, began, said) for name, began, said in listed.entries)
        return Listing(records, tuple(_with_next_step(line) for line in listed.problems))
    listing = list_runs(folder)
    records = tuple(_of_run(run) for run in listing.runs)
    return Listing(records, tuple(_with_next_step(line) for line in listing.problems))


def _of_run(run: Run) -> Record:
    table = run.metrics
    sent = bytes_sent(
        run.config,
        run.allocation,
        table["round"].to_numpy(np.float64),
        reports=int(table["clients_reported"].sum()) or None,
        numbers=(table["scalars_up"] + table["scalars_down"]).to_numpy(np.float64),
    )
    metrics = table.assign(work=run.work, bytes=sent)
    status = _STOPPED.get(str(run.summary.get("stopped_by")), "finished") if run.finished else "unfinished"
    return Record(
        name=run.name,
        config=run.config,
        environment=run.environment,
        metrics=metrics,
        summary=run.summary,
        status=status,
        allocation=run.allocation,
        path=run.path,
        began=(run.path / CONFIG).stat().st_mtime,
    )


class _IndexedRecord(Record):
    """A record of which the index says what lists and tables show; the rest is read from its folder when it is asked
    for, and raises then as :func:`zorba_core.runs.read_run`."""

    def __init__(self, path: Path, began: float, said: dict[str, Any]) -> None:
        self.__dict__.update(
            name=path.name,
            path=path,
            began=began,
            config=said["config"],
            status=said["status"],
            outcome=said["outcome"],
            small_curve=tuple(said["small_curve"]),
            metric_name=said["metric_name"],
            arm=None,
        )

    @functools.cached_property
    def _whole(self) -> Record:
        return _of_run(read_run(self.path))

    @functools.cached_property
    def metrics(self) -> pd.DataFrame:
        return self._whole.metrics

    @functools.cached_property
    def environment(self) -> dict[str, Any]:
        return self._whole.environment

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        return self._whole.summary

    @functools.cached_property
    def allocation(self) -> Allocation | None:
        return self._whole.allocation


def _said_of(run: Run) -> dict[str, Any]:
    record = _of_run(run)
    return {
        "config": record.config,
        "status": record.status,
        "outcome": record.outcome,
        "small_curve": list(record.small_curve),
        "metric_name": metric_name_of(run),
    }


def _with_next_step(line: str) -> str:
    """Advice for a folder that is no readable run."""
    if "cut short at its start: no metrics" in line:
        return f"{line}. It was stopped before its first evaluation: `zorba resume` starts it, or remove the folder"
    if "cut short at its start" in line:
        return f"{line}. Remove the folder, or move what else it is out of the runs folder"
    if "no column" in line:
        return f"{line}. It was made by another version: read it with that version"
    return f"{line}. Restore the file from a copy, or remove the folder"
