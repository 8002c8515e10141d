"""A fleet that cannot train the model: what is wrong, and whom it concerns, in place of the plot."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.shared import components
from app.shared.links import TABLE_UNHELD
from app.shared.scenario import Scenario, block_gib
from zorba_core.errors import InfeasibleError, InvalidInputError, ZorbaError, name_some


def explain(error: ZorbaError, scenario: Scenario) -> None:
    """What is wrong with the fleet or a field."""
    if scenario.fleet_kind == "table" and not scenario.table:
        say_unheld()
        st.info("No clients yet: type them in or upload a CSV on the Fleet page.", icon=":material/table_rows:")
        st.page_link("screens/fleet/fleet.py", label="Open the Fleet page", icon=":material/memory:")
    elif isinstance(error, InvalidInputError):
        components.problem("The fleet cannot be read as it is", components.sentence(error))
    elif isinstance(error, InfeasibleError) and error.clients:
        say_too_small(scenario, error.clients)
    else:
        components.problem("This fleet cannot train the model", components.sentence(error))
        st.markdown("Every block needs at least one client: add clients, or give them more VRAM.")


def say_unheld() -> None:
    """An empty table may be one that was too long for the link that opened this session."""
    if st.session_state.get(TABLE_UNHELD):
        st.warning(
            "The link does not hold its table of clients, which was too long. Who sent it can send the table as CSV; "
            "the Fleet page saves and reads it.",
            icon=":material/link_off:",
        )


def say_too_small(scenario: Scenario, clients: Sequence[int]) -> None:
    """Name the clients that cannot hold one block, and what they lack."""
    parameters, block = block_gib(scenario)
    fleet, index = scenario.fleet(), list(clients)
    names, capacity_N = [fleet.names[n] for n in index], fleet.capacity_N_gib[index]
    components.problem(
        f"{len(index)} of {fleet.num_clients} clients cannot hold one block",
        f"A client must hold the parameters of {scenario.model.upper()} ({parameters:.3f} GiB) and one activated block "
        f"({block:.3f} GiB): {parameters + block:.3f} GiB in all. These cannot: {name_some(names)}.",
    )
    st.markdown("Leave them out on the Fleet page, shorten L, lower B, or choose half precision or a smaller model.")
    with st.expander(f"What each of the {len(index)} lacks" if len(index) > 1 else "What it lacks"):
        st.dataframe(
            pd.DataFrame(
                {"client": names, "VRAM (GiB)": capacity_N, "missing (GiB)": parameters + block - capacity_N},
            ),
            hide_index=True,
            width="content",
            column_config={
                "VRAM (GiB)": st.column_config.NumberColumn(format="%.3f"),
                "missing (GiB)": st.column_config.NumberColumn(format="%.3f"),
            },
            alt="Clients that cannot hold one block, their VRAM and how much is missing.",
        )
