"""What a lower forward work saves: `python -m tests.benchmarks.bench_forward_work [FILE]`.

N=50 clients with room for 1 to 12 blocks, T=200, opt-mini, B=8, L=32, Q=10: whole rounds of the cohort for full
activation and for the balanced allocation in each block order, taking turns in one process on one thread, in CPU
seconds of the process. Asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from zorba_core.allocation import BLOCK_ORDERS, Allocation, AllocationProblem, solve
from zorba_core.checksums import write_sealed
from zorba_core.engine.aggregation import average_per_block, update_blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.randomness import stream
from zorba_core.runs.environment import describe
from zorba_core.runs.model_source import load_model
from zorba_core.study.bench.common import LABEL_IDS, LR, client_batches
from zorba_core.study.bench.settings import BenchSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/forward_work.json"))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = BenchSettings(repeats=arguments.repeats)
    network = BlockNetwork(load_model(settings.model), LABEL_IDS)
    M, N, total = network.num_blocks, settings.num_clients, settings.total_blocks
    problem = AllocationProblem(stream("bench-budgets", settings.seed).integers(1, M + 1, N), M, total=total)
    matrices = {"full": (Allocation(np.ones((M, N), dtype=bool)), None)}
    for solver in ("balanced", "two-level"):
        for order in BLOCK_ORDERS:
            solution = solve(problem, solver, block_order=order)
            matrices[f"{solver}, {order}"] = (solution.allocation, solution.forward_work_bound)
    batches = client_batches(settings, network.model.config.vocab_size)
    directions, seeds = Directions(settings.direction, network.sizes_M), range(settings.num_perturbations)
    seconds: dict[str, list[float]] = {name: [] for name in matrices}
    for _ in range(settings.repeats):
        for name, (allocation, _) in matrices.items():
            started = time.process_time()
            rho_NQ = estimate_cohort(network, batches, allocation.A_MN, seeds, directions, mu=settings.mu).rho_NQ
            update_blocks(network, average_per_block(rho_NQ, allocation.A_MN), seeds, directions, LR)
            seconds[name].append(time.process_time() - started)
    full = statistics.median(seconds["full"])
    rows = {}
    for name, (allocation, bound) in matrices.items():
        middle = statistics.median(seconds[name])
        rows[name] = {
            "forward_work": allocation.forward_work,
            "forward_work_bound": bound,
            "lambda": allocation.bias_lambda,
            "mean_inverse_popularity": allocation.mean_inverse_popularity,
            "effective_clients": allocation.effective_clients,
            "total_blocks": allocation.total_blocks,
            "seconds": seconds[name],
            "over_full": middle / full,
        }
        print(f"{name:28} work {allocation.forward_work:4}  {middle:6.2f} s  {middle / full:.3f} of full", flush=True)
    write_sealed(
        arguments.file,
        {
            "what": "whole rounds of the cohort; CPU seconds of one thread, taking turns in one process",
            "clients": N, "blocks": M, "total": total, "batch_size": settings.batch_size, "seq_len": settings.seq_len,
            "perturbations": settings.num_perturbations, "direction": settings.direction, "model": settings.model,
            "rows": rows,
            "environment": {**describe(settings.run_settings), "load_average": os.getloadavg()},
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
