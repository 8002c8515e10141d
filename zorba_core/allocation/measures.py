"""What an activation matrix costs and buys: popularity, Lambda, and the numbers that Lambda hides.

Clients that share directions and weights couple the blocks that they share; nothing of it shows in Lambda. With
directions v_q (E[v v'] = I) the estimate of block m is h_m v_m with h_m = sum_n (a_mn / c_m) rho_n, and rho_n sums
<g_nm', v_m'> over all blocks m' of client n. With g_n = g + xi_n, independent xi_n of variance s^2 a block, d_m the
size of block m and c_mm' the clients that activate both blocks,

    E ||g^_m||^2 = (d_m / Q) sum_m' [ (c_mm' / c_m)^2 ||g_m'||^2 + (c_mm' / c_m^2) s^2 ]   (Q = 1: exact; else leading).

The two sums, averaged over blocks for equal gradients, are :func:`direction_coupling` and :func:`coupled_noise`.

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


def bias_lambda(A_MN: NDArray[np.bool_]) -> float:
    """Lambda of a matrix in which every client has a block."""
    return float((1.0 / least_popularity(A_MN).astype(float) ** 2).sum())


def direction_coupling(A_MN: NDArray[np.bool_]) -> float:
    """D = (1/M) sum_m sum_m' (c_mm' / c_m)^2: how many blocks' directions a block's estimate carries.

    M when every client activates every block, 1 when each activates one. Averaging over clients does not lower it,
    since they share the directions. Infinite with an empty block. O(M^2 N).
    """
    popularity_M = popularity(A_MN)
    if popularity_M.min() == 0:
        return float("inf")
    columns = A_MN.astype(np.float32)  # counts are exact up to 2**24 clients
    shared_MM = (columns @ columns.T).astype(np.float64)
    return float(np.square(shared_MM / popularity_M[:, None]).sum() / len(popularity_M))


def coupled_noise(A_MN: NDArray[np.bool_]) -> float:
    """E = (1/M) sum_m (1/c_m^2) sum_{n activates m} k_n, k_n the blocks of client n: how much mini-batch noise of all
    its clients' blocks enters a block.

    M/N for every allocation whose popularities and numbers of blocks are each equal; large where few clients with many
    blocks carry scarce ones. Infinite with an empty block. O(M N).
    """
    popularity_M = popularity(A_MN)
    if popularity_M.min() == 0:
        return float("inf")
    held_N = A_MN.sum(axis=0, dtype=np.int64)
    return float(((A_MN @ held_N) / popularity_M.astype(float) ** 2).mean())


class AllocationMetrics:
    """Everything that follows from a matrix, for any class that gives ``num_blocks``, ``popularity_M``,
    ``least_popularity_N``, ``blocks_held_N`` and ``influence_N``."""

    num_blocks: int
    popularity_M: NDArray[np.int64]
    least_popularity_N: NDArray[np.int64]
    blocks_held_N: NDArray[np.int64]
    influence_N: NDArray[np.float64]

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

    @property
    def is_complete(self) -> bool:
        """Every block has a client and every client has a block (constraints 12 and 13 of the paper)."""
        return bool(self.popularity_M.min() > 0 and self.blocks_held_N.min() > 0)
