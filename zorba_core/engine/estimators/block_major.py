"""The cohort with its loops exchanged: blocks outside, directions inside. Weights visit the data.

While block m is there, the base pass and every direction's pass go through it; their hidden states wait for the next
block. So a round reads each weight once, where the cohort reads it once a direction, and a model may stay in files
(:mod:`zorba_core.runs.streaming`). The price is Q + 1 hidden states of every row in place of two. Where they do not
fit into ``network.hidden_bytes``, some directions at a time go through all blocks, each time with the base pass.

The pieces, their order and what they meet are the cohort's, so the scalars have the cohort's bits.

Shapes: M blocks, N clients, Q directions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import Cohort, Route, moved
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.network import BlockNetwork, Inactive
from zorba_core.engine.row_kinds import Rows


@torch.no_grad()
def estimate_block_major(
    network: BlockNetwork,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    *,
    mu: float,
    inactive: Inactive = "frozen",
    max_rows: int | None = None,
) -> Estimate:
    """As :func:`zorba_core.engine.estimators.cohort.estimate_cohort`, bit for bit."""
    A_MN = np.asarray(A_MN, dtype=bool)
    num_clients, num_seeds = A_MN.shape[1], len(seeds_Q)
    rho_NQ, forward_passes, done = np.zeros((num_clients, num_seeds)), 0, 0
    while done < num_seeds:
        cohort = Cohort(network, batches_N, A_MN, max_rows)
        together = num_seeds - done
        if network.hidden_bytes is not None:
            together = max(1, min(together, network.hidden_bytes // cohort.state_bytes - 1))
        cohort.add_copies(together)
        seeds = [int(seed) for seed in seeds_Q[done : done + together]]
        loss_N, loss_NQ = _through_blocks(network, cohort, A_MN, seeds, directions, mu, inactive)
        rho_NQ[:, done : done + together] = (loss_NQ - loss_N[:, None]) / mu
        forward_passes += num_clients * (1 + together)
        done += together
    return Estimate(rho_NQ, loss_N, forward_passes)


def _through_blocks(
    network: BlockNetwork,
    cohort: Cohort,
    A_MN: np.ndarray,
    seeds: list[int],
    directions: Directions,
    mu: float,
    inactive: Inactive,
) -> tuple[np.ndarray, np.ndarray]:
    """F_n at the base point, (N,), and along each direction, (N, Q)."""
    route, copies = Route.of(cohort, A_MN), range(len(seeds))
    for m in range(network.num_blocks):
        for q in copies:
            cohort.keep(q, route.starting_M[m])
        route.base_pass(cohort, m, inactive)
        if m == network.num_blocks - 1:
            cohort.copy_finals()
        for q in copies:
            with cohort.in_copy(q):
                route.passive_pass(cohort, m, inactive)
        if route.active_M[m]:
            for q, seed in enumerate(seeds):
                with moved(network, m, directions, seed, mu), cohort.in_copy(q):
                    cohort.through(m, route.active_M[m])
    loss_N = cohort.losses()
    loss_NQ = np.zeros((len(loss_N), len(seeds)))
    for q in copies:
        with cohort.in_copy(q):
            loss_NQ[:, q] = cohort.losses()
    return loss_N, loss_NQ
