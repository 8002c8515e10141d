"""Importance read of a run's scalars beside the exact gradients of the same rounds, on the small base model.

    python -m tests.benchmarks.bench_importance [FILE]

One run a task: 10 clients of 4 blocks each in a random order every round (``--vary permute``), a small learning rate,
exact gradients measured before every second round (``--diagnostics 2``). Energies and noises of both are means over the
rounds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from zorba_core.allocation import AllocationProblem, solve
from zorba_core.checksums import write_sealed
from zorba_core.engine.settings import TrainSettings
from zorba_core.runs.block_importance import importance
from zorba_core.runs.environment import describe
from zorba_core.runs.session import fine_tune

DEFAULT_FILE = Path("artifacts/benchmarks/importance.json")
CLIENTS, BLOCKS, TASKS = 10, 4, ("toy-reviews", "sst2")
SETTINGS = TrainSettings(
    rounds=24, lr=2e-3, num_perturbations=10, batch_size=4, estimator="exact", vary="permute", eval_every=24,
    eval_rows=50, target=None,
)  # fmt: skip


def compared(task: str) -> dict[str, Any]:
    allocation = solve(AllocationProblem([BLOCKS] * CLIENTS, 12)).allocation
    with tempfile.TemporaryDirectory() as folder:
        run = fine_tune(allocation, dataset=task, settings=SETTINGS, runs_folder=folder, force=True, diagnostics=2)
        read = importance(run)
        measured = [each for each in run.diagnostics if each.round < SETTINGS.rounds]
    energy_M, noise_M = (np.mean([getattr(m, name) for m in measured], axis=0) for name in ("energy_M", "noise_M"))
    inside_M = (read.energy_low_M <= energy_M) & (energy_M <= read.energy_high_M)
    noise_inside_M = (read.noise_low_M <= noise_M) & (noise_M <= read.noise_high_M)
    return {
        "task": task, "rounds": SETTINGS.rounds, "energy": energy_M, "energy_read": read.energy_M,
        "energy_interval": np.stack([read.energy_low_M, read.energy_high_M], axis=1),
        "noise": noise_M, "noise_read": read.noise_M,
        "noise_interval": np.stack([read.noise_low_M, read.noise_high_M], axis=1),
        "correlation_of_energies": float(np.corrcoef(energy_M, read.energy_M)[0, 1]),
        "correlation_of_noises": float(np.corrcoef(noise_M, read.noise_M)[0, 1]),
        "energies_inside_their_intervals": int(inside_M.sum()),
        "noises_inside_their_intervals": int(noise_inside_M.sum()),
    }  # fmt: skip


def main(file: Path) -> None:
    tasks = [compared(task) for task in TASKS]
    write_sealed(file, {"machine": describe(SETTINGS), "clients": CLIENTS, "blocks_per_client": BLOCKS, "tasks": tasks})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
