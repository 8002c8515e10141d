"""`zorba plan` against real rounds: `python -m tests.benchmarks.bench_plan [FILE]`.

Seconds a round as the plan predicts them from a calibration on OPT blocks of widths 64 to 1024, beside the measured
seconds of the same rounds (estimate and update) on models of other shapes with random weights. Calibration and rounds
run in one process on one thread and are both in CPU seconds of this process. Asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, OPTConfig, PretrainedConfig

from zorba_core.allocation import AllocationProblem, solve
from zorba_core.checksums import write_sealed
from zorba_core.engine.aggregation import average_per_block, update_blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.shapes import shape_from_config
from zorba_core.runs.calibration import calibrate
from zorba_core.runs.fleet_plan import simulated
from zorba_core.study.bench.common import LABEL_IDS, client_batches
from zorba_core.study.bench.settings import BenchSettings

REPEATS = 3


def opt(hidden: int, blocks: int, heads: int) -> OPTConfig:
    return OPTConfig(
        vocab_size=2000, hidden_size=hidden, ffn_dim=4 * hidden, num_hidden_layers=blocks, num_attention_heads=heads,
        word_embed_proj_dim=hidden, max_position_embeddings=512,
    )  # fmt: skip


def llama(hidden: int, blocks: int, heads: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=2000, hidden_size=hidden, intermediate_size=8 * hidden // 3, num_hidden_layers=blocks,
        num_attention_heads=heads, num_key_value_heads=heads // 2, max_position_embeddings=512,
    )  # fmt: skip


def gpt2(hidden: int, blocks: int, heads: int) -> GPT2Config:
    return GPT2Config(vocab_size=2000, n_embd=hidden, n_layer=blocks, n_head=heads, n_positions=512)


OPT_125M = opt(768, 12, 12)
# (name, model, clients N, rows B, positions L, directions Q, kind, blocks each, all where None)
CASES = [
    ("opt H=96 M=12", opt(96, 12, 4), 1, 8, 64, 10, "gaussian", None),
    ("opt H=96 M=12", opt(96, 12, 4), 20, 8, 32, 10, "gaussian", 4),
    ("opt H=96 M=12", opt(96, 12, 4), 50, 8, 32, 10, "rademacher", None),
    ("opt H=192 M=6", opt(192, 6, 6), 8, 8, 48, 5, "gaussian", 3),
    ("llama H=384 M=8", llama(384, 8, 6), 2, 8, 64, 4, "gaussian", 4),
    ("gpt2 H=320 M=6", gpt2(320, 6, 5), 4, 4, 96, 4, "rademacher", 3),
    ("opt H=768 M=12", OPT_125M, 1, 8, 128, 2, "gaussian", None),
    ("opt H=768 M=12", OPT_125M, 1, 4, 64, 4, "gaussian", 2),
]


def compare(case: tuple[Any, ...], calibration: Any) -> dict[str, Any]:
    name, config, clients, rows, length, directions, kind, each = case
    torch.manual_seed(0)
    network = BlockNetwork(AutoModelForCausalLM.from_config(_own(config)), LABEL_IDS)
    M = network.num_blocks
    if each is None:
        A_MN = np.ones((M, clients), dtype=bool)
    else:
        A_MN = solve(AllocationProblem(np.full(clients, each), M), "balanced").allocation.A_MN if clients * each >= M \
            else np.repeat((np.arange(M) >= M - each)[:, None], clients, axis=1)  # fmt: skip
    settings = BenchSettings(num_clients=clients, batch_size=rows, seq_len=length, direction=kind)
    batches = client_batches(settings, config.vocab_size)
    drawn, seeds = Directions(kind, network.sizes_M), range(directions)
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        rho_NQ = estimate_cohort(network, batches, A_MN, seeds, drawn, mu=1e-3).rho_NQ
        update_blocks(network, average_per_block(rho_NQ, A_MN), seeds, drawn, 1e-7)
        seconds.append(time.process_time() - started)
    measured = statistics.median(seconds)
    shape = shape_from_config(config.to_dict(), name)
    load = Load(rows, length, directions, label_words=len(LABEL_IDS))
    planned = simulated(shape, load, calibration, direction=kind, A_MN=A_MN)[1]
    row = {
        "model": name, "clients": clients, "batch_size": rows, "seq_len": length, "perturbations": directions,
        "direction": kind, "activated_blocks": int(A_MN.sum()), "planned_seconds": planned.total,
        "measured_seconds": measured, "planned_over_measured": planned.total / measured, "all": seconds,
    }  # fmt: skip
    print(
        {key: row[key] for key in ("model", "clients", "planned_seconds", "measured_seconds", "planned_over_measured")}
    )
    return row


def _own(config: PretrainedConfig) -> PretrainedConfig:
    return type(config).from_dict(config.to_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/plan.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    calibration = calibrate()
    rows = [compare(case, calibration) for case in CASES]
    ratios = [row["planned_over_measured"] for row in rows]
    # Rates wander with what else the machine does: measured again at the end, and said.
    again = calibrate()
    write_sealed(
        arguments.file,
        {
            "what": "seconds a round: planned from a calibration, and measured; CPU seconds of one thread",
            "rows": rows,
            "ratio": {"least": min(ratios), "median": statistics.median(ratios), "most": max(ratios)},
            "calibration": calibration.describe(),
            "calibration_again": replace(again, machine={}).describe(),
            "load_average": os.getloadavg(),
            "seed": 0,
        },
    )


if __name__ == "__main__":
    main()
