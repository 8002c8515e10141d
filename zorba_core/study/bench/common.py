"""What is timed, on which rows, and how contestants take turns.

All contestants run in one process, one after another in turn, and medians are compared. On the CPU the time is this
process's own CPU time on one thread, which other work on the machine changes little; elsewhere it is wall time.

Shapes: M blocks, N clients, B rows of a client, L positions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.engine import products
from zorba_core.engine.randomness import stream
from zorba_core.engine.rows import Rows
from zorba_core.study.bench.settings import BenchSettings

LR = 1e-7  # so small that the timed model stays what it was
LABEL_IDS = (10, 20)

# For a ``FlopCounterMode``, which does not know them: of the shapes of x and W.
FLOPS = {products.ONEDNN: lambda x, weight, *rest, **named: 2 * math.prod(x) * weight[0]} if products.ONEDNN else {}
FLOPS[torch.ops.aten._addmm_activation] = lambda bias, x, weight, *rest, **named: 2 * math.prod(x) * weight[1]

Report = Callable[[str], None]


def allocations(settings: BenchSettings, num_blocks: int) -> dict[str, Allocation]:
    """Full activation, and T blocks spread evenly or by two levels.

    Clients have room for 1 to M blocks; the last one is two levels where each has room for all.
    """
    budget_N = stream("bench-budgets", settings.seed).integers(1, num_blocks + 1, settings.clients)
    total = min(settings.total, int(budget_N.sum()))
    problem = Problem(budget_N, num_blocks, total=total)
    roomy = Problem(np.full_like(budget_N, num_blocks), num_blocks, total=total)

    def solved(solver: str, problem: Problem = problem) -> Allocation:
        return Allocation(solve(problem, solver).allocation.A_MN)

    return {
        "full": Allocation(np.ones((num_blocks, settings.clients), dtype=bool)),
        "balanced": solved("balanced"),
        "two-level": solved("two-level"),
        "two-level, room for all": solved("two-level", roomy),
    }


def client_batches(settings: BenchSettings, vocabulary: int) -> list[Rows]:
    """Rows of random tokens, ``seq_len`` long."""
    generator = stream("bench-rows", settings.seed)
    batches = []
    for _ in range(settings.clients):
        token_ids_BL = generator.integers(3, vocabulary, (settings.batch_size, settings.seq_len))
        last_B = np.full(settings.batch_size, settings.seq_len - 1)
        label_B = generator.integers(0, len(LABEL_IDS), settings.batch_size)
        rows = Rows.of_words(*(torch.from_numpy(part) for part in (token_ids_BL, last_B, label_B)), LABEL_IDS)
        batches.append(rows.to(settings.device))
    return batches


def synchronised(run: Callable[[], Any], settings: BenchSettings) -> float:
    """Seconds until the device has done it: at least what its clock can tell apart. (That of a processor's time may
    stand still for milliseconds, as on Windows or beside a profiler.)"""
    started = settings.clock()
    run()
    if settings.device == "cuda":
        torch.cuda.synchronize()
    return max(settings.clock() - started, time.get_clock_info(settings.clock.__name__).resolution)


def take_turns(contestants: Mapping[Any, Callable[[], Any]], settings: BenchSettings) -> dict[Any, list[float]]:
    """Seconds of each, ``repeats`` times, one after another in turn. No turn warms up: a round is seconds long."""
    times: dict[Any, list[float]] = {name: [] for name in contestants}
    for _ in range(settings.repeats):
        for name, run in contestants.items():
            times[name].append(synchronised(run, settings))
    return times
