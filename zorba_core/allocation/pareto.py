"""Algorithm 2: sweep VRAM reductions, keep what is not dominated. Also the front by total, at the clients' own budgets.

Shapes: E reduction vectors or totals, N clients. ``tau_EN`` float64 in [0, 1); ``budget_EN`` int16 or wider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zorba_core.allocation.bounds import cauchy_bound, v_bounds
from zorba_core.allocation.feasibility import whole_number, whole_numbers
from zorba_core.allocation.front import Front, hypervolume, knee, non_dominated, point_seed
from zorba_core.allocation.problem import AllocationProblem, Objective, Solution
from zorba_core.allocation.solve import as_solver, solve
from zorba_core.allocation.solver import RowMetrics, Solver
from zorba_core.errors import InfeasibleError, InvalidInputError, in_short
from zorba_core.planning.memory import (
    Workload,
    affordable_blocks,
    psi_block_bytes,
    psi_model_bytes,
    whole_block_budgets,
)
from zorba_core.planning.models import ModelSpec

TauMode = Literal["client", "vector"]
OutOfBudget = Literal["clamp", "drop"]

# A stream apart from a fleet drawn with the same seed: equal streams would make a client's reduction a function of its
# capacity.
_TAU_STREAM = 1
MAX_BUDGETS = 100_000_000  # E * N: the sweep holds several float64 arrays of this size


def sweep(
    capacity_N_bytes: ArrayLike,
    model: ModelSpec,
    workload: Workload,
    num_epsilons: int = 1000,
    solver: str | Solver = "balanced",
    tau_mode: TauMode = "client",
    seed: int = 0,
    *,
    objective: Objective = "lambda",
    too_small: OutOfBudget = "clamp",
    reference: tuple[float, float] | None = None,
    on_solution: Callable[[Solution], None] | None = None,
    **options: Any,
) -> Front:
    """Algorithm 2 over E reductions epsilon_n = tau_n psi_max,n with tau ~ U[0, 1].

    ``tau_mode="vector"`` draws one tau for all clients, as the paper's text reads; ``"client"`` one for each, without
    which few points lie above half of the VRAM. A client left with less than one block is given one and counted
    (``too_small="clamp"``), or its whole vector is left out (``"drop"``). A solver with ``rows`` (``balanced``) is
    vectorised over E; ``options`` go to :func:`~zorba_core.allocation.solve.solve` of any other. The hypervolume
    counts up to ``reference``, by default all VRAM and the objective of one block for each client. ``on_solution`` is
    called with each point that a solver was run for, as it comes: for progress.

    Raises:
        InvalidInputError: an unknown solver or mode, or capacities that are not finite numbers of at least 0.
        InfeasibleError: no vector is left.
    """
    solver = as_solver(solver, objective)
    if tau_mode not in ("client", "vector"):
        raise InvalidInputError(f"unknown tau mode {tau_mode!r}; choose client or vector")
    if too_small not in ("clamp", "drop"):
        raise InvalidInputError(f"unknown policy {too_small!r} for clients that are too small; choose clamp or drop")
    E, M = whole_number("number of epsilons", num_epsilons, 1), model.num_blocks
    capacity_N = _capacities(capacity_N_bytes)
    _check_held(E, len(capacity_N))
    tau_rng = np.random.default_rng((_TAU_STREAM, whole_number("seed", seed, 0)))
    tau_EN = tau_rng.random((E, len(capacity_N)) if tau_mode == "client" else (E, 1))
    whole_EN = affordable_blocks(capacity_N, model, workload, tau_EN * capacity_N)
    clamped_E = (whole_EN < 1).sum(axis=1)
    chosen = np.arange(E) if too_small == "clamp" else np.flatnonzero(clamped_E == 0)
    if not chosen.size:
        raise InfeasibleError(f"in each of {E} reductions some client cannot hold one block; use the policy clamp")
    budget_EN = np.clip(whole_EN[chosen], 1, M).astype(np.int16 if M < 2**15 else np.int64)
    if solver.rows is not None:
        points = _points_of_rows(solver.rows(budget_EN, M), budget_EN, M, objective)
    else:
        points = _no_points(budget_EN.sum(axis=1, dtype=np.int64))
        solved: dict[bytes, Solution] = {}  # one tau for all gives the same budgets again and again
        for i in np.flatnonzero(points["total_blocks_E"] >= M):
            key = budget_EN[i].tobytes()
            solution = solved.get(key)
            if solution is None:
                problem = AllocationProblem(budget_EN[i], M)
                solution = solve(problem, solver, seed=point_seed(seed, int(i)), objective=objective, **options)
                if not solver.random:  # which draws anew for each point
                    solved[key] = solution
            _put(points, i, solution, on_solution)
    identity = {"num_blocks": M, "solver": solver, "objective": objective, "seed": seed, "dropped": E - len(chosen)}
    sweep_fields = {"tau_E": tau_EN[chosen].mean(axis=1), "clamped_E": clamped_E[chosen], "limit_E": None}
    return _front(points, capacity_N, model, workload, reference, budget_EN=budget_EN, **identity, **sweep_fields)


def sweep_totals(
    capacity_N_bytes: ArrayLike,
    model: ModelSpec,
    workload: Workload,
    totals: int | Sequence[int] = 50,
    solver: str | Solver = "exact",
    *,
    seed: int = 0,
    objective: Objective = "lambda",
    reference: tuple[float, float] | None = None,
    on_solution: Callable[[Solution], None] | None = None,
    **options: Any,
) -> Front:
    """The front by total: each client keeps its full budget, and at most T blocks are activated over all clients.

    ``totals`` are the values of T, or how many to spread from the least possible to all budgets. With ``exact`` the
    points are the true front of Lambda against VRAM, each with its bound; at most 50 take some 10 s at N=50, M=12.
    ``on_solution`` is called with each solution as it comes: for progress, or to keep the matrices.

    Raises:
        InvalidInputError: a solver that takes no total.
        InfeasibleError: a client that cannot hold one block, or a total out of range.
    """
    solver, seed = as_solver(solver, objective), whole_number("seed", seed, 0)
    capacity_N = _capacities(capacity_N_bytes)
    budget_N, M = whole_block_budgets(capacity_N, model, workload), model.num_blocks
    if isinstance(totals, int | np.integer):
        least, most = max(M, len(budget_N)), int(budget_N.sum())
        count = min(whole_number("number of totals", totals, 1), max(1, most - least + 1))
        _check_held(count, 1)
        totals = np.linspace(least, most, count).round().astype(int).tolist()
    limit_E = whole_numbers("total", totals)
    points = _no_points(np.zeros(len(limit_E), np.int64))
    for i, total in enumerate(limit_E.tolist()):
        problem = AllocationProblem(budget_N, M, total)
        solution = solve(problem, solver, seed=point_seed(seed, i), objective=objective, **options)
        _put(points, i, solution, on_solution)
    identity = {"num_blocks": M, "solver": solver, "objective": objective, "seed": seed}
    none = np.zeros(len(limit_E), np.int64)
    sweep_fields = {"tau_E": np.full(len(limit_E), np.nan), "clamped_E": none, "limit_E": limit_E}
    budget_EN = np.broadcast_to(budget_N, (len(limit_E), len(budget_N)))
    return _front(points, capacity_N, model, workload, reference, budget_EN=budget_EN, **identity, **sweep_fields)


def _no_points(total_E: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """The columns of a :class:`Front` that solving its points fills."""
    nan_E, none_E = np.full(len(total_E), np.nan), np.zeros(len(total_E), np.int64)
    rows = RowMetrics(total_E.copy(), nan_E.copy(), nan_E.copy(), nan_E.copy(), none_E)
    return {**rows._asdict(), "lower_bound_E": nan_E, "optimal_E": np.zeros(len(total_E), bool)}


def _put(
    points: dict[str, NDArray[Any]], i: int, solution: Solution, on_solution: Callable[[Solution], None] | None
) -> None:
    for name in RowMetrics._fields:
        points[name][i] = getattr(solution.allocation, name.removesuffix("_E"))
    points["lower_bound_E"][i], points["optimal_E"][i] = solution.lower_bound, solution.optimal
    if on_solution is not None:
        on_solution(solution)


def _points_of_rows(
    rows: RowMetrics, budget_EN: NDArray[np.integer], num_blocks: int, objective: Objective
) -> dict[str, NDArray[Any]]:
    """All rows at once. The bound is Cauchy's for Lambda; for V it is the optimum itself."""
    covered_E = rows.min_popularity_E > 0
    if objective == "v":
        value_E, bound_E = rows.mean_inverse_popularity_E, v_bounds(budget_EN.sum(axis=1, dtype=np.int64), num_blocks)
    else:
        value_E, bound_E = rows.bias_lambda_E, cauchy_bound(budget_EN, num_blocks)
    bound_E = np.where(covered_E, bound_E, np.nan)
    optimal_E = covered_E & (value_E <= bound_E * (1 + 1e-9))
    return {**rows._asdict(), "lower_bound_E": bound_E, "optimal_E": optimal_E}


