"""Allocation: who trains what at the selected point, changed by hand, compared, built step by step, and certified.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

import streamlit as st

from app.screens.allocation import edit, proof, solvers, steps
from app.shared import selection, state
from app.shared.glossary import glossary
from app.shared.guard import fragment
from app.shared.infeasible import explain
from app.shared.links import linked
from app.shared.study import Study

VIEWS = {
    "edit": ":material/grid_on: Change it by hand",
    "solvers": ":material/compare: Other solvers",
    "steps": ":material/footprint: Algorithm 1, step by step",
    "proof": ":material/verified: Why γ* is the most",
}


def page() -> None:
    scenario = state.current()
    st.title("Who trains which blocks?", anchor=False)
    study = state.solved_or_error(scenario)
    if not isinstance(study, Study):
        explain(study, scenario)
        return
    point = selection.current_point(study)
    _introduction(study, point)
    _views(study, point)
    glossary()


def _introduction(study: Study, point: int) -> None:
    fleet, front = study.fleet, study.front
    knee = "the knee" if point == study.default_point() else f"point {point}"
    left, right = st.columns([0.78, 0.22], vertical_alignment="center")
    left.markdown(
        f"**{fleet.num_clients} clients**, **{front.num_blocks} blocks** of {study.scenario.model.upper()}, at {knee} "
        f"of the trade-off: {front.vram_ratio_E[point]:.0%} of all VRAM. A filled cell says that a client trains a "
        "block; a block that few clients train learns with more bias."
    )
    right.page_link("screens/tradeoff/tradeoff.py", label="Choose another point", icon=":material/scatter_plot:")


@fragment
def _views(study: Study, point: int) -> None:
    chosen = linked(
        st.segmented_control,
        "What to look at",
        VIEWS,
        required=True,
        key="view",
        label_visibility="collapsed",
        width="stretch",
    )
    {"edit": edit.show, "solvers": solvers.show, "steps": steps.show, "proof": proof.show}[chosen](study, point)


page()
