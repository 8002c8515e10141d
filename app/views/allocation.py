"""Change by hand who trains which block, and see the effect on Λ, VRAM and the least trained block."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.parts import downloads, fleets, pictures, ui
from app.scenario import Scenario, begin, end, update
from zorba_core.allocation import Allocation

SHOWN = 60  # clients in the table at once
_EDITOR = "editor"


@dataclass
class _Editor:
    """State of the table: its first matrix, its changes, and the history for Undo."""

    of: Scenario  # without the cells changed by hand
    flips: str
    start_MN: NDArray[np.bool_]
    turn: int = 0
    first: int = 0  # of the clients in the table, by VRAM
    history: list[str] = field(default_factory=list)


def page() -> None:
    scenario = begin("allocation")
    st.title("Who trains what", anchor=False)
    st.markdown(
        "This is the selected point of the page Explore. In the table, click a box to change a cell; or click beside a "
        "box, then use the arrow keys and space. A column is a client, largest VRAM first. All numbers follow."
    )
    study, solution, allocation = fleets.planned(scenario)
    editor = _editor(scenario, allocation)
    _numbers(study, solution.allocation, allocation)
    wrong = study.complaints(allocation)
    if wrong:
        st.warning(" ".join(wrong), icon=":material/warning:")
    _tools(scenario, study, solution.allocation, allocation, editor, bool(wrong))
    ui.figure(
        pictures.matrix(study, allocation, changed_MN=allocation.A_MN != solution.allocation.A_MN, height=270),
        key="edited_matrix",
        alt=f"Which of {allocation.num_blocks} blocks each of {allocation.num_clients} clients trains, under its VRAM.",
        name="zorba-allocation",
    )
    _table(study, solution.allocation, allocation, editor)
    end(scenario)


def _editor(scenario: Scenario, allocation: Allocation) -> _Editor:
    """The table's state, which restarts when the point, Undo or the address gives another matrix."""
    of, known = scenario.replace(flips="", unit="GiB", compared=()), st.session_state.get(_EDITOR)
    if known is None or known.of != of:
        known = _Editor(of, scenario.flips, allocation.A_MN, 0 if known is None else known.turn + 1)
    elif known.flips != scenario.flips:
        known.flips, known.start_MN, known.turn = scenario.flips, allocation.A_MN, known.turn + 1
    st.session_state[_EDITOR] = known
    return known


def _numbers(study: fleets.Study, before: Allocation, now: Allocation) -> None:
    used, used_before = study.used_gib(now), study.used_gib(before)
    change = now.bias_lambda - before.bias_lambda
    rows = (
        ("Λ, lower is better", ui.number(now.bias_lambda), change, f"{change:+.3f}", "inverse"),
        (
            "VRAM used",
            f"{used:,.1f} of {study.total_gib:,.1f} GiB",
            used - used_before,
            f"{used - used_before:+.2f} GiB",
            "inverse",
        ),
        (
            "Clients of the least trained block",
            f"{now.min_popularity:,} of {now.num_clients:,}",
            now.min_popularity - before.min_popularity,
            f"{now.min_popularity - before.min_popularity:+d}",
            "normal",
        ),
    )  # fmt: skip
    with st.container(horizontal=True, gap="small"):
        for label, value, change, shown, color in rows:
            st.metric(
                label, value, delta=shown if abs(change) > 1e-12 else "no change",
                delta_color=color if abs(change) > 1e-12 else "off",
                delta_arrow="auto" if abs(change) > 1e-12 else "off", border=True,
            )  # fmt: skip


def _tools(
    scenario: Scenario, study: fleets.Study, before: Allocation, now: Allocation, editor: _Editor, is_wrong: bool
) -> None:
    changed = int((before.A_MN != now.A_MN).sum())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Undo",
            icon=":material/undo:",
            on_click=_undo,
            disabled=not editor.history,
            help="Take back the last change.",
        )
        st.button("Start again", icon=":material/restart_alt:", on_click=_reset, disabled=not changed)
        st.caption(f"{ui.count(changed, 'cell')} changed.", width="stretch")
        st.page_link("views/train.py", label="Train this", icon=":material/model_training:", disabled=is_wrong)
        with st.popover("Download", icon=":material/download:"):
            downloads.menu(scenario, study, now)


def _table(study: fleets.Study, before: Allocation, now: Allocation, editor: _Editor) -> None:
    """A column for each client, largest VRAM first, with a box for each block."""
    order_N = study.order_N
    if len(order_N) > SHOWN:
        last = len(order_N) - SHOWN
        first = st.slider(f"Clients to change, {SHOWN} at a time", 1, last + 1, key="first_client") - 1
        if first != editor.first:  # another table, which starts with the changes of this one
            editor.first, editor.start_MN, editor.turn = first, now.A_MN, editor.turn + 1
        order_N = order_N[first : first + SHOWN]
    key = f"cells_{editor.turn}"
    table = pd.DataFrame(editor.start_MN[:, order_N], columns=[str(n) for n in order_N])
    table.index.name = "block"
    held_N = before.blocks_held_N
    st.data_editor(
        table,
        key=key,
        on_change=_take,
        args=(key,),
        height="content",
        row_height=26,
        column_config={
            str(n): st.column_config.CheckboxColumn(
                str(n),
                help=f"Client {n}: {study.gib_N[n]:.2f} GiB, room for {study.budget_N[n]} blocks, {held_N[n]} now.",
                width=46,
            )
            for n in order_N
        },
        alt=f"{len(table)} blocks by {len(order_N)} clients, a box to tick in each cell.",
    )


def _take(key: str) -> None:
    """Callback of the table: apply its changes to the matrix that it started with."""
    editor = st.session_state[_EDITOR]
    A_MN = editor.start_MN.copy()
    for block, cells in st.session_state[key]["edited_rows"].items():
        for client, value in cells.items():
            A_MN[int(block), int(client)] = bool(value)
    before = fleets.planned(editor.of)[1].allocation
    editor.history.append(editor.flips)
    editor.flips = fleets.flips_of(before, A_MN)  # the table shows it already
    update(flips=editor.flips)


def _undo() -> None:
    editor = st.session_state[_EDITOR]
    if editor.history:
        update(flips=editor.history.pop())


def _reset() -> None:
    editor = st.session_state[_EDITOR]
    editor.history.append(editor.flips)
    update(flips="")


page()
