"""Does the rate that is found learn as fast as the best of a grid of six? SST-2 with opt-mini, label priors taken out.

    python -m tests.benchmarks.bench_rate [FILE]

Each rate of the grid, and the one that is found, is a run of ``ROUNDS`` rounds with a cosine schedule, judged on rows
that the finder never sees. The target is 90 % of the best grid rate's fall in loss; a run reaches it in the first round
at which its mean over three evaluations is there. What is done stands in FILE and is not done again.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zorba_core.allocation import Problem, solve
from zorba_core.data.task import get_task
from zorba_core.engine.evaluation import evaluate, label_prior
from zorba_core.engine.loop import init, step
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.settings import Settings
from zorba_core.errors import RunError
from zorba_core.files import read_json, write_json
from zorba_core.runs.environment import describe
from zorba_core.runs.load import federated_rows, open_network
from zorba_core.runs.rate import find_rate

DEFAULT_FILE = Path("artifacts/benchmarks/rate.json")
TASK, MODEL, ROUNDS, CLIENTS, BLOCKS, EVERY = "sst2", "opt-mini", 40, 8, 6, 2
WHAT = (
    "SST-2 with opt-mini, 8 clients of 6 blocks, label priors taken out, cosine: rounds to 90 % of the fall in "
    "loss of the grid rate that ends lowest, by the rate that is found and by a grid of six"
)
RATES = (0.16, 0.08, 0.04, 0.02, 0.01, 0.005)
SETTINGS = Settings(rounds=ROUNDS, batch_size=8, seq_len=64, eval_rows=200, estimator="exact", schedule="cosine")
CASES = {
    "gaussian, Q = 10": SETTINGS.replace(direction="gaussian", directions=10),
    "low-rank, Q = 100": SETTINGS.replace(direction="low-rank", directions=100),
}


def main(file: Path) -> None:
    content = (
        read_json(file)
        if file.is_file()
        else {"machine": describe(SETTINGS), "what": WHAT, "rounds": ROUNDS, "cases": {}}
    )
    for name, settings in CASES.items():
        network, tokenizer = open_network(MODEL, settings)
        rows, _ = federated_rows(get_task(TASK), tokenizer, CLIENTS, settings)
        prior_C = torch.from_numpy(label_prior(network, rows.train))
        rows = FederatedRows(
            replace(rows.train, prior_C=prior_C), rows.held_N, replace(rows.evaluation, prior_C=prior_C)
        )
        allocation = solve(Problem([BLOCKS] * CLIENTS, network.num_blocks)).allocation
        case = content["cases"].setdefault(name, {"runs": {}})
        case["initial"] = evaluate(network, rows.evaluation).loss
        started = time.process_time()
        found = find_rate(network, allocation, rows, settings)
        case["found"] = {**found.describe(), "cpu_seconds": time.process_time() - started}
        print(found.sentence(), [(round(trial.lr, 4), trial.loss) for trial in found.trials], flush=True)
        for lr in (found.lr, *RATES):
            if str(lr) not in case["runs"]:
                case["runs"][str(lr)] = losses_of(network, allocation, rows, settings.replace(lr=lr))
                write_json(file, content)
        case |= compared(case, str(found.lr))
        print(name, {key: case[key] for key in ("best_of_grid", "target", "rounds_to_target", "factor")}, flush=True)
        write_json(file, content)


def losses_of(network, allocation, rows, settings) -> list[float] | None:
    """The evaluation loss after every ``EVERY`` rounds; None where the run diverged."""
    base_M = [network.block_weights(m).clone() for m in range(network.num_blocks)]
    state, losses = init(network, settings), []
    try:
        for t in range(1, ROUNDS + 1):
            state, _ = step(state, network, allocation, rows, settings)
            if t % EVERY == 0:
                losses.append(float(evaluate(network, rows.evaluation).loss))
    except RunError:
        return None
    finally:
        network.copy_to_blocks(base_M)
    print(settings.lr, [round(loss, 3) for loss in losses], flush=True)
    return losses


def compared(case: dict[str, Any], found: str) -> dict[str, Any]:
    smooth = {
        lr: [float(np.mean(losses[max(0, i - 2) : i + 1])) for i in range(len(losses))]
        for lr, losses in case["runs"].items()
        if losses
    }
    best = min((str(lr) for lr in RATES if str(lr) in smooth), key=lambda lr: smooth[lr][-1])
    target = case["initial"] - 0.9 * (case["initial"] - smooth[best][-1])
    reached = {
        lr: next((EVERY * (i + 1) for i, loss in enumerate(losses) if loss <= target), None)
        for lr, losses in smooth.items()
    }
    fastest = min(reached[str(lr)] for lr in RATES if reached.get(str(lr)))
    own = reached.get(found)
    return {
        "best_of_grid": float(best),
        "target": target,
        "rounds_to_target": reached,
        "factor": own / reached[best] if own else None,
        "factor_to_fastest": own / fastest if own else None,  # which may end higher
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
