"""A front: points of Lambda (or V) against VRAM, which of them are not dominated, and any one's matrix on demand.

Shapes: E points, N clients, P points of any plane. ``budget_EN`` whole blocks; ``vram_ratio_E`` is sum psi_tot over sum
psi_max.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.allocation.problem import AllocationProblem, Objective, Solution
from zorba_core.allocation.solve import solve
from zorba_core.allocation.solver import Solver

# A stream of its own for solvers that draw, apart from the fleet's and the reductions' (see ``pareto``).
_SOLVER_STREAM = 2


@dataclass(frozen=True, eq=False)
class Front:
    """E points of a sweep. Nothing here holds a matrix; NaN marks budgets that do not cover every block."""

    tau_E: NDArray[np.float64]  # the vector's tau, or the mean over its clients; NaN in a sweep over totals
    total_blocks_E: NDArray[np.int64]
    vram_ratio_E: NDArray[np.float64]
    bias_lambda_E: NDArray[np.float64]
    mean_inverse_popularity_E: NDArray[np.float64]  # V
    effective_clients_E: NDArray[np.float64]  # N_eff
    min_popularity_E: NDArray[np.int64]
    lower_bound_E: NDArray[np.float64]  # on the objective, at the point's budgets (and total)
    optimal_E: NDArray[np.bool_]  # only where proven
    clamped_E: NDArray[np.int64]  # clients that could not hold one block and were given one all the same
    on_front_E: NDArray[np.bool_]
    hypervolume: float
    reference: tuple[float, float]  # (ratio, objective) up to which the hypervolume counts
    knee: int | None  # index of the point of the front furthest below the line between its ends
    budget_EN: NDArray[np.integer]
    limit_E: NDArray[np.int64] | None  # the total each point was limited to; None when budgets alone decide
    num_blocks: int
    solver: Solver
    objective: Objective
    seed: int
    dropped: int = 0  # vectors left out because a client could not hold one block

    def __len__(self) -> int:
        return len(self.tau_E)

    @property
    def value_E(self) -> NDArray[np.float64]:
        """The objective: Lambda or V."""
        return self.bias_lambda_E if self.objective == "lambda" else self.mean_inverse_popularity_E

    def budgets(self, i: int) -> NDArray[np.int64]:
        return self.budget_EN[i].astype(np.int64)

    def problem(self, i: int) -> AllocationProblem:
        return AllocationProblem(
            self.budgets(i), self.num_blocks, None if self.limit_E is None else int(self.limit_E[i])
        )

    def solution(self, i: int, *, time_limit: float = 10.0) -> Solution:
        """Point ``i`` solved anew, the same every time (``exact``: where it is proven within ``time_limit`` seconds).

        Raises:
            InfeasibleError: the point's budgets do not cover every block.
        """
        seed = self.seed_of(i)
        return solve(self.problem(i), self.solver, seed=seed, objective=self.objective, time_limit=time_limit)

    def seed_of(self, i: int) -> tuple[int, int, int]:
        """What point ``i`` was solved with: the same seed gives the same matrix."""
        return point_seed(self.seed, i)

    def allocation(self, i: int) -> AllocationMetrics:
        """The matrix of point ``i``: that of :meth:`solution`."""
        return self.solution(i).allocation


def point_seed(seed: int, point: int) -> tuple[int, int, int]:
    """Each point has a stream of its own, so that one point's matrix does not depend on the others."""
    return (_SOLVER_STREAM, seed, point)


def non_dominated(x_P: NDArray[np.float64], y_P: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points have no other with both values at most theirs and one below; of equal points the first is kept.
    NaN never is. O(P log P)."""
    on_front_P = np.zeros(len(x_P), bool)
    usable = np.flatnonzero(~np.isnan(x_P) & ~np.isnan(y_P))
    order = usable[np.lexsort((usable, y_P[usable], x_P[usable]))]
    best_before = np.minimum.accumulate(np.concatenate(([np.inf], y_P[order])))[:-1]
    on_front_P[order] = y_P[order] < best_before
    return on_front_P


def hypervolume(x_P: NDArray[np.float64], y_P: NDArray[np.float64], reference: tuple[float, float]) -> float:
    """Area that the points dominate up to ``reference``; points beyond it add nothing. O(P log P)."""
    inside = (x_P < reference[0]) & (y_P < reference[1])
    x, y = x_P[inside], y_P[inside]
    front = np.flatnonzero(non_dominated(x, y))
    front = front[np.argsort(x[front])]
    right = np.append(x[front][1:], reference[0])
    return float(((right - x[front]) * (reference[1] - y[front])).sum())


def knee(x_P: NDArray[np.float64], y_P: NDArray[np.float64], on_front_P: NDArray[np.bool_]) -> int | None:
    """Index of the front's point furthest below the straight line between its two ends, both axes scaled to 0..1;
    None when the front has fewer than three points."""
    front = np.flatnonzero(on_front_P)
    if len(front) < 3:
        return None
    x, y = x_P[front], y_P[front]
    scaled = (x - x.min()) / np.ptp(x) + (y - y.min()) / np.ptp(y)
    return int(front[scaled.argmin()])
