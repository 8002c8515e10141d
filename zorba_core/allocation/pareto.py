"""Algorithm 2: sweep VRAM reductions, keep what is not dominated.

Shapes: E reduction vectors, N clients, P points. ``tau_EN`` float64 in [0, 1); ``budget_EN`` int16 or wider;
``vram_ratio_E`` is sum psi_tot / sum psi_max; ``bias_lambda_E`` float64 (NaN where budgets do not cover every block).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zorba_core.allocation.balanced import balanced_metrics
from zorba_core.allocation.feasibility import whole_number
from zorba_core.allocation.popularity import AllocationMetrics
from zorba_core.allocation.solve import SOLVERS, solve
from zorba_core.allocation.types import AllocationProblem
from zorba_core.errors import InfeasibleError, InvalidInputError
from zorba_core.memory import Workload, affordable_blocks, psi_block_bytes, psi_model_bytes
from zorba_core.models import ModelSpec

TauMode = Literal["client", "vector"]
TooSmall = Literal["clamp", "drop"]

# Streams apart from each other and from a fleet drawn with the same seed: equal streams would make a client's
# reduction a function of its capacity.
_TAU_STREAM, _SOLVER_STREAM = 1, 2


@dataclass(frozen=True, eq=False)
class Front:
    """E points of Lambda against VRAM, and how to get any one's matrix back. Nothing here holds a matrix."""

    tau_E: NDArray[np.float64]  # the vector's tau, or the mean over its clients
    total_blocks_E: NDArray[np.int64]
    vram_ratio_E: NDArray[np.float64]
    bias_lambda_E: NDArray[np.float64]
    mean_inverse_popularity_E: NDArray[np.float64]  # V
    effective_clients_E: NDArray[np.float64]  # N_eff
    min_popularity_E: NDArray[np.int64]
    clamped_E: NDArray[np.int64]  # clients that could not hold one block and were given one all the same
    on_front_E: NDArray[np.bool_]
    hypervolume: float  # against the reference (1, bias_lambda of one client a block) unless the caller chose another
    reference: tuple[float, float]
    knee: int | None  # index of the point of the front furthest below the line between its ends
    budget_EN: NDArray[np.integer]
    num_blocks: int
    solver: str
    seed: int
    dropped: int = 0  # vectors left out because a client could not hold one block

    def __len__(self) -> int:
        return len(self.tau_E)

    def budgets(self, i: int) -> NDArray[np.int64]:
        return self.budget_EN[i].astype(np.int64)

    def allocation(self, i: int) -> AllocationMetrics:
        """The matrix of point ``i``, computed anew: the same every time.

        Raises:
            InfeasibleError: the point's budgets do not cover every block.
        """
        return solve(self.problem(i), solver=self.solver, seed=_seed_of(self.seed, i)).allocation

    def problem(self, i: int) -> AllocationProblem:
        return AllocationProblem(self.budgets(i), self.num_blocks)


