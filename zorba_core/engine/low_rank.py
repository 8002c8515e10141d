"""Low-rank directions: of each weight matrix a product of two vectors of signs, of each vector all its signs.

    v = u z^T        u, z in {-1, +1}, so that every number of v is a sign too and its norm is sqrt(d)

A direction then takes m + n random bits for a matrix of m x n in place of m n. That such a product is as good a
direction as any is what Eggroll shows (Sarkar et al., "Evolution Strategies at the Hyperscale", 2025). No direction is
ever written out where sums and products of many are wanted:

- the scalar of a gradient G is <G, v> = u^T G z, and of a linear layer's G = dy^T x it is sum_p (dy_p u) (x_p z);
- a round's step is sum_q rho_q u_q z_q^T = (diag(rho) U)^T Z, one matrix product for each matrix.

**One set of bits.** A product of matrices adds in an order that depends on device, library and threads. So the rho are
rounded first, to multiples of a power of two so large that no sum of them needs more bits than a float has
(:func:`with_exact_sums`): then every order of addition gives the same bits. Of Q = 200 scalars that keeps 16 bits or
more of the largest, far more than the estimate is worth.

The signs of a block stand in the noise drawn for it one parameter after another: u, then z, for a matrix; its own for a
vector.

Shapes: m rows and n columns of a matrix, Q directions, D_m parameters of a block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """One parameter: where it begins in the block's vector (``start``) and in the block's signs (``drawn``)."""

    start: int
    rows: int  # 1 for a vector
    columns: int
    drawn: int
    is_matrix: bool

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.columns

    @property
    def numbers(self) -> int:
        """How many signs are drawn for it."""
        return self.columns + (self.rows if self.is_matrix else 0)

    def of(self, block_D: Tensor) -> Tensor:
        """Its own numbers among those of its block, (..., D_m), as a matrix (..., m, n)."""
        return block_D[..., self.start : self.stop].unflatten(-1, (self.rows, self.columns))


class Factors(NamedTuple):
    """A parameter's part of Q directions, u_q z_q^T."""

    part: Part
    u_Qm: Tensor  # ones, (Q, 1), for a vector
    z_Qn: Tensor


def parts_of(shapes: Sequence[Shape]) -> tuple[Part, ...]:
    """The parameters of a block, given their shapes in its order."""
    parts: list[Part] = []
    start = drawn = 0
    for shape in shapes:
        size, is_matrix = math.prod(shape), len(shape) > 1
        rows = shape[0] if is_matrix else 1
        parts.append(Part(start, rows, size // max(rows, 1), drawn, is_matrix))
        start, drawn = parts[-1].stop, drawn + parts[-1].numbers
    return tuple(parts)


def factors_of(part: Part, signs_QS: Tensor) -> Factors:
    """A parameter's factors, given all signs of its block."""
    own_QS = signs_QS[:, part.drawn : part.drawn + part.numbers]
    u_Qm, z_Qn = own_QS.split([part.numbers - part.columns, part.columns], dim=1)
    return Factors(part, u_Qm if part.is_matrix else z_Qn.new_ones(len(z_Qn), 1), z_Qn)


def with_exact_sums(rho_Q: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The rho, rounded so that every sum of them, each taken with any sign and in any order, is exact in ``dtype``.

    They become whole multiples of a power of two whose sum of absolute values is at most 2**p of it, where p is the
    number of bits of a float of that type (24, 53).
    """
    bits = 1 - round(math.log2(torch.finfo(dtype).eps))
    total = math.fsum(np.abs(rho_Q))
    if not 0 < total < math.inf:
        return rho_Q
    step = math.ldexp(1.0, math.frexp(total)[1] + 1 - bits)  # total < 2**exponent; one bit for the rounding
    return np.round(rho_Q / step) * step
