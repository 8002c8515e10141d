"""One entry point for every solver.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from zorba_core.allocation.balanced import solve_balanced
from zorba_core.allocation.bounds import v_bound, water_filled_bound
from zorba_core.allocation.lexicographic import GreedyStep, gamma_star, solve_lexicographic
from zorba_core.allocation.types import AllocationProblem, Objective, Solution, Status
from zorba_core.errors import InvalidInputError

SOLVERS = ("balanced", "lexicographic")

# A value this close to its bound is the optimum: both are sums of N rounded terms.
_SAME = 1e-9


def solve(
    problem: AllocationProblem,
    solver: str = "balanced",
    *,
    seed: int | Sequence[int] = 0,
    objective: Objective = "lambda",
    trace: list[GreedyStep] | None = None,
) -> Solution:
    """Allocate blocks to clients.

    * ``balanced`` (default): wraps around; minimises V = (1/M) sum 1/c_m at the total, attains gamma*. O(N).
    * ``lexicographic``: the paper's Dinic and Algorithm 1; takes no total. ``seed`` decides its random choices, and
      ``trace`` collects its steps.

    Raises:
        InvalidInputError: an unknown solver, or one that cannot honour the request.
    """
    if solver not in SOLVERS:
        raise InvalidInputError(f"unknown solver {solver!r}; choose one of {', '.join(SOLVERS)}")
    if objective not in ("lambda", "v"):
        raise InvalidInputError(f"unknown objective {objective!r}; choose lambda or v")
    started = time.perf_counter()
    if solver == "balanced":
        allocation = solve_balanced(problem)
    else:
        allocation = solve_lexicographic(problem, np.random.default_rng(seed), trace)
    if objective == "lambda":
        lower_bound, value = water_filled_bound(problem), allocation.bias_lambda
    else:
        lower_bound, value = v_bound(problem), allocation.mean_inverse_popularity
    return Solution(
        allocation=allocation,
        solver=solver,
        status=Status.OPTIMAL if value <= lower_bound * (1 + _SAME) else Status.FEASIBLE,
        objective=objective,
        lower_bound=lower_bound,
        gamma_star=gamma_star(problem.usable_N, problem.num_blocks),
        seconds=time.perf_counter() - started,
        problem=problem,
    )
