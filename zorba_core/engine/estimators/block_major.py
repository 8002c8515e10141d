"""The cohort with its loops exchanged: blocks outside, directions inside. Weights visit the data.

While block m is there, the base pass and every direction's pass go through it; their hidden states wait for the next
block. So a round reads each weight once, where the cohort reads it once a direction, and a model may stay in files
(:mod:`zorba_core.runs.streaming`). The price is Q + 1 hidden states of every row in place of two. Where they do not
fit into ``network.hidden_bytes``, some directions at a time go through all blocks, each time with the base pass.

The pieces, their order and what they meet are the cohort's, so the scalars have the cohort's bits.

Shapes: M blocks, N clients, Q directions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from zorba_core.engine.along import along, supports
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import Cohort, Route, moved
from zorba_core.engine.estimators.jvp import run_along
from zorba_core.engine.estimators.reference import Estimate, mean_loss
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
    moving = _along if supports(network, directions) else moved
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
                with moving(network, m, directions, seed, mu), cohort.in_copy(q):
                    cohort.through(m, route.active_M[m])
    loss_N = cohort.losses()
    loss_NQ = np.zeros((len(loss_N), len(seeds)))
    for q in copies:
        with cohort.in_copy(q):
            loss_NQ[:, q] = cohort.losses()
    return loss_N, loss_NQ


def _along(
    network: BlockNetwork, block: int, directions: Directions, seed: int, mu: float
) -> contextlib.AbstractContextManager[None]:
    """Within the context the block computes along one low-rank direction, and none of its weights is moved."""
    return along(network, block, directions, [seed], mu)


@torch.no_grad()
def derive_block_major(
    network: BlockNetwork,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    *,
    inactive: Inactive = "frozen",
) -> np.ndarray:
    """The exact scalars, (N, Q), of :func:`zorba_core.engine.estimators.jvp.estimate_jvp`, blocks outside: what waits
    for the next block is each client's hidden states and their derivative along each direction."""
    num_blocks, num_clients = A_MN.shape
    hidden_N = [network.embed(batch.token_ids_RL) for batch in batches_N]
    tangent_NQ = [[torch.zeros_like(hidden) for _ in seeds_Q] for hidden in hidden_N]
    rho_NQ = np.zeros((num_clients, len(seeds_Q)))
    with sdpa_kernel(SDPBackend.MATH):
        for m in range(num_blocks):
            after_N = list(hidden_N)
            for q, seed in enumerate(seeds_Q):
                direction = directions.block(int(seed), m)
                for n in range(num_clients):
                    with forward_ad.dual_level():
                        hidden = forward_ad.make_dual(hidden_N[n], tangent_NQ[n][q])
                        if A_MN[m, n]:
                            hidden = run_along(network, m, direction, hidden)
                        elif inactive == "dropped":
                            hidden = network.run_block_without_weights(hidden)
                        else:
                            hidden = network.run_block(m, hidden)
                        after_N[n], tangent = forward_ad.unpack_dual(hidden)
                        tangent_NQ[n][q] = torch.zeros_like(after_N[n]) if tangent is None else tangent
                del direction
            hidden_N = after_N
        for n, batch in enumerate(batches_N):
            for q in range(len(seeds_Q)):
                with forward_ad.dual_level():
                    final = batch.read(forward_ad.make_dual(hidden_N[n], tangent_NQ[n][q]))
                    tangent = forward_ad.unpack_dual(mean_loss(network, batch, final)).tangent
                    rho_NQ[n, q] = 0.0 if tangent is None else float(tangent)
    return rho_NQ
