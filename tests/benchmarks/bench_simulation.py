"""Fifty virtual clients in Flower's simulation runtime beside the same run in one process: scalars and seconds.

    python -m tests.benchmarks.bench_simulation [FILE]

Needs the extra ``ray``. Writes JSON; the default file is artifacts/benchmarks/simulation.json. Both run on one thread,
the simulation with one worker and then with two.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from zorba_core.allocation import AllocationProblem, solve
from zorba_core.checksums import write_sealed
from zorba_core.cli.federation import _default_dataset
from zorba_core.data.tasks import get_task
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.flower.simulation import simulate
from zorba_core.federation.request import request_config
from zorba_core.runs import TRAJECTORY, Run
from zorba_core.runs.environment import describe
from zorba_core.runs.session import fine_tune
from zorba_core.runs.trajectory import read_trajectory

NUM_CLIENTS, BUDGETS, WORKERS = 50, (12, 6, 4, 2), (1, 2)
SETTINGS = TrainSettings(rounds=6, lr=1e-2, mu=1e-3, batch_size=8, seq_len=64, eval_every=6, eval_rows=100, seed=0)
DEFAULT_FILE = Path("artifacts/benchmarks/simulation.json")


def main(arguments: list[str]) -> None:
    target = Path(arguments[0]) if arguments else DEFAULT_FILE
    task = get_task(_default_dataset())
    config = RunConfig(task.name, "opt-mini", task.label_words, NUM_CLIENTS, 1.0, SETTINGS)
    budget_N = [BUDGETS[n % len(BUDGETS)] for n in range(NUM_CLIENTS)]
    server = ServerSettings(solver="balanced", min_clients=NUM_CLIENTS, start_timeout=300.0, deadline=300.0)
    nodes = [{"blocks": budget} for budget in budget_N]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        one = fine_tune(
            solve(AllocationProblem(np.array(budget_N), 12)).allocation, dataset=config.dataset, model=config.model,
            settings=SETTINGS, alpha=config.alpha, runs_folder=place / "one", force=True,
        )  # fmt: skip
        results = {}
        for workers in WORKERS:
            many = simulate(
                place / f"simulation-{workers}", request_config(config, server), nodes,
                runs_folder=place / f"many-{workers}", workers=workers, force=True, tell=print,
            )  # fmt: skip
            assert (many.allocation.A_MN == one.allocation.A_MN).all()
            results[f"{workers}"] = compared(one, many)
            print(results[f"{workers}"])
        write_sealed(
            target,
            {
                "clients": NUM_CLIENTS, "dataset": config.dataset, "model": config.model, "rounds": SETTINGS.rounds,
                "batch_size": SETTINGS.batch_size, "seq_len": SETTINGS.seq_len, "cores": os.cpu_count(),
                "num_perturbations": SETTINGS.num_perturbations, "environment": describe(SETTINGS),
                "seconds_a_round_in_one_process": seconds(one), "workers": results,
            },
        )  # fmt: skip


def compared(one: Run, many: Run) -> dict[str, object]:
    """How far apart the scalars are, relative to a round's largest, and how the rounds' seconds compare."""
    ours, theirs = (read_trajectory(run.path / TRAJECTORY).rounds for run in (one, many))
    apart = [
        float(np.abs(a.rho_NQ - b.rho_NQ).max() / np.abs(a.rho_NQ).max()) for a, b in zip(ours, theirs, strict=True)
    ]
    return {
        "rho_apart_over_largest_by_round": apart,
        "same_weights": many.summary["weights_sha256"] == one.summary["weights_sha256"],
        "replicas_equal": all(client["equal"] for client in many.summary["replicas"]),
        "seconds_a_round": seconds(many),
        "times_one_process": seconds(many) / seconds(one),
    }


def seconds(run: Run) -> float:
    """Of a round, on average; a log's seconds are those since the run began."""
    rounds = read_trajectory(run.path / TRAJECTORY).rounds
    return rounds[-1].seconds / len(rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
