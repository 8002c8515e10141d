"""One entry point for every solver, and the list of them.

Each solver says in its own file what it minimises, honours and costs (``solvers/``). Whatever it returns is checked
against the problem here, and gets the same bounds.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from zorba_core.allocation.bounds import v_bound, water_filled_bound
from zorba_core.allocation.measures import AllocationMetrics
from zorba_core.allocation.problem import (
    OBJECTIVES,
    AllocationProblem,
    Objective,
    Solution,
    Status,
    objective_of,
)
from zorba_core.allocation.solver import Answer, Solver, SolverOptions, not_a_solver
from zorba_core.allocation.solvers.balanced import BALANCED
from zorba_core.allocation.solvers.exact import EXACT
from zorba_core.allocation.solvers.lexicographic import LEXICOGRAPHIC, GreedyStep, gamma_star
from zorba_core.allocation.solvers.two_level import TWO_LEVEL
from zorba_core.errors import InvalidInputError, RunError, ZorbaError
from zorba_core.registry import Registry

SOLVERS: Registry[Solver] = Registry("solver", "zorba.solvers", accepts=not_a_solver)
for _solver in (BALANCED, LEXICOGRAPHIC, TWO_LEVEL, EXACT):
    SOLVERS.register(_solver)

# A value this close to its bound (relative) is the optimum: both are sums of rounded terms.
_SAME = 1e-9


def as_solver(solver: str | Solver, objective: Objective | None = None) -> Solver:
    """The registered solver of this name, or the one that was given.

    Raises:
        InvalidInputError: no such name, an object that is no solver, or an objective that is not one of its own.
    """
    part = SOLVERS.get_part(solver) if isinstance(solver, str) else solver
    problem = not_a_solver(part)
    if problem:
        raise InvalidInputError(f"this is no solver: {problem}")
    if objective is not None and objective not in OBJECTIVES:
        raise InvalidInputError(f"unknown objective {objective!r}; choose {_listed(OBJECTIVES)}")
    if objective is not None and objective not in part.objectives:
        title = {"lambda": "Lambda", "v": "V"}
        only = " and ".join(title[name] for name in part.objectives)
        others = _listed([name for name, other in SOLVERS.items() if objective in other.objectives])
        raise InvalidInputError(f"the {part.name} solver works on {only} only; for {title[objective]} use {others}")
    return part


def solve(
    problem: AllocationProblem,
    solver: str | Solver = "balanced",
    *,
    seed: int | Sequence[int] = 0,
    objective: Objective | None = None,
    time_limit: float = 10.0,
    trace: list[GreedyStep] | None = None,
) -> Solution:
    """Allocate blocks to clients.

    Args:
        solver: the name of one of :data:`SOLVERS`, or any :class:`Solver`.
        seed: decides what a solver draws at random; most draw nothing.
        objective: what to minimise and bound, ``"lambda"`` or ``"v"``. Default: the solver's own. V is what
            ``balanced`` minimises at any total, so ``exact`` returns that, proven; ``two-level`` and
            ``lexicographic`` know Lambda only.
        time_limit: seconds that ``exact`` may take before it returns the best matrix so far and its bound.
        trace: collects the steps of the lexicographic solver's greedy update.

    Raises:
        InvalidInputError: an unknown solver or option, or a solver that cannot honour the request.
        RunError: the solver failed, or its matrix does not meet the request.
    """
    part = as_solver(solver, objective)
    objective = objective or part.objectives[0]
    if not (time_limit > 0 and math.isfinite(time_limit)):
        raise InvalidInputError(f"time limit is {time_limit} seconds; it must be a finite number above 0")
    if trace is not None and not part.traces:
        able = " or ".join(name for name, other in SOLVERS.items() if other.traces)
        raise InvalidInputError(f"only the {able} solver has steps to trace, not {part.name}")
    if problem.total is not None and not part.honours_total:
        able = _listed([name for name, other in SOLVERS.items() if other.honours_total])
        raise InvalidInputError(
            f"the {part.name} solver cannot honour a total (budgets decide it); leave it out, or use {able}"
        )
    started = time.perf_counter()
    try:
        answer = part.run(problem, SolverOptions(objective, time_limit, seed, trace))
    except ZorbaError:
        raise
    except Exception as error:  # whatever somebody else's solver does
        raise RunError(f"the {part.name} solver failed: {type(error).__name__}: {error}") from error
    answer = answer if isinstance(answer, Answer) else Answer(answer)
    allocation = answer.allocation
    _check_answer(part, problem, allocation)
    value = objective_of(allocation, objective)
    lower_bound = water_filled_bound(problem) if objective == "lambda" else v_bound(problem)
    if part.proves:
        lower_bound = max(lower_bound, answer.lower_bound)
    reached = value <= lower_bound * (1 + _SAME)
    status = answer.status if answer.status is not Status.OPTIMAL else Status.FEASIBLE
    return Solution(
        allocation=allocation,
        solver=part.name,
        status=Status.OPTIMAL if reached else status,
        objective=objective,
        lower_bound=min(lower_bound, value),
        gamma_star=gamma_star(problem.usable_N, problem.num_blocks),
        seconds=time.perf_counter() - started,
        problem=problem,
    )


def _check_answer(solver: Solver, problem: AllocationProblem, allocation: object) -> None:
    """Refuse what no client could run, and what was not asked for, whoever wrote the solver.

    Raises:
        RunError: naming the solver and what its matrix breaks.
    """
    wrong = None
    if not isinstance(allocation, AllocationMetrics):
        wrong = f"{type(allocation).__name__} is not an Allocation"
    elif (allocation.num_blocks, allocation.num_clients) != (M := problem.num_blocks, N := problem.num_clients):
        wrong = f"{allocation.num_blocks} blocks for {allocation.num_clients} clients, not {M} for {N}"
    elif (over := allocation.blocks_held_N - problem.usable_N).max() > 0:
        wrong = f"client {over.argmax()} holds {over.max()} more than its budget allows"
    elif allocation.blocks_held_N.min() < 1:
        wrong = f"client {allocation.blocks_held_N.argmin()} holds no block"
    elif (few := np.flatnonzero(allocation.popularity_M < problem.min_popularity)).size:
        wrong = f"block {few[0]} has {allocation.popularity_M[few[0]]} clients"
    elif allocation.total_blocks > problem.most_blocks or (
        problem.total_mode == "eq" and allocation.total_blocks < problem.most_blocks
    ):
        wrong = f"{allocation.total_blocks} activated blocks, the total is {problem.total}"
    if wrong:
        raise RunError(f"the {solver.name} solver's answer does not meet the request: {wrong}")


def _listed(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "another solver"
