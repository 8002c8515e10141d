"""Trade-off: what VRAM buys, which point to take, and what every other one would cost."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.screens.tradeoff import plot, words
from app.screens.tradeoff import point_list as listing
from app.shared import components, selection, state
from app.shared.command import as_command
from app.shared.components import Number, measured
from app.shared.folders import experiments_folder
from app.shared.glossary import glossary
from app.shared.infeasible import explain
from app.shared.study import Study
from zorba_core.allocation import Allocation, Solution
from zorba_core.errors import MissingDataError
from zorba_core.study.expected_loss import runs_by_v

_ABOVE = 4  # headline numbers above the picture; the others stand below it


def page() -> None:
    scenario = state.current()
    st.title("How much VRAM does good training need?", anchor=False)
    study = state.solved_or_error(scenario)
    if not isinstance(study, Study):
        explain(study, scenario)
        return
    # The picture is what a changed control is looked at for: it goes first, and everything else to its place after it.
    with st.container(key="stacked_tradeoff"):  # on a phone: cards, slider, picture, and then the rest
        introduction, headline = st.container(), st.container(key="phone_1_headline")
        left, right = st.columns([0.64, 0.36], gap="medium")
    axes = plot.chosen(study)
    view = selection.chosen_view(study)
    point = selection.selected_point(study, view.order_F)
    recommended = selection.recommended_point(study)
    with left:
        drawn = plot.figure(view, point, recommended, axes)
    with introduction:
        _introduction(study)
    with left:
        if plot.controls(study) != axes:
            st.rerun()
        more = st.container()
    with right, st.container(key="phone_2_preference"):
        words.preference()
    solution = state.solution(scenario, point)
    shown = _numbers(study, solution)
    with headline:
        _headline(study, point, recommended)
        components.numbers(shown[:_ABOVE])
    with more:
        components.numbers(shown[_ABOVE:])
    with right:
        words.answers(view, point, recommended, solution)
        listing.preview(study, solution)
    listing.front_table(view, point, drawn)
    with st.expander("The same as a command", icon=":material/terminal:"):
        st.code(as_command(scenario, point), language="bash")
    glossary()


def _introduction(study: Study) -> None:
    capacity_N = study.fleet.capacity_N_gib
    blocks = study.front.num_blocks
    st.markdown(
        f"**{study.fleet.num_clients} clients** share the fine-tuning of {study.scenario.model.upper()}, a model of "
        f"**{blocks} blocks**. Each trains only some blocks, as many as its GPU can hold "
        f"({capacity_N.min():.2f} to {capacity_N.max():.2f} GiB; {study.capacity_gib:.1f} GiB together). "
        "Fewer blocks save memory, but a block that few clients train learns with more bias, which **Λ** measures."
    )
    if study.left_out:
        shown = components.plain(", ".join(study.left_out[:8])) + (" …" if len(study.left_out) > 8 else "")
        left_out = f"{len(study.left_out)} client{' is' if len(study.left_out) == 1 else 's are'}"
        st.caption(
            f":material/person_remove: {left_out} too small for one block by the paper's model and left out: {shown}"
        )
    blank = int(np.isnan(study.front.bias_lambda_E).sum())
    if blank:
        st.caption(
            f":material/info: {blank} of {len(study.front)} reductions leave fewer than {blocks} blocks to hand out, "
            "so some block would go untrained; they are not drawn."
        )


def _headline(study: Study, point: int, recommended: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if point != recommended:
            kind = f"point {point} of the sweep, {study.scenario.solved_by.title.lower()}"
        elif selection.preference() != 50:
            kind = "the point recommended for your preference"
        else:
            kind = "the knee, below which every GiB saved costs ever more"
        st.markdown(f"## Selected: {kind}", width="stretch")
        if point != recommended:
            st.button(
                "Back to the recommended point",
                on_click=selection.select,
                args=(study.scenario, None),
                type="tertiary",
                icon=":material/undo:",
            )


def _numbers(study: Study, solution: Solution) -> list[Number]:
    allocation = solution.allocation
    num_blocks, num_clients = allocation.num_blocks, allocation.num_clients
    used = float(study.used_N_gib(allocation.blocks_held_N).sum())
    notes = {
        "lambda": f"{allocation.bias_lambda / study.everything.allocation.bias_lambda:.1f} × that of all VRAM",
        "total_blocks": f"of {num_blocks * num_clients}",
        "min_popularity": "client" if allocation.min_popularity == 1 else "clients",
        "mean_inverse_popularity": f"at best {1 / num_clients:.3f}",
        "effective_clients": f"of {num_clients}",
    }
    return [
        Number(
            "VRAM by the paper's model",
            f"{used / study.capacity_gib:.1%}",
            r"$\sum_n \psi_{\mathrm{tot},n} \,/\, \sum_n \psi_{\max,n}$: parameters and activations of all "
            "clients, as a share of the VRAM they have.",
            f"{used:,.1f} of {study.capacity_gib:,.1f} GiB",
        ),
        *_loss(allocation),
        *(measured(name, allocation, note) for name, note in notes.items()),
    ]


def _loss(allocation: Allocation) -> list[Number]:
    """The expected loss against full activation, where stored runs tell it."""
    try:
        loss = runs_by_v(experiments_folder()).at(allocation.mean_inverse_popularity)
    except MissingDataError:
        return []
    return [
        Number(
            "Loss, against every block",
            f"{loss.mean:+.3f}",
            f"How much higher the loss ended than with every client training every block: the mean of the "
            f"{loss.num_runs} stored runs ({loss.about}) whose V is nearest to this allocation's. Four fifths of "
            f"them lie between the two numbers below. Training everything lowered it by {loss.learned:.2f}.",
            f"measured; {loss.low:+.3f} to {loss.high:+.3f}",
        )
    ]


page()
