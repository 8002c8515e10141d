"""Whole rounds beside the forward passes that they cannot do without, and how a round's cost grows.

A *floor* is the forward work alone, with no noise drawn, no weights moved and no rows routed:

- ``floor``: for full activation Q + 1 plain forward passes of all N * B rows as one batch. For a routed allocation the
  base pass, and for each direction every block on as many rows as have started by then, each block as one batch;
- ``floor_in_pieces``: the same work in pieces as small as the cohort's, the fastest way known to do it on this device.

Shapes: M blocks, N clients, Q directions, R = N * B rows, L positions.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from zorba_core.engine.aggregation import average_per_block, update_blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort, rows_at_once
from zorba_core.engine.estimators.reference import Estimate, estimate
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded
from zorba_core.errors import InvalidInputError
from zorba_core.study.bench.common import (
    LABEL_IDS,
    LR,
    BenchSettings,
    Report,
    allocations,
    client_batches,
    take_turns,
)


def time_rounds(network: BlockNetwork, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Whole rounds (estimate and update) and their floors, all allocations taking turns with each other."""
    batches_N = client_batches(settings, network.model.config.vocab_size)
    directions = Directions(settings.direction, network.shapes_M, device=settings.device)
    seeds_Q = range(settings.num_perturbations)
    piece = rows_at_once(network, settings.seq_len)

    def whole_round(estimator: Callable[..., Estimate], A_MN: np.ndarray) -> None:
        rho_NQ = estimator(network, batches_N, A_MN, seeds_Q, directions, mu=settings.mu).rho_NQ
        update(A_MN, rho_NQ)

    def update(A_MN: np.ndarray, rho_NQ: np.ndarray) -> None:
        update_blocks(network, average_per_block(rho_NQ, A_MN), seeds_Q, directions, LR)

    def contestants(A_MN: np.ndarray) -> dict[str, Callable[[], None]]:
        started_M = _started(A_MN, settings)
        ones_NQ = np.ones((settings.num_clients, settings.num_perturbations))
        return {
            "cohort": lambda: whole_round(estimate_cohort, A_MN),
            "floor": lambda: _plain_passes(network, batches_N, started_M, settings.num_perturbations, 10**9),
            "floor_in_pieces": lambda: _plain_passes(network, batches_N, started_M, settings.num_perturbations, piece),
            "reference": lambda: whole_round(estimate, A_MN),
            "update, noise drawn again": lambda: update(A_MN, ones_NQ),
        }

    by_name = allocations(settings, network.num_blocks)
    times = take_turns(
        {(name, key): run for name, allocation in by_name.items() for key, run in contestants(allocation.A_MN).items()},
        settings,
        warm_up=False,  # a round is seconds long
    )
    middle = {key: statistics.median(values) for key, values in times.items()}
    results = {}
    for name, allocation in by_name.items():
        A_MN = allocation.A_MN
        cohort, floor, in_pieces, slow = (
            middle[name, key] for key in ("cohort", "floor", "floor_in_pieces", "reference")
        )
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
            "cohort_over_floor_in_pieces": cohort / in_pieces,
            "reference_over_cohort": slow / cohort,
            "faster_than_full": middle["full", "cohort"] / cohort,
            "rho_difference_over_largest": float(np.abs(cohort_NQ - expected).max() / np.abs(expected).max()),
        }
        report(
            f"{name}: {cohort:.2f} s a round, {cohort / floor:.2f} x its floor, {cohort / in_pieces:.2f} x the floor "
            f"in pieces; the reference takes {slow / cohort:.2f} x as long, full activation "
            f"{results[name]['faster_than_full']:.2f} x"
        )
    return results


def _started(A_MN: np.ndarray, settings: BenchSettings) -> np.ndarray:
    """Rows that have started by each block, (M,)."""
    return np.logical_or.accumulate(A_MN, axis=0).sum(axis=1) * settings.batch_size


