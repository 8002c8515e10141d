"""The routed cohort along low-rank directions: no weight is moved, several directions share a batch.

Clients, pieces and where each row starts are those of :mod:`zorba_core.engine.estimators.cohort`, which calls this
after its base pass. Where a few rows are all there is, as for one client of a federation, G directions go through a
block together, so a wide matrix is read once for G of them.

Shapes: M blocks, N clients, Q directions, G of them together, R rows of a group, L positions, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from zorba_core.engine.along import along
from zorba_core.engine.directions import Directions
from zorba_core.engine.network import SAME_BITS_ROWS, BlockNetwork, Inactive
from zorba_core.engine.row_kinds import Rows

Index = slice | Tensor  # some rows of a group
PiecesOf = Sequence[tuple[int, Index]]  # the group's number, and its rows


class Copies:
    """The rows of one group, once for each of G directions."""

    def __init__(self, network: BlockNetwork, batch: Rows, kept_RLH: Tensor, final_R: Tensor, count: int) -> None:
        self._network, self._batch, self._count = network, batch, count
        self._hidden_GRLH = kept_RLH.expand(count, *kept_RLH.shape).clone()
        self.final_GR = final_R.expand(count, *final_R.shape).clone()  # of rows that nothing moves, as it was

    def through(self, rows: Index, run: Callable[[Tensor], Tensor]) -> None:
        """Those rows of all directions through a block, in one batch."""
        before_GRLH = self._hidden_GRLH[:, rows]
        self._hidden_GRLH[:, rows] = run(before_GRLH.flatten(0, 1)).view(before_GRLH.shape)

    def through_last(self, rows: Index) -> None:
        self._finish(rows, lambda hidden, index: self._batch.after_last_block(self._network, hidden, index))

    def through_last_one(self, rows: Index, direction: int) -> None:
        """Those rows of one direction alone."""
        hidden_RLH = self._hidden_GRLH[direction, rows]
        self.final_GR[direction, rows] = self._batch.after_last_block(self._network, hidden_RLH, rows)

    def through_last_dropped(self, rows: Index) -> None:
        run = self._network.run_block_without_weights
        self._finish(rows, lambda hidden, index: self._batch.read(run(hidden), index))

    def too_few(self, rows: Index) -> bool:
        """Is a batch of one row for each row and direction filled up with repeats, which no group of rows would be?"""
        return self._count > 1 and self._count * self._index(rows).numel() < SAME_BITS_ROWS

    def _finish(self, rows: Index, run: Callable[[Tensor, Tensor], Tensor]) -> None:
        final = run(self._hidden_GRLH[:, rows].flatten(0, 1), self._index(rows).repeat(self._count))
        self.final_GR[:, rows] = final.view(self._count, -1, *final.shape[1:])

    def _index(self, rows: Index) -> Tensor:
        return torch.arange(self._hidden_GRLH.shape[1], device=self._hidden_GRLH.device)[rows]


def pass_along(
    network: BlockNetwork,
    copies: Sequence[Copies],
    active_M: Sequence[PiecesOf],
    passive_M: Sequence[PiecesOf],
    seeds_G: Sequence[int],
    directions: Directions,
    mu: float,
    inactive: Inactive,
) -> None:
    """All rows from their first active block to the end, G directions in one batch: the copies' ``final_GR``."""
    last = network.num_blocks - 1
    for m in range(network.num_blocks):
        for number, rows in passive_M[m]:
            if inactive == "dropped":
                if m == last:
                    copies[number].through_last_dropped(rows)
                else:
                    copies[number].through(rows, network.run_block_without_weights)
            elif m == last:
                copies[number].through_last(rows)
            else:
                copies[number].through(rows, lambda hidden, m=m: network.run_block(m, hidden))
        if not active_M[m]:
            continue
        with along(network, m, directions, seeds_G, mu):
            for number, rows in active_M[m]:
                if m < last:
                    copies[number].through(rows, lambda hidden, m=m: network.run_block(m, hidden))
                elif not copies[number].too_few(rows):
                    copies[number].through_last(rows)
        if m == last:
            few = [(number, rows) for number, rows in active_M[m] if copies[number].too_few(rows)]
            for g, seed in enumerate(seeds_G if few else ()):
                with along(network, m, directions, [seed], mu):
                    for number, rows in few:
                        copies[number].through_last_one(rows, g)
