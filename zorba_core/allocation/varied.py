"""The same allocation with its blocks in another order: every client keeps its number of blocks, and popularity, Lambda
and V stay. From such rounds scalars tell the blocks' energies apart (:mod:`zorba_core.allocation.importance`).

- ``rotate``: by one block a round. It costs nothing to agree on, but windows of equal length leave some sums of blocks
  unseen: with clients of 4 blocks each around 12, 9 of 12 energies.
- ``permute``: in a random order of its own for each round, which every replica can draw. Sees all blocks as soon as
  some client has fewer than all.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import hashlib

import numpy as np

from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.allocation.problem import Allocation

VARIATIONS = {
    "fixed": "every round has the allocation as it is",
    "rotate": "its blocks move on by one each round",
    "permute": "its blocks are in another random order each round",
}


def varied(allocation: AllocationMetrics, how: str, seed: int, round_index: int) -> AllocationMetrics:
    """The allocation of round t = 1, 2, ... of a run of that seed. The first round of ``rotate`` has it as it is."""
    if how == "fixed":
        return allocation
    order_M = np.arange(allocation.num_blocks)
    if how == "rotate":
        return Allocation(np.roll(allocation.A_MN, round_index - 1, axis=0))
    digest = hashlib.sha256(f"zorba/block-order/{int(seed)}/{int(round_index)}".encode()).digest()
    np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big"))).shuffle(order_M)
    return Allocation(allocation.A_MN[order_M])


def thinned(allocation: AllocationMetrics) -> AllocationMetrics:
    """Where every client activates every block, half of each client's, so that blocks can be told apart: neighbours
    start one block later. Any other allocation stays."""
    A_MN = allocation.A_MN
    held_N = A_MN.sum(axis=0)
    M = len(A_MN)
    if M < 2 or not (held_N[held_N > 0] == M).all():
        return allocation
    start_N = np.arange(A_MN.shape[1])
    return Allocation(A_MN & ((np.arange(M)[:, None] - start_N) % M < (M + 1) // 2))
