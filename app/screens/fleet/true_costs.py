"""The Fleet page's second opinion: what this engine's forward passes need, beside the paper's model of VRAM.

Shapes: N clients.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.shared import components, engine_costs
from app.shared.components import Number
from app.shared.links import linked_switch
from app.shared.scenario import Scenario
from zorba_core.allocation import Allocation, AllocationProblem, solve
from zorba_core.errors import ZorbaError
from zorba_core.planning.fleets import Fleet
from zorba_core.planning.memory import GIB
from zorba_core.runs.fleet_plan import ClientPlan, bottleneck

_MODES = {"in-memory": "in memory", "streamed": "block by block", "cannot": "cannot take part"}


def section(fleet: Fleet, blocks_N: np.ndarray, scenario: Scenario) -> None:
    """A switch, and below it modes, memory and seconds of the clients; nothing of the paper's numbers changes."""
    shown = linked_switch(
        "True memory and seconds a round",
        False,
        key="true",
        help="The numbers above are by the paper's model, which charges activations for every activated block. Forward "
        "passes keep none of them: this shows what this engine holds, and what a round takes.",
    )
    if not shown:
        return
    try:
        plans = _plans(fleet, blocks_N, scenario)
    except ZorbaError as error:
        st.info(f"There is no such count for this scenario: {components.plain(str(error))}.", icon=":material/info:")
        return
    slowest = bottleneck(plans)
    by_mode = {mode: sum(plan.mode == mode for plan in plans) for mode in _MODES}
    seconds = None if slowest is None else slowest.seconds_per_round
    components.numbers(
        [
            Number("Hold the model", f"{by_mode['in-memory']}", "Clients with room for all its weights.", "in memory"),
            Number(
                "Stream it",
                f"{by_mode['streamed']}",
                "Clients that read the weights block after block from disk, with as many kept as there is room for.",
                "block by block",
            ),
            Number("Cannot", f"{by_mode['cannot']}", "Clients too small even for two blocks at a time.", "too small"),
            Number(
                "A round takes",
                "-" if seconds is None else f"{seconds:.3g} s",
                "Of the slowest client: the others wait for it.",
                "" if slowest is None else f"{components.plain(slowest.client)}: {slowest.seconds.slowest_part}",
            ),
        ]
    )
    st.dataframe(
        pd.DataFrame(
            {
                "client": [plan.client for plan in plans],
                "vram_gib": [plan.vram_gib for plan in plans],
                "mode": [_MODES[plan.mode] for plan in plans],
                "peak_gib": [plan.peak.peak / GIB for plan in plans],
                "resident": [plan.resident_blocks for plan in plans],
                "seconds": [plan.seconds_per_round for plan in plans],
                "would_fit": [plan.would_fit for plan in plans],
            }
        ),
        hide_index=True,
        width="stretch",
        height=250,
        column_config={
            "client": st.column_config.TextColumn("Client"),
            "vram_gib": st.column_config.NumberColumn("VRAM (GiB)", format="%.3f"),
            "mode": st.column_config.TextColumn("Holds the model"),
            "peak_gib": st.column_config.NumberColumn("True memory (GiB)", format="%.3f"),
            "resident": st.column_config.NumberColumn("Blocks in memory", format="%d"),
            "seconds": st.column_config.NumberColumn("Seconds a round", format="%.3g"),
            "would_fit": st.column_config.TextColumn("Would fit with"),
        },
        alt="One row per client: its VRAM, how it can hold the model, the memory that takes, and seconds a round.",
    )
    st.caption(
        f"Q = {engine_costs.DIRECTIONS_A_ROUND} directions a round, balanced allocation of the paper's budgets. Memory "
        "is derived from the order of the engine's work and within 10 % of measured peaks; it is of tensors alone, "
        f"without the process. Seconds are at rates of {engine_costs.whose_rates()}."
    )


def _plans(fleet: Fleet, blocks_N: np.ndarray, scenario: Scenario) -> list[ClientPlan]:
    model, workload = scenario.model_spec, scenario.workload
    plans = engine_costs.modes(fleet, model, workload, blocks_N)
    able = np.array([plan.fits for plan in plans])
    if not able.any():
        return plans
    budget_N = np.clip(blocks_N[able], 1, model.num_blocks)
    if budget_N.sum() < model.num_blocks:
        budget_N = np.full(len(budget_N), model.num_blocks)
    A_MN = np.zeros((model.num_blocks, len(plans)), bool)
    A_MN[:, able] = solve(AllocationProblem(budget_N, model.num_blocks)).allocation.A_MN
    return engine_costs.timed(plans, model, workload, Allocation(A_MN))
