"""Does ``zorba tune`` find the rate that a fine grid finds? Two tasks, two bases, exact scalars, one process.

    python -m tests.benchmarks.bench_tune [FILE] [--part grid|tune]

The fine grid: rates a factor of 1.4 apart, each a whole run of ``ROUNDS`` rounds on all rows, judged on evaluation rows
that the tuner never sees, by the mean of its last three evaluations; the mean of the seeds decides. ``tune`` gets the
same settings and the same horizon, and its own held-out rows. What is done stands in FILE and is not done again.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zorba_core.allocation import Problem, solve
from zorba_core.data.task import get_task
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import init, step
from zorba_core.engine.settings import Settings
from zorba_core.errors import RunError
from zorba_core.files import read_json, write_json
from zorba_core.runs.environment import describe
from zorba_core.runs.load import federated_rows, open_network

DEFAULT_FILE = Path("artifacts/benchmarks/tune.json")
MODELS, TASKS, SEEDS, ROUNDS, CLIENTS, BLOCKS = ("opt-mini", "llama-mini"), ("sst2", "toy-reviews"), (0, 1), 30, 5, 6
RATES = tuple(float(f"{0.02 * 1.4**k:.3g}") for k in (0, -1, 1, -2, -3, 2, 3))
JUDGED = (24, 27, 30)
SETTINGS = Settings(rounds=ROUNDS, batch_size=4, seq_len=64, eval_rows=200, estimator="exact")


def opened(model: str, task: str, seed: int):
    settings = SETTINGS.replace(seed=seed)
    network, tokenizer = open_network(model, settings)
    rows, _ = federated_rows(get_task(task), tokenizer, CLIENTS, settings)
    allocation = solve(Problem([BLOCKS] * CLIENTS, network.num_blocks)).allocation
    return network, allocation, rows, settings


def run_of(model: str, task: str, seed: int, lr: float, parts: tuple) -> dict[str, Any]:
    network, allocation, rows, settings = parts
    base = [network.block_weights(m).clone() for m in range(network.num_blocks)]
    settings, losses = settings.replace(lr=lr), []
    state, initial = init(network, settings), evaluate(network, rows.evaluation).loss
    try:
        for t in range(1, ROUNDS + 1):
            state, _ = step(state, network, allocation, rows, settings)
            if t in JUDGED:
                losses.append(evaluate(network, rows.evaluation).loss)
        loss = float(np.mean(losses))
    except RunError:
        loss = None
    with torch.no_grad():
        for m, weights in enumerate(base):
            network.block_weights(m).copy_(weights)
    loss = loss if loss is not None and np.isfinite(loss) and loss < 10 else None
    return {"model": model, "task": task, "seed": seed, "lr": lr, "initial": float(initial), "loss": loss}


def grid(file: Path) -> None:
    content = read(file)
    for seed in SEEDS:
        for model, task in itertools.product(MODELS, TASKS):
            asked = [lr for lr in RATES if (model, task, seed, lr) not in map(_key, content["grid"])]
            parts = opened(model, task, seed) if asked else ()
            for lr in asked:
                content["grid"].append(run_of(model, task, seed, lr, parts))
                write_json(file, content)


def tuned(file: Path) -> None:
    from zorba_core.runs.tuning import tune

    content = read(file)
    content["tuned"] = []
    for model, task in itertools.product(MODELS, TASKS):
        network, allocation, rows, settings = opened(model, task, SEEDS[0])
        started = time.process_time()
        answer = tune(network, allocation, rows, settings, horizon=ROUNDS)
        by_rate = {
            lr: [one["loss"] for one in content["grid"] for seed in SEEDS if _key(one) == (model, task, seed, lr)]
            for lr in sorted({one["lr"] for one in content["grid"]})
        }
        mean = {lr: float(np.mean(losses)) for lr, losses in by_rate.items() if losses and None not in losses}
        best = min(mean, key=mean.get)
        content["tuned"].append(
            {
                "model": model, "task": task, "lr": answer.lr, "best_of_grid": best,
                "factor": max(answer.lr / best, best / answer.lr), "cpu_seconds": time.process_time() - started,
                **answer.describe(),
            }
        )  # fmt: skip
        write_json(file, content)


def _key(one: dict[str, Any]) -> tuple:
    return one.get("model", MODELS[0]), one["task"], one["seed"], one["lr"]


def read(file: Path) -> dict[str, Any]:
    if file.is_file():
        return read_json(file)
    return {
        "what": "learning rate of zorba tune beside the best of a fine grid; loss is the mean of rounds 24, 27, 30",
        "machine": describe(SETTINGS), "rounds": ROUNDS, "clients": CLIENTS, "blocks_per_client": BLOCKS,
        "seeds": list(SEEDS), "grid": [], "tuned": [],
    }  # fmt: skip


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--part")]
    part = next((argument.partition("=")[2] for argument in sys.argv[1:] if argument.startswith("--part=")), "")
    target = Path(arguments[0]) if arguments else DEFAULT_FILE
    if part in ("", "grid"):
        grid(target)
    if part in ("", "tune"):
        tuned(target)
