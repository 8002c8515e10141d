"""Which clients' gradients exact scalars hold together, and which rows go through the blocks together. No torch.

The engine follows it (:mod:`zorba_core.engine.estimators.exact`).

A share is the clients for whom directions are drawn together; its rows go through the blocks in pieces. All gradients
of its earlier pieces are held; of the last piece one block's at a time, since they are multiplied as they come.

Shapes: M blocks, N clients; a client's batch has X = (rows, positions of each).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import numpy as np

from zorba_core.planning.pass_widths import Widths

MOST_MEMORY = 4  # times a cohort's
# Of gradients and what a backward pass keeps: nobody need save these for a small model. Ten clients of opt-mini.
LEAST_BYTES = 100 * 2**20
# Positions that go through a block at once, where there is memory: more would not make a core faster.
POSITIONS_CPU, POSITIONS_ELSEWHERE = 1536, 2**16
_SIGNS_KEPT = 2**27  # whose random bits are kept from one share to the next: 16 MiB
LENGTH_RATIO = 0.75  # rows at least so long beside the longest go together, padded
# In numbers of directions that are drawn and multiplied meanwhile: what a piece takes for a block whatever its size, as
# if of so many positions more too, and a position for a parameter (opt-mini: 0.3 ms, 64 of 4.4 us each).
_PIECE_NUMBERS, _PIECE_POSITIONS, _PASS_NUMBERS = 2**20, 64, 0.16
_WORTH, _LEAN_POSITIONS = 1.03, 1024  # of the time, on the CPU, for less memory, where a piece has so many positions
_NORMALS = 4  # times as long as signs they take to draw and look up
_SIZES_TRIED = 8  # of pieces, each with its shares
_HOLES = 1.1  # of what is kept: an allocator leaves some between such tensors (measured)


class _Part(Protocol):
    """Rows of one client that go through the blocks together."""

    @property
    def num_rows(self) -> int: ...

    @property
    def length(self) -> int: ...


PartOfRows = TypeVar("PartOfRows", bound=_Part)


@dataclass(frozen=True)
class ClientRows:
    """A client's batch, or a part of it."""

    client: int
    num_rows: int
    length: int


@dataclass(frozen=True)
class GradientPlan:
    """Which clients' gradients are held together, and how many positions go through the blocks at once.

    Args of :meth:`of`:
        sizes_M, widths, bytes_each: parameters of each block, and bytes of a number.
        shape_NX: rows and length of each client's batch.
        num_directions, signs: Q, and whether all their numbers are -1 or +1; the longer they take to draw, the larger a
            share, with smaller pieces.
    """

    shares: list[list[int]]
    held: int  # numbers of gradients, at most
    positions: int
    max_rows: int | None

    @classmethod
    def of(
        cls,
        sizes_M: Sequence[int],
        widths: Widths,
        bytes_each: int,
        shape_NX: np.ndarray,
        A_MN: np.ndarray,
        *,
        num_directions: int,
        signs: bool,
        on_cpu: bool = True,
        max_rows: int | None = None,
    ) -> Self:
        num_blocks, largest = len(sizes_M), max(sizes_M)
        total = int(shape_NX.prod(axis=1).sum())  # positions
        numbers = max(LEAST_BYTES // bytes_each, MOST_MEMORY * (sum(sizes_M) + 2 * total * widths.hidden))
        longest = int(shape_NX.prod(axis=1).max())  # of a client
        # Most is held when the last block but one is differentiated: of the last one few positions are computed.
        each = int(longest * (_HOLES * widths.saved * max(1, num_blocks - 1) + widths.backward)) + largest
        most = POSITIONS_CPU if on_cpu else POSITIONS_ELSEWHERE
        most_together = max(1, min(numbers // each, most // longest, len(shape_NX)))
        need_N = np.asarray(sizes_M) @ A_MN
        first_N = np.where(A_MN.any(axis=0), A_MN.argmax(axis=0), num_blocks)
        order = np.lexsort((shape_NX[:, 1], first_N))  # a piece's rows then start alike, and are about as long
        clients = [ClientRows(int(n), *map(int, shape_NX[n])) for n in order]
        drawn = num_directions * (1 if signs else _NORMALS) * int(np.asarray(sizes_M) @ A_MN.any(axis=1))
        sizes = sorted({-(-most_together * part // _SIZES_TRIED) for part in range(1, _SIZES_TRIED + 1)})
        plans = []
        for together, alone in itertools.product(sizes, (True, False)):  # is a share one piece?
            plan = cls([], 0, together * longest, max_rows)
            room = max(0, numbers - together * each)  # for gradients beside the last piece's
            before, held, pieces = 0, 0, list(plan.pieces(clients))
            for rows_of in pieces:
                if not plan.shares or alone or before > room:
                    plan.shares.append([])
                    before = 0
                split = max_rows is not None and any(part.num_rows > max_rows for part in rows_of)
                plan.shares[-1].extend(part.client for part in rows_of)
                own = int(sum(need_N[part.client] for part in rows_of))
                held = max(held, before + (own if split else min(own, len(rows_of) * largest)))
                before += own
            plan.shares.reverse()  # a smaller last one would leave holes in memory when it came after the others
            passes = (total + len(pieces) * _PIECE_POSITIONS) * _PASS_NUMBERS * sum(sizes_M)
            work = passes + len(pieces) * num_blocks * _PIECE_NUMBERS + len(plan.shares) * drawn
            plans.append((work, together * (each - largest) + held, replace(plan, held=held)))
        fastest = min(plans, key=lambda plan: plan[:2])
        lean = [plan for plan in plans if plan[0] <= _WORTH * fastest[0] and plan[-1].positions >= _LEAN_POSITIONS]
        return min([fastest, *lean] if on_cpu else [fastest], key=lambda plan: plan[1::-1])[-1]

    def kept_bits(self, numbers: int, *, signs: bool) -> int:
        """Bytes of random bits that are kept from one share to the next, of so many numbers of all directions."""
        return numbers // 8 if signs and numbers <= _SIGNS_KEPT and len(self.shares) > 1 else 0

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
