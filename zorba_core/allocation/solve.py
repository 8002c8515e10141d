"""One entry point for every solver.

| solver | minimises | honours | cost |
| --- | --- | --- | --- |
| balanced | V at the total; attains gamma* | everything | O(N) |
| lexicographic | the paper's two-step order | no total | a flow of M N arcs |
| two-level | Lambda over two-level choices | everything | 1 ms at N=50, O(N) above |
| exact | Lambda, proven; or V | everything | 0.1 s at N=50, M=12 |

"Everything" is totals (at most, exactly), a least popularity and a cap on blocks per client.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from zorba_core.allocation.block_order import least_forward_work
from zorba_core.allocation.bounds import v_bound, water_filled_bound
from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.allocation.problem import AllocationProblem, Objective, Solution, Status
from zorba_core.allocation.solvers.balanced import solve_balanced
from zorba_core.allocation.solvers.exact import solve_exact
from zorba_core.allocation.solvers.lexicographic import GreedyStep, gamma_star, solve_lexicographic
from zorba_core.allocation.solvers.two_level import solve_two_level
from zorba_core.errors import InvalidInputError

SOLVERS = ("balanced", "lexicographic", "two-level", "exact")
BLOCK_ORDERS = ("as-solved", "least-work")

# A value this close to its bound (relative) is the optimum: both are sums of rounded terms.
_SAME = 1e-9


def solve(
    problem: AllocationProblem,
    solver: str = "balanced",
    *,
    seed: int | Sequence[int] = 0,
    objective: Objective = "lambda",
    time_limit: float = 10.0,
    block_order: str = "as-solved",
    trace: list[GreedyStep] | None = None,
) -> Solution:
    """Allocate blocks to clients.

    Args:
        seed: decides what the lexicographic solver draws at random; the others draw nothing.
        objective: what to minimise and bound, ``"lambda"`` or ``"v"``. V is what ``balanced`` minimises at any total,
            so ``exact`` returns that, proven; ``two-level`` and ``lexicographic`` know Lambda only.
        time_limit: seconds that ``exact`` may take before it returns the best matrix so far and its bound.
        block_order: ``"least-work"`` permutes block ids so that clients start late, which changes no metric but
            ``forward_work``.
        trace: collects the steps of the lexicographic solver's greedy update.

    Raises:
        InvalidInputError: an unknown solver or option, or a solver that cannot honour the request.
    """
    _check_options(solver, objective, time_limit, block_order, trace)
    started = time.perf_counter()
    lower_bound = water_filled_bound(problem) if objective == "lambda" else v_bound(problem)
    status = Status.FEASIBLE
    allocation: AllocationMetrics
    if solver == "lexicographic":
        allocation = solve_lexicographic(problem, np.random.default_rng(seed), trace)
    elif solver == "two-level":
        allocation = solve_two_level(problem)
    elif solver == "exact" and objective == "lambda":
        found = solve_exact(problem, time_limit)
        allocation, lower_bound, status = found.allocation, found.lower_bound, found.status
    else:
        allocation = solve_balanced(problem)
    if block_order == "least-work":
        allocation = least_forward_work(allocation)
    value = allocation.bias_lambda if objective == "lambda" else allocation.mean_inverse_popularity
    return Solution(
        allocation=allocation,
        solver=solver,
        status=Status.OPTIMAL if value <= lower_bound * (1 + _SAME) else status,
        objective=objective,
        lower_bound=min(lower_bound, value),
        gamma_star=gamma_star(problem.usable_N, problem.num_blocks),
        seconds=time.perf_counter() - started,
        problem=problem,
    )


def _check_options(
    solver: str, objective: str, time_limit: float, block_order: str, trace: list[GreedyStep] | None
) -> None:
    if solver not in SOLVERS:
        raise InvalidInputError(f"unknown solver {solver!r}; choose one of {', '.join(SOLVERS)}")
    if objective not in ("lambda", "v"):
        raise InvalidInputError(f"unknown objective {objective!r}; choose lambda or v")
    if objective == "v" and solver not in ("balanced", "exact"):
        raise InvalidInputError(f"the {solver} solver works on Lambda only; for V use balanced (or exact)")
    if not (time_limit > 0 and math.isfinite(time_limit)):
        raise InvalidInputError(f"time limit is {time_limit} seconds; it must be a finite number above 0")
    if block_order not in BLOCK_ORDERS:
        raise InvalidInputError(f"unknown block order {block_order!r}; choose one of {', '.join(BLOCK_ORDERS)}")
    if trace is not None and solver != "lexicographic":
        raise InvalidInputError(f"only the lexicographic solver has steps to trace, not {solver}")
