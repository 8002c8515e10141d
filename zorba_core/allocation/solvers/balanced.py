"""Balanced allocation by wrapping around: exact for gamma*, optimal for V, and linear in the number of clients.

Client n takes the next k_n blocks modulo M, from where the previous client stopped. So each client has exactly k_n
blocks, and popularities are floor(T/M) or ceil(T/M), T = sum k_n. The least popularity is Theorem 4's gamma*, without
the computation of a flow.

Shapes: M blocks, N clients, E budget vectors. ``budget_EN``, ``held_N`` int64; ``bias_lambda_E`` etc. float64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.solve import Options, RowMetrics, solver

# Budget vectors are processed in slices of about this many numbers, so that temporaries fit in the processor's cache.
_SLICE_NUMBERS = 1 << 17


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


def balanced_metrics(budget_EN: NDArray[np.integer], num_blocks: int) -> RowMetrics:
    """The metrics of :data:`balanced` for every row of ``budget_EN``, without matrices. O(E N).

    With q, r = divmod(sum of budgets, M), a client has least popularity q + 1 iff its blocks are among the first r
    blocks (start + budget <= r), else q.
    """
    E, N = budget_EN.shape
    total_E = budget_EN.sum(axis=1, dtype=np.int64)
    low_E, num_high_E = np.divmod(total_E, num_blocks)
    safe_low_E = np.where(low_E > 0, low_E, 1).astype(float)
    lambda_E, square_E = np.empty(E), np.empty(E)
    rows = max(1, _SLICE_NUMBERS // N)
    small = np.int32 if N * num_blocks < 2**31 else np.int64
    for first in range(0, E, rows):
        part = slice(first, first + rows)
        budget = budget_EN[part].astype(small)
        start = (np.cumsum(budget, axis=1, dtype=small) - budget) % small(num_blocks)
        num_high = num_high_E[part, None].astype(small)
        low = safe_low_E[part]
        end = start + budget
        high_clients = (end <= num_high).sum(axis=1)
        lambda_E[part] = (N - high_clients) / low**2 + high_clients / (low + 1) ** 2
        high_held = np.maximum(np.minimum(end, num_high) - start, 0) + np.clip(end - num_blocks, 0, num_high)
        # M I_n = held/low - high (1/low - 1/(low + 1))
        influence = budget / low[:, None] - high_held * (1.0 / low - 1.0 / (low + 1))[:, None]
        square_E[part] = np.einsum("en,en->e", influence, influence)
    mean_inverse_E = (num_high_E / (safe_low_E + 1) + (num_blocks - num_high_E) / safe_low_E) / num_blocks
    covered_E = low_E > 0
    return RowMetrics(
        total_blocks_E=total_E,
        bias_lambda_E=np.where(covered_E, lambda_E, np.nan),
        mean_inverse_popularity_E=np.where(covered_E, mean_inverse_E, np.nan),
        effective_clients_E=np.where(covered_E, num_blocks**2 / square_E, np.nan),
        min_popularity_E=low_E,
    )


@solver(
    "balanced",
    help="nearly equal popularities",
    rows=balanced_metrics,
)
def balanced(problem: Problem, options: Options) -> Allocation:
    """Wrap water-filled budgets around the blocks: every budget is used, and popularities differ by at most one.

    It is the default because it is fast and all clients count; no run here shows that it trains better.

    With a total T this minimises V = (1/M) sum 1/c_m: 1/c is convex, so among popularities with sum T the minimum has
    values that differ by at most one, which are those of this allocation. A larger total lowers V, so "at most T" uses
    min(T, sum of budgets).
    """
    held_N = water_filled_budgets(problem.usable_N, problem.most_blocks)
    return Allocation(wrapped(problem.num_blocks, held_N))