def sweep(
    capacity_N_bytes: ArrayLike,
    model: ModelSpec,
    workload: Workload,
    num_epsilons: int = 1000,
    solver: str = "balanced",
    tau_mode: TauMode = "client",
    seed: int = 0,
    *,
    too_small: TooSmall = "clamp",
    reference: tuple[float, float] | None = None,
    **options: Any,
) -> Front:
    """Algorithm 2 over E reductions epsilon_n = tau_n psi_max,n with tau ~ U[0, 1].

    ``tau_mode="vector"`` draws one tau for all clients, as the paper's text reads; ``"client"`` one for each, without
    which few points lie above half of the VRAM. A client left with less than one block is given one and counted
    (``too_small="clamp"``), or its whole vector is left out (``"drop"``). The balanced solver is vectorised over E;
    ``options`` go to any other solver.

    Raises:
        InvalidInputError: an unknown solver or mode, or capacities that are not finite and positive.
        InfeasibleError: no vector is left.
    """
    if solver not in SOLVERS:
        raise InvalidInputError(f"unknown solver {solver!r}; choose one of {', '.join(SOLVERS)}")
    if tau_mode not in ("client", "vector"):
        raise InvalidInputError(f"unknown tau mode {tau_mode!r}; choose client or vector")
    if too_small not in ("clamp", "drop"):
        raise InvalidInputError(f"unknown policy {too_small!r} for clients that are too small; choose clamp or drop")
    E = whole_number("number of epsilons", num_epsilons, 1)
    capacity_N = np.asarray(capacity_N_bytes, float)
    if capacity_N.ndim != 1 or not capacity_N.size:
        raise InvalidInputError("capacities must be a list with one number of bytes per client")
    tau_rng = np.random.default_rng((_TAU_STREAM, whole_number("seed", seed, 0)))
    tau_EN = tau_rng.random((E, len(capacity_N)) if tau_mode == "client" else (E, 1))
    whole_EN = affordable_blocks(capacity_N, model, workload, tau_EN * capacity_N)
    clamped_E = (whole_EN < 1).sum(axis=1)
    kept = np.arange(E) if too_small == "clamp" else np.flatnonzero(clamped_E == 0)
    if not kept.size:
        raise InfeasibleError(f"in each of {E} reductions some client cannot hold one block; use the policy clamp")
    M = model.num_blocks
    budget_EN = np.clip(whole_EN[kept], 1, M).astype(np.int16 if M < 2**15 else np.int64)
    values = _solve_rows(budget_EN, M, solver, seed, options)
    psi_tot_E = psi_model_bytes(model, workload) * len(capacity_N) + values["total"] * psi_block_bytes(model, workload)
    ratio_E = psi_tot_E / capacity_N.sum()
    on_front_E = non_dominated(ratio_E, values["lambda"])
    reference = reference or (1.0, _worst_lambda(M, len(capacity_N)))
    return Front(
        tau_E=tau_EN[kept].mean(axis=1),
        total_blocks_E=values["total"],
        vram_ratio_E=ratio_E,
        bias_lambda_E=values["lambda"],
        mean_inverse_popularity_E=values["v"],
        effective_clients_E=values["n_eff"],
        min_popularity_E=values["min_popularity"],
        clamped_E=clamped_E[kept],
        on_front_E=on_front_E,
        hypervolume=hypervolume(ratio_E, values["lambda"], reference),
        reference=reference,
        knee=knee(ratio_E, values["lambda"], on_front_E),
        budget_EN=budget_EN,
        num_blocks=M,
        solver=solver,
        seed=seed,
        dropped=E - len(kept),
    )


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


def _worst_lambda(num_blocks: int, num_clients: int) -> float:
    """Lambda of one block for each client, spread evenly: what a front that saves everything pays."""
    return float(num_clients / max(1, num_clients // num_blocks) ** 2)


def _solve_rows(
    budget_EN: NDArray[np.integer], num_blocks: int, solver: str, seed: int, options: dict[str, Any]
) -> dict[str, NDArray]:
    if solver == "balanced":
        rows = balanced_metrics(budget_EN, num_blocks)
        return {
            "total": rows.total_blocks_E,
            "lambda": rows.bias_lambda_E,
            "v": rows.mean_inverse_popularity_E,
            "n_eff": rows.effective_clients_E,
            "min_popularity": rows.min_popularity_E,
        }
    E = len(budget_EN)
    values = {name: np.full(E, np.nan) for name in ("lambda", "v", "n_eff")}
    values |= {"total": budget_EN.sum(axis=1, dtype=np.int64), "min_popularity": np.zeros(E, np.int64)}
    for i in np.flatnonzero(values["total"] >= num_blocks):
        problem = AllocationProblem(budget_EN[i], num_blocks)
        allocation = solve(problem, solver=solver, seed=_seed_of(seed, int(i)), **options).allocation
        values["total"][i] = allocation.total_blocks
        values["lambda"][i] = allocation.bias_lambda
        values["v"][i] = allocation.mean_inverse_popularity
        values["n_eff"][i] = allocation.effective_clients
        values["min_popularity"][i] = allocation.min_popularity
    return values


def _seed_of(seed: int, point: int) -> tuple[int, int, int]:
    """Each point has a stream of its own, so that one point's matrix does not depend on the others."""
    return (_SOLVER_STREAM, seed, point)
