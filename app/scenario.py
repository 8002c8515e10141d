"""What the sidebar asks for, and the study that answers it. No Streamlit here: the same input gives the same study.

Shapes: N clients, E points of the sweep.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zorba_core.allocation import AllocationProblem, Front, Solution, solve, sweep
from zorba_core.errors import InfeasibleError, InvalidInputError, name_some
from zorba_core.fleets import (
    Fleet,
    fleet_from_frame,
    read_fleet_csv,
    truncated_normal_fleet,
    two_kinds_fleet,
    uniform_fleet,
)
from zorba_core.memory import (
    DTYPE_BYTES,
    GIB,
    Workload,
    affordable_blocks,
    psi_block_bytes,
    psi_client_bytes,
    psi_model_bytes,
    whole_block_budgets,
)
from zorba_core.models import ModelSpec, model_spec

FLEET_KINDS = {
    "uniform": "Uniform, as in the paper",
    "normal": "Bell curve (truncated normal)",
    "two-kinds": "Two kinds of GPU",
    "table": "My own table",
    "csv": "A CSV file",
}


@dataclass(frozen=True)
class Scenario:
    """Every choice that decides the trade-off, and nothing else. Fields that a fleet kind does not use are ignored."""

    fleet_kind: str = "uniform"
    model: str = "opt-125m"
    batch_size: int = 8
    seq_len: int = 128
    dtype: str = "float32"
    num_clients: int = 50
    seed: int = 0
    num_epsilons: int = 1000
    tau_mode: str = "vector"
    solver: str = "balanced"
    leave_out_small: bool = False
    mean_fraction: float = 0.5
    spread: float = 0.2
    small_gib: float = 1.0
    large_gib: float = 2.0
    large_fraction: float = 0.3
    table: tuple[tuple[object, object], ...] = ()  # rows (client, vram_gib), as typed
    csv: bytes | None = field(default=None, repr=False)

    @property
    def workload(self) -> Workload:
        return Workload(self.batch_size, self.seq_len, self.dtype)

    @property
    def model_spec(self) -> ModelSpec:
        return model_spec(self.model)

    def fleet(self) -> Fleet:
        """Every client asked for, whether or not it can hold a block.

        Raises:
            InvalidInputError: a table or CSV that is no fleet, or no CSV chosen yet.
        """
        drawn = (self.model_spec, self.workload, self.num_clients, self.seed)
        if self.fleet_kind == "uniform":
            return uniform_fleet(*drawn)
        if self.fleet_kind == "normal":
            return truncated_normal_fleet(*drawn, mean_fraction=self.mean_fraction, spread=self.spread)
        if self.fleet_kind == "two-kinds":
            return two_kinds_fleet(self.small_gib, self.large_gib, self.num_clients, self.large_fraction, self.seed)
        if self.fleet_kind == "table":
            return fleet_from_frame(pd.DataFrame(list(self.table), columns=["client", "vram_gib"], dtype=object))
        if self.fleet_kind == "csv":
            if self.csv is None:
                raise InvalidInputError("no CSV chosen yet; upload one with columns client,vram_gib in the sidebar")
            return read_fleet_csv(self.csv)
        raise InvalidInputError(f"unknown fleet {self.fleet_kind!r}; choose one of {', '.join(FLEET_KINDS)}")


@dataclass(frozen=True, eq=False)
class Study:
    """A scenario solved: who takes part, the sweep, and what the fleet does with all the VRAM it has."""

    scenario: Scenario
    fleet: Fleet  # the clients that take part
    left_out: tuple[str, ...]  # clients that cannot hold one block, by name
    front: Front
    everything: Solution  # the same solver with nothing held back (tau = 0)

    @property
    def capacity_gib(self) -> float:
        return float(self.fleet.capacity_N_gib.sum())

    @property
    def parameters_gib(self) -> float:
        return psi_model_bytes(self.scenario.model_spec, self.scenario.workload) / GIB

    @property
    def everything_ratio(self) -> float:
        """VRAM ratio with nothing held back; below 1 where a remainder is too small for one more block."""
        return float(self.used_N_gib(self.everything.allocation.blocks_held_N).sum()) / self.capacity_gib

    def used_N_gib(self, blocks_N: NDArray[np.int64]) -> NDArray[np.float64]:
        return psi_client_bytes(self.scenario.model_spec, self.scenario.workload, blocks_N) / GIB

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


def study(scenario: Scenario) -> Study:
    """Solve a scenario.

    Raises:
        InvalidInputError: a field, the table or the CSV is wrong.
        InfeasibleError: clients that cannot hold one block (named in ``clients``), or too little VRAM for every block.
    """
    model, workload = scenario.model_spec, scenario.workload
    fleet, left_out = _taking_part(scenario.fleet(), scenario)
    budget_N = whole_block_budgets(fleet.capacity_N_bytes, model, workload)
    everything = solve(AllocationProblem(budget_N, model.num_blocks), solver=scenario.solver, seed=scenario.seed)
    front = sweep(
        fleet.capacity_N_bytes,
        model,
        workload,
        num_epsilons=scenario.num_epsilons,
        solver=scenario.solver,
        tau_mode=scenario.tau_mode,
        seed=scenario.seed,
    )
    if not front.on_front_E.any():
        raise InfeasibleError(
            f"none of the {len(front)} sampled VRAM reductions leaves room for all {model.num_blocks} blocks; add "
            "clients or VRAM, or sample more reductions"
        )
    return Study(scenario, fleet, left_out, front, everything)


@dataclass(frozen=True)
class Remedy:
    """One change that makes an infeasible fleet feasible, and what it says on the button."""

    label: str
    scenario: Scenario


def remedies(scenario: Scenario) -> list[Remedy]:
    """Changes after which every client holds at least one block, the gentlest of each kind; those that cannot help are
    not offered."""
    fleet, model = scenario.fleet(), scenario.model_spec

    def enough(changed: Scenario) -> bool:
        blocks_N = affordable_blocks(fleet.capacity_N_bytes, model, changed.workload)
        if changed.leave_out_small:
            blocks_N = blocks_N[blocks_N >= 1]
        covered = int(np.minimum(blocks_N, model.num_blocks).sum()) >= model.num_blocks
        return covered and bool((blocks_N >= 1).all())

    offers = []
    small = int((affordable_blocks(fleet.capacity_N_bytes, model, scenario.workload) < 1).sum())
    without = replace(scenario, leave_out_small=True)
    if small and enough(without):
        offers.append(Remedy(f"Leave out {small} client{'s' if small > 1 else ''}", without))
    # Only a table, a CSV and the two kinds hold still while the workload changes; the drawn fleets scale with it.
    if scenario.fleet_kind in ("uniform", "normal"):
        return offers
    seq_len = _largest(scenario.seq_len, lambda value: enough(replace(scenario, seq_len=value)))
    if seq_len:
        offers.append(Remedy(f"Shorten L to {seq_len} tokens", replace(scenario, seq_len=seq_len)))
    batch_size = _largest(scenario.batch_size, lambda value: enough(replace(scenario, batch_size=value)))
    if batch_size:
        offers.append(Remedy(f"Lower B to {batch_size}", replace(scenario, batch_size=batch_size)))
    half = replace(scenario, dtype="bfloat16")
    if DTYPE_BYTES[scenario.dtype] > DTYPE_BYTES["bfloat16"] and enough(half):
        offers.append(Remedy("Half precision (bfloat16)", half))
    return offers


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
        kept = np.flatnonzero(fits_N)
        return Fleet(tuple(fleet.names[n] for n in kept), fleet.capacity_N_bytes[kept]), names
    need = sum(block_gib(scenario))
    raise InfeasibleError(
        f"{len(small)} of {fleet.num_clients} clients cannot hold {scenario.model} and one block ({need:.3f} GiB): "
        f"{name_some(names)}",
        clients=small.tolist(),
    )


def _largest(limit: int, works) -> int | None:
    """The largest whole number below ``limit`` for which ``works``, which holds for all smaller ones if for one."""
    low, high = 0, limit - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if works(middle) else (low, middle - 1)
    return low or None
