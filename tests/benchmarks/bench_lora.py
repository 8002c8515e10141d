"""Do adapters learn with forward passes only? `python -m tests.benchmarks.bench_lora [FILE] [--all]`.

opt-mini, whose label words are new to it, trained with adapters of rank 8 beside queries and values; with --all also
with the blocks' own weights, and on SST-2 (ZORBA_DATA). Accuracies on held-out rows before and after; asserts nothing.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from zorba_core.allocation import Allocation
from zorba_core.engine.settings import Settings
from zorba_core.files import write_json
from zorba_core.runs.train import fine_tune

CLIENTS, EVAL_ROWS = 4, 500
CASES = [("toy-reviews", "lora", 60, 0.1)]  # task, what is trained, rounds, learning rate
MORE = [("toy-reviews", "blocks", 60, 0.01), ("sst2", "lora", 60, 0.1), ("sst2", "blocks", 60, 0.01)]


def measure(task: str, train: str, rounds: int, lr: float) -> dict[str, object]:
    """One run of four clients with all twelve blocks each."""
    settings = Settings(
        train=train, rounds=rounds, lr=lr, direction="rademacher", seq_len=48, eval_every=20, eval_rows=EVAL_ROWS
    )
    everything = Allocation(np.ones((12, CLIENTS), bool))
    with TemporaryDirectory() as folder:
        run = fine_tune(everything, dataset=task, model="opt-mini", settings=settings, runs_folder=folder, force=True)
    summary = run.summary
    return {
        "task": task,
        "train": train,
        "lr": lr,
        "rounds": rounds,
        "clients": CLIENTS,
        "settings": {"direction": "rademacher", "Q": settings.directions, "B": 8, "L": 48, "seed": 0},
        "evaluation_rows": EVAL_ROWS,
        "accuracy_before": summary["initial_accuracy"],
        "accuracy_after": summary["final_accuracy"],
        "accuracy_by_round": dict(
            zip(map(str, run.evaluations["round"]), run.evaluations["eval_accuracy"], strict=True)
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/lora.json"))
    parser.add_argument("--all", action="store_true", help="the blocks' own weights beside them, and SST-2")
    arguments = parser.parse_args()
    results = []
    for case in CASES + MORE * arguments.all:
        results.append(measure(*case))
        machine = {"platform": f"{platform.system()} {platform.machine()}", "threads": 1}
        write_json(
            arguments.file, {"machine": machine, "torch": torch.__version__, "model": "opt-mini", "runs": results}
        )
        print(results[-1])


if __name__ == "__main__":
    main()
