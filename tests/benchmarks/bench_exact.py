"""Exact scalars by one backward pass beside the cohort's finite differences: seconds, memory and agreement.

    python -m tests.benchmarks.bench_exact

Where oneDNN multiplies (:mod:`zorba_core.engine.products`), the cohort with PyTorch's own products stands beside it.
One process, one thread, taking turns; process CPU seconds, whose medians of ratios within a turn are compared, since
other work on the machine changes both alike. Memory is the growth of the resident set above the loaded model, each
estimator in a process of its own. Writes artifacts/benchmarks/exact.json.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from zorba_core.checksums import write_sealed
from zorba_core.engine import products
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.jvp import estimate_jvp
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.network import BlockNetwork
from zorba_core.runs.environment import describe
from zorba_core.runs.memory_meter import MemoryMeter
from zorba_core.runs.model_source import load_model
from zorba_core.runs.session import use_threads
from zorba_core.study.bench.common import LABEL_IDS, client_batches
from zorba_core.study.bench.settings import BenchSettings

OUT = Path(__file__).resolve().parents[2] / "artifacts" / "benchmarks" / "exact.json"
SETTINGS = BenchSettings(repeats=3)
TURNS = {10: 3, 100: 1}  # by directions; the cohort takes a minute at a hundred


def estimators() -> dict[str, Callable[[int], Estimate]]:
    network = BlockNetwork(load_model(SETTINGS.model), LABEL_IDS)
    batches_N = client_batches(SETTINGS, network.model.config.vocab_size)
    A_MN = np.ones((network.num_blocks, SETTINGS.num_clients), dtype=bool)
    directions = Directions(SETTINGS.direction, network.sizes_M)

    def by(estimate: Callable[..., Estimate]) -> Callable[[int], Estimate]:
        return lambda count: estimate(network, batches_N, A_MN, range(count), directions, mu=SETTINGS.mu)

    run = {"cohort": by(estimate_cohort), "exact": by(estimate_exact), "jvp": by(estimate_jvp)}
    return run | {"cohort, PyTorch's products": lambda count: with_pytorchs_products(run["cohort"], count)}


def with_pytorchs_products(run: Callable[[int], Estimate], count: int) -> Estimate:
    with products.by_pytorch():
        return run(count)


def timed(run: Callable[[int], Estimate], count: int) -> tuple[float, Estimate]:
    started = time.process_time()
    estimate = run(count)
    return time.process_time() - started, estimate


def turns(run: dict[str, Callable[[int], Estimate]], count: int) -> dict[str, Any]:
    contestants = ["cohort", "exact"] + ["cohort, PyTorch's products"] * products._onednn_is_faster()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(TURNS[count]):
        estimates = {}
        for name, values in seconds.items():
            took, estimates[name] = timed(run[name], count)
            values.append(took)
    exact, differences = estimates["exact"].rho_NQ, estimates["cohort"].rho_NQ
    return {
        "seconds": seconds,
        **{
            f"exact_over_{name}": statistics.median(b / a for a, b in zip(seconds[name], seconds["exact"], strict=True))
            for name in contestants
            if name != "exact"
        },
        "correlation_with_finite_differences": float(np.corrcoef(exact.ravel(), differences.ravel())[0, 1]),
        "differences_off_by": float(np.linalg.norm(differences - exact) / np.linalg.norm(exact)),
    }


def memory_of(name: str, count: int) -> int | None:
    """Bytes that the resident set grew by, measured in a new process."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_exact", name, str(count)]
    # From the repository, wherever this process was started; what goes wrong there is seen here.
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=OUT.parents[2])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    with use_threads(1):
        if len(sys.argv) > 1:
            run, meter = estimators()[sys.argv[1]], MemoryMeter("cpu")
            run(1)
            meter.begin()
            run(int(sys.argv[2]))
            print(json.dumps(meter.describe()["bytes"]))
            return
        run = estimators()
        run["exact"](1)  # to warm up
        settings = {name: getattr(SETTINGS, name) for name in ("model", "num_clients", "batch_size", "seq_len", "mu")}
        result: dict[str, Any] = {
            "settings": settings | {"direction": SETTINGS.direction, "activation": "full"},
            "environment": describe(SETTINGS.run_settings),
            "clock": SETTINGS.clock_name,
            "products": "oneDNN" if products._onednn_is_faster() else "PyTorch",
            "directions": {},
        }
        exact_NQ, jvp_NQ = run["exact"](1).rho_NQ, run["jvp"](1).rho_NQ
        result["jvp_difference_over_largest"] = float(np.abs(exact_NQ - jvp_NQ).max() / np.abs(jvp_NQ).max())
        memory = {name: memory_of(name, 10) for name in ("cohort", "exact")}
        model = load_model(SETTINGS.model)
        loaded = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        result |= {"memory_growth_bytes": memory, "model_bytes": loaded, "memory_ratio": None}
        if all(memory.values()):
            result["memory_ratio"] = memory["exact"] / memory["cohort"]
            result["memory_ratio_with_model"] = (memory["exact"] + loaded) / (memory["cohort"] + loaded)
        for count in TURNS:  # the cheap ones first, and what is done is on disk
            result["directions"][count] = turns(run, count)
            write_sealed(OUT, result)
            print(json.dumps({count: result["directions"][count], "memory_ratio": result["memory_ratio"]}, indent=1))


if __name__ == "__main__":
    main()
