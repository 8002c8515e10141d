"""Algorithm 2: the Pareto front of Lambda and VRAM over sampled VRAM reductions. Also the front over totals of blocks.

Shapes: E points (reduction vectors or totals), N clients, P points of any plane. ``tau_EN`` float64 in [0, 1);
``budget_EN`` int16 or wider, whole blocks; ``vram_ratio_E`` is sum psi_tot over sum psi_max.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zorba_core import show
from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import Problem, whole_number
from zorba_core.allocation.solution import Solution, Solver, find_solver, solve
from zorba_core.errors import InfeasibleError, InvalidInputError, in_short
from zorba_core.fleet import Fleet

TauMode = Literal["client", "vector"]

# Streams that differ from that of a fleet with the same seed: with equal streams, a client's reduction would be a
# function of its capacity. Each point has its own stream, so its matrix does not depend on the other points.
_TAU_STREAM, _SOLVER_STREAM = 1, 2
MAX_BUDGETS = 100_000_000  # limit of E * N: a sweep needs several float64 arrays of this size
_MEASURES = ("bias_lambda", "mean_inverse_popularity", "effective_clients", "min_popularity")  # columns of a Front


class FrontTable(pd.DataFrame):
    """A table of points with columns ``vram_ratio``, ``lambda``, ``on_front`` and ``knee``, which shows its curve. Any
    part of it is an ordinary table."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        front = self.sort_values("vram_ratio").query("on_front")
        knee = front[front["knee"]]
        first, last, *bend = (
            f"Λ {value:.3g} with {ratio:.0%}"
            for part in (front.iloc[:1], front.iloc[-1:], knee)
            for value, ratio in zip(part["lambda"], part["vram_ratio"], strict=True)
        )
        return (
            f"Front({len(front)} of {len(self)} points: {first} of all VRAM to {last}"
            f"{f', knee {bend[0]}' if bend else ''})"
        )

    def __str__(self) -> str:
        return self.to_string(max_rows=10)

    def _repr_html_(self) -> str:
        """In a notebook: the front's curve, Λ on a logarithmic axis, and its knee."""
        front = self.sort_values("vram_ratio").query("on_front")
        ratio_F, lambda_F = front["vram_ratio"].to_numpy(), front["lambda"].to_numpy()
        ends = [f"{value:.0%}" for value in (ratio_F[0], ratio_F[-1])] + [f"{lambda_F[-1]:.2g}", f"{lambda_F[0]:.2g}"]
        knee = np.flatnonzero(front["knee"])
        picture = show.curve(
            ratio_F, np.log(lambda_F), ends, "Λ (log) over the share of all VRAM", int(knee[0]) if len(knee) else None
        )
        return show.card(repr(self), picture)


@dataclass(frozen=True, eq=False, repr=False)
class Front:
    """E points of a sweep, without their matrices. NaN: the point's budgets do not cover every block."""

    tau_E: NDArray[np.float64]  # the vector's tau, or the mean over its clients; NaN in a sweep over totals
    total_blocks_E: NDArray[np.int64]
    vram_ratio_E: NDArray[np.float64]
    bias_lambda_E: NDArray[np.float64]
    on_front_E: NDArray[np.bool_]
    mean_inverse_popularity_E: NDArray[np.float64]  # V
    effective_clients_E: NDArray[np.float64]  # N_eff
    min_popularity_E: NDArray[np.int64]
    lower_bound_E: NDArray[np.float64]  # on Lambda, at the point's budgets (and total)
    optimal_E: NDArray[np.bool_]  # whether Lambda is proven to be the least
    clamped_E: NDArray[np.int64]  # number of clients whose VRAM is too small for one block; they get one nevertheless
    hypervolume: float
    reference: tuple[float, float]  # (ratio, Lambda) of the hypervolume's reference point
    knee: int | None  # index of the front's point furthest below the line between its ends
    budget_EN: NDArray[np.integer]
    limit_E: NDArray[np.int64] | None  # limit on each point's total; None: budgets are the only limits
    num_blocks: int
    solver: Solver
    seed: int

    def __len__(self) -> int:
        return len(self.tau_E)

    def __repr__(self) -> str:
        return repr(self.to_frame())

    def _repr_html_(self) -> str:
        return self.to_frame()._repr_html_()

    def to_frame(self) -> FrontTable:
        """One row a point, named as in ``zorba pareto --json``. The column ``knee`` is true in at most one row."""
        names = {"bias_lambda_E": "lambda", "clamped_E": "clamped_clients"}
        per_point = [name for name in self.__dataclass_fields__ if name.endswith("_E") and name != "limit_E"]
        frame = FrontTable({names.get(name, name.removesuffix("_E")): getattr(self, name) for name in per_point})
        frame["knee"] = np.arange(len(self)) == (-1 if self.knee is None else self.knee)
        frame.attrs |= {"knee": self.knee, "hypervolume": self.hypervolume}
        return frame

    @property
    def order_F(self) -> NDArray[np.int64]:
        """Indices of the points on the front, least VRAM first, (F,)."""
        on_front = np.flatnonzero(self.on_front_E)
        return on_front[np.argsort(self.vram_ratio_E[on_front], kind="stable")]

    def budgets(self, i: int) -> NDArray[np.int64]:
        """The budget of each client at point ``i``, in whole blocks."""
        return self.budget_EN[i].astype(np.int64)

    def problem(self, i: int) -> Problem:
        """The problem of point ``i``."""
        return Problem(self.budgets(i), self.num_blocks, None if self.limit_E is None else int(self.limit_E[i]))

    def solution(self, i: int) -> Solution:
        """Solve point ``i`` again. The result is always the same (for ``exact``, if it is proven in ten seconds).

        Raises:
            InfeasibleError: the point's budgets do not cover every block.
        """
        return solve(self.problem(i), self.solver, seed=(_SOLVER_STREAM, self.seed, i))

    def allocation(self, i: int) -> Allocation:
        """The matrix of point ``i``: that of :meth:`solution`."""
        return self.solution(i).allocation


