"""A fleet that cannot train the model: what is wrong, who it concerns, and the ways out, in place of the plot."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import components, state
from app.scenario import Scenario, block_gib, remedies
from zorba_core.errors import InfeasibleError, InvalidInputError, ZorbaError

_EXAMPLE_CSV = "client,vram_gib\nworkstation,24\nlaptop,8\nedge-box,6"


def explain(error: ZorbaError, scenario: Scenario) -> None:
    """The fleet or a field is wrong: what, who, and the ways out."""
    if scenario.fleet_kind == "csv" and scenario.csv is None:
        st.info(
            "Upload a CSV in the sidebar: one row per client, its name and its VRAM in GiB.", icon=":material/upload:"
        )
        st.code(_EXAMPLE_CSV, language=None)
    elif isinstance(error, InvalidInputError):
        components.problem("The fleet cannot be read as it is", f"{str(error)[:1].upper()}{str(error)[1:]}.")
    elif isinstance(error, InfeasibleError) and error.clients:
        components.problem("Some clients cannot train this model", f"{str(error)[:1].upper()}{str(error)[1:]}.")
        _too_small(error, scenario)
    else:
        components.problem("This fleet cannot train the model", f"{str(error)[:1].upper()}{str(error)[1:]}.")
        st.markdown(
            "Every block needs at least one client. Add clients, give them more VRAM, or shorten L, lower B or choose "
            "half precision in the sidebar so that each can hold more blocks."
        )


def _too_small(error: InfeasibleError, scenario: Scenario) -> None:
    parameters, block = block_gib(scenario)
    offers = remedies(scenario)
    st.markdown(
        f"A client must hold the model's parameters (**{parameters:.3f} GiB**) and at least one activated block "
        f"(**{block:.3f} GiB**)."
        + (" Each of these changes makes it work:" if offers else " Only more VRAM or a smaller model helps.")
    )
    with st.container(horizontal=True, gap="small"):
        for index, offer in enumerate(offers):
            st.button(
                offer.label,
                key=f"remedy_{index}",
                on_click=state.apply_remedy,
                args=(offer,),
                type="primary" if index == 0 else "secondary",
            )
    fleet = scenario.fleet()
    index = list(error.clients)
    capacity_N = fleet.capacity_N_gib[index]
    st.dataframe(
        pd.DataFrame(
            {
                "client": [fleet.names[n] for n in index],
                "VRAM (GiB)": capacity_N,
                "missing (GiB)": parameters + block - capacity_N,
            }
        ),
        hide_index=True,
        width="content",
        column_config={
            "VRAM (GiB)": st.column_config.NumberColumn(format="%.3f"),
            "missing (GiB)": st.column_config.NumberColumn(format="%.3f"),
        },
        alt="Clients that cannot hold one block, their VRAM and how much is missing.",
    )
