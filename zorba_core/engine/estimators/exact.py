"""Exact scalars of all clients and directions by one forward and one backward pass: a simulation of the limit mu -> 0.

    rho[n, q] = sum over the blocks m that n activates of < grad_m F_n(w^_n; xi_n), v_q,m >

is what finite differences tend to as mu goes to 0. A client of the method has no backward pass: it takes Q + 1 forward
passes and sends these numbers with an error. Whoever simulates fifty clients in one process has one, and then all Q
numbers of a client cost about three forward passes, whatever Q is. So this is a way to simulate the method fast, not
what a client runs; preflight says how far the finite differences of a run's mu are from it.

The gradients of a *share* of the clients are gathered, one row a client for each block, and multiplied with the block's
directions in one product. So directions are drawn once a share, a piece of a block at a time. A share is as many
clients as keep the memory below ``MOST_MEMORY`` times what a cohort holds: its parameters, and two hidden states of
every row.

It is what :func:`zorba_core.engine.estimators.jvp.estimate_jvp` gives: to 1e-10 in float64 and 1e-5 in float32, on any
device. (Norms that compute in float32 whatever the dtype, as Llama's do, keep float64 at 1e-6.)

Shapes: M blocks, N clients, Q directions, C clients of a share that activate a block, D_m parameters of block m, K of
the directions at once, S elements of a piece of a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.client_gradients import ClientGradients, Part
from zorba_core.engine.estimators.client_layers import BlockGradient
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
    store = torch.empty(plan.store_numbers, dtype=network.dtype, device=network.device)  # one, for each share in turn
    with gradients.installed():
        for share in plan.shares:
            gradient_MC, loss_C = gather_gradients(gradients, network.sizes_M, batches_N, A_MN, share, store, plan)
            loss_N[share] = loss_C
            for m, gradient_CD in enumerate(gradient_MC):
                clients = np.asarray(share)[A_MN[m, share]]
                rho_NQ[clients] += _along(gradient_CD, m, seeds_Q, directions)
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients, backward_passes=num_clients)


def gather_gradients(
    gradients: ClientGradients,
    sizes_M: Sequence[int],
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    share: Sequence[int],
    store: Tensor,
    plan: Plan,
) -> tuple[list[Tensor], np.ndarray]:
    """Of each block the gradients of the share's clients that activate it, (C, D_m), and F_n of the share's clients,
    float64. The gradients stand in ``store``, which is overwritten."""
    gradient_MC = _carve(store, sizes_M, A_MN[:, share])
    loss_by_client = dict.fromkeys(share, 0.0)
    for piece in plan.pieces(_parts(batches_N, A_MN, share, gradient_MC, plan.max_rows)):
        for part, loss in zip(piece, gradients.pass_through(piece), strict=True):
            loss_by_client[part.client] += loss
    return gradient_MC, np.array(list(loss_by_client.values()))


def _along(gradient_CD: Tensor, block: int, seeds_Q: Sequence[int], directions: Directions) -> np.ndarray:
    """< grad_m F_n, v_q,m > of the given clients and all directions: (C, Q), float64."""
    total_CQ = torch.zeros(len(gradient_CD), len(seeds_Q), dtype=torch.float64, device=gradient_CD.device)
    at_once = _directions_at_once(gradient_CD.device.type == "cpu")
    for at in range(0, len(seeds_Q) if len(gradient_CD) else 0, at_once):
        drawn_K = [directions.drawn(int(seed), block) for seed in seeds_Q[at : at + at_once]]  # in the same pieces
        for start, stop, first_S in drawn_K[0]:
            gradient_CS = gradient_CD[:, start:stop]
            if len(drawn_K) == 1:
                total_CQ[:, at] += gradient_CS @ first_S
                continue
            v_KS = torch.stack([first_S, *(next(drawn)[2] for drawn in drawn_K[1:])])
            total_CQ[:, at : at + len(drawn_K)] += gradient_CS @ v_KS.t()
    return total_CQ.cpu().numpy()


def _directions_at_once(on_cpu: bool) -> int:
    """A core's cache holds a piece of one direction, and a product with it alone needs no copy; elsewhere the gradients
    are read once for several directions."""
    return _DIRECTIONS_CPU if on_cpu else _DIRECTIONS_ELSEWHERE


def held_at_once(block_parameters: int, num_directions: int, *, on_cpu: bool) -> int:
    """Numbers of directions that are held at once, at most."""
    return min(num_directions, _directions_at_once(on_cpu)) * block_parameters


def _carve(store: Tensor, sizes_M: Sequence[int], A_MC: np.ndarray) -> list[Tensor]:
    """Of each block the gradients of the clients that activate it, (C, D_m), side by side in the store."""
    gradient_MC, at = [], 0
    for size, active_C in zip(sizes_M, A_MC, strict=True):
        numbers = int(active_C.sum()) * size
        gradient_MC.append(store[at : at + numbers].view(-1, size))
        at += numbers
    return gradient_MC


def _parts(
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    share: Sequence[int],
    gradient_MC: Sequence[Tensor],
    max_rows: int | None,
) -> Iterator[Part]:
    """The share's clients, each in as many parts as ``max_rows`` asks for."""
    for n in share:
        active_M = np.flatnonzero(A_MN[:, n])
        row_M = [np.count_nonzero(A_MN[m, share[: share.index(n)]]) for m in active_M]
        gradient_M = {int(m): BlockGradient(gradient_MC[m][row]) for m, row in zip(active_M, row_M, strict=True)}
        batch = batches_N[n]
        count = min(len(batch), -(-len(batch.token_ids_RL) // max_rows)) if max_rows else 1
        for examples in np.array_split(np.arange(len(batch)), count):
            rows = batch if count == 1 else batch.rows(examples)
            yield Part(n, rows, float(batch.weights.sum()), gradient_M)


@dataclass(frozen=True)
class Plan:
    """Which clients' gradients are held together, and how many positions go through the blocks at once.

    Args of :meth:`of`:
        sizes_M, width, bytes_each: parameters of each block, H, and bytes of a number.
        shape_NX: rows and length of each client's batch.
    """

    shares: list[list[int]]
    store_numbers: int  # what the largest share's gradients take
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
        cohort = sum(sizes_M) + 2 * int(shape_NX.prod(axis=1).sum()) * width
        numbers = max(_LEAST_BYTES // bytes_each, MOST_MEMORY * cohort - sum(sizes_M))
        kept_by_a_position = _KEPT_STATES * width * num_blocks
        most = _POSITIONS_CPU if on_cpu else _POSITIONS_ELSEWHERE
        positions = min(most, int(numbers * _KEPT_SHARE / kept_by_a_position))
        room = numbers - max(positions, int(shape_NX[:, 1].max())) * kept_by_a_position

        first_N = np.where(A_MN.any(axis=0), A_MN.argmax(axis=0), num_blocks)
        need_N = np.asarray(sizes_M) @ A_MN
        shares: list[list[int]] = []
        held = 0
        for n in np.lexsort((shape_NX[:, 1], first_N)):  # a piece's rows then start alike, and are about as long
            if not shares or held + need_N[n] > room:
                shares.append([])
                held = 0
            shares[-1].append(int(n))
            held += need_N[n]
        return cls(shares, max(int(need_N[share].sum()) for share in shares), positions, max_rows, room)

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
