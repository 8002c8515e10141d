"""Fleet: who takes part, and how many blocks each client can afford."""

from __future__ import annotations

import streamlit as st

from app import components, state
from app.infeasible import explain
from app.scenario import Study


def page() -> None:
    scenario = state.current()
    st.title("Who takes part?", anchor=False)
    study = state.solved_or_error(scenario)
    if not isinstance(study, Study):
        explain(study, scenario)
        return
    st.dataframe(study.fleet.to_frame(), hide_index=True, width="stretch", alt="Clients and their VRAM in GiB.")
    components.reproduce(scenario)


page()
