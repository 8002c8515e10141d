"""The ways out for a fleet that cannot train the model. No Streamlit here."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.shared.scenario import SCALED_KINDS, Scenario
from zorba_core.planning.memory import DTYPE_BYTES, affordable_blocks


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
    # Tables and cards hold still while the workload changes; a fleet drawn over the paper's range scales with it.
    if scenario.fleet_kind in SCALED_KINDS:
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


def _largest(limit: int, works) -> int | None:
    """The largest whole number below ``limit`` for which ``works``, which holds for all smaller ones if for one."""
    low, high = 0, limit - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if works(middle) else (low, middle - 1)
    return low or None
