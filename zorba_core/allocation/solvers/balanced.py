"""Balanced allocation by wrapping around: exact for gamma*, optimal for V, and linear in the number of clients.

Client n takes the next k_n blocks modulo M, from where the previous client stopped. So each client has exactly k_n
blocks, and popularities are floor(T/M) or ceil(T/M), T = sum k_n. The least popularity is Theorem 4's gamma*, without
the computation of a flow.

Shapes: M blocks, N clients. ``budget_N``, ``held_N`` int64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.solution import Options, solver


def wrapped(num_blocks: int, held_N: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The matrix (M, N) in which client n takes the next ``held_N[n]`` blocks, cyclically. O(M N)."""
    start_N = ((np.cumsum(held_N) - held_N) % num_blocks).astype(np.int16)  # there are at most 10,000 blocks
    end_N, block_M1 = start_N + held_N.astype(np.int16), np.arange(num_blocks, dtype=np.int16)[:, None]
    return (start_N <= block_M1) & (block_M1 < end_N) | (block_M1 < end_N - num_blocks)


def water_filled_budgets(budget_N: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """k_n = min(budget_n, w) with the largest level w whose sum is at most ``total``. The remainder goes, one block
    each, to clients with room, spread evenly over their order. O(N + M); needs N <= total <= sum of budgets."""
    if total == budget_N.sum():
        return budget_N.copy()
    count = np.bincount(budget_N)
    # The total at level w is the sum over v < w of the number of clients with budget > v.
    held_at_level = np.concatenate(([0], np.cumsum(len(budget_N) - np.cumsum(count)[:-1])))
    level = int(np.searchsorted(held_at_level, total, side="right")) - 1
    held_N = np.minimum(budget_N, level)
    roomy = np.flatnonzero(budget_N > level)
    left = total - int(held_N.sum())
    held_N[roomy[np.arange(left) * len(roomy) // max(left, 1)]] += 1
    return held_N


@solver("balanced", help="nearly equal popularities")
def balanced(problem: Problem, options: Options) -> Allocation:
    """Wrap water-filled budgets around the blocks: every budget is used, and popularities differ by at most one.

    It is the default because it is fast and all clients count; no run here shows that it trains better.

    With a total T this minimises V = (1/M) sum 1/c_m: 1/c is convex, so among popularities with sum T the minimum has
    values that differ by at most one, which are those of this allocation. A larger total lowers V, so "at most T" uses
    min(T, sum of budgets).
    """
    held_N = water_filled_budgets(problem.usable_N, problem.most_blocks)
    return Allocation(wrapped(problem.num_blocks, held_N))
