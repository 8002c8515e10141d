"""Theorem 4, and lower bounds on Lambda that hold for every matrix: cheap enough for every answer.

Shapes: N clients, K different numbers of blocks held. ``held_N`` int64; x_n stands for 1 / (least popularity of n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.problem import Problem

# A bound is compared with optima computed elsewhere in another order of summation: keep it below by rounding's share.
_ROUNDING = 1.0 - 1e-12


def gamma_star(budget_N: NDArray[np.int64], num_blocks: int) -> int:
    """Theorem 4, the largest least popularity, in closed form: floor(sum_n min(budget_n, M) / M). O(N).

    sum_n min(budget_n, b) / b never rises with b, so the minimum over subsets of blocks is at all of them.
    """
    return int(np.minimum(budget_N, num_blocks).sum()) // num_blocks


def gamma_star_by_subsets(budget_N: NDArray[np.int64], num_blocks: int) -> int:
    """Theorem 4 as printed, min over subset sizes b of floor(sum_n min(budget_n, b) / b). O(M N)."""
    sizes = range(1, num_blocks + 1)
    return min(int(np.minimum(budget_N, size).sum()) // size for size in sizes)


def cauchy_bound(held_EN: NDArray[np.integer], num_blocks: int) -> NDArray[np.float64]:
    """Lambda >= M^2 / sum_n held_n^2, shape (E,) for the rows of ``held_EN``.

    A client's blocks all have popularity >= its least, so sum_n held_n x_n >= sum_m sum_n a_mn / c_m = M; Cauchy and
    Lambda = sum_n x_n^2 give the rest.
    """
    return _ROUNDING * num_blocks**2 / np.einsum("en,en->e", held_EN, held_EN, dtype=np.float64)


def water_filled_bound(problem: Problem) -> float:
    """The Cauchy bound sharpened by 1/N <= x_n <= 1/c_min, for any total: min sum x_n^2 with sum_n held_n x_n >= M.

    Of all ways to hold T blocks, the one that fills the largest budgets first (each client keeping one) majorises
    every other, and the minimum is Schur-concave in ``held_N``, so that one bounds them all. The minimiser is
    x_n = clip(mu held_n, 1/N, 1/c_min) with mu from one equation. O(N + M^2) from the histogram of budgets.
    """
    M, N = problem.num_blocks, problem.num_clients
    held_K, count_K = _most_uneven(problem)
    low, high = 1.0 / N, 1.0 / problem.min_popularity

    # Between two neighbouring clipping points what is covered is linear in mu: find the piece, then solve it exactly.
    knots = np.unique(np.concatenate((low / held_K, high / held_K)))
    covered = np.clip(knots[:, None] * held_K, low, high) @ (count_K * held_K).astype(float)
    if covered[0] >= M:
        return _ROUNDING * N * low**2
    right = int(np.searchsorted(covered, M))
    if right == len(knots):  # rounding only: with x = 1/c_min the budgets cover M exactly
        return _ROUNDING * N * high**2
    left_mu, right_mu = float(knots[right - 1]), float(knots[right])
    left, reach = float(covered[right - 1]), float(covered[right])
    mu = left_mu + (right_mu - left_mu) * (M - left) / (reach - left)
    return _ROUNDING * float((count_K * np.clip(mu * held_K, low, high) ** 2).sum())


def _most_uneven(problem: Problem) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(blocks held, clients that hold as many) when each client keeps one block and the rest of T goes to the largest
    budgets first."""
    count = np.bincount(problem.usable_N)
    clients = np.zeros(len(count), np.int64)
    clients[1] = count[1]
    spare = problem.most_blocks - problem.num_clients
    for budget in range(len(count) - 1, 1, -1):
        full = min(int(count[budget]), spare // (budget - 1))
        clients[budget] += full
        spare -= full * (budget - 1)
        if full < count[budget]:  # one client takes what is left, the others keep their one block
            clients[1 + spare] += 1
            clients[1] += count[budget] - full - 1
            spare = 0
    levels = np.flatnonzero(clients)
    return levels, clients[levels]