@torch.no_grad()
def _plain_passes(
    network: BlockNetwork, batches_N: list[Encoded], started_M: np.ndarray, num_perturbations: int, piece: int
) -> None:
    everything = batches_N[0].joined(batches_N, network.device)
    token_ids_RL, everyone = everything.token_ids_RL, len(everything)
    for rows_M in [np.full(network.num_blocks, everyone)] + [started_M] * num_perturbations:
        for start in range(0, int(rows_M[-1]), piece):
            stop = min(start + piece, int(rows_M[-1]))
            hidden = network.embed(token_ids_RL[start:stop])
            for m in range(network.num_blocks - 1):
                rows = min(int(rows_M[m]), stop) - start
                if rows == stop - start:
                    hidden = network.run_block(m, hidden)
                elif rows > 0:  # the values do not matter here, the work does
                    network.run_block(m, hidden[:rows])
            network.head(everything.after_last_block(network, hidden, slice(start, stop)))


def time_padding(network: BlockNetwork, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Rows of unequal length: clients grouped by their own longest row, or all padded to the longest of all."""
    own = client_batches(settings, network.model.config.vocab_size, shortest=max(1, settings.seq_len // 4))
    padded = [
        replace(
            batch,
            token_ids_RL=nn.functional.pad(
                batch.token_ids_RL, (0, settings.seq_len - batch.token_ids_RL.shape[1]), value=1
            ),
        )
        for batch in own
    ]
    A_MN = np.ones((network.num_blocks, settings.num_clients), dtype=bool)
    directions = Directions(settings.direction, network.shapes_M, device=settings.device)
    times = take_turns(
        {
            name: lambda rows=rows: estimate_cohort(network, rows, A_MN, [0, 1], directions, mu=settings.mu)
            for name, rows in (("by each client's longest row", own), ("by the longest row of all", padded))
        },
        settings,
    )
    middle = [statistics.median(values) for values in times.values()]
    report(f"padding to the longest row of all costs {middle[1] / middle[0]:.2f} x")
    return {"seconds": times, "padded_over_grouped": middle[1] / middle[0]}


def time_growth(model: nn.Module, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Seconds of a full cohort round as one of N, Q, M and d changes. Blocks are the model's, repeated or left out;
    d is the block's width in a model of random weights."""
    base = replace(settings, num_clients=20, num_perturbations=4, repeats=min(2, settings.repeats))
    cases: dict[str, tuple[BenchSettings, nn.Module]] = {}
    for count in (10, 20, 40, 80):
        cases[f"N = {count}"] = (replace(base, num_clients=count), model)
    for count in (2, 4, 8, 16):
        cases[f"Q = {count}"] = (replace(base, num_perturbations=count), model)
    for count in (6, 12, 24):
        cases[f"M = {count}"] = (base, _like(model, num_hidden_layers=count))
    for width in (48, 96, 192):
        sizes = {"hidden_size": width, "word_embed_proj_dim": width, "ffn_dim": 4 * width}
        cases[f"H = {width}"] = (base, _like(model, **sizes))
    runs, facts = {}, {}
    for name, (case, built) in cases.items():
        network = BlockNetwork(copy.deepcopy(built), LABEL_IDS, device=case.device)
        rows = client_batches(case, built.config.vocab_size)
        A_MN = np.ones((network.num_blocks, case.num_clients), dtype=bool)
        directions = Directions(case.direction, network.shapes_M, device=case.device)
        seeds_Q = range(case.num_perturbations)
        facts[name] = {"block_parameters": sum(network.sizes_M)}
        runs[name] = lambda network=network, rows=rows, A_MN=A_MN, seeds_Q=seeds_Q, directions=directions: (
            estimate_cohort(network, rows, A_MN, seeds_Q, directions, mu=settings.mu)
        )
    times = take_turns(runs, base)
    report("growth: " + ", ".join(f"{name} {statistics.median(values):.2f} s" for name, values in times.items()))
    return {name: facts[name] | {"seconds": statistics.median(values)} for name, values in times.items()}


def _like(model: nn.Module, **changes: int) -> nn.Module:
    """A randomly initialised model of the same family."""
    config = copy.deepcopy(model.config)
    for name, value in changes.items():
        if not hasattr(config, name):
            raise InvalidInputError(
                f"how cost grows is timed for models whose config has {name}, and {config.model_type} has not; "
                "leave it out with --no-growth"
            )
        setattr(config, name, value)
    return type(model)(config)
