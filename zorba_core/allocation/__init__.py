"""Who trains which blocks: activation matrices from budgets, their metrics, bounds and fronts. No torch in here."""

from zorba_core.allocation.bounds import cauchy_bound, v_bound, water_filled_bound
from zorba_core.allocation.front import Front, hypervolume, knee, non_dominated
from zorba_core.allocation.measure_facts import MEASURES, Measure, find_measure
from zorba_core.allocation.measures import AllocationMetrics, coupled_noise, direction_coupling
from zorba_core.allocation.pareto import sweep, sweep_totals
from zorba_core.allocation.problem import Allocation, AllocationProblem, Objective, Solution, Status, TotalMode
from zorba_core.allocation.solve import SOLVERS, solve
from zorba_core.allocation.solver import Answer, Solver, SolverOptions
from zorba_core.allocation.solvers.balanced import balanced_metrics, water_filled_budgets
from zorba_core.allocation.solvers.lexicographic import (
    GammaCertificate,
    GreedyStep,
    gamma_certificate,
    gamma_star,
    gamma_star_by_subsets,
    greedy_update,
    initial_matrix,
)
from zorba_core.allocation.solvers.wrapped import WrappedAllocation, WrappedGroup
from zorba_core.allocation.storage import allocation_from_file, allocation_sha256, allocation_to_bytes, write_allocation

__all__ = [
    "MEASURES",
    "SOLVERS",
    "Allocation",
    "AllocationMetrics",
    "AllocationProblem",
    "Answer",
    "Front",
    "GammaCertificate",
    "GreedyStep",
    "Measure",
    "Objective",
    "Solution",
    "Solver",
    "SolverOptions",
    "Status",
    "TotalMode",
    "WrappedAllocation",
    "WrappedGroup",
    "allocation_from_file",
    "allocation_sha256",
    "allocation_to_bytes",
    "balanced_metrics",
    "cauchy_bound",
    "coupled_noise",
    "direction_coupling",
    "find_measure",
    "gamma_certificate",
    "gamma_star",
    "gamma_star_by_subsets",
    "greedy_update",
    "hypervolume",
    "initial_matrix",
    "knee",
    "non_dominated",
    "solve",
    "sweep",
    "sweep_totals",
    "v_bound",
    "water_filled_bound",
    "water_filled_budgets",
    "write_allocation",
]
