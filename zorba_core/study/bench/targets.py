"""Rounds in the sizes that the engine is meant for on a GPU: OPT-125M's and OPT-1.3B's, with random weights.

By precision: seconds of a whole round (estimate and update, full activation), the most memory allocated at once, and
the rate of the matrix products in it beside what one large product reaches on the same device. A size that does not fit
is reported, and the next one follows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import OPTConfig, OPTForCausalLM

from zorba_core.engine.aggregation import average_per_block, update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.precision import products_in
from zorba_core.runs.environment import describe
from zorba_core.runs.load import use_threads
from zorba_core.runs.memory_meter import MemoryMeter
from zorba_core.study.bench.common import FLOPS, LR, BenchSettings, Report, client_batches, synchronised
from zorba_core.vram import ModelSpec, model_spec

TARGET_MODELS = ("opt-125m", "opt-1.3b")
_LARGE_PRODUCT = {"cuda": 8192, "cpu": 1024}  # rows and columns
_LONG_S = 20.0  # after so many seconds no further round is timed


def run_targets(
    settings: BenchSettings, models: Sequence[str] = TARGET_MODELS, report: Report = lambda line: None
) -> dict[str, Any]:
    """Time rounds of OPT models of the given sizes (``settings.model`` plays no part); plain data for JSON."""
    specs = [model_spec(name) for name in models]  # an unknown name is refused before anything slow
    with use_threads(settings.threads):
        return {
            "settings": {**settings.model_dump(), "model": list(models)},
            "environment": describe(settings.run_settings),
            "clock": settings.clock_name,
            "models": {spec.name: _time_model(spec, settings, report) for spec in specs},
        }


def _time_model(spec: ModelSpec, settings: BenchSettings, report: Report) -> dict[str, Any]:
    network = Blocks(_random_model(spec, settings), device=settings.device)
    run = _whole_round(network, settings)
    by_precision: dict[str, dict[str, Any]] = {}
    for name in settings.precisions:
        try:
            with network.at_precision(name):
                timing = _time_rounds(run, settings)
        except torch.OutOfMemoryError:
            report(f"{spec.name}, {name}: does not fit into the device's memory")
            continue
        large = _large_product(name, settings)
        by_precision[name] = {**timing, "large_product_flops_per_second": large}
        report(
            f"{spec.name}, {name}: {timing['seconds']:.3f} s a round, {timing['flops_per_second'] / 1e12:.2f} TFLOP/s, "
            f"{timing['flops_per_second'] / large:.0%} of what a large product reaches, "
            f"memory {(timing['memory']['bytes'] or 0) / 2**30:.2f} GiB"
        )
    return {"block_parameters": sum(network.sizes_M), "precisions": by_precision}


def _random_model(spec: ModelSpec, settings: BenchSettings) -> OPTForCausalLM:
    """An OPT of that size; what its weights are does not matter to its speed."""
    config = OPTConfig(
        hidden_size=spec.hidden_size,
        word_embed_proj_dim=spec.hidden_size,
        num_hidden_layers=spec.num_blocks,
        num_attention_heads=spec.num_heads,
        ffn_dim=round(spec.ffn_ratio * spec.hidden_size),
        max_position_embeddings=max(2048, settings.seq_len),
    )
    with torch.random.fork_rng(), torch.device(settings.device):
        torch.manual_seed(settings.seed)
        return OPTForCausalLM(config)


def _whole_round(network: Blocks, settings: BenchSettings) -> Callable[[], None]:
    """Estimate and update with every client activating every block."""
    batches_N = client_batches(settings, network.model.config.vocab_size)
    A_MN = np.ones((network.num_blocks, settings.clients), dtype=bool)
    directions = Directions(settings.direction, network.shapes_M, device=settings.device)
    seeds_Q = range(settings.directions)

    def run() -> None:
        rho_NQ = estimate_cohort(network, batches_N, A_MN, seeds_Q, directions, mu=settings.mu).rho_NQ
        update_blocks(network, average_per_block(rho_NQ, A_MN), seeds_Q, directions, LR)

    return run


def _time_rounds(run: Callable[[], None], settings: BenchSettings) -> dict[str, Any]:
    meter = MemoryMeter(settings.device)
    meter.begin()
    with FlopCounterMode(display=False, custom_mapping=FLOPS) as counter:  # the first round also warms up
        run()
    memory = meter.describe()
    times: list[float] = []
    while not times or (len(times) < settings.repeats and sum(times) < _LONG_S):
        times.append(synchronised(run, settings))
    seconds, flops = statistics.median(times), counter.get_total_flops()
    return {
        "seconds": seconds,
        "all_seconds": times,
        "flops": flops,
        "flops_per_second": flops / seconds,
        "memory": memory,
    }


def _large_product(precision: str, settings: BenchSettings) -> float:
    """Floating-point operations a second of one large square product, its factors ready in that precision."""
    size = _LARGE_PRODUCT[settings.device]
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    # Of random numbers: ones are multiplied faster.
    left, right = (torch.randn(size, size, device=settings.device).to(dtype) for _ in range(2))

    def multiply() -> None:
        with products_in(precision, torch.device(settings.device)):
            torch.mm(left, right)

    multiply()
    return 2 * size**3 / statistics.median(synchronised(multiply, settings) for _ in range(5))
