"""Exact scalars beside the cohort's finite differences: CPU seconds of one estimate, taking turns in one process.

    python -m tests.benchmarks.bench_exact [FILE]

50 clients with 8 rows of 32 tokens each, the blocks of opt-mini, Gaussian directions, one thread: Q = 10 and Q = 100,
all 600 blocks active and 200 of them.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.benchmarks.bench_peer import client_batches
from zorba_core.allocation import Problem, solve
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.settings import Settings
from zorba_core.files import write_json
from zorba_core.runs.models import load_model
from zorba_core.runs.record import environment_of

DEFAULT_FILE = Path("artifacts/benchmarks/exact.json")
CLIENTS, CASES = 50, ((10, 600, 3), (10, 200, 3), (100, 600, 1))  # Q, active blocks, turns


def main(file: Path) -> None:
    torch.set_num_threads(1)
    network = Blocks(load_model("opt-mini"))
    batches_N = client_batches(network.vocabulary_size, CLIENTS)
    directions = Directions("gaussian", network.shapes_M)
    cases: dict[str, Any] = {}
    for Q, total, turns in CASES:
        A_MN = solve(Problem(np.full(CLIENTS, network.num_blocks), network.num_blocks, total=total)).allocation.A_MN
        probe = (network, batches_N, A_MN, list(range(100, 100 + Q)), directions)
        seconds(estimate_exact, probe)  # what PyTorch prepares once
        turns_s = [(seconds(estimate_exact, probe), seconds(estimate_cohort, probe)) for _ in range(turns)]
        ratio = statistics.median(exact / cohort for exact, cohort in turns_s)
        cases[f"Q = {Q}, {total} blocks"] = {"ratio": ratio, "exact_and_cohort_cpu_s": turns_s}
        print(f"Q = {Q}, {total} blocks: {ratio:.3f}", flush=True)
    write_json(file, {"machine": environment_of(Settings()), "what": __doc__.splitlines()[0], "cases": cases})


def seconds(estimate: Any, probe: tuple) -> float:
    started = time.process_time()
    estimate(*probe, mu=1e-3)
    return time.process_time() - started


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
