"""Clients of a reader's own on the Fleet page: files dropped or pasted, and a table to type in."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.shared import components, state
from app.shared.own_fleet import EXAMPLE_ROWS, edited_rows, rows_of, with_uploaded_fleet
from zorba_core.errors import InvalidInputError

_UPLOAD, _UPLOADS = "fleet_upload", "fleet_uploads"
_PASTED, _PROBLEM, _LOADED = "fleet_pasted", "fleet_problem", "fleet_loaded"
_TURN, _START = "fleet_editor_turn", "fleet_editor_start"
_EXAMPLE_CSV = "client,vram_gib\nworkstation,24\nlaptop,8\nedge-box,6"


def bring_your_own() -> None:
    """A place to drop or paste a fleet's table, and what came of it."""
    problem = _problem()
    # Each file gets an uploader of its own: the browser's word about one file would otherwise stay beside the next.
    key = f"{_UPLOAD}_{_state().get(_UPLOADS, 0)}"
    with st.expander("Bring your own table", icon=":material/upload:", expanded=problem is not None):
        st.file_uploader(
            "Drop a fleet (CSV, Excel)",
            key=key,
            on_change=_take_upload,
            args=(key,),
            help="At most 5 MB. A table has the columns client,vram_gib; client may be left out. Also what "
            "`nvidia-smi --query-gpu=name,memory.total --format=csv` prints.",
        )
        st.text_area("Or paste it here", key=_PASTED, placeholder=_EXAMPLE_CSV, height=110)
        st.button("Use what is pasted", on_click=_take_pasted, icon=":material/content_paste:")
    if problem is not None:
        components.problem(*problem)
    elif _LOADED in _state():
        st.success(_state().pop(_LOADED), icon=":material/check:")


def _problem() -> tuple[str, str] | None:
    """What is wrong with the file that came last, in title and sentence; until the scenario changes, or the reader
    comes back from another page."""
    scenario, *words = _state().get(_PROBLEM, (None,))
    if scenario != state.current() or _PASTED not in _state():
        _state().pop(_PROBLEM, None)
        return None
    return words[0], words[1]


def make_own() -> None:
    """Turn the drawn fleet into rows to edit (a button's callback)."""
    drawn = state.current()
    state.apply(drawn.replace(fleet_kind="table", table=rows_of(drawn.fleet())))


def table_editor() -> None:
    """The rows as typed. The editor starts from the scenario's rows when it is first drawn, and again after something
    else has changed them; while it is shown it keeps its own edits."""
    rows = state.current().table
    turn = _state().get(_TURN, 0)
    edits = _state().get(f"fleet_editor_{turn}")
    if edits is None or edited_rows(_state()[_START], edits) != rows:
        turn += 1
        _state()[_TURN], _state()[_START] = turn, rows
    start = pd.DataFrame(list(_state()[_START]), columns=["client", "vram_gib"])
    # Rows that came by a link or a file may hold anything: what is no number is an empty cell to fill.
    start["vram_gib"] = pd.to_numeric(start["vram_gib"], errors="coerce").astype(float)
    start["client"] = start["client"].astype("string")
    st.data_editor(
        start,
        num_rows="dynamic",
        hide_index=True,
        width="stretch",
        height=330,
        key=f"fleet_editor_{turn}",
        on_change=_take_edits,
        column_config={
            "client": st.column_config.TextColumn("Client"),
            "vram_gib": st.column_config.NumberColumn("VRAM (GiB)", format="%.3f", min_value=0.0, step=0.0001),
        },
        alt="The fleet: one row per client with its name and its VRAM in GiB; edit cells, add or delete rows.",
    )
    st.caption("Double-click a cell to change it; the last, empty row adds a client.")
    if not rows:
        st.button("Start with an example", on_click=_example, type="primary", icon=":material/table_rows:")


def _take_edits() -> None:
    edits = _state()[f"fleet_editor_{_state()[_TURN]}"]
    state.update(table=edited_rows(_state()[_START], edits))


def _example() -> None:
    state.apply(state.current().replace(fleet_kind="table", table=EXAMPLE_ROWS))


def _take_upload(key: str) -> None:
    upload = _state().get(key)
    if upload is not None:
        _state()[_UPLOADS] = _state().get(_UPLOADS, 0) + 1
        _take(upload.getvalue(), upload.name[:80])


def _take_pasted() -> None:
    _take(_state().get(_PASTED, "").encode(), "What was pasted")


def _take(content: bytes, name: str) -> None:
    try:
        scenario = with_uploaded_fleet(content, state.current())
    except InvalidInputError as error:
        title = f"{name} cannot be used; the fleet is as it was"
        _state()[_PROBLEM] = (state.current(), title, components.sentence(error))
        _state().pop(_LOADED, None)
        return
    _state().pop(_PROBLEM, None)
    _state()[_LOADED] = f"{components.plain(name)}: {len(scenario.table):,} clients read."
    state.apply(scenario)


def _state():
    return st.session_state
