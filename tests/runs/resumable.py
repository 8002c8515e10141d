"""A small run to kill, resume and replay, and what two of them have to agree in."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from zorba_core.allocation import Allocation
from zorba_core.engine.round import Round
from zorba_core.engine.settings import Settings
from zorba_core.errors import RunError
from zorba_core.runs import Run, list_runs, read_run
from zorba_core.runs.record import Callback
from zorba_core.runs.train import fine_tune

ALLOCATION = Allocation(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]))
SETTINGS = Settings(
    rounds=9, directions=2, num_seeds=32, batch_size=2, seq_len=48, eval_every=3, eval_rows=8, participation=0.7
)


def copy_of(run: Run, folder: Path) -> Path:
    """The folder as a killed process leaves it: no summary."""
    shutil.copytree(run.path, folder)
    (folder / "summary.json").unlink()
    return folder


def assert_ends_alike(run: Run, whole: Run) -> None:
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    pd.testing.assert_frame_equal(
        run.metrics.drop(columns="seconds"), whole.metrics.drop(columns="seconds"), check_exact=True
    )
    assert run.metrics["seconds"].is_monotonic_increasing


def interrupted(runs_folder: Path, **options) -> Run:
    """A run that Ctrl-C ended after round 4."""
    with contextlib.suppress(RunError):
        fine_tune(ALLOCATION, runs_folder=runs_folder, force=True, callbacks=[InterruptAfter4()], **options)
    return list_runs(runs_folder).runs[0]


def resume(run: str | os.PathLike[str] | Run, **options) -> Run:
    return read_run(run).resume(**options)


class InterruptAfter4(Callback):
    """Ends a run after round 4, as Ctrl-C does. Raises RunError; wrap the call."""

    def on_round(self, done: Round) -> None:
        if done.round == 4:
            raise RunError("interrupted after round 4")
