"""The runs of a folder as records."""

from __future__ import annotations

import os

import numpy as np

from zorba_core.runs import CONFIG, DEFAULT_FOLDER, Run, list_runs
from zorba_core.study.comparison.records import Listing, Record
from zorba_core.study.comparison.sent import bytes_sent

_STOPPED = {"target": "at target", "interrupt": "interrupted", "rounds": "finished"}


def folder_records(folder: str | os.PathLike[str] = DEFAULT_FOLDER) -> Listing:
    """The runs of a folder.

    Raises:
        OSError: the folder cannot be read.
    """
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


def _with_next_step(line: str) -> str:
    """Advice for a folder that is no readable run."""
    if "cut short at its start: no metrics" in line:
        return f"{line}. It was stopped before its first evaluation: `zorba resume` starts it, or remove the folder"
    if "cut short at its start" in line:
        return f"{line}. Remove the folder, or move what else it is out of the runs folder"
    if "no column" in line:
        return f"{line}. It was made by another version: read it with that version"
    return f"{line}. Restore the file from a copy, or remove the folder"
