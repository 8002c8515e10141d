"""Exact scalars of all clients and directions by one forward and one backward pass: a simulation of the limit mu -> 0.

    rho[n, q] = sum over the blocks m that n activates of < grad_m F_n(w^_n; xi_n), v_q,m >

is what finite differences tend to as mu goes to 0. A client of the method has no backward pass: it takes Q + 1 forward
passes and sends these numbers with an error. Whoever simulates fifty clients in one process has one, and then all Q
numbers of a client cost about three forward passes, whatever Q is. So this is a way to simulate the method fast, not
what a client runs; preflight says how far the finite differences of a run's mu are from it.

The gradients of a *share* of the clients are gathered and multiplied with the directions, so that these are drawn once
a share, a piece of a block at a time. :mod:`zorba_core.planning.gradient_plan` says which clients are a share, within
four times the memory that a cohort holds: with many directions the rows go through the blocks in smaller pieces, which
leaves room for the gradients of more clients.

It is what :func:`zorba_core.engine.estimators.jvp.estimate_jvp` gives: to 1e-10 in float64 and 1e-5 in float32, but
that a ReLU's derivative jumps where its input is within rounding of 0 (of 50 clients of opt-mini none to five are
apart, by up to 5e-4).

Shapes: M blocks, N clients, Q directions, C clients of a share that activate a block, D_m parameters of block m, K of
the directions at once, S elements of a piece of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine import products
from zorba_core.engine.directions import Directions, DrawnBits
from zorba_core.engine.estimators.client_gradients import ClientGradients, MicroBatch
from zorba_core.engine.estimators.client_layers import BlockGradient
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.network import BlockNetwork, Inactive
from zorba_core.engine.row_kinds import Rows
from zorba_core.errors import InvalidInputError
from zorba_core.planning.gradient_plan import GradientPlan
from zorba_core.planning.pass_widths import Widths

KeptBits = Mapping[tuple[int, int], Sequence[DrawnBits]]  # by block, and the first of directions side by side


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
    options = {"num_directions": len(seeds_Q), "signs": directions.kind.signs, "max_rows": max_rows}
    plan = exact_plan(network, batches_N, A_MN, **options)
    gradients = ClientGradients(network, inactive)
    kept_bytes = plan.kept_bits(len(seeds_Q) * sum(network.sizes_M), signs=directions.kind.signs)
    bits = _random_bits(network, seeds_Q, directions) if kept_bytes and directions.can_look_up else {}

    def multiply(block: int, clients: list[int], gradient_CD: Tensor) -> None:
        rho_NQ[clients] += scalars_along(gradient_CD, block, seeds_Q, directions, bits)

    with gradients.installed():
        for share in plan.shares:
            loss_N[share] = gather_gradients(gradients, batches_N, A_MN, share, plan, multiply)
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients, backward_passes=num_clients)


def gather_gradients(
    gradients: ClientGradients,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    share: Sequence[int],
    plan: GradientPlan,
    completed: Callable[[int, list[int], Tensor], None],
) -> np.ndarray:
    """F_n of the share's clients, float64. Of each block, ``completed`` is given the clients that activate it, if there
    are some, and their gradients, (C, D_m), which last until it returns.

    A block is completed within the backward pass of the share's last piece, so that of this piece no more than one
    block's gradients are held.
    """
    loss_by_client = dict.fromkeys(share, 0.0)
    pieces = list(plan.pieces(_parts(batches_N, share, plan.max_rows)))
    tables_M = gradients.tables(share, A_MN, {part.client for piece in pieces[:-1] for part in piece})
    gradient_by_client: dict[int, dict[int, BlockGradient]] = {n: {} for n in share}
    for m, (clients, table_CD) in enumerate(tables_M):
        for row, n in enumerate(clients):
            gradient_by_client[n][m] = BlockGradient(table_CD, row)
    waiting = {m for m, (clients, _) in enumerate(tables_M) if clients}

    def complete(block: int) -> None:
        if block in waiting:
            waiting.remove(block)
            completed(block, *tables_M[block])

    for piece in pieces:
        parts = [replace(part, gradient_M=gradient_by_client[part.client]) for part in piece]
        then = {"completed": complete} if piece is pieces[-1] else {}
        for part, loss in zip(parts, gradients.pass_through(parts, **then), strict=True):
            loss_by_client[part.client] += loss
    for m in sorted(waiting):  # before all that the last piece's clients activate
        complete(m)
    return np.array(list(loss_by_client.values()))


def scalars_along(
    gradient_CD: Tensor, block: int, seeds_Q: Sequence[int], directions: Directions, bits: KeptBits | None = None
) -> np.ndarray:
    """< grad_m F_n, v_q,m > of all directions and some clients: (C, Q), float64. ``bits``: drawn before."""
    total_CQ = torch.zeros(len(gradient_CD), len(seeds_Q), dtype=torch.float64, device=gradient_CD.device)
    for at in range(0, len(seeds_Q), directions.together):
        seeds_K = [int(seed) for seed in seeds_Q[at : at + directions.together]]
        total_CK = total_CQ[:, at : at + len(seeds_K)]
        for start, stop, v_KS in directions.side_by_side(seeds_K, block, (bits or {}).get((block, at))):
            total_CK += products.few_rows(gradient_CD[:, start:stop], v_KS)
    return total_CQ.cpu().numpy()


def _random_bits(network: BlockNetwork, seeds_Q: Sequence[int], directions: Directions) -> KeptBits:
    """For one share after another: drawn at once, so that they leave fewer holes."""
    return {
        (m, at): list(directions.random_bits([int(seed) for seed in seeds_Q[at : at + directions.together]], m))
        for m in range(network.num_blocks)
        for at in range(0, len(seeds_Q), directions.together)
    }


def _parts(batches_N: Sequence[Rows], share: Sequence[int], max_rows: int | None) -> Iterator[MicroBatch]:
    """The share's clients, each in as many parts as ``max_rows`` asks for; nobody's gradient is asked for yet."""
    for n in share:
        batch = batches_N[n]
        count = min(len(batch), -(-len(batch.token_ids_RL) // max_rows)) if max_rows else 1
        for examples in np.array_split(np.arange(len(batch)), count):
            yield MicroBatch(n, batch if count == 1 else batch.rows(examples), float(batch.weights.sum()), {})


def exact_plan(network: BlockNetwork, batches_N: Sequence[Rows], A_MN: np.ndarray, **options: Any) -> GradientPlan:
    """For a network, and these clients' batches; ``options`` are those of :meth:`GradientPlan.of`."""
    config, shape_NX = network.model.config, np.array([batch.token_ids_RL.shape for batch in batches_N])
    return GradientPlan.of(
        network.sizes_M,
        Widths.of_config(config.to_dict(), int(config.hidden_size), int(shape_NX[:, 1].max())),
        network.dtype.itemsize,
        shape_NX,
        A_MN,
        on_cpu=network.device.type == "cpu",
        **options,
    )
