"""Theorem 4, and lower bounds on Lambda for every matrix, fast enough to be computed with every solution.

Shapes: N clients, K different numbers of blocks held. ``held_N`` int64; x_n is 1 / (least popularity of n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.problem import Problem

# Bounds are compared with optima that are summed in another order, so this factor covers the rounding errors.
_ROUNDING = 1.0 - 1e-12


def gamma_star(budget_N: NDArray[np.int64], num_blocks: int) -> int:
    """Theorem 4, the largest least popularity, in closed form: floor(sum_n min(budget_n, M) / M). O(N).

    sum_n min(budget_n, b) / b never rises with b, so the minimum over subsets of blocks is that of all blocks.
    """
    return int(np.minimum(budget_N, num_blocks).sum()) // num_blocks


def gamma_star_by_subsets(budget_N: NDArray[np.int64], num_blocks: int) -> int:
    """Theorem 4 as printed, min over subset sizes b of floor(sum_n min(budget_n, b) / b). O(M N)."""
    sizes = range(1, num_blocks + 1)
    return min(int(np.minimum(budget_N, size).sum()) // size for size in sizes)


def water_filled_bound(problem: Problem) -> float:
    """The minimum of Lambda = sum_n x_n^2 with sum_n held_n x_n >= M and 1/N <= x_n <= 1/c_min, for any total.

    Every matrix meets the first condition: a client's blocks all have popularity >= its least, so sum_n held_n x_n >=
    sum_m sum_n a_mn / c_m = M. Fill the largest budgets first, with at least one block for each client: these
    ``held_N`` majorise all others with T blocks. The minimum is Schur-concave in ``held_N``, so it bounds all of them.
    The minimiser is x_n = clip(mu held_n, 1/N, 1/c_min), where mu solves sum_n held_n x_n = M. O(N + M^2).
    """
    M, N = problem.num_blocks, problem.num_clients
    held_K, count_K = _most_uneven(problem)
    low, high = 1.0 / N, 1.0 / problem.min_popularity

    # sum_n held_n x_n is piecewise linear in mu: find the piece that reaches M, then solve it exactly.
    knots = np.unique(np.concatenate((low / held_K, high / held_K)))
    covered = np.clip(knots[:, None] * held_K, low, high) @ (count_K * held_K).astype(float)
    if covered[0] >= M:
        return _ROUNDING * N * low**2
    right = int(np.searchsorted(covered, M))
    if right == len(knots):  # by rounding: at x = 1/c_min the sum is exactly M
        return _ROUNDING * N * high**2
    left_mu, right_mu = float(knots[right - 1]), float(knots[right])
    left, reach = float(covered[right - 1]), float(covered[right])
    mu = left_mu + (right_mu - left_mu) * (M - left) / (reach - left)
    return _ROUNDING * float((count_K * np.clip(mu * held_K, low, high) ** 2).sum())


def _most_uneven(problem: Problem) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(blocks held, number of clients that hold so many) if each client gets one block and the rest of T fills the
    largest budgets first."""
    count = np.bincount(problem.usable_N)
    clients = np.zeros(len(count), np.int64)
    clients[1] = count[1]
    spare = problem.most_blocks - problem.num_clients
    for budget in range(len(count) - 1, 1, -1):
        full = min(int(count[budget]), spare // (budget - 1))
        clients[budget] += full
        spare -= full * (budget - 1)
        if full < count[budget]:  # one client takes the rest, and the others have one block
            clients[1 + spare] += 1
            clients[1] += count[budget] - full - 1
            spare = 0
    levels = np.flatnonzero(clients)
    return levels, clients[levels]
