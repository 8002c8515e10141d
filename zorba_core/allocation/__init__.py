"""Allocation of blocks to clients: activation matrices from budgets, their metrics, bounds and fronts, without torch.

The paper's parts: Lambda in ``measures``, problem P_1 in ``problem``, Theorem 4 in ``bounds``, Algorithm 1 in
``solvers/lexicographic``, Algorithm 2 in ``fronts``, SC1 to SC3 in ``scenarios``; psi in :mod:`zorba_core.vram`.
"""

from zorba_core.allocation import solvers  # noqa: F401 - registers the solvers
from zorba_core.allocation.bounds import gamma_star, gamma_star_by_subsets, water_filled_bound
from zorba_core.allocation.fronts import Front, front, hypervolume, knee, non_dominated, sweep, sweep_totals
from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import Problem
from zorba_core.allocation.scenarios import PAPER_SCENARIOS, solve_scenario
from zorba_core.allocation.solution import SOLVERS, Options, Solution, Solver, SolverResult, Status, solve, solver
from zorba_core.allocation.storage import allocation_from_file, allocation_json, allocation_sha256, write_allocation

__all__ = [
    "PAPER_SCENARIOS",
    "SOLVERS",
    "Allocation",
    "Front",
    "Options",
    "Problem",
    "Solution",
    "Solver",
    "SolverResult",
    "Status",
    "allocation_from_file",
    "allocation_json",
    "allocation_sha256",
    "front",
    "gamma_star",
    "gamma_star_by_subsets",
    "hypervolume",
    "knee",
    "non_dominated",
    "solve",
    "solve_scenario",
    "solver",
    "sweep",
    "sweep_totals",
    "water_filled_bound",
    "write_allocation",
]
