"""Zeroth-order estimates of all clients in one forward pass a direction: the cohort.

All clients share w and v_q; they differ in their rows and in their active blocks. So one pass computes all clients: at
block m the rows of the clients that activate it use w_m + mu v_m, the other rows w_m. Before a row's first active block
its hidden state does not depend on the direction, so the row starts there, with the hidden state of the base pass.
Each direction and block is drawn and added to the weights once, for any number of clients.

The result is that of the readable :func:`zorba_core.engine.estimators.reference.estimate`:

- in float64 to 1e-10;
- in float32 on the CPU as closely, if every client's rows have at least 16 positions. A finite difference divides
  rounding errors by mu: two ways to round the same product differ by 1e-4 of rho at mu = 1e-3, so close agreement needs
  the same bits. They are the same because each row has the length of its client's batch, because the bits of a row in
  a matrix product of 16 rows or more do not depend on the other rows (MKL), and because the label head is in float64;
- on a GPU, whose kernels depend on the shape of the batch, up to rounding errors divided by mu.

Shapes: M blocks, N clients, Q directions, R rows of a group, L positions, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.blocks import SAME_BITS_ROWS, Blocks, Inactive
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.rows import Rows

# Numbers of the hidden states (rows x positions x H) that go through a block at once. On the CPU they fit, with the
# four times wider middle of a block, in a core's second-level cache (400 rows of opt-mini at once took 1.5 times as
# long), but there is a minimum of positions, to pay for reading a wide block's weights or rounding them to bfloat16.
_PIECE_CPU, _LEAST_POSITIONS_CPU, _LEAST_POSITIONS_BF16, _PIECE_ELSEWHERE = 2**17, 512, 2048, 2**26


@torch.no_grad()
def estimate_cohort(
    network: Blocks,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int] | np.ndarray,
    directions: Directions,
    *,
    mu: float,
    inactive: Inactive = "frozen",
) -> Estimate:
    """rho[n, q] of every client and direction. The network's weights have the same bits afterwards."""
    A_MN = np.asarray(A_MN, dtype=bool)
    num_blocks, num_clients = A_MN.shape
    blocks, cohort = range(num_blocks), Cohort(network, batches_N, A_MN)
    idle = network.run_block if inactive == "frozen" else network.run_block_without_weights
    first_N = np.where(A_MN.any(axis=0), A_MN.argmax(axis=0), num_blocks)  # num_blocks: no active block
    everyone = cohort.pieces(np.ones(num_clients, dtype=bool))
    starting_M = [cohort.pieces(first_N == m) for m in blocks]
    active_M = [cohort.pieces(A_MN[m]) for m in blocks]
    passive_M = [cohort.pieces(~A_MN[m] & (first_N < m)) for m in blocks]  # after their first active block

    for m in blocks:
        cohort.keep(starting_M[m])
        if inactive == "frozen":
            cohort.through(m, everyone, network.run_block)
        else:
            cohort.through(m, active_M[m], network.run_block)
            cohort.through(m, cohort.pieces(~A_MN[m]), idle)
    loss_N = cohort.losses()

    rho_NQ = np.zeros((num_clients, len(seeds_Q)))
    for q, seed in enumerate(seeds_Q):
        cohort.restart()
        for m in blocks:
            cohort.through(m, passive_M[m], idle)
            if active_M[m]:
                with network.moving([m]) as weights_by_block:
                    directions.add_to(weights_by_block[m], int(seed), m, mu)
                    cohort.through(m, active_M[m], network.run_block)
        rho_NQ[:, q] = (cohort.losses() - loss_N) / mu
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients * (1 + len(seeds_Q)))


