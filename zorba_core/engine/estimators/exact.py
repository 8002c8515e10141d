"""Exact scalars of all clients and directions by one forward and one backward pass: a simulation of the limit mu -> 0.

    rho[n, q] = sum over the blocks m that n activates of < grad_m F_n(w^_n; xi_n), v_q,m >

is what finite differences tend to as mu goes to 0. A client of the method has no backward pass: it takes Q + 1 forward
passes and sends these numbers with an error. Whoever simulates fifty clients in one process has one, and then all Q
numbers of a client cost about three forward passes, whatever Q is. So this is a way to simulate the method fast, not
what a client runs; preflight says how far the finite differences of a run's mu are from it.

The gradients of a *share* of the clients are gathered and multiplied with the directions, so that these are drawn once
a share, a piece of a block at a time. :mod:`zorba_core.planning.gradient_plan` says which clients are a share: as many
as keep the memory below four times what a cohort holds.

It is what :func:`zorba_core.engine.estimators.jvp.estimate_jvp` gives: to 1e-10 in float64 and 1e-5 in float32, on any
device. (Norms that compute in float32 whatever the dtype, as Llama's do, keep float64 at 1e-6.)

Shapes: M blocks, N clients, Q directions, C clients of a share that activate a block, D_m parameters of block m, K of
the directions at once, S elements of a piece of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.directions import PIECE_CPU, PIECE_ELSEWHERE, Directions
from zorba_core.engine.estimators.client_gradients import ClientGradients, MicroBatch
from zorba_core.engine.estimators.client_layers import BlockGradient, GradientTable
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.network import BlockNetwork, Inactive
from zorba_core.engine.row_kinds import Rows
from zorba_core.errors import InvalidInputError
from zorba_core.planning.estimate_terms import DIRECTIONS_AT_ONCE
from zorba_core.planning.gradient_plan import GradientPlan, Widths


@torch.no_grad()
def estimate_exact(
    network: BlockNetwork,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    *,
    mu: float | None = None,
    inactive: Inactive = "frozen",
    max_rows: int | None = None,
) -> Estimate:
    """rho[n, q] of every client and direction. ``mu`` plays no part and is taken for the sake of one interface; the
    network's weights are not written to.

    Args:
        max_rows: at most so many rows go through a block at once (an example's rows stay together): the backward pass
            keeps what blocks make of so many rows; default: as many as suit the device and the memory.

    Raises:
        InvalidInputError: ``max_rows`` below 1.
    """
    if max_rows is not None and max_rows < 1:
        raise InvalidInputError(f"max_rows is {max_rows}; it must be at least 1, or left out")
    A_MN = np.asarray(A_MN, dtype=bool)
    num_clients = A_MN.shape[1]
    loss_N, rho_NQ = np.zeros(num_clients), np.zeros((num_clients, len(seeds_Q)))
    plan = ExactPlan.of_network(network, batches_N, A_MN, max_rows)
    gradients = ClientGradients(network, inactive)

    def multiply(block: int, gathered: Gathered) -> None:
        for (clients, _), rho_CQ in zip(gathered, _along(gathered, block, seeds_Q, directions), strict=True):
            rho_NQ[clients] += rho_CQ

    with gradients.installed():
        for share in plan.shares:
            loss_N[share] = gather_gradients(gradients, batches_N, A_MN, share, plan, multiply)
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients, backward_passes=num_clients)


Gathered = list[tuple[list[int], Tensor]]  # of one block: some clients, and their gradients, (C, D_m)


def gather_gradients(
    gradients: ClientGradients,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    share: Sequence[int],
    plan: ExactPlan,
    completed: Callable[[int, Gathered], None],
) -> np.ndarray:
    """F_n of the share's clients, float64; of each block that some of them activate, all their gradients go to
    ``completed``, where they last until it returns.

    Clients whose rows begin to pass together have a table together. A block is completed within the backward pass of
    the share's last piece, so that of this piece no more than one block's gradients are held.
    """
    loss_by_client = dict.fromkeys(share, 0.0)
    gradient_by_client: dict[int, dict[int, BlockGradient]] = {}
    tables_M: list[list[tuple[list[int], GradientTable]]] = [[] for _ in A_MN]

    def complete(block: int) -> None:
        if tables_M[block]:
            completed(block, [(clients, table.values_CD) for clients, table in tables_M[block]])
        tables_M[block] = []  # their memory goes, with those of the clients that refer to them
        for of_block in gradient_by_client.values():
            of_block.pop(block, None)

    pieces = list(plan.pieces(_parts(batches_N, share, plan.max_rows)))
    for piece in pieces:
        new = [part.client for part in piece if part.client not in gradient_by_client]
        gradient_by_client |= {n: {} for n in new}
        for m, active_N in enumerate(A_MN):
            clients = [n for n in dict.fromkeys(new) if active_N[n]]
            if clients:
                table = gradients.table(m, len(clients))
                tables_M[m].append((clients, table))
                for row, n in enumerate(clients):
                    gradient_by_client[n][m] = BlockGradient(table, row)
        parts = [replace(part, gradient_M=gradient_by_client[part.client]) for part in piece]
        then = {"completed": complete} if piece is pieces[-1] else {}
        for part, loss in zip(parts, gradients.pass_through(parts, **then), strict=True):
            loss_by_client[part.client] += loss
    for m in range(len(A_MN)):  # blocks that nobody of the last piece activates, and what lies before them
        complete(m)
    return np.array(list(loss_by_client.values()))


def _along(gathered: Gathered, block: int, seeds_Q: Sequence[int], directions: Directions) -> list[np.ndarray]:
    """< grad_m F_n, v_q,m > of all directions and the clients of each table: (C, Q), float64."""
    if not gathered:
        return []
    device = gathered[0][1].device
    total_CQ = [torch.zeros(len(clients), len(seeds_Q), dtype=torch.float64, device=device) for clients, _ in gathered]
    for at in range(0, len(seeds_Q), DIRECTIONS_AT_ONCE):
        seeds_K = [int(seed) for seed in seeds_Q[at : at + DIRECTIONS_AT_ONCE]]
        for start, stop, v_KS in directions.side_by_side(seeds_K, block):
            for total, (_, gradient_CD) in zip(total_CQ, gathered, strict=True):
                total[:, at : at + len(seeds_K)] += gradient_CD[:, start:stop] @ v_KS.t()
    return [total.cpu().numpy() for total in total_CQ]


def held_at_once(block_parameters: int, num_directions: int, *, on_cpu: bool) -> int:
    """Numbers of directions that are held at once, at most."""
    count = min(num_directions, DIRECTIONS_AT_ONCE)
    return min(block_parameters * count, PIECE_CPU) if on_cpu else min(block_parameters, PIECE_ELSEWHERE) * count


def _parts(batches_N: Sequence[Rows], share: Sequence[int], max_rows: int | None) -> Iterator[MicroBatch]:
    """The share's clients, each in as many parts as ``max_rows`` asks for; nobody's gradient is asked for yet."""
    for n in share:
        batch = batches_N[n]
        count = min(len(batch), -(-len(batch.token_ids_RL) // max_rows)) if max_rows else 1
        for examples in np.array_split(np.arange(len(batch)), count):
            yield MicroBatch(n, batch if count == 1 else batch.rows(examples), float(batch.weights.sum()), {})


class ExactPlan(GradientPlan):
    """For a network."""

    @classmethod
    def of_network(
        cls, network: BlockNetwork, batches_N: Sequence[Rows], A_MN: np.ndarray, max_rows: int | None = None
    ) -> ExactPlan:
        """For these clients' batches."""
        return cls.of(
            network.sizes_M,
            Widths.of_config(network.model.config.to_dict(), int(network.model.config.hidden_size)),
            network.dtype.itemsize,
            np.array([batch.token_ids_RL.shape for batch in batches_N]),
            A_MN,
            on_cpu=network.device.type == "cpu",
            max_rows=max_rows,
        )
