"""The verdict on a matrix made by hand, in words: why it cannot run, or how it compares with the solver."""

from __future__ import annotations

import streamlit as st

from app.screens.allocation.judgement import Judgement
from app.shared import components
from app.shared.study import Study


def verdict(study: Study, judgement: Judgement, *, is_changed: bool) -> None:
    """Whether the matrix can run, and who is ahead: always one box, so that little below it moves."""
    if not judgement.is_feasible:
        st.error("**It cannot run.** " + " ".join(_obstacles(study, judgement)), icon=":material/block:")
        return
    lead, rival = judgement.lead, judgement.rival
    solver = study.scenario.solver
    beyond = len(judgement.beyond_reduction)
    note = (
        f" {beyond} client{' uses' if beyond == 1 else 's use'} VRAM that this point leaves free; the solver may, too."
        if beyond
        else ""
    )
    if rival is None:
        st.info("It can run. No solver has an answer with so few blocks to compare with.", icon=":material/info:")
        return
    theirs = rival.allocation
    if judgement.left_to_gain:
        most = judgement.left_to_gain
        left = f"No matrix with this room has Λ below {rival.lower_bound:.4g}: at most {most:.1%} is left to gain."
    else:
        left = "Nothing is left to gain: it is proven optimal for Λ."
    numbers = f"Λ {judgement.allocation.bias_lambda:.4g} against {theirs.bias_lambda:.4g}"
    same = "as many blocks" if theirs.total_blocks == judgement.allocation.total_blocks else "no more blocks"
    if lead > 0:
        st.success(
            f"**You beat the {solver} solver by {lead:.2%}**: {numbers} with {same}. {left}{note}",
            icon=":material/trophy:",
        )
    elif lead < 0:
        st.info(
            f"**The {solver} solver is ahead by {-lead:.2%}**: {numbers} with {same}. {left}{note}",
            icon=":material/trending_down:",
        )
    else:
        started = "This is the solver's own matrix." if not is_changed else "You are level with it."
        st.info(f"**Level with the {solver} solver.** {started} {left}{note}", icon=":material/drag_handle:")


def _obstacles(study: Study, judgement: Judgement) -> list[str]:
    names = study.fleet.names
    obstacles = []
    if judgement.untrained_blocks:
        blocks = judgement.untrained_blocks
        obstacles.append(f"{'Block' if len(blocks) == 1 else 'Blocks'} {_some(blocks)} would have nobody to train it.")
    if judgement.idle_clients:
        idle = [components.plain(names[n]) for n in judgement.idle_clients]
        obstacles.append(f"{_some(idle)} would train nothing.")
    for n in judgement.too_full_clients[:3]:
        held, most = judgement.allocation.blocks_held_N[n], judgement.most_N[n]
        obstacles.append(
            f"{components.plain(names[n])} holds {held} blocks, and its {study.fleet.capacity_N_gib[n]:.2f} GiB have "
            f"room for {most}."
        )
    more = len(judgement.too_full_clients) - 3
    if more > 0:
        obstacles.append(f"{more} more clients hold too many.")
    obstacles.append("Train would start from the point's own matrix until this is fixed.")
    return obstacles


def _some(items: list) -> str:
    shown = [str(item) for item in items[:6]]
    return ", ".join(shown) + (f" and {len(items) - 6} more" if len(items) > 6 else "")
