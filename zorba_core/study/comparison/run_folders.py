"""The runs of a folder as records."""

from __future__ import annotations

import os

import numpy as np

from zorba_core.runs import DEFAULT_FOLDER, Run, list_runs
from zorba_core.runs.log import CONFIG
from zorba_core.study.comparison.records import Listing, Record
from zorba_core.study.comparison.sent import bytes_sent

_STOPPED = {"target": "at target", "rounds": "finished"}


def folder_records(folder: str | os.PathLike[str] = DEFAULT_FOLDER) -> Listing:
    """The runs of a folder.

    Raises:
        OSError: the folder cannot be read.
    """
    listing = list_runs(folder)
    records = tuple(_of_run(run) for run in listing.runs)
    return Listing(records, listing.problems)


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