def rows_at_once(network: Blocks, length: int) -> int:
    """How many rows of ``length`` positions go through a block together."""
    width = int(network.model.config.hidden_size)
    on_cpu = network.device.type == "cpu"
    least = _LEAST_POSITIONS_BF16 if network.precision == "bf16" else _LEAST_POSITIONS_CPU
    positions = max(_PIECE_CPU // width, least) if on_cpu else _PIECE_ELSEWHERE // width
    return max(1, positions // length)


@dataclass(eq=False)
class _Group:
    """Rows of the clients whose batches have the same length, with the same padding as in the reference."""

    batch: Rows
    client_R: np.ndarray
    piece_rows: int
    hidden_RLH: Tensor
    final_RPH: Tensor  # hidden states after the last block that the loss needs
    start_RLH: Tensor  # hidden states before each row's first active block


Piece = tuple[_Group, slice | Tensor]  # some rows of a group


class Cohort:
    """The rows of all clients and their hidden states."""

    def __init__(self, network: Blocks, batches_N: Sequence[Rows], A_MN: np.ndarray) -> None:
        self._network = network
        self._rows_N = np.array([len(batch.token_ids_RL) for batch in batches_N])
        self._weight_N = np.array([batch.weights.sum() for batch in batches_N])
        clients_by_shape: dict[tuple[int, int], list[int]] = {}
        for n in np.lexsort(A_MN):  # clients with the same blocks are neighbours, so their rows are a slice
            rows, length = batches_N[n].token_ids_RL.shape
            # A client with too few positions for the same bits goes through the blocks alone.
            alone = rows if rows * length < SAME_BITS_ROWS else 0
            clients_by_shape.setdefault((length, alone), []).append(int(n))
        self._groups = [
            self._group([batches_N[n] for n in clients], clients, alone)
            for (_, alone), clients in sorted(clients_by_shape.items())
        ]

    def _group(self, batches: list[Rows], clients: list[int], alone: int) -> _Group:
        batch = batches[0].joined(batches, self._network.device)
        hidden_RLH = self._network.embed(batch.token_ids_RL)
        return _Group(
            batch=batch,
            client_R=np.repeat(clients, self._rows_N[clients]),
            piece_rows=alone or rows_at_once(self._network, hidden_RLH.shape[1]),
            hidden_RLH=hidden_RLH,
            final_RPH=torch.empty_like(batch.read(hidden_RLH)),
            start_RLH=torch.empty_like(hidden_RLH),
        )

    def pieces(self, chosen_N: np.ndarray) -> list[Piece]:
        """The rows of the chosen clients, in pieces of nearly equal size."""
        chosen: list[Piece] = []
        for group in self._groups:
            rows = np.flatnonzero(chosen_N[group.client_R])
            for piece in np.array_split(rows, -(-len(rows) // group.piece_rows)) if len(rows) else []:
                together = piece[-1] - piece[0] + 1 == len(piece)
                whole = slice(int(piece[0]), int(piece[-1]) + 1)
                chosen.append((group, whole if together else torch.from_numpy(piece).to(self._network.device)))
        return chosen

    def keep(self, pieces: list[Piece]) -> None:
        """Store these rows' hidden states for :meth:`restart`."""
        for group, rows in pieces:
            group.start_RLH[rows] = group.hidden_RLH[rows]

    def restart(self) -> None:
        """Return every row to its first active block."""
        for group in self._groups:
            group.hidden_RLH.copy_(group.start_RLH)

    def through(self, block: int, pieces: list[Piece], run: Callable[[int, Tensor], Tensor]) -> None:
        """Apply a block to these rows by ``run(block, hidden states)``."""
        for group, rows in pieces:
            hidden_RLH = run(block, group.hidden_RLH[rows])
            if block == self._network.num_blocks - 1:
                group.final_RPH[rows] = group.batch.read(hidden_RLH, rows)
            elif hidden_RLH.shape == group.hidden_RLH.shape:  # all rows: no copy is needed
                group.hidden_RLH = hidden_RLH.to(group.hidden_RLH.dtype)
            else:
                group.hidden_RLH[rows] = hidden_RLH

    def losses(self) -> np.ndarray:
        """F_n of every client, once all rows are through the last block: (N,), float64."""
        sum_N = np.zeros(len(self._rows_N))
        for group in self._groups:
            loss_E = group.batch.losses(self._network, group.final_RPH).cpu().numpy()
            client_E = group.client_R[group.batch.first_row_E.cpu().numpy()]
            sum_N += np.bincount(client_E, weights=loss_E, minlength=len(sum_N))
        return sum_N / self._weight_N
