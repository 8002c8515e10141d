"""Fleet: who takes part, how many blocks each client can hold, and what to do about those that can hold none.

Shapes: N clients.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.screens.fleet import own_clients as fleet_input
from app.shared import components, state
from app.shared.components import Download, Number
from app.shared.glossary import glossary
from app.shared.infeasible import explain, say_too_small, say_unheld
from app.shared.scenario import FLEET_KINDS, Scenario, block_gib
from zorba_core.errors import ZorbaError
from zorba_core.fleet import MIXES, Fleet
from zorba_core.plots import affordable_figure, vram_figure


def page() -> None:
    st.title("Who takes part?", anchor=False)
    # In sight at once: what is wrong, and who can hold how much. Numbers follow.
    sentence, figures, introduction = st.container(), st.container(), st.container()
    made, listed = st.columns([0.36, 0.64], gap="large")
    with made:
        _how_it_is_made()
    scenario = state.current()
    try:
        fleet = scenario.fleet()
    except ZorbaError as error:
        with sentence:
            if scenario.fleet_kind == "table" and not scenario.table:
                say_unheld()
                st.info(
                    "No clients yet: type them into the table, drop a CSV, or start with the example.",
                    icon=":material/table_rows:",
                )
            else:
                explain(error, scenario)
        if scenario.fleet_kind == "table":
            with listed:
                fleet_input.table_editor()
        return
    blocks_N = fleet.affordable_N().clip(min=0)
    with sentence:
        _in_a_sentence(scenario)
        _problems(blocks_N, scenario)
    with figures:
        _pictures(fleet, blocks_N, scenario)
    with introduction:
        _in_short(fleet, blocks_N, scenario)
    with listed:
        _clients(fleet, blocks_N, scenario)
    glossary()


def _in_a_sentence(scenario: Scenario) -> None:
    parameters, block = block_gib(scenario)
    st.markdown(
        f"A client is one card. By the paper's model, training {scenario.model.upper()} takes "
        f"**{parameters + block:.2f} GiB** for the model and one block, and **{block:.2f} GiB** for each further block "
        f"of its {scenario.model_spec.num_blocks}: that decides how much each client can train."
    )


def _in_short(fleet: Fleet, blocks_N: np.ndarray, scenario: Scenario) -> None:
    num_blocks = scenario.model_spec.num_blocks
    held_N = np.minimum(blocks_N, num_blocks)
    components.numbers(
        [
            Number("Clients", f"{fleet.num_clients:,}", "Participants, each with one GPU and data of its own."),
            Number(
                "VRAM together",
                f"{fleet.capacity_N_gib.sum():,.1f} GiB",
                r"$\sum_n \psi_{\max,n}$: what all clients can spare.",
                f"{fleet.capacity_N_gib.min():.2f} to {fleet.capacity_N_gib.max():.2f} each",
            ),
            Number(
                "Blocks a client holds",
                f"{np.median(held_N):g}",
                r"Median of $\lambda_n$, the whole blocks that fit into a client's VRAM beside the model's parameters.",
                f"median, of {num_blocks}",
            ),
            Number(
                "Hold the whole model",
                f"{int((blocks_N >= num_blocks).sum())}",
                "Clients that can train every block.",
                f"of {fleet.num_clients}",
            ),
            Number(
                "Too small",
                f"{int((blocks_N < 1).sum())}",
                "Clients that cannot hold the model's parameters and one activated block.",
                "left out" if scenario.leave_out_small and (blocks_N < 1).any() else "clients",
            ),
            Number(
                "Every block, at best",
                f"{int(held_N.sum()) // num_blocks}",
                "With all VRAM in use, every block can be trained by at least so many clients; the paper's "
                r"$\gamma^* = \lfloor \frac{1}{M} \sum_n \min(\lambda_n, M) \rfloor$.",
                "clients train it (γ*)",
            ),
        ]
    )


def _problems(blocks_N: np.ndarray, scenario: Scenario) -> None:
    small = np.flatnonzero(blocks_N < 1)
    if small.size and not scenario.leave_out_small:
        say_too_small(scenario, small)
    elif int(np.minimum(blocks_N, scenario.model_spec.num_blocks).sum()) < scenario.model_spec.num_blocks:
        error = state.solved_or_error(scenario)
        if isinstance(error, ZorbaError):
            explain(error, scenario)
    elif (blocks_N >= scenario.model_spec.num_blocks).all():
        with st.container(horizontal=True, vertical_alignment="center"):
            st.info(
                "Every client can hold every block, so no one has to choose. The trade-off shows what saving VRAM "
                "would cost; a larger model or a smaller share of each card makes it a real question.",
                icon=":material/lightbulb:",
            )


def _pictures(fleet: Fleet, blocks_N: np.ndarray, scenario: Scenario) -> None:
    parameters, block = block_gib(scenario)
    num_blocks = scenario.model_spec.num_blocks
    left, right = st.columns(2, gap="medium")
    small = int((blocks_N < 1).sum())
    note = f" {small} are too small for one block." if small else ""
    with left:
        st.markdown("## VRAM of the clients")
        components.figure(
            vram_figure(
                fleet.capacity_N_gib,
                one_block_gib=parameters + block,
                all_blocks_gib=parameters + num_blocks * block,
                palette=components.palette(),
            ),
            key="vram_plot",
            name="zorba-fleet-vram",
            alt=f"Histogram of the VRAM of {fleet.num_clients} clients, from {fleet.capacity_N_gib.min():.2f} to "
            f"{fleet.capacity_N_gib.max():.2f} GiB. One block needs {parameters + block:.2f} GiB, all blocks "
            f"{parameters + num_blocks * block:.2f} GiB.{note}",
        )
    with right:
        st.markdown("## Blocks they can hold")
        components.figure(
            affordable_figure(blocks_N, num_blocks, palette=components.palette()),
            key="affordable_plot",
            name="zorba-fleet-blocks",
            alt=f"Bar chart: how many of {fleet.num_clients} clients can hold how many of {num_blocks} blocks; the "
            f"median is {np.median(blocks_N.clip(max=num_blocks)):g}.{note}",
        )


def _how_it_is_made() -> None:
    st.markdown("## How this fleet is made")
    kind = state.current().fleet_kind
    st.markdown(f"**{FLEET_KINDS[kind]}**; the kind is chosen in the sidebar.")
    state.kind_controls(st.container())
    if kind in MIXES:
        mix = MIXES[kind]
        reserved = f" {mix.reserved_gib:g} GiB of each device are kept for its system." if mix.reserved_gib else ""
        st.caption(f":material/link: {mix.source}; {mix.date}. Weights: {mix.weights}.{reserved}")
    fleet_input.bring_your_own()


def _clients(fleet: Fleet, blocks_N: np.ndarray, scenario: Scenario) -> None:
    own = scenario.fleet_kind == "table"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown("## The clients", width="stretch")
        if not own:
            st.button(
                "Edit these clients",
                on_click=fleet_input.make_own,
                icon=":material/edit:",
                help="Turns the drawn fleet into a table of your own.",
            )
    if own:
        fleet_input.table_editor()
    else:
        st.dataframe(
            pd.DataFrame(
                {
                    "client": fleet.names,
                    "vram_gib": fleet.capacity_N_gib,
                    "blocks": np.minimum(blocks_N, scenario.model_spec.num_blocks),
                }
            ),
            hide_index=True,
            width="stretch",
            height=330,
            column_config={
                "client": st.column_config.TextColumn("Client"),
                "vram_gib": st.column_config.NumberColumn("VRAM (GiB)", format="%.3f"),
                "blocks": st.column_config.ProgressColumn(
                    "Blocks it can hold", format="%d", min_value=0, max_value=scenario.model_spec.num_blocks
                ),
            },
            alt="One row per client: its name, its VRAM in GiB and how many blocks it can hold.",
        )
    taking_part = fleet.to_frame()
    if scenario.leave_out_small:
        taking_part = taking_part[blocks_N >= 1]
    components.downloads(
        [
            Download(
                "Fleet (CSV)",
                "fleet.csv",
                lambda: taking_part.to_csv(index=False).encode(),
                "The clients that take part and their VRAM; this page and `zorba --fleet` read it back.",
            ),
        ],
        key="fleet_files",
    )


page()
