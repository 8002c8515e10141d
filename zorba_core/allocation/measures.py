"""What an activation matrix costs and buys: popularity, Lambda, and the numbers that Lambda hides.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks; ``popularity_M`` (the paper's c_m), ``blocks_held_N`` and
``least_popularity_N`` int64; ``influence_N`` float64.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray


def popularity(A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """c_m: how many clients activate each block."""
    return A_MN.sum(axis=1, dtype=np.int64)


def least_popularity(A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The smallest c_m among each client's blocks; 0 for a client without a block."""
    popularity_M = popularity(A_MN)
    nowhere = A_MN.shape[1] + 1  # above every popularity
    least_N = np.where(A_MN, popularity_M[:, None], nowhere).min(axis=0, initial=nowhere)
    return np.where(least_N == nowhere, 0, least_N)


def influence(A_MN: NDArray[np.bool_]) -> NDArray[np.float64]:
    """I_n = (1/M) sum_m a_mn / c_m: client n's share of the aggregate. Sums to 1 when every block has a client."""
    popularity_M = popularity(A_MN)
    weight_M = np.divide(1.0, popularity_M, out=np.zeros(len(popularity_M)), where=popularity_M > 0)
    return weight_M @ A_MN / len(popularity_M)


def first_active_block(A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Index of each client's first active block; M for a client without one."""
    return np.where(A_MN.any(axis=0), A_MN.argmax(axis=0), A_MN.shape[0])


def bias_lambda(A_MN: NDArray[np.bool_]) -> float:
    """Lambda of a matrix in which every client has a block."""
    return float((1.0 / least_popularity(A_MN).astype(float) ** 2).sum())


class AllocationMetrics:
    """Everything that follows from a matrix, for any class that gives ``num_blocks``, ``popularity_M``,
    ``least_popularity_N``, ``blocks_held_N``, ``influence_N`` and ``first_block_N``."""

    num_blocks: int
    popularity_M: NDArray[np.int64]
    least_popularity_N: NDArray[np.int64]
    blocks_held_N: NDArray[np.int64]
    influence_N: NDArray[np.float64]
    first_block_N: NDArray[np.int64]

    @property
    def num_clients(self) -> int:
        return len(self.blocks_held_N)

    @property
    def total_blocks(self) -> int:
        """The sum of the matrix: what VRAM grows with."""
        return int(self.popularity_M.sum())

    @cached_property
    def bias_lambda(self) -> float:
        """The paper's Lambda = sum_n 1 / (least popularity of n)^2; infinite when a client has no block."""
        clients_by_least = np.bincount(self.least_popularity_N)
        least = np.flatnonzero(clients_by_least)
        return float("inf") if least[0] == 0 else float((clients_by_least[least] / least.astype(float) ** 2).sum())

    @cached_property
    def mean_inverse_popularity(self) -> float:
        """V = (1/M) sum_m 1/c_m, infinite with an empty block. The squared distances from 1/N of the weights with which
        clients enter the blocks' averages sum to M (V - 1/N)."""
        if self.popularity_M.min() == 0:
            return float("inf")
        return float((1.0 / self.popularity_M).mean())

    @cached_property
    def effective_clients(self) -> float:
        """N_eff = 1 / sum_n I_n^2: the number of equal clients that would weigh on the aggregate as these do."""
        return float(1.0 / np.square(self.influence_N).sum())

    @property
    def largest_influence(self) -> float:
        return float(self.influence_N.max())

    @property
    def min_popularity(self) -> int:
        return int(self.popularity_M.min())

    @cached_property
    def forward_work(self) -> int:
        """sum_n (M - first active block of n): blocks that a round must compute anew when each client reuses the base
        pass up to its first active block."""
        return int((self.num_blocks - self.first_block_N).sum())

    @property
    def is_complete(self) -> bool:
        """Every block has a client and every client has a block (constraints 12 and 13 of the paper)."""
        return bool(self.popularity_M.min() > 0 and self.blocks_held_N.min() > 0)
