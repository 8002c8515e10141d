"""What the sidebar asks for, and the study that answers it. No Streamlit here: the same input gives the same study.

Shapes: N clients, E points of the sweep, T totals of a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.shared import engine_costs
from zorba_core.allocation import (
    SOLVERS,
    AllocationProblem,
    Front,
    Solution,
    Solver,
    solve,
    sweep,
    sweep_totals,
    v_bound,
    water_filled_bound,
)
from zorba_core.allocation.pareto import TauMode
from zorba_core.data.fleet_tables import fleet_from_frame
from zorba_core.data.gpu_catalogue import MIXES, mix_fleet
from zorba_core.errors import InfeasibleError, InvalidInputError, name_some
from zorba_core.fields import like, setting
from zorba_core.planning.fleets import (
    Fleet,
    lognormal_fleet,
    three_kinds_fleet,
    truncated_normal_fleet,
    two_kinds_fleet,
    uniform_fleet,
)
from zorba_core.planning.memory import (
    GIB,
    Workload,
    affordable_blocks,
    psi_block_bytes,
    psi_client_bytes,
    psi_model_bytes,
    whole_block_budgets,
)
from zorba_core.planning.models import PRESETS, ModelSpec, model_spec
from zorba_core.runs.fleet_plan import ClientPlan

FLEET_KINDS = {
    "uniform": "Uniform, as in the paper",
    "normal": "Bell curve (truncated normal)",
    "lognormal": "Many small, few large (lognormal)",
    "two-kinds": "Two kinds of GPU",
    "three-kinds": "Three kinds of GPU",
    "steam": "Desktop cards (Steam survey)",
    "jetson": "Edge devices (Jetson)",
    "cloud": "Cloud GPUs",
    "mig": "Shares of one GPU (MIG)",
    "table": "My own clients",
}
# Drawn between what the model and one block need and what it needs with all blocks: they grow with the workload.
SCALED_KINDS = ("uniform", "normal", "lognormal")

# A sweep over totals needs fewer points than one over random reductions; a proof of each takes up to PROOF_SECONDS.
MAX_TOTALS, PROOF_SECONDS = 200, 1.5
_BOUND_TOTALS = 60


_EPSILONS = (
    "How many VRAM reductions ε are tried. Each gives one point of the plot. (At most 200 for a limit on the total, 16 "
    "for *exact*.)"
)
_TAU_MODES = ("vector", "client", "total")
_FRACTION = "0: one block, 1: all blocks."
_SPREAD = "Standard deviation, as a share of the range from one block to all blocks."
_SIGMA = "Standard deviation of the logarithm of the VRAM: larger is more uneven."
_CARD = "The part of each card's memory that its owner lets you use; the rest is for the system and for other programs."


def _number(
    default: float, low: float, high: float, key: str, label: str, help: str = "", step: float = 1, **more: Any
) -> Any:
    return setting(default, help, label=label, at_least=low, at_most=high, key=key, step=step, **more)


@dataclass(frozen=True)
class Scenario:
    """Every choice that decides the trade-off, and nothing else. Fields that a fleet kind does not use are ignored."""

    fleet_kind: str = setting("uniform", "", label="Fleet", choices=lambda: FLEET_KINDS, key="fleet")
    model: str = setting("opt-125m", "", label="Model", choices=lambda: PRESETS, key="model")
    batch_size: int = like(Workload, "batch_size", label="Batch B", at_most=4096, key="batch")
    seq_len: int = like(Workload, "seq_len", label="Length L", at_most=65536, step=16, key="seq")
    dtype: str = like(Workload, "dtype", label="Number format", key="dtype")
    num_clients: int = _number(50, 1, 2_000, "clients", "Clients N", "How many clients take part.")
    seed: int = _number(0, 0, 2**31 - 1, "seed", "Seed", "The same seed draws the same fleet and the same reductions.")
    num_epsilons: int = _number(1000, 1, 5_000, "vectors", "Points E", _EPSILONS, 100)
    tau_mode: str = setting("vector", "", label="VRAM is saved by", choices=lambda: _TAU_MODES, key="tau")
    solver: str = setting(
        "balanced", "Who finds the allocation.", label="Solver", choices=lambda: SOLVERS, key="solver"
    )
    leave_out_small: bool = setting(False, "", label="Leave out the too small", key="leave_out")
    mean_fraction: float = _number(0.5, 0.0, 1.0, "mean", "Mean", _FRACTION, 0.05)
    spread: float = _number(0.2, 0.01, 2.0, "spread", "Spread", _SPREAD, 0.05)
    median_fraction: float = _number(0.25, 0.0, 1.0, "median", "Median", _FRACTION, 0.05)
    sigma: float = _number(0.6, 0.05, 3.0, "sigma", "Sigma", _SIGMA, 0.05)
    small_gib: float = _number(1.0, 0.1, 1024.0, "small", "Small (GiB)", step=0.5)
    medium_gib: float = _number(1.5, 0.1, 1024.0, "medium", "Medium (GiB)", step=0.5)
    large_gib: float = _number(2.0, 0.1, 1024.0, "large", "Large (GiB)", step=0.5)
    medium_fraction: float = _number(0.3, 0.0, 1.0, "medium_share", "Share of medium GPUs", step=0.05, percent=True)
    large_fraction: float = _number(0.3, 0.0, 1.0, "share", "Share of large GPUs", step=0.05, percent=True)
    card_share: float = _number(0.9, 0.05, 1.0, "card", "Share of each card", _CARD, 0.05, percent=True)
    table: tuple[tuple[object, object], ...] = ()  # rows (client, vram_gib), as typed

    @property
    def workload(self) -> Workload:
        return Workload(self.batch_size, self.seq_len, self.dtype)

    @property
    def model_spec(self) -> ModelSpec:
        return model_spec(self.model)

    @property
    def solved_by(self) -> Solver:
        """
        Raises:
            InvalidInputError: no such solver is installed here.
        """
        return SOLVERS.get_part(self.solver)

    @property
    def by_total(self) -> bool:
        """Whether budgets stay whole and the total of activated blocks is limited. A proof has no other way, and a
        solver that honours no total does not have this one."""
        return self.solved_by.honours_total and (self.solved_by.proves or self.tau_mode == "total")

    @property
    def num_reductions(self) -> int:
        """Points of a sweep over reductions."""
        return min(self.num_epsilons, self.solved_by.most_points or self.num_epsilons)

    @property
    def reductions(self) -> TauMode:
        """How reductions are drawn in a sweep over them."""
        return "client" if self.tau_mode == "client" else "vector"

    @property
    def num_totals(self) -> int:
        return min(self.num_epsilons, self.solved_by.most_points or MAX_TOTALS)

    def fleet(self) -> Fleet:
        """Every client asked for, whether or not it can hold a block.

        Raises:
            InvalidInputError: a table that is no fleet, or shares that do not add up.
        """
        drawn = (self.model_spec, self.workload, self.num_clients, self.seed)
        kinds = (self.num_clients, self.large_fraction, self.seed)
        if self.fleet_kind == "uniform":
            return uniform_fleet(*drawn)
        if self.fleet_kind == "normal":
            return truncated_normal_fleet(*drawn, mean_fraction=self.mean_fraction, spread=self.spread)
        if self.fleet_kind == "lognormal":
            return lognormal_fleet(*drawn, median_fraction=self.median_fraction, sigma=self.sigma)
        if self.fleet_kind == "two-kinds":
            return two_kinds_fleet(self.small_gib, self.large_gib, *kinds)
        if self.fleet_kind == "three-kinds":
            sizes = (self.small_gib, self.medium_gib, self.large_gib)
            return three_kinds_fleet(
                *sizes, self.num_clients, self.medium_fraction, self.large_fraction, seed=self.seed
            )
        if self.fleet_kind in MIXES:
            return mix_fleet(self.fleet_kind, self.num_clients, self.seed, self.card_share)
        if self.fleet_kind == "table":
            return fleet_from_frame(pd.DataFrame(list(self.table), columns=["client", "vram_gib"], dtype=object))
        raise InvalidInputError(f"unknown fleet {self.fleet_kind!r}; choose one of {', '.join(FLEET_KINDS)}")


@dataclass(frozen=True, eq=False)
class Study:
    """A scenario solved: who takes part, the sweep, and what the fleet does with all the VRAM it has."""

    scenario: Scenario
    fleet: Fleet  # the clients that take part
    left_out: tuple[str, ...]  # clients that cannot hold one block, by name
    front: Front
    everything: Solution  # the same solver with nothing held back (tau = 0)
    proofs: tuple[Solution, ...] = ()  # where each may take a time limit, one for each total; others when asked for
    works: tuple[int, ...] = ()  # forward work of each point that covers all blocks, where a solver was run for it

    @property
    def capacity_gib(self) -> float:
        return float(self.fleet.capacity_N_gib.sum())

    @property
    def nbytes(self) -> int:
        """Memory that the study holds, but for small change."""
        return self.front.budget_EN.nbytes + 12 * 8 * len(self.front) + 200 * self.fleet.num_clients

    @cached_property
    def forward_work_E(self) -> NDArray[np.float64]:
        """Blocks computed anew in a round; NaN where some block is left out. The points that no solver was run for are
        solved for it, in a quarter of a second for a thousand."""
        usable = np.flatnonzero(~np.isnan(self.front.bias_lambda_E))
        work_E = np.full(len(self.front), np.nan)
        work_E[usable] = self.works or [self.solution(int(i)).allocation.forward_work for i in usable]
        return work_E

    @cached_property
    def engine_plans(self) -> list[ClientPlan]:
        """How each client can hold the model: what the engine needs, not the paper's psi."""
        return engine_costs.modes(self.fleet, self.scenario.model_spec, self.scenario.workload, self._budget_N)

    @cached_property
    def true_gib(self) -> float:
        """Memory that forward passes need, all clients together. Activated blocks change nothing of it."""
        return sum(plan.peak.peak for plan in self.engine_plans) / GIB

    @cached_property
    def seconds_E(self) -> NDArray[np.float64]:
        """Seconds a round of the slowest client; NaN where some block is left out. Each point is solved for it."""
        usable = np.flatnonzero(~np.isnan(self.front.bias_lambda_E))
        seconds_E = np.full(len(self.front), np.nan)
        model, workload = self.scenario.model_spec, self.scenario.workload
        allocations = (self.solution(int(i)).allocation for i in usable)
        seconds_E[usable] = engine_costs.slowest_seconds(self.engine_plans, model, workload, allocations)
        return seconds_E

    @cached_property
    def bound_totals_T(self) -> NDArray[np.int64]:
        """Totals at which the lower bounds are computed, from the least possible to all budgets."""
        least = max(self.front.num_blocks, self.fleet.num_clients)
        return np.unique(np.geomspace(least, int(self._budget_N.sum()), _BOUND_TOTALS).round().astype(int))

    @cached_property
    def lambda_bound_T(self) -> NDArray[np.float64]:
        """No allocation within the clients' full budgets has a smaller Lambda at these totals."""
        return np.array([water_filled_bound(self._within(total)) for total in self.bound_totals_T])

    @cached_property
    def v_bound_T(self) -> NDArray[np.float64]:
        """As ``lambda_bound_T``, for V."""
        return np.array([v_bound(self._within(total)) for total in self.bound_totals_T])

    @cached_property
    def _budget_N(self) -> NDArray[np.int64]:
        return whole_block_budgets(self.fleet.capacity_N_bytes, self.scenario.model_spec, self.scenario.workload)

    def _within(self, total: np.int64) -> AllocationProblem:
        return AllocationProblem(self._budget_N, self.front.num_blocks, int(total))

    @property
    def parameters_gib(self) -> float:
        return psi_model_bytes(self.scenario.model_spec, self.scenario.workload) / GIB

    @property
    def everything_ratio(self) -> float:
        """VRAM ratio with nothing held back; below 1 where a remainder is too small for one more block."""
        return float(self.used_N_gib(self.everything.allocation.blocks_held_N).sum()) / self.capacity_gib

    def used_N_gib(self, blocks_N: NDArray[np.int64]) -> NDArray[np.float64]:
        return psi_client_bytes(self.scenario.model_spec, self.scenario.workload, blocks_N) / GIB

    def solution(self, point: int) -> Solution:
        """A point's allocation with its bound."""
        return self.proofs[point] if self.proofs else self.front.solution(point)

    def default_point(self) -> int:
        """The knee, or the middle of a front too short to have one."""
        if self.front.knee is not None:
            return self.front.knee
        on_front = np.flatnonzero(self.front.on_front_E)
        return int(on_front[np.argsort(self.front.vram_ratio_E[on_front])][len(on_front) // 2])

    def best_within(self, vram_ratio: float) -> int | None:
        """The point of smallest Lambda that uses at most ``vram_ratio`` of the VRAM; None if nothing does."""
        within = np.flatnonzero(self.front.on_front_E & (self.front.vram_ratio_E <= vram_ratio))
        return int(within[self.front.bias_lambda_E[within].argmin()]) if within.size else None


def study(scenario: Scenario, on_solution: Callable[[int, int], None] | None = None) -> Study:
    """Solve a scenario. ``on_solution(done, all)`` is called after each point that takes a solver of its own.

    Raises:
        InvalidInputError: a field or the table is wrong.
        InfeasibleError: clients that cannot hold one block (named in ``clients``), or too little VRAM for every block.
    """
    model, workload = scenario.model_spec, scenario.workload
    fleet, left_out = _taking_part(scenario.fleet(), scenario)
    budget_N = whole_block_budgets(fleet.capacity_N_bytes, model, workload)
    everything = solve(
        AllocationProblem(budget_N, model.num_blocks),
        solver=scenario.solver,
        seed=scenario.seed,
        objective="lambda",
        time_limit=PROOF_SECONDS,
    )
    proofs: list[Solution] = []
    works: list[int] = []

    def solved(solution: Solution) -> None:
        works.append(solution.allocation.forward_work)
        if scenario.by_total and scenario.solved_by.takes_time_limit:
            proofs.append(solution)
        if on_solution is not None:
            on_solution(len(works), scenario.num_totals if scenario.by_total else scenario.num_reductions)

    if scenario.by_total:
        front = sweep_totals(
            fleet.capacity_N_bytes,
            model,
            workload,
            scenario.num_totals,
            scenario.solver,
            seed=scenario.seed,
            on_solution=solved,
            time_limit=PROOF_SECONDS,
        )
    else:
        front = sweep(
            fleet.capacity_N_bytes,
            model,
            workload,
            num_epsilons=scenario.num_reductions,
            solver=scenario.solver,
            tau_mode=scenario.reductions,
            seed=scenario.seed,
            on_solution=solved,
            time_limit=PROOF_SECONDS,
        )
    if not front.on_front_E.any():
        raise InfeasibleError(
            f"none of the {len(front)} sampled VRAM reductions leaves room for all {model.num_blocks} blocks; add "
            "clients or VRAM, or sample more reductions"
        )
    return Study(scenario, fleet, left_out, front, everything, tuple(proofs), tuple(works))


def block_gib(scenario: Scenario) -> tuple[float, float]:
    """(parameters, one activated block) in GiB: what a client needs before it can train anything."""
    return (
        psi_model_bytes(scenario.model_spec, scenario.workload) / GIB,
        psi_block_bytes(scenario.model_spec, scenario.workload) / GIB,
    )


def _taking_part(fleet: Fleet, scenario: Scenario) -> tuple[Fleet, tuple[str, ...]]:
    fits_N = affordable_blocks(fleet.capacity_N_bytes, scenario.model_spec, scenario.workload) >= 1
    if fits_N.all():
        return fleet, ()
    small = np.flatnonzero(~fits_N)
    names = tuple(fleet.names[n] for n in small)
    if scenario.leave_out_small and fits_N.any():
        clients = np.flatnonzero(fits_N)
        return Fleet(tuple(fleet.names[n] for n in clients), fleet.capacity_N_bytes[clients]), names
    need = sum(block_gib(scenario))
    raise InfeasibleError(
        f"{len(small)} of {fleet.num_clients} clients cannot hold {scenario.model} and one block ({need:.3f} GiB): "
        f"{name_some(names)}",
        clients=small.tolist(),
    )
