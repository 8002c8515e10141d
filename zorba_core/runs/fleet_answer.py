"""One answer about a fleet: who takes part and how, what a round costs in memory, seconds and bytes, what is left out.

Each number says where it is from: *counted* from shapes (memory, bytes), or *measured* rates times counted work
(seconds). The dashboard's first page shows it; :mod:`zorba_core.runs.fleet_plan` has the parts.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import Allocation, AllocationProblem, solve
from zorba_core.planning.communication import Communication, run_communication
from zorba_core.planning.engine_memory import LEAST_RESIDENT, Load, footprint
from zorba_core.planning.fleets import Fleet
from zorba_core.planning.memory import DTYPE_BYTES, GIB, Workload, affordable_blocks
from zorba_core.planning.models import ModelSpec
from zorba_core.planning.shapes import ModelShape
from zorba_core.runs.fleet_plan import ClientPlan, bottleneck, plan_modes, with_seconds
from zorba_core.runs.rates import Calibration

BY_PAPER, BY_ENGINE = "paper", "engine"


@dataclass(frozen=True, eq=False)
class FleetAnswer:
    """A fleet and a model together. ``allocation`` has a column for each client of ``able``; None where nobody fits."""

    shape: ModelShape
    load: Load
    plans: tuple[ClientPlan, ...]
    allocation: Allocation | None
    sent: Communication | None  # of one round
    budgets_by: str

    @property
    def able(self) -> tuple[ClientPlan, ...]:
        return tuple(plan for plan in self.plans if plan.fits)

    @property
    def slowest(self) -> ClientPlan | None:
        """The client whom a round waits for."""
        return bottleneck(self.plans)

    @property
    def seconds(self) -> float | None:
        slowest = self.slowest
        return None if slowest is None else slowest.seconds_per_round


def answer(
    fleet: Fleet,
    spec: ModelSpec,
    shape: ModelShape,
    load: Load,
    calibration: Calibration,
    *,
    direction: str = "gaussian",
    budgets_by: str = BY_PAPER,
    streams: bool = True,
) -> FleetAnswer:
    """Plan a round of ``fleet``.

    Args:
        budgets_by: how many blocks a client activates at most: ``paper`` (psi, at least one) or ``engine`` (all: passes
            keep nothing of a block, so that costs time alone).
        streams: whether clients may read the model block after block where it does not fit.
    """
    workload = Workload(load.batch_size, load.seq_len, load.dtype)
    budget_N = affordable_blocks(fleet.capacity_N_bytes, spec, workload).clip(min=0)
    plans = plan_modes(fleet, shape, load, budget_N)
    if not streams:
        needed = footprint(shape, load)
        plans = [
            replace(plan, mode="cannot", resident_blocks=0, peak=needed) if plan.mode == "streamed" else plan
            for plan in plans
        ]
    able = [plan for plan in plans if plan.fits]
    if not able:
        return FleetAnswer(shape, load, tuple(plans), None, None, budgets_by)
    allocation = _allocation(able, shape.num_blocks, budgets_by)
    timed = with_seconds(plans, shape, load, calibration, direction=direction, A_MN=allocation.A_MN)
    sent = run_communication(
        "zorba", allocation.A_MN, rounds=1, reports=len(able), num_directions=load.num_perturbations
    )
    return FleetAnswer(shape, load, tuple(timed), allocation, sent, budgets_by)


def _allocation(able: Sequence[ClientPlan], num_blocks: int, budgets_by: str) -> Allocation:
    budget_N = np.array([max(1, plan.budget_paper) for plan in able])
    if budgets_by == BY_ENGINE or budget_N.sum() < num_blocks:
        return Allocation(np.ones((num_blocks, len(able)), dtype=bool))
    return Allocation(solve(AllocationProblem(budget_N, num_blocks)).allocation.A_MN)


@dataclass(frozen=True)
class SettingChange:
    """A change with which clients that are left out would take part."""

    setting: str  # batch_size, seq_len or dtype
    value: int | str
    gib: float  # what the smallest way to take part then needs
    brings_in: int  # clients


def remedies(answered: FleetAnswer, streams: bool = True) -> list[SettingChange]:
    """The smallest change of each setting that brings in clients that are left out, those that bring most first."""
    load, shape = answered.load, answered.shape
    out_bytes = [plan.vram_gib * GIB for plan in answered.plans if not plan.fits]
    if not out_bytes:
        return []

    def need(changed: Load) -> int:
        block_after_block = streams and not changed.widens  # 16 bits are held in memory only
        return footprint(shape, changed, resident_blocks=LEAST_RESIDENT if block_after_block else None).peak

    candidates: list[tuple[str, int | str]] = []
    for setting, value in (("batch_size", load.batch_size), ("seq_len", load.seq_len)):
        smaller = value // 2
        while smaller >= (1 if setting == "batch_size" else 8):
            candidates.append((setting, smaller))
            smaller //= 2
    if DTYPE_BYTES[load.dtype] > 2:
        candidates.append(("dtype", "bfloat16"))
    best: dict[str, SettingChange] = {}
    for setting, value in candidates:
        peak = need(replace(load, **{setting: value}))
        brings = sum(peak <= capacity for capacity in out_bytes)
        if brings > (best[setting].brings_in if setting in best else 0):
            best[setting] = SettingChange(setting, value, peak / GIB, brings)
    return sorted(best.values(), key=lambda remedy: -remedy.brings_in)


def sample_of_plan(answered: FleetAnswer, most: int) -> NDArray[np.bool_]:
    """Columns of the plan's allocation for a rehearsal with at most ``most`` clients: evenly from the plan, so that
    every kind of client keeps its share, and together they still activate every block where that can be."""
    A_MN = answered.allocation.A_MN
    num_clients = A_MN.shape[1]
    if num_clients <= most:
        return A_MN
    chosen = np.unique(np.linspace(0, num_clients - 1, most).round().astype(int))
    budget_n = A_MN[:, chosen].sum(axis=0)
    if budget_n.sum() < len(A_MN):
        return A_MN[:, chosen]
    return solve(AllocationProblem(budget_n, len(A_MN))).allocation.A_MN
