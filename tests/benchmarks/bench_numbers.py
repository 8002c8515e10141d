"""Does it learn as well: weights of 16 bits beside 32, low-rank directions beside full ones.

SST-2 on opt-mini, every client activating every block, finite differences (the cohort estimator). Each kind of
direction at its own rate: the one of a small grid that ends with the lowest validation loss in a run of a seed that is
not among those compared; weights of 16 bits at the rate of 32. Then five seeds each. Results are written run by run, and
what is there is not repeated:

    ZORBA_DATA=... nice python -m tests.benchmarks.bench_numbers artifacts/benchmarks/numbers.json
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from zorba_core.allocation import Allocation
from zorba_core.engine.settings import TrainSettings
from zorba_core.files import write_json
from zorba_core.runs.environment import describe
from zorba_core.runs.session import fine_tune

CLIENTS, BLOCKS = 8, 12
COMMON = {"rounds": 40, "batch_size": 8, "seq_len": 32, "num_perturbations": 10, "eval_every": 10, "target": None}
RATES, TUNING_SEED, SEEDS = (1e-2, 2e-2, 4e-2), 100, (1, 2, 3, 4, 5)
# What an arm changes, and whose tuned rate it takes.
ARMS: dict[str, tuple[dict[str, Any], str]] = {
    "float32": ({}, "float32"),
    "bfloat16": ({"dtype": "bfloat16"}, "float32"),
    "low-rank": ({"direction": "low-rank", "rank": 1}, "low-rank"),
}


def run(arm: str, lr: float, seed: int) -> dict[str, Any]:
    settings = TrainSettings(lr=lr, seed=seed, **ARMS[arm][0], **COMMON)
    with tempfile.TemporaryDirectory() as folder:
        allocation = Allocation(np.ones((BLOCKS, CLIENTS), dtype=bool))
        done = fine_tune(allocation, dataset="sst2", settings=settings, runs_folder=folder)
        judged = done.metrics.dropna(subset=["eval_loss"])
    return {
        "arm": arm,
        "lr": lr,
        "seed": seed,
        "rounds": judged["round"].tolist(),
        "loss": judged["eval_loss"].tolist(),
        "accuracy": judged["eval_accuracy"].tolist(),
        "weights_sha256": done.summary["weights_sha256"],
    }


def main(out: Path) -> None:
    stored = json.loads(out.read_text()) if out.is_file() else {}
    runs: list[dict[str, Any]] = stored.get("runs", [])

    def result(arm: str, lr: float, seed: int) -> dict[str, Any]:
        for row in runs:
            if (row["arm"], row["lr"], row["seed"]) == (arm, lr, seed):
                return row
        runs.append(run(arm, lr, seed))
        write_json(out, table(runs))
        last = runs[-1]
        print(f"{arm} lr {lr:g} seed {seed}: loss {last['loss'][-1]:.4f}, accuracy {last['accuracy'][-1]:.4f}")
        return runs[-1]

    rate = {}
    for arms in (("float32", "bfloat16"), ("low-rank",)):
        tuned = ARMS[arms[0]][1]
        rate[tuned] = min(RATES, key=lambda lr, arm=tuned: result(arm, lr, TUNING_SEED)["loss"][-1])
        for seed in SEEDS:
            for arm in arms:
                result(arm, rate[tuned], seed)


def table(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and what the five seeds of each arm say. ``difference``: to the same seed of float32, mean and the
    standard error of the mean."""
    final = {arm: {row["seed"]: row for row in runs if row["arm"] == arm and row["seed"] in SEEDS} for arm in ARMS}
    arms = {}
    for arm, by_seed in final.items():
        if not by_seed:
            continue
        arms[arm] = {"lr": next(iter(by_seed.values()))["lr"], "seeds": len(by_seed)}
        for name in ("loss", "accuracy"):
            ends = [row[name][-1] for row in by_seed.values()]
            apart = [
                row[name][-1] - final["float32"][seed][name][-1]
                for seed, row in by_seed.items()
                if seed in final["float32"]
            ]
            arms[arm][name] = {"mean": statistics.mean(ends), "sd": statistics.stdev(ends) if len(ends) > 1 else None}
            if arm != "float32" and len(apart) > 1:
                arms[arm][name] |= {
                    "difference": statistics.mean(apart),
                    "standard_error": statistics.stdev(apart) / math.sqrt(len(apart)),
                }
    settings = TrainSettings(**COMMON)
    return {
        "what": "SST-2, opt-mini, validation after the last round; rates tuned on another seed",
        "clients": CLIENTS,
        "rates": RATES,
        "settings": asdict(settings),
        "environment": describe(settings),
        "arms": arms,
        "runs": runs,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
