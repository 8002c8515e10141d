"""Which block comes first: the same allocation with block ids permuted for the least forward work.

A client can reuse the base pass up to its first active block, so a round computes sum_n (M - first active block of n)
blocks anew. Lambda, V, N_eff, VRAM and every popularity stay with their block when ids are permuted; only this changes.
The work is sum over j of the clients that have a block among the first j + 1: an order is wanted whose every prefix
touches few clients (minimum sum set cover, NP-hard).

Shapes: M blocks, N clients. ``A_MN`` bool; ``order_M`` holds the old id of each new block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.allocation.problem import Allocation

# Up to this many blocks every subset is a state of a dynamic programme (2^M M steps, 0.1 s at 16); above, local search.
EXACT_BLOCKS = 16


def least_forward_work(allocation: AllocationMetrics) -> Allocation:
    """The allocation with its blocks in the best order found: optimal for M <= 16, else a local optimum under moving
    one block elsewhere. Never more work than in the order given."""
    A_MN = allocation.A_MN
    if allocation.num_blocks <= EXACT_BLOCKS:
        order_M = _best_order(A_MN)
    else:
        order_M = _improve(A_MN, min((_greedy_order(A_MN), np.arange(len(A_MN))), key=lambda order: _work(A_MN[order])))
    return Allocation(A_MN[order_M])


def _work(A_MN: NDArray[np.bool_]) -> int:
    return int(np.logical_or.accumulate(A_MN, axis=0).sum())


def _best_order(A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Over subsets of blocks: cost(subset) = clients it touches + min over its last block of cost(without it)."""
    M = len(A_MN)
    size = 1 << M
    columns, weight = np.unique(A_MN.T, axis=0, return_counts=True)
    masks = columns @ (1 << np.arange(M))
    # Clients wholly inside the complement of a subset are those that it does not touch: a sum over subsets of masks.
    inside = np.zeros(size, np.int64)
    inside[masks] = weight
    for block in range(M):
        halves = inside.reshape(-1, 2, 1 << block)
        halves[:, 1] += halves[:, 0]
    touched = weight.sum() - inside[::-1]  # the complement of subset s is size - 1 - s
    best = np.zeros(size, np.int64)
    by_size = np.argsort(np.bitwise_count(np.arange(size)), kind="stable")
    starts = np.searchsorted(np.bitwise_count(by_size), np.arange(M + 2))
    for count in range(1, M + 1):
        subsets = by_size[starts[count] : starts[count + 1]]
        without = np.full(len(subsets), np.iinfo(np.int64).max)
        for block in range(M):
            has = subsets >> block & 1 == 1
            without[has] = np.minimum(without[has], best[subsets[has] ^ (1 << block)])
        best[subsets] = touched[subsets] + without
    order, subset = [], size - 1
    while subset:
        last = min((block for block in range(M) if subset >> block & 1), key=lambda block: best[subset ^ (1 << block)])
        order.append(last)
        subset ^= 1 << last
    return np.array(order[::-1])


def _greedy_order(A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Each time the block that touches the fewest clients not touched before."""
    left, untouched, order = list(range(len(A_MN))), np.ones(A_MN.shape[1], bool), []
    while left:
        new = A_MN[left] @ untouched.astype(np.int64)
        order.append(left.pop(int(new.argmin())))
        untouched &= ~A_MN[order[-1]]
    return np.array(order)


def _improve(A_MN: NDArray[np.bool_], order_M: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move one block to another place while that lowers the work."""
    M, least = len(order_M), _work(A_MN[order_M])
    improved = True
    while improved:
        improved = False
        for source in range(M):
            rest = np.delete(order_M, source)
            for target in range(M):
                moved = np.insert(rest, target, order_M[source])
                work = _work(A_MN[moved])
                if work < least:
                    order_M, least, improved = moved, work, True
                    break
    return order_M
