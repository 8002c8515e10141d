"""What one client of OPT-125M really holds: `python -m tests.benchmarks.bench_memory [FILE] [--device cuda]`.

The paper's Fig. 1 with a real process: a model of OPT-125M's sizes (random weights), one batch of 8 sequences of 128
tokens, one round of estimate and update with 1, 4, 8 and 12 activated blocks. Each measurement has its own process.
Writes what was measured beside what the paper's model charges; asserts nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from transformers import OPTConfig, OPTForCausalLM

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.methods.zorba import average_per_block
from zorba_core.engine.parts import estimator_of
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.engine.update import update_blocks
from zorba_core.files import write_json
from zorba_core.runs.record import MemoryMeter
from zorba_core.vram import Workload, model_spec, psi_block_bytes, psi_model_bytes

BATCH_SIZE, SEQ_LEN = 8, 128
ACTIVE = (1, 4, 8, 12)
REPEATS = 2
SEED = 0


def measure(active: int, device: str) -> dict[str, object]:
    """One round of a single client in this process; ``{"bytes": ..., "what": ...}`` as the run folders have it."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    network = Blocks(OPTForCausalLM(OPTConfig()), device=device)  # the default config is OPT-125M's
    rng = np.random.default_rng(SEED)
    batch = Rows.of_words(
        torch.from_numpy(rng.integers(3, 50_000, (BATCH_SIZE, SEQ_LEN))).to(device),
        torch.full((BATCH_SIZE,), SEQ_LEN - 1, device=device),
        torch.from_numpy(rng.integers(0, 2, BATCH_SIZE)).to(device),
        [10, 20],
    )
    # The active blocks are spread over the depth, as an allocation spreads them.
    A_MN = np.zeros((network.num_blocks, 1), bool)
    A_MN[np.linspace(0, network.num_blocks - 1, active).round().astype(int)] = True
    settings = Settings(batch_size=BATCH_SIZE, seq_len=SEQ_LEN, directions=1, estimator="cohort", device=device)
    directions = Directions("rademacher", network.sizes_M, dtype=network.dtype, device=network.device)
    seeds_Q = np.array([7], np.uint32)
    network(batch.rows([0]))  # loads the libraries' code and buffers
    meter = MemoryMeter(device)
    found = estimator_of(settings)(network, [batch], A_MN, seeds_Q, directions)
    update_blocks(network, average_per_block(found.rho_NQ, A_MN), seeds_Q, directions, 1e-7)
    return meter.describe()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/memory.json"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    spec, workload = model_spec("opt-125m"), Workload(batch_size=BATCH_SIZE, seq_len=SEQ_LEN)
    # Freed memory goes back at once, else glibc keeps some of it and the heap's holes are measured along.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)
    rows = []
    for active in ACTIVE:
        measured = []
        for _ in range(REPEATS):
            # A process's high-water mark remembers what came before it.
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
                measured.append(alone.submit(measure, active, arguments.device).result())
        rows.append({"active_blocks": active, "measured_bytes": [found["bytes"] for found in measured]})
        print(rows[-1], flush=True)
    result = {
        "what": f"one round of one client, OPT-125M sizes, B={BATCH_SIZE}, L={SEQ_LEN}, float32, Q=1",
        "measured_as": measured[0]["what"],
        "psi_model_bytes": psi_model_bytes(spec, workload),
        "psi_block_bytes": psi_block_bytes(spec, workload),
        "rows": rows,
        "machine": {
            "platform": f"{platform.system()} {platform.machine()}",
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if arguments.device == "cuda" else "cpu",
            "load_average": os.getloadavg(),
        },
        "seed": SEED,
    }
    write_json(arguments.file, result)


if __name__ == "__main__":
    main()
