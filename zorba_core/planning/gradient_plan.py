"""Which clients' gradients exact scalars hold together, and which rows go through the blocks together. No torch.

The engine follows it (:mod:`zorba_core.engine.estimators.exact`), and the memory model counts by it.

Shapes: M blocks, N clients; a client's batch has X = (rows, positions of each).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

MOST_MEMORY = 4  # times a cohort's
LEAST_BYTES = 32 * 2**20  # of gradients and what a backward pass keeps: for small models, nobody need save these
KEPT_STATES = 14  # hidden states that the backward pass keeps of a block, its four times wider middle among them
KEPT_SHARE = 0.65  # of the memory that is for rows on their way; the rest is for gradients
POSITIONS_CPU, POSITIONS_ELSEWHERE = 1024, 2**16  # that go through a block at once: what a core's cache is good for
LENGTH_RATIO = 0.75  # rows at least so long beside the longest go together, padded


class _Part(Protocol):
    """Rows of one client that go through the blocks together."""

    @property
    def num_rows(self) -> int: ...

    @property
    def length(self) -> int: ...


PartOfRows = TypeVar("PartOfRows", bound=_Part)


@dataclass(frozen=True)
class GradientPlan:
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
    ) -> Self:
        num_blocks = len(sizes_M)
        row_numbers = int(shape_NX.prod(axis=1).sum()) * width
        numbers = max(LEAST_BYTES // bytes_each, MOST_MEMORY * (sum(sizes_M) + 2 * row_numbers))
        kept_by_a_position = KEPT_STATES * width * num_blocks
        most = POSITIONS_CPU if on_cpu else POSITIONS_ELSEWHERE
        positions = min(most, int(numbers * KEPT_SHARE / kept_by_a_position))
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

    def pieces(self, parts: Iterable[PartOfRows]) -> Iterator[list[PartOfRows]]:
        """Parts that go through the blocks together."""
        piece: list[PartOfRows] = []
        for part in parts:
            together = [*piece, part]
            rows = sum(other.num_rows for other in together)
            lengths = [other.length for other in together]
            fits = rows * max(lengths) <= self.positions and rows <= (self.max_rows or rows)
            if piece and not (fits and min(lengths) >= LENGTH_RATIO * max(lengths)):
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
