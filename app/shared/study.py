"""A scenario solved. No Streamlit here: the same input gives the same study.

Shapes: N clients, E points of the sweep, T totals of a bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app.shared.scenario import PROVER, Scenario, block_gib
from zorba_core.allocation import (
    Front,
    Problem,
    Solution,
    solve,
    sweep,
    sweep_totals,
    v_bound,
    water_filled_bound,
)
from zorba_core.errors import InfeasibleError, name_some
from zorba_core.fleet import (
    Fleet,
)
from zorba_core.vram import GIB, psi_model_bytes

PROOF_SECONDS = 1.5  # that a proof of one point takes at most
_BOUND_TOTALS = 60


@dataclass(frozen=True, eq=False)
class Study:
    """A scenario solved: who takes part, the sweep, and what the fleet does with all the VRAM it has."""

    scenario: Scenario
    fleet: Fleet  # the clients that take part
    left_out: tuple[str, ...]  # clients that cannot hold one block, by name
    front: Front
    everything: Solution  # the same solver with nothing held back (tau = 0)
    proofs: tuple[Solution, ...] = ()  # where each may take a time limit, one for each total; others when asked for

    @property
    def capacity_gib(self) -> float:
        return float(self.fleet.capacity_N_gib.sum())

    @property
    def nbytes(self) -> int:
        """Memory that the study holds, but for small change."""
        return self.front.budget_EN.nbytes + 12 * 8 * len(self.front) + 200 * self.fleet.num_clients

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
        return self.fleet.budget_N

    def _within(self, total: np.int64) -> Problem:
        return Problem(self._budget_N, self.front.num_blocks, int(total))

    @property
    def parameters_gib(self) -> float:
        return psi_model_bytes(self.scenario.model_spec, self.scenario.workload) / GIB

    @property
    def everything_ratio(self) -> float:
        """VRAM ratio with nothing held back; below 1 where a remainder is too small for one more block."""
        return float(self.used_N_gib(self.everything.allocation.blocks_held_N).sum()) / self.capacity_gib

    def used_N_gib(self, blocks_N: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.fleet.used_N_bytes(blocks_N) / GIB

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
    fleet, left_out = _taking_part(scenario.fleet(), scenario)
    everything = solve(
        fleet,
        solver=scenario.solver,
        seed=scenario.seed,
        objective="lambda",
        time_limit=PROOF_SECONDS,
    )
    proofs: list[Solution] = []
    count = itertools.count(1)

    def solved(solution: Solution) -> None:
        if scenario.by_total and scenario.solver == PROVER:
            proofs.append(solution)
        if on_solution is not None:
            on_solution(next(count), scenario.num_totals if scenario.by_total else scenario.num_reductions)

    if scenario.by_total:
        front = sweep_totals(
            fleet,
            scenario.num_totals,
            scenario.solver,
            seed=scenario.seed,
            on_solution=solved,
            time_limit=PROOF_SECONDS,
        )
    else:
        front = sweep(
            fleet,
            points=scenario.num_reductions,
            solver=scenario.solver,
            tau_mode=scenario.reductions,
            seed=scenario.seed,
            on_solution=solved,
            time_limit=PROOF_SECONDS,
        )
    return Study(scenario, fleet, left_out, front, everything, tuple(proofs))


def _taking_part(fleet: Fleet, scenario: Scenario) -> tuple[Fleet, tuple[str, ...]]:
    fits_N = fleet.affordable_N() >= 1
    if fits_N.all():
        return fleet, ()
    small = np.flatnonzero(~fits_N)
    names = tuple(fleet.names[n] for n in small)
    if scenario.leave_out_small and fits_N.any():
        return fleet.select(np.flatnonzero(fits_N)), names
    need = sum(block_gib(scenario))
    raise InfeasibleError(
        f"{len(small)} of {fleet.num_clients} clients cannot hold {scenario.model} and one block ({need:.3f} GiB): "
        f"{name_some(names)}",
        clients=small.tolist(),
    )
