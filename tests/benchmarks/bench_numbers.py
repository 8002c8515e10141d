"""Does it learn as well: weights of 16 bits beside 32, low-rank directions beside Gaussian ones.

    ZORBA_DATA=... nice python -m tests.benchmarks.bench_numbers [FILE]

SST-2 on opt-mini, every client activating every block, five seeds of every arm, all at one rate; differences are taken
seed by seed. Then Gaussian and low-rank directions each at its own best rate: of ``RATES``, the one with the lowest
mean loss over two seeds that nothing else uses. Scalars are exact ones (the exact estimator: the limit of finite
differences, in a fraction of the time); how far finite differences are from them with either kind of weights is in
low-rank.json. Results are written run by run, and what is there is not repeated.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zorba_core.allocation import Allocation
from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.data.tasks import get_task
from zorba_core.engine.loop import run
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import RunError
from zorba_core.runs.environment import describe
from zorba_core.runs.session import divide_rows, open_network

DEFAULT_FILE = Path("artifacts/benchmarks/numbers.json")
CLIENTS, BLOCKS, SEEDS = 8, 12, (1, 2, 3, 4, 5)
COMMON = {
    "lr": 2e-2, "rounds": 15, "batch_size": 8, "seq_len": 32, "num_perturbations": 10, "eval_every": 15,
    "target": None, "estimator": "exact",
}  # fmt: skip
ARMS: dict[str, dict[str, Any]] = {
    "gaussian, float32": {},
    "gaussian, bfloat16": {"dtype": "bfloat16"},
    "low-rank, float32": {"direction": "low-rank", "rank": 1},
}
FIRST = "gaussian, float32"
TUNED, RATES, TUNING_SEEDS = ("gaussian, float32", "low-rank, float32"), (1e-2, 2e-2, 4e-2, 8e-2), (11, 12)


def trained(arm: str, seed: int, lr: float) -> dict[str, Any]:
    settings, task = TrainSettings(seed=seed, **{**COMMON, "lr": lr}, **ARMS[arm]), get_task("sst2")
    network, tokenizer = open_network(task, "opt-mini", None, settings)
    rows, _ = divide_rows(task, tokenizer, CLIENTS, 1.0, settings)
    try:
        records = run(network, Allocation(np.ones((BLOCKS, CLIENTS), dtype=bool)), rows, settings).records
    except RunError:  # diverged
        records = ()
    judged = [record for record in records if record.eval_loss is not None]
    return {
        "arm": arm,
        "seed": seed,
        "lr": lr,
        "rounds": [record.round for record in judged],
        "loss": [record.eval_loss for record in judged],
        "accuracy": [record.eval_accuracy for record in judged],
        "weights_sha256": network.weights_sha256(),
    }


def main(out: Path) -> None:
    torch.set_num_threads(1)
    runs: list[dict[str, Any]] = read_sealed(out)["runs"] if out.is_file() else []
    for row in runs:
        row.setdefault("lr", COMMON["lr"])  # the first ones do not name it

    def run_all(arms: Iterable[str], seeds: Iterable[int], lr_of: Callable[[str], float]) -> None:
        for seed, arm in itertools.product(seeds, arms):
            lr = lr_of(arm)
            if any((row["arm"], row["seed"], row["lr"]) == (arm, seed, lr) for row in runs):
                continue
            runs.append(trained(arm, seed, lr))
            write_sealed(out, table(runs))
            print(f"{arm}, seed {seed}, lr {lr:g}: {runs[-1]['loss']}, {runs[-1]['accuracy']}", flush=True)

    run_all(ARMS, SEEDS, lambda arm: COMMON["lr"])
    for lr in RATES:
        run_all(TUNED, TUNING_SEEDS, lambda arm, lr=lr: lr)
    run_all(TUNED, SEEDS, lambda arm: best_rate(runs, arm))
    write_sealed(out, table(runs))


def best_rate(runs: list[dict[str, Any]], arm: str) -> float | None:
    """Of the rates that were tried on all tuning seeds, the one of lowest mean loss; a diverged run is no candidate."""
    losses: dict[float, list[float]] = {}
    for row in runs:
        if row["arm"] == arm and row["seed"] in TUNING_SEEDS:
            losses.setdefault(row["lr"], []).append(row["loss"][-1] if row["loss"] else math.inf)
    means = {lr: statistics.mean(values) for lr, values in losses.items() if len(values) == len(TUNING_SEEDS)}
    return min(means, key=means.__getitem__) if len(means) == len(RATES) else None


def table(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and what the seeds say: at one rate, and at each one's own."""
    own = {arm: best_rate(runs, arm) for arm in TUNED}
    settings = TrainSettings(**COMMON)
    return {
        "what": "SST-2 on opt-mini, full activation: validation loss and accuracy before and after the last round",
        "clients": CLIENTS,
        "arms": compared({arm: ends(runs, arm, COMMON["lr"]) for arm in ARMS}),
        "tuned": {
            "rates": RATES,
            "tuning_seeds": TUNING_SEEDS,
            "best_rate": own,
            "arms": compared({arm: ends(runs, arm, lr) for arm, lr in own.items()}),
        },
        "changes": ARMS,
        "settings": asdict(settings),
        "environment": describe(settings),
        "runs": runs,
    }


def ends(runs: list[dict[str, Any]], arm: str, lr: float | None) -> dict[int, dict[str, Any]]:
    """The arm's runs at that rate by seed; one that diverged has no end."""
    of_arm = [row for row in runs if (row["arm"], row["lr"]) == (arm, lr) and row["seed"] in SEEDS and row["loss"]]
    return {row["seed"]: row for row in of_arm}


def compared(by_arm: dict[str, dict[int, dict[str, Any]]]) -> dict[str, Any]:
    """An arm's mean and spread after the last round, and its difference to the first arm on the same seeds, with the
    standard error of its mean."""
    arms: dict[str, Any] = {}
    for arm, by_seed in by_arm.items():
        if len(by_seed) < 2:
            continue
        arms[arm] = {"seeds": len(by_seed)}
        for name in ("loss", "accuracy"):
            last = [row[name][-1] for row in by_seed.values()]
            arms[arm][name] = {"mean": statistics.mean(last), "sd": statistics.stdev(last)}
            apart = [
                row[name][-1] - by_arm[FIRST][seed][name][-1] for seed, row in by_seed.items() if seed in by_arm[FIRST]
            ]
            if arm != FIRST and len(apart) > 1:
                arms[arm][name]["difference"] = statistics.mean(apart)
                arms[arm][name]["standard_error"] = statistics.stdev(apart) / math.sqrt(len(apart))
    return arms


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
