"""Low-rank directions: for each weight matrix the product of two vectors of signs, for each other parameter signs.

    v = u z^T        u, z in {-1, +1}, so every number of v is a sign too, and the norm of v is sqrt(d)

A matrix of m x n then needs m + n random bits and not m n. Eggroll shows that such directions work as well as others
(Sarkar et al., "Evolution Strategies at the Hyperscale", 2025). Sums and products need no direction as a whole:

- the scalar of a gradient G is <G, v> = u^T G z, and of a linear layer's G = dy^T x it is sum_p (dy_p u) (x_p z);
- a round's step is sum_q rho_q u_q z_q^T = (diag(rho) U)^T Z, one matrix product for each matrix.

**The same bits everywhere.** The order of summation in a matrix product depends on device, library and threads. So
:func:`with_exact_sums` first rounds the rho to multiples of a power of two, so large that no sum of them needs more
bits than a float has: every order of summation then gives the same bits. With Q = 200 the largest rho has at least 16
bits left, which is far more than the estimate's precision.

The signs of a block's parameters follow each other in the block's noise: u, then z, of a matrix; those of a vector.

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
    """One parameter: its start in the block's vector (``start``) and in the block's signs (``first_sign``)."""

    start: int
    rows: int  # 1 for a vector
    columns: int
    first_sign: int
    is_matrix: bool

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.columns

    @property
    def numbers(self) -> int:
        """How many signs it needs."""
        return self.columns + (self.rows if self.is_matrix else 0)

    def of(self, block_D: Tensor) -> Tensor:
        """Its part of a vector of the block, (..., D_m), as a matrix (..., m, n)."""
        return block_D[..., self.start : self.stop].unflatten(-1, (self.rows, self.columns))


class Factors(NamedTuple):
    """A parameter's part of Q directions, u_q z_q^T."""

    part: Part
    u_Qm: Tensor  # ones, (Q, 1), for a vector
    z_Qn: Tensor


def parts_of(shapes: Sequence[Shape]) -> tuple[Part, ...]:
    """The parameters of a block, from their shapes in the block's order."""
    parts: list[Part] = []
    start = sign = 0
    for shape in shapes:
        size, is_matrix = math.prod(shape), len(shape) > 1
        rows = shape[0] if is_matrix else 1
        parts.append(Part(start, rows, size // max(rows, 1), sign, is_matrix))
        start, sign = parts[-1].stop, sign + parts[-1].numbers
    return tuple(parts)


def factors_of(part: Part, signs_QS: Tensor) -> Factors:
    """A parameter's factors, from all signs of its block."""
    own_QS = signs_QS[:, part.first_sign : part.first_sign + part.numbers]
    u_Qm, z_Qn = own_QS.split([part.numbers - part.columns, part.columns], dim=1)
    return Factors(part, u_Qm if part.is_matrix else z_Qn.new_ones(len(z_Qn), 1), z_Qn)


def with_exact_sums(rho_Q: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The rho, rounded so that every sum of them, with any signs and in any order, is exact in ``dtype``.

    They become multiples of a power of two. The sum of their absolute values is at most 2**p times that power, where p
    is the number of bits of a float of that type (24, 53).
    """
    bits = 1 - round(math.log2(torch.finfo(dtype).eps))
    total = math.fsum(np.abs(rho_Q))
    if not 0 < total < math.inf:
        return rho_Q
    step = math.ldexp(1.0, math.frexp(total)[1] + 1 - bits)  # total < 2**exponent; one bit for the rounding
    return np.round(rho_Q / step) * step
