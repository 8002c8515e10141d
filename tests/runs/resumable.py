"""A small run to kill, resume and replay, and what two of them have to agree in."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from zorba_core.allocation import Allocation
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.settings import Settings
from zorba_core.runs import Run

ALLOCATION = Allocation(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]))
SETTINGS = Settings(
    rounds=9, directions=2, num_seeds=32, batch_size=2, seq_len=48, eval_every=3, eval_rows=8, participation=0.7
)
REPEATABLE = ["round", "train_loss", "eval_loss", "eval_accuracy", "forward_passes", "scalars_up", "scalars_down"]
REPEATABLE += ["clients_reported", "clients_refused"]


def copy_of(run: Run, folder: Path) -> Path:
    """The folder as a killed process leaves it: no summary."""
    shutil.copytree(run.path, folder)
    (folder / "summary.json").unlink()
    return folder


def assert_ends_alike(run: Run, whole: Run) -> None:
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    pd.testing.assert_frame_equal(run.metrics[REPEATABLE], whole.metrics[REPEATABLE], check_exact=True)
    assert run.metrics["seconds"].is_monotonic_increasing


class After4(Callback):
    def on_step(self, entry):
        self.round = entry.round

    def wants_stop(self):
        return self.round >= 4