def _front(
    points: dict[str, NDArray[Any]],
    capacity_N: NDArray[np.float64],
    model: ModelSpec,
    workload: Workload,
    reference: tuple[float, float] | None,
    **fields: Any,
) -> Front:
    N, M = len(capacity_N), model.num_blocks
    psi_tot_E = N * psi_model_bytes(model, workload) + points["total_blocks_E"] * psi_block_bytes(model, workload)
    ratio_E = psi_tot_E / capacity_N.sum()
    value_E = points["bias_lambda_E" if fields["objective"] == "lambda" else "mean_inverse_popularity_E"]
    if reference is None:  # one block for each client: popularity N // M (at least 1) on every block
        least = max(1, N // M)
        reference = (1.0, N / least**2 if fields["objective"] == "lambda" else 1 / least)
    on_front_E = non_dominated(ratio_E, value_E)
    return Front(
        vram_ratio_E=ratio_E,
        on_front_E=on_front_E,
        hypervolume=hypervolume(ratio_E, value_E, reference),
        reference=reference,
        knee=knee(ratio_E, value_E, on_front_E),
        **points,
        **fields,
    )


def _check_held(num_points: int, num_clients: int) -> None:
    """Refuse a sweep too large for memory, before it starts."""
    if num_points * num_clients > MAX_BUDGETS:
        raise InvalidInputError(
            f"{in_short(num_points)} points for {num_clients} clients are too many; "
            f"give at most {MAX_BUDGETS // num_clients} points"
        )


def _capacities(capacity_N_bytes: ArrayLike) -> NDArray[np.float64]:
    capacity_N = np.array(capacity_N_bytes, float)
    if capacity_N.ndim != 1 or not capacity_N.size:
        raise InvalidInputError("capacities must be a list with one number of bytes per client")
    return capacity_N
