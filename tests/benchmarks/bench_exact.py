"""Exact scalars by one backward pass beside the cohort's finite differences: seconds, memory and agreement.

    python -m tests.benchmarks.bench_exact

Where oneDNN multiplies (:mod:`zorba_core.engine.products`), the cohort with PyTorch's own products stands beside it.
One process, one thread, taking turns; process CPU seconds, whose medians of ratios within a turn are compared, since
other work on the machine changes both alike. Memory is the growth of the resident set above the loaded model, each
estimator in processes of its own, whose median is compared: the cohort's growth differs by a third between them.
Writes artifacts/benchmarks/exact.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
COMPARED = 4  # directions
PROCESSES = 7  # whose memory is measured
TURNS = {10: 15, 100: 1}  # by directions; the cohort takes a minute at a hundred


def estimators(dtype: torch.dtype = torch.float32, *, smooth: bool = False) -> dict[str, Callable[[int], Estimate]]:
    """``smooth``: with a GELU where the model has a ReLU, whose derivative jumps at 0."""
    model = load_model(SETTINGS.model)
    for block in model.modules():
        if smooth and hasattr(block, "activation_fn"):
            block.activation_fn = torch.nn.GELU()
    network = BlockNetwork(model, LABEL_IDS, dtype=dtype)
    batches_N = client_batches(SETTINGS, network.model.config.vocab_size)
    A_MN = np.ones((network.num_blocks, SETTINGS.num_clients), dtype=bool)
    directions = Directions(SETTINGS.direction, network.sizes_M, dtype=dtype)

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


def agreement() -> dict[str, Any]:
    """How far exact scalars are from forward mode, by client, over the largest scalar; and how far either is from
    forward mode in float64."""
    found = {}
    for name, smooth in (("as it is", False), ("GELU for ReLU", True)):
        rho = {}
        for bits, dtype in (("float32", torch.float32), ("float64", torch.float64)):
            run = estimators(dtype, smooth=smooth)
            rho |= {(of, bits): run[of](COMPARED).rho_NQ for of in ("exact", "jvp")}
        true_NQ = rho["jvp", "float64"]

        def off_N(of_NQ: np.ndarray, from_NQ: np.ndarray, true_NQ: np.ndarray = true_NQ) -> np.ndarray:
            return np.abs(of_NQ - from_NQ).max(axis=1) / np.abs(true_NQ).max()

        apart_N = off_N(rho["exact", "float32"], rho["jvp", "float32"])
        found[name] = {
            "float32_apart": float(apart_N.max()),
            "float32_apart_median_client": float(np.median(apart_N)),
            "float32_clients_above_1e-5": int((apart_N > 1e-5).sum()),
            "exact_off_float64": float(off_N(rho["exact", "float32"], true_NQ).max()),
            "jvp_off_float64": float(off_N(rho["jvp", "float32"], true_NQ).max()),
            "float64_apart": float(off_N(rho["exact", "float64"], true_NQ).max()),
        }
    return found


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
            "NumPy's products": f"OpenBLAS, {os.environ.get('OPENBLAS_CORETYPE') or 'its own choice of kernels'}",
            "directions": {},
        }
        result["agreement_with_forward_mode"] = {"directions": COMPARED, **agreement()}
        grown = {name: [memory_of(name, 10) for _ in range(PROCESSES)] for name in ("cohort", "exact")}
        memory = {name: None if None in each else int(statistics.median(each)) for name, each in grown.items()}
        model = load_model(SETTINGS.model)
        loaded = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        result |= {"memory_growth_bytes": memory, "memory_growth_bytes_each": grown}
        result |= {"model_bytes": loaded, "memory_ratio": None}
        if all(memory.values()):
            result["memory_ratio"] = memory["exact"] / memory["cohort"]
            result["memory_ratio_with_model"] = (memory["exact"] + loaded) / (memory["cohort"] + loaded)
        for count in TURNS:  # the cheap ones first, and what is done is on disk
            result["directions"][count] = turns(run, count)
            write_sealed(OUT, result)
            print(json.dumps({count: result["directions"][count], "memory_ratio": result["memory_ratio"]}, indent=1))


if __name__ == "__main__":
    main()
