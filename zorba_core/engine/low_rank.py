"""Low-rank directions: of each weight matrix a sum of r products of two random vectors, of each vector all of it.

    v = sum_k u_k z_k^T / sqrt(r)      u_k, z_k standard normal; every number of v has mean 0 and variance 1

So a block's direction takes r (m + n) random numbers for a matrix of m x n in place of m n. That such a product is as
good a direction as any is what Eggroll shows (Sarkar et al., "Evolution Strategies at the Hyperscale", 2025).

The numbers of a block stand in the noise drawn for it one parameter after another: the rows of U (m x r), then those
of Z (n x r), for a matrix; a vector's own numbers for a vector.

Shapes: m rows and n columns of a matrix, r rank, D_m parameters of a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class DrawnPart:
    """One parameter's place in its block's vector, ``start`` to ``stop``, and in the noise drawn for the block, from
    ``drawn`` on."""

    start: int
    stop: int
    drawn: int
    matrix: tuple[int, int] | None  # rows and columns; None where every number is drawn

    def numbers(self, rank: int) -> int:
        """How many numbers are drawn for it."""
        return self.stop - self.start if self.matrix is None else rank * sum(self.matrix)


def parts_of(shapes: Sequence[Shape], rank: int) -> tuple[DrawnPart, ...]:
    """The parameters of a block, given their shapes in its order."""
    parts: list[DrawnPart] = []
    start = drawn = 0
    for shape in shapes:
        size = math.prod(shape)
        matrix = (shape[0], size // shape[0]) if len(shape) > 1 else None
        part = DrawnPart(start, start + size, drawn, matrix)
        parts.append(part)
        start, drawn = part.stop, drawn + part.numbers(rank)
    return tuple(parts)


@dataclass(frozen=True, eq=False)
class Factors:
    """A matrix's direction, U Z^T."""

    u_mr: Tensor  # already divided by sqrt(r)
    z_nr: Tensor

    def rows(self, first: int, last: int) -> Tensor:
        """Rows first..last-1 of U Z^T, (last - first) n numbers. Each is summed in the order of k, multiplied and then
        added, so that every device and thread count has the same bits."""
        u_mr = self.u_mr[first:last]
        values = u_mr[:, :1] * self.z_nr[:, 0]
        for k in range(1, u_mr.shape[1]):
            values.add_(u_mr[:, k : k + 1] * self.z_nr[:, k])
        return values.view(-1)

    def pieces(self, most: int) -> Iterator[tuple[int, int, Tensor]]:
        """U Z^T as a vector, in pieces of whole rows and about ``most`` numbers: first, last and values of each."""
        rows, columns = len(self.u_mr), len(self.z_nr)
        step = max(1, most // columns)
        for first in range(0, rows, step):
            last = min(first + step, rows)
            yield first * columns, last * columns, self.rows(first, last)