def front(fleet: Fleet, points: int = 1000, solver: str | Solver = "balanced", **options: Any) -> pd.DataFrame:
    """Lambda and VRAM of a fleet (Algorithm 2), one row for each of ``points`` VRAM reductions.

    ``table[table.on_front]`` is the Pareto front, and ``table[table.knee]`` its knee (no row if the front has fewer
    than three points). ``table.attrs`` has the knee's index and the ``hypervolume``. ``options`` and errors are those
    of :func:`sweep`, whose result also has the matrices.
    """
    return sweep(fleet, points, solver, **options).to_frame()


def sweep(
    fleet: Fleet,
    points: int = 1000,
    solver: str | Solver = "balanced",
    tau_mode: TauMode = "client",
    seed: int = 0,
    *,
    on_solution: Callable[[Solution], None] | None = None,
    time_limit: float = 10.0,
) -> Front:
    """Algorithm 2 over E ``points``: reductions epsilon_n = tau_n psi_max,n with tau ~ U[0, 1].

    A client whose VRAM is then too small for one block gets one, and is counted in ``clamped_E``. The hypervolume's
    reference point is all VRAM, and the Lambda of one block for each client.

    Args:
        tau_mode: ``"vector"`` draws one tau for all clients, as in the paper's text; ``"client"`` one for each client,
            which gives more points above half of the VRAM.
        on_solution: called with each solution, for progress.
        time_limit: seconds for each point, if the solver searches.

    Raises:
        InvalidInputError: an unknown solver or mode, or too many points for memory.
        InfeasibleError: no sampled budgets cover every block.
    """
    solver = find_solver(solver)
    if tau_mode not in ("client", "vector"):
        raise InvalidInputError(f"unknown tau mode {tau_mode!r}; choose client or vector")
    E, M, N = whole_number("number of reductions", points, 1), fleet.num_blocks, fleet.num_clients
    if E * N > MAX_BUDGETS:
        raise InvalidInputError(f"{in_short(E)} points for {N} clients are too many; give at most {MAX_BUDGETS // N}")
    tau_rng = np.random.default_rng((_TAU_STREAM, whole_number("seed", seed, 0)))
    tau_EN = tau_rng.random((E, N) if tau_mode == "client" else (E, 1))
    whole_EN = fleet.affordable_N(tau_EN * fleet.capacity_N_bytes)
    budget_EN = np.clip(whole_EN, 1, M).astype(np.int16 if M < 2**15 else np.int64)
    total_E = budget_EN.sum(axis=1, dtype=np.int64)
    problems = (Problem(budget_EN[i], M) if total_E[i] >= M else None for i in range(E))
    columns = _one_by_one(problems, total_E, solver, seed, on_solution, time_limit)
    columns |= {"tau_E": tau_EN.mean(axis=1), "clamped_E": (whole_EN < 1).sum(axis=1), "limit_E": None}
    return _front(fleet, budget_EN=budget_EN, solver=solver, seed=seed, **columns)


