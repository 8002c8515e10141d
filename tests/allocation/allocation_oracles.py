"""Independent answers to check solvers against: every matrix of a small instance, and a MILP for medium ones.

Shapes: M blocks, N clients, K matrices. Nothing here uses the package's solvers, bounds or metrics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array


@dataclass(frozen=True)
class Enumeration:
    """Metrics of every matrix whose blocks all have a client and whose clients hold 1..budget blocks."""

    total_K: np.ndarray
    least_K: np.ndarray
    lambda_K: np.ndarray
    v_K: np.ndarray
    most_held_K: np.ndarray

    def meeting(self, total=None, total_mode="le", min_popularity=1, max_blocks_per_client=None) -> np.ndarray:
        keep = self.least_K >= min_popularity
        if total is not None:
            keep &= self.total_K == total if total_mode == "eq" else self.total_K <= total
        if max_blocks_per_client is not None:
            keep &= self.most_held_K <= max_blocks_per_client
        return keep


def enumerate_matrices(budgets, num_blocks: int) -> Enumeration:
    masks = np.arange(1, 2**num_blocks)
    bits = (masks[:, None] >> np.arange(num_blocks)) & 1
    choices = [np.flatnonzero(bits.sum(axis=1) <= budget) for budget in budgets]
    picks = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(budgets))
    A_KNM = bits[picks]
    popularity_KM = A_KNM.sum(axis=1)
    covered = popularity_KM.min(axis=1) > 0
    A_KNM, popularity_KM = A_KNM[covered], popularity_KM[covered]
    least_KN = np.where(A_KNM == 1, popularity_KM[:, None, :], len(budgets) + 1).min(axis=2)
    return Enumeration(
        total_K=popularity_KM.sum(axis=1),
        least_K=popularity_KM.min(axis=1),
        lambda_K=(1.0 / least_KN**2.0).sum(axis=1),
        v_K=(1.0 / popularity_KM).mean(axis=1),
        most_held_K=A_KNM.sum(axis=2).max(axis=1),
    )


def milp_lambda(budgets, num_blocks: int, total=None, total_mode="le", min_popularity=1, time_limit=60.0):
    """(value, bound) of min Lambda by HiGHS, from the definition.

    Binary a[m, n]; z[m, c] = 1 iff block m has popularity c; y[n, c] = 1 iff client n's least popularity is c. Block m
    of popularity <= c at client n forces its y to <= c. Blocks are ordered by popularity to break symmetry.
    """
    M, N = num_blocks, len(budgets)
    a, z, y = (np.arange(M * N).reshape(M, N), M * N + np.arange(M * N).reshape(M, N), 2 * M * N + np.arange(N * N))
    y = y.reshape(N, N)
    size, count = 2 * M * N + N * N, np.arange(1, N + 1)
    rows, low, high = [], [], []

    def constrain(terms, least, most):
        rows.append(terms)
        low.append(least)
        high.append(most)

    for m in range(M):
        constrain([(i, 1) for i in z[m]], 1, 1)
        constrain([(i, 1) for i in a[m]] + [(z[m, c - 1], -c) for c in count], 0, 0)
        if m:
            constrain([(z[m - 1, c - 1], c) for c in count] + [(z[m, c - 1], -c) for c in count], 0, np.inf)
    for n, budget in enumerate(budgets):
        constrain([(i, 1) for i in a[:, n]], 1, budget)
        constrain([(i, 1) for i in y[n]], 1, 1)
        for m in range(M):
            for c in range(N - 1):
                terms = [(i, 1) for i in y[n, : c + 1]] + [(i, -1) for i in z[m, : c + 1]] + [(a[m, n], -1)]
                constrain(terms, -1, np.inf)
    if total is not None:
        constrain([(i, 1) for i in a.ravel()], total if total_mode == "eq" else 0, total)
    matrix = lil_array((len(rows), size))
    for row, terms in enumerate(rows):
        for column, factor in terms:
            matrix[row, column] = factor
    upper = np.ones(size)
    upper[z[:, : min_popularity - 1].ravel()] = 0
    objective = np.zeros(size)
    objective[y] = 1.0 / count**2.0
    result = milp(
        objective,
        constraints=LinearConstraint(matrix.tocsr(), low, high),
        integrality=np.ones(size),
        bounds=Bounds(0, upper),
        options={"time_limit": time_limit, "mip_rel_gap": 1e-9},
    )
    return result.fun, result.mip_dual_bound
