"""Does it learn as well: weights of 16 bits beside 32, low-rank directions beside Gaussian ones.

SST-2 on opt-mini, every client activating every block; five seeds of every arm, differences seed by seed. Two studies:

- ``bfloat16``: finite differences (the cohort estimator), 20 rounds, all at one rate.
- ``low-rank``: exact scalars (the exact estimator: the limit of finite differences, three times as fast), 40 rounds.
  Each kind of direction at its own rate: that of a small grid which ends with the lowest validation loss in a run of a
  seed that is not among those compared.

Results are written run by run, and what is there is not repeated:

    ZORBA_DATA=... nice python -m tests.benchmarks.bench_numbers bfloat16|low-rank FILE
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zorba_core.allocation import Allocation
from zorba_core.engine.settings import TrainSettings
from zorba_core.files import write_json
from zorba_core.runs.environment import describe
from zorba_core.runs.session import fine_tune

CLIENTS, BLOCKS = 8, 12
COMMON = {"batch_size": 8, "seq_len": 32, "num_perturbations": 10, "eval_every": 10, "target": None}
TUNING_SEED, SEEDS = 100, (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Study:
    common: Mapping[str, Any]
    arms: Mapping[str, Mapping[str, Any]]  # the first is what the others are compared with
    rates: tuple[float, ...]  # one rate: nothing to tune


STUDIES = {
    "bfloat16": Study({"rounds": 20}, {"float32": {}, "bfloat16": {"dtype": "bfloat16"}}, (2e-2,)),
    "low-rank": Study(
        {"rounds": 40, "estimator": "exact"},
        {"gaussian": {}, "low-rank": {"direction": "low-rank", "rank": 1}},
        (1e-2, 2e-2, 4e-2),
    ),
}


def run(study: Study, arm: str, lr: float, seed: int) -> dict[str, Any]:
    settings = TrainSettings(lr=lr, seed=seed, **{**COMMON, **study.common, **study.arms[arm]})
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


def main(name: str, out: Path) -> None:
    study = STUDIES[name]
    runs: list[dict[str, Any]] = json.loads(out.read_text())["runs"] if out.is_file() else []

    def loss(arm: str, lr: float, seed: int) -> float:
        for row in runs:
            if (row["arm"], row["lr"], row["seed"]) == (arm, lr, seed):
                return row["loss"][-1]
        runs.append(run(study, arm, lr, seed))
        write_json(out, table(study, runs))
        ends = runs[-1]["loss"][-1], runs[-1]["accuracy"][-1]
        print(f"{arm} lr {lr:g} seed {seed}: loss {ends[0]:.4f}, accuracy {ends[1]:.4f}", flush=True)
        return ends[0]

    rate = {
        arm: min(study.rates, key=lambda lr, arm=arm: loss(arm, lr, TUNING_SEED)) if len(study.rates) > 1 else lr
        for arm in study.arms
        for lr in study.rates[:1]
    }
    for seed in SEEDS:
        for arm in study.arms:
            loss(arm, rate[arm], seed)


def table(study: Study, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and what the seeds say: an arm's mean and spread after the last round, and its difference to the first
    arm on the same seeds, with the standard error of its mean."""
    final = {
        arm: {row["seed"]: row for row in runs if row["arm"] == arm and row["seed"] in SEEDS} for arm in study.arms
    }
    first, arms = next(iter(study.arms)), {}
    for arm, by_seed in final.items():
        if len(by_seed) < 2:
            continue
        arms[arm] = {"lr": next(iter(by_seed.values()))["lr"], "seeds": len(by_seed)}
        for name in ("loss", "accuracy"):
            ends = [row[name][-1] for row in by_seed.values()]
            arms[arm][name] = {"mean": statistics.mean(ends), "sd": statistics.stdev(ends)}
            apart = [by_seed[seed][name][-1] - final[first][seed][name][-1] for seed in by_seed if seed in final[first]]
            if arm != first and len(apart) > 1:
                arms[arm][name]["difference"] = statistics.mean(apart)
                arms[arm][name]["standard_error"] = statistics.stdev(apart) / math.sqrt(len(apart))
    settings = TrainSettings(**{**COMMON, **study.common})
    return {
        "what": "SST-2 on opt-mini, full activation: validation after the last round",
        "clients": CLIENTS,
        "rates": study.rates,
        "tuning_seed": TUNING_SEED if len(study.rates) > 1 else None,
        "arms": arms,
        "changes": {arm: dict(changes) for arm, changes in study.arms.items()},
        "settings": asdict(settings),
        "environment": describe(settings),
        "runs": runs,
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
