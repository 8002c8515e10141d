"""The activation matrix and its measures: popularity, Lambda, and how the clients share the aggregate.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks; ``popularity_M`` (the paper's c_m), ``blocks_held_N`` and
``least_popularity_N`` (the paper's underlined c_n) int64; ``influence_N`` float64.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zorba_core.errors import InvalidInputError


def popularity(A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """c_m: how many clients activate each block."""
    return A_MN.sum(axis=1, dtype=np.int64)


def least_popularity(A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The smallest c_m among each client's blocks; 0 for a client without a block."""
    popularity_M, least_N = popularity(A_MN), np.zeros(A_MN.shape[1], np.int64)
    for level in np.unique(popularity_M)[::-1]:  # the least popular come last
        least_N[A_MN[popularity_M == level].any(axis=0)] = level
    return least_N


def bias_lambda(A_MN: NDArray[np.bool_]) -> float:
    """The paper's Lambda = sum_n 1 / (least popularity of n)^2; infinite when a client has no block."""
    return _lambda_of(least_popularity(A_MN))


def _lambda_of(least_N: NDArray[np.int64]) -> float:
    clients_by_least = np.bincount(least_N)
    least = np.flatnonzero(clients_by_least)
    return float("inf") if least[0] == 0 else float((clients_by_least[least] / least.astype(float) ** 2).sum())


class Allocation:
    """A block activation matrix and its measures.

    A matrix made by hand may have empty clients or blocks: Lambda or V is then infinite.

    Raises:
        InvalidInputError: not a matrix of 0 and 1.
    """

    def __init__(self, A_MN: ArrayLike) -> None:
        A_MN = np.array(A_MN)
        if A_MN.ndim != 2 or 0 in A_MN.shape:
            raise InvalidInputError(f"an activation matrix has shape (blocks, clients), not {A_MN.shape}")
        if A_MN.dtype != bool and not np.isin(A_MN, (0, 1)).all():
            raise InvalidInputError("an activation matrix may only have 0 and 1")
        A_MN = A_MN.astype(bool)
        A_MN.setflags(write=False)
        self.A_MN = A_MN

    def __repr__(self) -> str:
        size = f"{self.total_blocks} of {self.A_MN.size} blocks"
        return f"Allocation({self.num_clients} clients: Λ {self.bias_lambda:.3g}, {size})"

    @classmethod
    def from_blocks(cls, blocks_per_client: list[list[int]], num_blocks: int) -> Allocation:
        """From 0-based block ids, one list per client.

        Raises:
            InvalidInputError: an id outside 0..M-1 or twice in one client.
        """
        A_MN = np.zeros((num_blocks, len(blocks_per_client)), bool)
        for client, blocks in enumerate(blocks_per_client):
            if len(set(blocks)) != len(blocks) or not all(0 <= block < num_blocks for block in blocks):
                raise InvalidInputError(f"client {client}: block ids must be distinct and in 0..{num_blocks - 1}")
            A_MN[list(blocks), client] = True
        return cls(A_MN)

    @cached_property
    def popularity_M(self) -> NDArray[np.int64]:
        """c_m: how many clients activate each block."""
        return popularity(self.A_MN)

    @cached_property
    def least_popularity_N(self) -> NDArray[np.int64]:
        """The smallest popularity among each client's blocks."""
        return least_popularity(self.A_MN)

    @cached_property
    def blocks_held_N(self) -> NDArray[np.int64]:
        """k_n: how many blocks each client activates."""
        return self.A_MN.sum(axis=0, dtype=np.int64)

    @cached_property
    def influence_N(self) -> NDArray[np.float64]:
        """I_n = (1/M) sum_m a_mn / c_m: client n's share of the aggregate. Sums to 1 when every block has a client."""
        weight_M = np.divide(1.0, self.popularity_M, out=np.zeros(self.num_blocks), where=self.popularity_M > 0)
        return weight_M @ self.A_MN / self.num_blocks

    @cached_property
    def blocks_per_client(self) -> list[list[int]]:
        """0-based block ids, ascending, one list per client."""
        _, block = np.nonzero(self.A_MN.T)
        return [blocks.tolist() for blocks in np.split(block, np.cumsum(self.blocks_held_N)[:-1])]

    @property
    def num_blocks(self) -> int:
        """M."""
        return len(self.popularity_M)

    @property
    def num_clients(self) -> int:
        """N."""
        return len(self.blocks_held_N)

    @property
    def total_blocks(self) -> int:
        """The sum of the matrix, T. VRAM is linear in it."""
        return int(self.popularity_M.sum())

    @cached_property
    def bias_lambda(self) -> float:
        """As :func:`bias_lambda`."""
        return _lambda_of(self.least_popularity_N)

    @cached_property
    def mean_inverse_popularity(self) -> float:
        """V = (1/M) sum_m 1/c_m, infinite with an empty block. M (V - 1/N) is the sum over blocks and clients of the
        squared difference between a client's weight in a block's average and 1/N."""
        if self.popularity_M.min() == 0:
            return float("inf")
        return float((1.0 / self.popularity_M).mean())

    @cached_property
    def effective_clients(self) -> float:
        """N_eff = 1 / sum_n I_n^2: the number of clients of equal influence with the same sum of squares."""
        return float(1.0 / np.square(self.influence_N).sum())

    @property
    def largest_influence(self) -> float:
        """max I_n: the largest share that one client has in the aggregate."""
        return float(self.influence_N.max())

    @property
    def min_popularity(self) -> int:
        """min c_m: the number of clients of the least popular block."""
        return int(self.popularity_M.min())
