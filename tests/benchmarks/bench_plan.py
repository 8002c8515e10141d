"""`zorba plan` against real rounds: `python -m tests.benchmarks.bench_plan [FILE]`.

Seconds a round as the plan predicts them, from the model's own block and from the general rates of OPT blocks of widths
64 to 1024, beside the measured seconds of the same rounds (estimate and update) on models with random weights: forward
passes of all clients together, of clients with directions of their own, exact scalars, and FedIT's gradient.
Calibration and rounds run in one process on one thread and are both in CPU seconds of this process. Asserts nothing.
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
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.methods.first_order import gradient_cohort
from zorba_core.engine.methods.own_directions import own_coefficients
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.settings import TrainSettings
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.shapes import shape_from_config
from zorba_core.runs.calibration import calibrate, with_own_block
from zorba_core.runs.rates import Calibration
from zorba_core.runs.round_seconds import process_seconds
from zorba_core.study.bench.common import LABEL_IDS, LR, client_batches
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
    ("opt H=96 M=12", opt(96, 12, 4), 20, 8, 53, 10, "gaussian", None),
    ("opt H=192 M=6", opt(192, 6, 6), 8, 8, 48, 5, "gaussian", 3),
    ("llama H=384 M=8", llama(384, 8, 6), 2, 8, 64, 4, "gaussian", 4),
    ("gpt2 H=320 M=6", gpt2(320, 6, 5), 4, 4, 96, 4, "rademacher", 3),
    ("gpt2 H=192 M=7", gpt2(192, 7, 6), 5, 8, 24, 10, "gaussian", None),
    ("opt H=768 M=12", OPT_125M, 1, 8, 128, 2, "gaussian", None),
    ("opt H=768 M=12", OPT_125M, 1, 4, 64, 4, "gaussian", 2),
]


# (what runs, method, estimator)
WAYS = [
    ("cohort", "zorba", "cohort"),
    ("exact", "zorba", "exact"),
    ("own directions", "zorba-own", "cohort"),
    ("first-order", "fedit", "cohort"),
]


def compare(case: tuple[Any, ...], calibration: Calibration) -> list[dict[str, Any]]:
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
    drawn = Directions(kind, network.sizes_M)
    shape = shape_from_config(config.to_dict(), name)
    results = []
    for what, method, estimator in WAYS:
        activated_MN = np.ones_like(A_MN) if what == "first-order" else A_MN
        load = Load(
            rows, length, directions, num_clients=clients, estimator=estimator, first_order=what == "first-order",
            label_words=len(LABEL_IDS),
        )  # fmt: skip
        own = with_own_block(
            calibration, config.to_dict(), shape, load, TrainSettings(method=method, direction=kind), kind
        )
        planned, general = (
            process_seconds(shape, load, rates, direction=kind, A_MN=activated_MN, method=method).total
            for rates in (own, calibration)
        )
        seconds = [_round(what, network, batches, A_MN, directions, drawn) for _ in range(1 + REPEATS)][1:]
        measured = statistics.median(seconds)
        row = {
            "model": name, "round": what, "clients": clients, "batch_size": rows, "seq_len": length,
            "perturbations": directions, "direction": kind, "activated_blocks": int(activated_MN.sum()),
            "planned_seconds": planned, "planned_by_general_rates": general, "measured_seconds": measured,
            "planned_over_measured": planned / measured, "general_over_measured": general / measured, "all": seconds,
        }  # fmt: skip
        results.append(row)
        print({key: row[key] for key in ("model", "round", "clients", *[key for key in row if "over_measured" in key])})
    return results


def _round(
    what: str, network: BlockNetwork, batches: list[Any], A_MN: np.ndarray, directions: int, drawn: Directions
) -> float:
    """CPU seconds of one round."""
    clients, seeds = A_MN.shape[1], range(directions)
    started = time.process_time()
    if what == "first-order":
        gradient_cohort(network, batches)
        return time.process_time() - started
    if what == "own directions":
        seeds_NQ = np.arange(clients * directions).reshape(clients, directions)
        rho_NQ = np.concatenate(
            [
                estimate_cohort(network, batches[n : n + 1], A_MN[:, [n]], seeds_NQ[n], drawn, mu=1e-3).rho_NQ
                for n in range(clients)
            ]
        )
        coefficients_MU = own_coefficients(rho_NQ, A_MN, np.ones(clients, bool))
        update_blocks(network, coefficients_MU, seeds_NQ.ravel(), drawn, LR)
        return time.process_time() - started
    estimate = estimate_exact if what == "exact" else estimate_cohort
    rho_NQ = estimate(network, batches, A_MN, seeds, drawn, mu=1e-3).rho_NQ
    update_blocks(network, average_per_block(rho_NQ, A_MN), seeds, drawn, LR)
    return time.process_time() - started


def _own(config: PretrainedConfig) -> PretrainedConfig:
    return type(config).from_dict(config.to_dict())


def _spread(rows: list[dict[str, Any]], what: str, ratio: str) -> dict[str, float]:
    ratios = [row[ratio] for row in rows if row["round"] == what]
    return {"least": min(ratios), "median": statistics.median(ratios), "most": max(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/plan.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    calibration = calibrate()
    rows = [row for case in CASES for row in compare(case, calibration)]
    # Rates wander with what else the machine does: measured again at the end, and said.
    again = calibrate()
    write_sealed(
        arguments.file,
        {
            "what": "seconds a round: planned from a calibration, and measured; CPU seconds of one thread",
            "rows": rows,
            "ratio": {what: _spread(rows, what, "planned_over_measured") for what, *_ in WAYS},
            "ratio_by_general_rates": {what: _spread(rows, what, "general_over_measured") for what, *_ in WAYS},
            "calibration": calibration.describe(),
            "calibration_again": replace(again, machine={}).describe(),
            "load_average": os.getloadavg(),
            "seed": 0,
        },
    )


if __name__ == "__main__":
    main()
