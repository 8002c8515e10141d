"""Seconds of an estimate along low-rank directions beside Gaussian and Rademacher ones, in one process, taking turns.

    python -m tests.benchmarks.bench_low_rank [FILE] [REPEATS]

``along``: no weight is moved, directions share a batch (what the cohort does with blocks of 256 or wider); ``moved``:
the same directions, drawn, multiplied out and added to the weights, as the other kinds are. CPU seconds of this
process, the least of the repeats.

Also how far rho is, in float32 and with weights of 16 bits, from rho in float64 of the same weights: with bfloat16 as
the engine does it, on a copy in 32 bits, and as it would be if mu v were added to the 16 bits themselves.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import OPTConfig, OPTForCausalLM

from zorba_core.checksums import write_sealed
from zorba_core.engine import along
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators import cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded
from zorba_core.engine.settings import TrainSettings
from zorba_core.runs.environment import describe
from zorba_core.runs.model_source import load_model

DEFAULT_FILE = Path("artifacts/benchmarks/low-rank.json")
KINDS = {"gaussian": "gaussian", "rademacher": "rademacher", "moved": "low-rank", "along": "low-rank"}
MU, LABELS = 1e-3, [10, 11]
# Model, clients, rows of each, positions, directions, blocks of the model that are timed.
CASES = {
    "opt-mini, 20 clients": ("opt-mini", 20, 8, 32, 10),
    "OPT-125M's width, 2 blocks, 1 client of 1 row": ("wide", 1, 1, 64, 10),
    "OPT-125M's width, 2 blocks, 1 client of 8 rows": ("wide", 1, 8, 64, 10),
    "OPT-125M's width, 2 blocks, 8 clients of 8 rows": ("wide", 8, 8, 64, 4),
}


def wide() -> OPTForCausalLM:
    """Two blocks of OPT-125M's width, random."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 768, "ffn_dim": 3072, "num_attention_heads": 12, "word_embed_proj_dim": 768}
    return OPTForCausalLM(OPTConfig(vocab_size=500, num_hidden_layers=2, max_position_embeddings=128, **sizes))


def rows_of(clients: int, rows: int, length: int) -> list[Encoded]:
    generator = torch.Generator().manual_seed(1)
    return [
        Encoded(
            torch.randint(12, 400, (rows, length), generator=generator),
            torch.full((rows,), length - 1),
            torch.randint(0, 2, (rows,), generator=generator),
        )
        for _ in range(clients)
    ]


@contextlib.contextmanager
def at_least(width: int) -> Iterator[None]:
    """Within the context, weights of blocks of that width or more are not moved."""
    before, along.LEAST_WIDTH_CPU = along.LEAST_WIDTH_CPU, width
    try:
        yield
    finally:
        along.LEAST_WIDTH_CPU = before


def estimate(network: BlockNetwork, name: str, batches: list[Encoded], count: int, mu: float = MU) -> np.ndarray:
    directions = Directions(KINDS[name], network.shapes_M, dtype=network.dtype)
    A_MN = np.ones((network.num_blocks, len(batches)), dtype=bool)
    with at_least(10**9 if name == "moved" else 0):
        return cohort.estimate_cohort(network, batches, A_MN, range(count), directions, mu=mu).rho_NQ


def time_case(case: tuple[str, int, int, int, int], repeats: int) -> dict[str, Any]:
    model, clients, rows, length, count = case
    network = BlockNetwork(load_model(model) if model == "opt-mini" else wide(), LABELS)
    batches, seconds = rows_of(clients, rows, length), {name: [] for name in KINDS}
    for turn in range(repeats + 1):
        for name in KINDS:
            started = time.process_time()
            estimate(network, name, batches, count)
            if turn:  # the first is for caches
                seconds[name].append(time.process_time() - started)
    least = {name: min(values) for name, values in seconds.items()}
    return {
        "clients": clients, "rows": rows, "positions": length, "directions": count, "cpu_seconds": seconds,
        "of_gaussian": {name: value / least["gaussian"] for name, value in least.items()},
    }  # fmt: skip


@contextlib.contextmanager
def moved_in_16_bits() -> Iterator[None]:
    """As it would be without copies in 32 bits: w + mu v rounded to bfloat16 before it is used."""
    before = Directions.add_to

    def rounded(self: Directions, weights: torch.Tensor, *where: Any) -> None:
        before(self, weights, *where)
        weights.copy_(weights.bfloat16())

    Directions.add_to = rounded
    try:
        yield
    finally:
        Directions.add_to = before


def errors_of_rho(mu: float) -> dict[str, float]:
    """Relative to rho in float64 of a network with the same, 16-bit, weights; Gaussian directions."""
    rounded, batches = load_model("opt-mini"), rows_of(4, 8, 32)
    for parameter in rounded.parameters():
        parameter.data = parameter.data.bfloat16().float()
    exact = estimate(BlockNetwork(copy.deepcopy(rounded), LABELS, dtype=torch.float64), "gaussian", batches, 8, mu)

    def error(rho: np.ndarray) -> float:
        return float(np.linalg.norm(rho - exact) / np.linalg.norm(exact))

    narrow = BlockNetwork(copy.deepcopy(rounded), LABELS, dtype=torch.bfloat16)
    result = {
        "mu": mu,
        "float32": error(estimate(BlockNetwork(rounded, LABELS), "gaussian", batches, 8, mu)),
        "bfloat16, moved in 32 bits": error(estimate(narrow, "gaussian", batches, 8, mu)),
    }
    with moved_in_16_bits():
        return result | {"bfloat16, moved in 16 bits": error(estimate(narrow, "gaussian", batches, 8, mu))}


def main(target: Path, repeats: int) -> None:
    torch.set_num_threads(1)
    report: dict[str, Any] = {"what": __doc__.splitlines()[0], "environment": describe(TrainSettings()), "cases": {}}
    for name, case in CASES.items():
        report["cases"][name] = time_case(case, repeats)
        print(name, {kind: round(value, 3) for kind, value in report["cases"][name]["of_gaussian"].items()}, flush=True)
    report["errors_of_rho"] = [errors_of_rho(mu) for mu in (1e-4, 1e-3, 1e-2)]
    for row in report["errors_of_rho"]:
        print(row, flush=True)
    report["settings"] = asdict(TrainSettings(direction="low-rank"))
    write_sealed(target, report)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
