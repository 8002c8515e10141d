"""Exact scalars of all clients and directions by one forward and one backward pass: a simulation of the limit mu -> 0.

    rho[n, q] = sum over the blocks m that n activates of < grad_m F_n(w^_n; xi_n), v_q,m >

is what finite differences tend to as mu goes to 0. A client of the method has no backward pass: it takes Q + 1 forward
passes and sends these numbers with an error. Whoever simulates fifty clients in one process has one, and then all Q
numbers of a client cost about three forward passes, whatever Q is. So this is a way to simulate the method fast, not
what a client runs; preflight says how far the finite differences of a run's mu are from it.

The gradients of a *share* of the clients are gathered and multiplied with the directions, so that these are drawn once
a share, a piece of a block at a time. A share is as many clients as keep the memory below ``MOST_MEMORY`` times what a
cohort holds: its blocks' weights, and two hidden states of every row.

It is what :func:`zorba_core.engine.estimators.jvp.estimate_jvp` gives: to 1e-10 in float64 and 1e-5 in float32, on any
device. (Norms that compute in float32 whatever the dtype, as Llama's do, keep float64 at 1e-6.)

Shapes: M blocks, N clients, Q directions, C clients of a share that activate a block, D_m parameters of block m, K of
the directions at once, S elements of a piece of a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.client_gradients import ClientGradients, Part
from zorba_core.engine.estimators.client_layers import BlockGradient, GradientTable
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.network import BlockNetwork, Inactive
from zorba_core.engine.row_kinds import Rows
from zorba_core.errors import InvalidInputError

MOST_MEMORY = 4  # times a cohort's
_LEAST_BYTES = 32 * 2**20  # of gradients and what a backward pass keeps: for small models, nobody need save these
_KEPT_STATES = 14  # hidden states that the backward pass keeps of a block, its four times wider middle among them
_KEPT_SHARE = 0.6  # of the memory that is for rows on their way; the rest is for gradients
_POSITIONS_CPU, _POSITIONS_ELSEWHERE = 1024, 2**16  # that go through a block at once: what a core's cache is good for
_LENGTH_RATIO = 0.75  # rows at least so long beside the longest go together, padded
_DIRECTIONS_CPU, _DIRECTIONS_ELSEWHERE = 1, 16  # multiplied with the gradients at once


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
    plan = Plan.of_network(network, batches_N, A_MN, max_rows)
    gradients = ClientGradients(network, inactive)
    with gradients.installed():
        for share in plan.shares:
            gathered_M, loss_N[share] = gather_gradients(gradients, batches_N, A_MN, share, plan)
            for m, gathered in enumerate(gathered_M):
                for (clients, _), rho_CQ in zip(gathered, _along(gathered, m, seeds_Q, directions), strict=True):
                    rho_NQ[clients] += rho_CQ
            del gathered_M, gathered  # before the next share's are made
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients, backward_passes=num_clients)


Gathered = list[tuple[list[int], Tensor]]  # of one block: some clients, and their gradients, (C, D_m)


def gather_gradients(
    gradients: ClientGradients,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    share: Sequence[int],
    plan: Plan,
) -> tuple[list[Gathered], np.ndarray]:
    """Of each block the gradients of the share's clients that activate it, and F_n of the share's clients, float64.

    Clients whose rows begin to pass together have a table together. A block's table is made when the backward pass
    reaches it, in the memory of what it kept of the blocks behind.
    """
    loss_by_client = dict.fromkeys(share, 0.0)
    gradient_by_client: dict[int, dict[int, BlockGradient]] = {}
    gathered_M: list[list[tuple[list[int], GradientTable]]] = [[] for _ in A_MN]
    for piece in plan.pieces(_parts(batches_N, share, plan.max_rows)):
        new = [part.client for part in piece if part.client not in gradient_by_client]
        gradient_by_client |= {n: {} for n in new}
        for m, active_N in enumerate(A_MN):
            clients = [n for n in dict.fromkeys(new) if active_N[n]]
            if clients:
                table = gradients.table(m, len(clients))
                gathered_M[m].append((clients, table))
                for row, n in enumerate(clients):
                    gradient_by_client[n][m] = BlockGradient(table, row)
        parts = [replace(part, gradient_M=gradient_by_client[part.client]) for part in piece]
        for part, loss in zip(parts, gradients.pass_through(parts), strict=True):
            loss_by_client[part.client] += loss
    return (
        [[(clients, table.values_CD) for clients, table in gathered] for gathered in gathered_M],
        np.array(list(loss_by_client.values())),
    )


def _along(gathered: Gathered, block: int, seeds_Q: Sequence[int], directions: Directions) -> list[np.ndarray]:
    """< grad_m F_n, v_q,m > of all directions and the clients of each table: (C, Q), float64."""
    if not gathered:
        return []
    device = gathered[0][1].device
    total_CQ = [torch.zeros(len(clients), len(seeds_Q), dtype=torch.float64, device=device) for clients, _ in gathered]
    at_once = _directions_at_once(device.type == "cpu")
    buffer = directions.buffer() if at_once == 1 else None
    for at in range(0, len(seeds_Q), at_once):
        seeds_K = [int(seed) for seed in seeds_Q[at : at + at_once]]
        drawn_K = [directions.drawn(seed, block, buffer) for seed in seeds_K]  # all in the same pieces
        for start, stop, first_S in drawn_K[0]:
            v_KS = None
            if len(drawn_K) > 1:
                v_KS = torch.stack([first_S, *(next(drawn)[2] for drawn in drawn_K[1:])])
            for total, (_, gradient_CD) in zip(total_CQ, gathered, strict=True):
                gradient_CS = gradient_CD[:, start:stop]
                if v_KS is None:
                    total[:, at] += gradient_CS @ first_S
                else:
                    total[:, at : at + len(drawn_K)] += gradient_CS @ v_KS.t()
    return [total.cpu().numpy() for total in total_CQ]


def _directions_at_once(on_cpu: bool) -> int:
    """A core's cache holds a piece of one direction, and a product with it alone needs no copy; elsewhere the gradients
    are read once for several directions."""
    return _DIRECTIONS_CPU if on_cpu else _DIRECTIONS_ELSEWHERE


def held_at_once(block_parameters: int, num_directions: int, *, on_cpu: bool) -> int:
    """Numbers of directions that are held at once, at most."""
    return min(num_directions, _directions_at_once(on_cpu)) * block_parameters


def _parts(batches_N: Sequence[Rows], share: Sequence[int], max_rows: int | None) -> Iterator[Part]:
    """The share's clients, each in as many parts as ``max_rows`` asks for; nobody's gradient is asked for yet."""
    for n in share:
        batch = batches_N[n]
        count = min(len(batch), -(-len(batch.token_ids_RL) // max_rows)) if max_rows else 1
        for examples in np.array_split(np.arange(len(batch)), count):
            yield Part(n, batch if count == 1 else batch.rows(examples), float(batch.weights.sum()), {})


@dataclass(frozen=True)
class Plan:
    """Which clients' gradients are held together, and how many positions go through the blocks at once.

    Args of :meth:`of`:
        sizes_M, width, bytes_each: parameters of each block, H, and bytes of a number.
        shape_NX: rows and length of each client's batch.
    """

    shares: list[list[int]]
    held: int  # numbers of the largest share's gradients
    freed: int  # of them, so many come where what a backward pass had kept has gone
    positions: int
    max_rows: int | None
    room: int  # numbers of gradients that the memory is for

    @classmethod
    def of_network(
        cls, network: BlockNetwork, batches_N: Sequence[Rows], A_MN: np.ndarray, max_rows: int | None = None
    ) -> Plan:
        """For these clients' batches."""
        return cls.of(
            network.sizes_M,
            int(network.model.config.hidden_size),
            network.dtype.itemsize,
            np.array([batch.token_ids_RL.shape for batch in batches_N]),
            A_MN,
            on_cpu=network.device.type == "cpu",
            max_rows=max_rows,
        )

    @classmethod
    def of(
        cls,
        sizes_M: Sequence[int],
        width: int,
        bytes_each: int,
        shape_NX: np.ndarray,
        A_MN: np.ndarray,
        *,
        on_cpu: bool = True,
        max_rows: int | None = None,
    ) -> Plan:
        num_blocks = len(sizes_M)
        row_numbers = int(shape_NX.prod(axis=1).sum()) * width
        numbers = max(_LEAST_BYTES // bytes_each, MOST_MEMORY * (sum(sizes_M) + 2 * row_numbers))
        kept_by_a_position = _KEPT_STATES * width * num_blocks
        most = _POSITIONS_CPU if on_cpu else _POSITIONS_ELSEWHERE
        positions = min(most, int(numbers * _KEPT_SHARE / kept_by_a_position))
        longest = int(shape_NX.prod(axis=1).max())  # of a client
        together = max(1, min(positions // longest, len(shape_NX)))
        need_N = np.asarray(sizes_M) @ A_MN
        kept = max(min(positions, together * longest), int(shape_NX[:, 1].max())) * kept_by_a_position
        # A piece's own gradients come where what it keeps has gone, but for the last block's.
        freed = min(together * int(need_N.min()), kept * (num_blocks - 1) // num_blocks)
        room = numbers - kept + freed

        first_N = np.where(A_MN.any(axis=0), A_MN.argmax(axis=0), num_blocks)
        shares: list[list[int]] = []
        held = 0
        for n in np.lexsort((shape_NX[:, 1], first_N)):  # a piece's rows then start alike, and are about as long
            if not shares or held + need_N[n] > room:
                shares.append([])
                held = 0
            shares[-1].append(int(n))
            held += need_N[n]
        most_held = max(int(need_N[share].sum()) for share in shares)
        return cls(shares, most_held, min(freed, most_held), positions, max_rows, room)

    def groups(self, sizes_M: Sequence[int], num_clients: int) -> list[list[int]]:
        """All blocks, in groups of following ones of which all clients' gradients can be held: the last block first.
        A group has one block at least."""
        groups: list[list[int]] = []
        held = 0
        for m in range(len(sizes_M) - 1, -1, -1):
            if not groups or held + sizes_M[m] * num_clients > self.room:
                groups.append([])
                held = 0
            groups[-1].append(m)
            held += sizes_M[m] * num_clients
        return groups

    def pieces(self, parts: Iterable[Part]) -> Iterator[list[Part]]:
        """Parts that go through the blocks together."""
        piece: list[Part] = []
        for part in parts:
            together = [*piece, part]
            rows = sum(other.num_rows for other in together)
            lengths = [other.length for other in together]
            fits = rows * max(lengths) <= self.positions and rows <= (self.max_rows or rows)
            if piece and not (fits and min(lengths) >= _LENGTH_RATIO * max(lengths)):
                yield piece
                together = [part]
            piece = together
        if piece:
            yield piece

    def rows_at_once(self, rows: int, length: int) -> int:
        """Of clients that all have so many rows of that length: how many of theirs go through a block at once."""
        part = min(rows, self.max_rows or rows)
        most = min(self.positions // length, self.max_rows or self.positions)
        return part * max(1, most // part)