def sweep_totals(
    fleet: Fleet,
    totals: int | Sequence[int] = 50,
    solver: str | Solver = "exact",
    *,
    seed: int = 0,
) -> Front:
    """The front over totals: each client has its full budget, and all clients together activate at most T blocks.

    With ``exact`` the points are the true front of Lambda and VRAM, each with its bound.

    Args:
        totals: the values of T, or their number, spread evenly from the least possible total to all budgets.

    Raises:
        InvalidInputError: a solver that supports no total.
        InfeasibleError: a client that cannot hold one block, or a total out of range.
    """
    solver, seed = find_solver(solver), whole_number("seed", seed, 0)
    budget_N, M, N = fleet.budget_N, fleet.num_blocks, fleet.num_clients
    if isinstance(totals, Sequence | np.ndarray):
        limit_E = np.array([whole_number("total", total, 1) for total in totals], np.int64)
    else:
        least, most = max(M, N), int(budget_N.sum())
        count = min(whole_number("number of totals", totals, 1), max(1, most - least + 1))
        limit_E = np.linspace(least, most, count).round().astype(np.int64)
    problems = (Problem(budget_N, M, total) for total in limit_E.tolist())
    columns = _one_by_one(problems, limit_E, solver, seed)
    columns |= {"tau_E": np.full(len(limit_E), np.nan), "clamped_E": np.zeros_like(limit_E), "limit_E": limit_E}
    budget_EN = np.broadcast_to(budget_N, (len(limit_E), N))
    return _front(fleet, budget_EN=budget_EN, solver=solver, seed=seed, **columns)


def non_dominated(x_P: NDArray[np.float64], y_P: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether each point is on the front: no other point is at most as large in both values and smaller in one. Of
    equal points only the first is on the front, and points with NaN never are. O(P log P)."""
    on_front_P = np.zeros(len(x_P), bool)
    usable = np.flatnonzero(~np.isnan(x_P) & ~np.isnan(y_P))
    order = usable[np.lexsort((usable, y_P[usable], x_P[usable]))]
    best_before = np.minimum.accumulate(np.concatenate(([np.inf], y_P[order])))[:-1]
    on_front_P[order] = y_P[order] < best_before
    return on_front_P


def hypervolume(x_P: NDArray[np.float64], y_P: NDArray[np.float64], reference: tuple[float, float]) -> float:
    """The area between ``reference`` and the points that dominate it. O(P log P)."""
    inside = (x_P < reference[0]) & (y_P < reference[1])
    x, y = x_P[inside], y_P[inside]
    front = np.flatnonzero(non_dominated(x, y))
    front = front[np.argsort(x[front])]
    right = np.append(x[front][1:], reference[0])
    return float(((right - x[front]) * (reference[1] - y[front])).sum())


def knee(x_P: NDArray[np.float64], y_P: NDArray[np.float64], on_front_P: NDArray[np.bool_]) -> int | None:
    """Index of the front's point furthest below the straight line between its two ends, both axes scaled to 0..1.
    None if the front has fewer than three points."""
    front = np.flatnonzero(on_front_P)
    if len(front) < 3:
        return None
    x, y = x_P[front], y_P[front]
    scaled = (x - x.min()) / np.ptp(x) + (y - y.min()) / np.ptp(y)
    return int(front[scaled.argmin()])


def _one_by_one(
    problems: Iterable[Problem | None],
    total_E: NDArray[np.int64],
    solver: Solver,
    seed: int,
    on_solution: Callable[[Solution], None] | None = None,
    time_limit: float = 10.0,
) -> dict[str, Any]:
    """Columns of a :class:`Front`. A problem is None if its budgets, ``total_E`` blocks, do not cover every block."""
    E = len(total_E)
    columns = {f"{name}_E": np.full(E, np.nan) for name in (*_MEASURES, "lower_bound")}
    columns |= {"total_blocks_E": total_E.copy(), "min_popularity_E": np.zeros(E, np.int64)}
    columns["optimal_E"] = np.zeros(E, bool)
    for i, problem in enumerate(problems):
        if problem is None:
            continue
        solution = solve(problem, solver, seed=(_SOLVER_STREAM, seed, i), time_limit=time_limit)
        for name in (*_MEASURES, "total_blocks"):
            columns[f"{name}_E"][i] = getattr(solution.allocation, name)
        columns["lower_bound_E"][i], columns["optimal_E"][i] = solution.lower_bound, solution.optimal
        if on_solution is not None:
            on_solution(solution)
    return columns


def _front(fleet: Fleet, **columns: Any) -> Front:
    """Build the front from its columns.

    Raises:
        InfeasibleError: no point covers every block.
    """
    N, M = fleet.num_clients, fleet.num_blocks
    ratio_E, value_E = fleet.vram_ratio(columns["total_blocks_E"]), columns["bias_lambda_E"]
    # One block for each client: popularity N // M (at least 1) on every block.
    reference = (1.0, N / max(1, N // M) ** 2)
    on_front_E = non_dominated(ratio_E, value_E)
    if not on_front_E.any():
        raise InfeasibleError(
            f"none of the {len(ratio_E)} sampled VRAM reductions leaves room for all {M} blocks; add clients or VRAM, "
            "or sample more reductions"
        )
    return Front(
        vram_ratio_E=ratio_E,
        on_front_E=on_front_E,
        hypervolume=hypervolume(ratio_E, value_E, reference),
        reference=reference,
        knee=knee(ratio_E, value_E, on_front_E),
        num_blocks=M,
        **columns,
    )
