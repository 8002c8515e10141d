"""Whole rounds beside the forward passes that they cannot do without.

The *floor* is the forward work alone, with no noise drawn, no weights moved and no rows routed: the base pass, and for
each direction every block on as many rows as have started by then, in pieces as small as the cohort's.

Shapes: M blocks, N clients, Q directions, R = N * B rows, L positions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from zorba_core.engine.aggregation import average_per_block, update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort, rows_at_once
from zorba_core.engine.estimators.reference import Estimate, estimate
from zorba_core.engine.rows import Rows
from zorba_core.runs.environment import describe
from zorba_core.runs.load import use_threads
from zorba_core.runs.models import load_model
from zorba_core.study.bench.common import (
    LR,
    BenchSettings,
    Report,
    allocations,
    client_batches,
    take_turns,
)


def run_bench(settings: BenchSettings, report: Report = lambda line: None) -> dict[str, Any]:
    """Time rounds of each allocation; the result is plain data for JSON."""
    with use_threads(settings.threads):
        network = Blocks(load_model(settings.model), device=settings.device)
        return {
            "settings": settings.model_dump(),
            "environment": describe(settings.run_settings),
            "clock": settings.clock_name,
            "model": {"num_blocks": network.num_blocks, "block_parameters": sum(network.sizes_M)},
            "rounds": time_rounds(network, settings, report),
        }


def time_rounds(network: Blocks, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Whole rounds (estimate and update) and their floor, all allocations taking turns with each other."""
    batches_N = client_batches(settings, network.model.config.vocab_size)
    directions = Directions(settings.direction, network.shapes_M, device=settings.device)
    seeds_Q = range(settings.directions)
    piece = rows_at_once(network, settings.seq_len)

    def whole_round(estimator: Callable[..., Estimate], A_MN: np.ndarray) -> None:
        rho_NQ = estimator(network, batches_N, A_MN, seeds_Q, directions, mu=settings.mu).rho_NQ
        update_blocks(network, average_per_block(rho_NQ, A_MN), seeds_Q, directions, LR)

    def contestants(A_MN: np.ndarray) -> dict[str, Callable[[], None]]:
        started_M = _started(A_MN, settings)
        return {
            "cohort": lambda: whole_round(estimate_cohort, A_MN),
            "floor": lambda: _plain_passes(network, batches_N, started_M, settings.directions, piece),
            "reference": lambda: whole_round(estimate, A_MN),
        }

    by_name = allocations(settings, network.num_blocks)
    times = take_turns(
        {(name, key): run for name, allocation in by_name.items() for key, run in contestants(allocation.A_MN).items()},
        settings,
    )
    middle = {key: statistics.median(values) for key, values in times.items()}
    results = {}
    for name, allocation in by_name.items():
        A_MN = allocation.A_MN
        cohort, floor, slow = (middle[name, key] for key in ("cohort", "floor", "reference"))
        expected = estimate(network, batches_N, A_MN, [0], directions, mu=settings.mu).rho_NQ
        cohort_NQ = estimate_cohort(network, batches_N, A_MN, [0], directions, mu=settings.mu).rho_NQ
        results[name] = {
            "total_blocks": int(A_MN.sum()),
            "lambda": allocation.bias_lambda,
            "row_blocks_per_direction": int(_started(A_MN, settings).sum()),
            "row_blocks_of_full": A_MN.size * settings.batch_size,
            "rows_at_once": piece,
            "seconds": {key: values for (of, key), values in times.items() if of == name},
            "rounds_per_second": 1 / cohort,
            "cohort_over_floor": cohort / floor,
            "reference_over_cohort": slow / cohort,
            "faster_than_full": middle["full", "cohort"] / cohort,
            "rho_difference_over_largest": float(np.abs(cohort_NQ - expected).max() / np.abs(expected).max()),
        }
        report(
            f"{name}: {cohort:.2f} s a round, {cohort / floor:.2f} x its floor; the reference takes "
            f"{slow / cohort:.2f} x as long, full activation {results[name]['faster_than_full']:.2f} x"
        )
    return results


def _started(A_MN: np.ndarray, settings: BenchSettings) -> np.ndarray:
    """Rows that have started by each block, (M,)."""
    return np.logical_or.accumulate(A_MN, axis=0).sum(axis=1) * settings.batch_size


@torch.no_grad()
def _plain_passes(
    network: Blocks, batches_N: list[Rows], started_M: np.ndarray, num_directions: int, piece: int
) -> None:
    everything = batches_N[0].joined(batches_N, network.device)
    token_ids_RL, everyone = everything.token_ids_RL, len(everything)
    for rows_M in [np.full(network.num_blocks, everyone)] + [started_M] * num_directions:
        for start in range(0, int(rows_M[-1]), piece):
            stop = min(start + piece, int(rows_M[-1]))
            hidden = network.embed(token_ids_RL[start:stop])
            for m in range(network.num_blocks):
                rows = min(int(rows_M[m]), stop) - start
                if rows == stop - start:
                    hidden = network.run_block(m, hidden)
                elif rows > 0:  # the values do not matter here, the work does
                    network.run_block(m, hidden[:rows])
            network.vocabulary_logits(everything.read(hidden, slice(start, stop))[:, 0], everything.words_C)
