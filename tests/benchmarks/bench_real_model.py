"""A round on SmolLM2-135M beside Hugging Face's own forward and backward passes of the same tokens, on one core.

    python -m tests.benchmarks.bench_real_model [FILE]

Four clients have 8 rows of 48 tokens each, and 8, 12, 20 and 30 of the 30 blocks: 200 low-rank directions, exact.
The plain passes are those of a training step: the model in training's form, the gradient of every block parameter, one
batch a client. Both take turns; the least CPU seconds of each count. Needs ``zorba get-model smollm2-135m``.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import directions_of
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.methods.zorba import average_per_block
from zorba_core.engine.precision import products_in
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.engine.update import update_blocks
from zorba_core.files import write_json
from zorba_core.runs.models import load_model
from zorba_core.runs.record import environment_of

DEFAULT_FILE = Path("artifacts/benchmarks/real_model.json")
MODEL, BUDGETS, ROWS, LENGTH, DIRECTIONS, TURNS = "smollm2-135m", (8, 12, 20, 30), 8, 48, 200, 3
LABELS = [11, 250, 3, 77, 1000, 2000]


def batches() -> list[Rows]:
    draw = torch.Generator().manual_seed(0)
    return [
        Rows.of_words(
            torch.randint(100, 40_000, (ROWS, LENGTH), generator=draw),
            torch.full((ROWS,), LENGTH - 1),
            torch.randint(0, len(LABELS), (ROWS,), generator=draw),
            LABELS,
        )
        for _ in BUDGETS
    ]


def allocation(num_blocks: int) -> np.ndarray:
    A_MN = np.zeros((num_blocks, len(BUDGETS)), dtype=bool)
    for n, budget in enumerate(BUDGETS):
        A_MN[(np.arange(budget) + sum(BUDGETS[:n])) % num_blocks, n] = True
    return A_MN


def least_seconds(turns: dict[str, Callable[[], object]]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(TURNS):
        for name, turn in turns.items():
            started = time.process_time()
            turn()
            seconds[name].append(time.process_time() - started)
    return {name: round(min(times), 2) for name, times in seconds.items()}


def measured(precision: str) -> dict[str, object]:
    network = Blocks(load_model(MODEL), precision=precision)
    A_MN, rows_N, directions = (
        allocation(network.num_blocks),
        batches(),
        directions_of(network, Settings(direction="low-rank")),
    )
    seeds_Q = np.random.default_rng(0).integers(2**32, size=DIRECTIONS)
    estimates = []

    def estimate() -> None:
        estimates.append(estimate_exact(network, rows_N, A_MN, seeds_Q, directions))

    def update() -> None:
        update_blocks(network, average_per_block(estimates[-1].rho_NQ, A_MN), seeds_Q, directions, 1e-9)

    def noise() -> None:
        for m in range(network.num_blocks):
            directions.factors(seeds_Q, m)

    plain = load_model(MODEL)
    weights = [part for name, part in plain.named_parameters() if ".layers." in name]

    def passes() -> None:
        for rows in rows_N:
            with products_in(precision, torch.device("cpu")):
                logits = plain(input_ids=rows.token_ids_RL, use_cache=False, logits_to_keep=1).logits[:, 0, LABELS]
            torch.autograd.grad(cross_entropy(logits.float(), torch.zeros(ROWS, dtype=torch.long)), weights)

    seconds = least_seconds({"plain passes": passes, "estimate": estimate, "update": update, "noise": noise})
    round_seconds = seconds["estimate"] + seconds["update"]
    return {
        "cpu_seconds": seconds,
        "round_over_plain": round(round_seconds / seconds["plain passes"], 2),
        "peak_mib_so_far": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "rho": estimates[0].rho_NQ.tolist(),
    }


def main(file: Path) -> None:
    torch.set_num_threads(1)
    own = Settings.suited(2 * 10**8).precision  # bf16 where this processor has it in hardware
    found = {precision: measured(precision) for precision in dict.fromkeys((own, "highest"))}
    rho = {precision: np.array(facts.pop("rho")) for precision, facts in found.items()}
    off = np.linalg.norm(rho[own] - rho["highest"]) / np.linalg.norm(rho["highest"])
    content = {
        "what": f"{MODEL}: clients with {BUDGETS} blocks, {ROWS} rows of {LENGTH} tokens each, {DIRECTIONS} low-rank "
        "directions, exact scalars; CPU seconds of one core, the least of three turns",
        "machine": environment_of(Settings()),
        "precision": found,
        **({"bf16_scalars_off": round(float(off), 4)} if own == "bf16" else {}),
    }
    print(found)
    write_json(file, content)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
