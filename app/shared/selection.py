"""Which point of the sweep is selected: by a click on the plot, a row of the table, or the link that opened the page;
until someone chooses, the one that the reader's preference recommends.

What counts is what the plot or the table reports that it did not report before. The plot keeps its selection in the
browser and stays silent when the same point is clicked again; once something else has chosen, it therefore gets a new
key and starts afresh. So does the table when another row is to be marked: what it reports is then always the reader's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from app.shared import state
from app.shared.links import choice, choose, keep, named, number, several, tell_absent
from app.shared.scenario import Scenario
from app.shared.study import Study
from app.shared.tradeoff import COSTS, EXTRAS, MEASURES, View
from app.shared.widget_keys import current_key, is_shown, report, shown_value, widget_key
from zorba_core.allocation import SOLVERS, Allocation

PLOT, TABLE = "front_plot", "front_table"
# The chosen point has the name that it has in the address: who goes back forgets both (``app.shared.links.went_back``).
_CHOSEN, _SEEN, _TURN, _EDITED = "point", "seen_events", "plot_turn", "edited_allocation"


def selected_point(study: Study, rows: Sequence[int]) -> int:
    """Index of the selected point; the recommended one until someone chooses. ``rows`` are the indices the table shows,
    in order.

    Call before the plot and the table are drawn.
    """
    chosen = _chosen_by_event(rows)
    if chosen is not None:
        _remember(study.scenario, chosen)
    point = current_point(study)
    return point


def select(scenario: Scenario, point: int | None) -> None:
    """Select a point, or go back to the recommended one with None (a button's callback)."""
    _remember(scenario, point)
    _renew_plot()


def current_point(study: Study) -> int:
    """Index of the selected point, on any page."""
    point = _remembered(study)
    return recommended_point(study) if point is None else point


def recommended_point(study: Study) -> int:
    """The point for the preference set on the Trade-off page; at first the knee."""
    return chosen_view(study).recommended(preference() / 100)


def chosen_view(study: Study) -> View:
    """The study along the axes chosen on the Trade-off page."""
    return View(study, choice("x", list(COSTS)), choice("y", list(MEASURES)))


def preference() -> int:
    """How much convergence weighs against memory, in percent."""
    return number("weight", 0, 100, 50)


def current_allocation() -> tuple[Allocation, str]:
    """The allocation for the next pages, and in words where it comes from: edited by hand, or the selected point's.

    Raises:
        InvalidInputError, InfeasibleError: the scenario has no allocation (see ``app.shared.infeasible``).
    """
    scenario = state.current()
    edited = edited_allocation()
    if edited is not None:
        return edited, "edited by hand"
    study = state.solved(scenario)
    point = current_point(study)
    allocation = Allocation(state.solution(scenario, point).allocation.A_MN)
    kind = "the knee" if point == study.default_point() else f"point {point}"
    return allocation, f"{kind} of the {scenario.solver} trade-off, {study.front.vram_ratio_E[point]:.0%} of all VRAM"


def edited_allocation() -> Allocation | None:
    """What was edited by hand, if it belongs to this scenario and the selected point."""
    of, allocation = st.session_state.get(_EDITED, (None, None))
    return allocation if of == _identity() else None


def set_edited(allocation: Allocation) -> None:
    """Use a matrix edited by hand, until the scenario or the selected point changes."""
    st.session_state[_EDITED] = (_identity(), allocation)


def clear_edited() -> None:
    """Back to the selected point's own allocation."""
    st.session_state.pop(_EDITED, None)


def _identity() -> tuple[Scenario, int]:
    scenario = state.current()
    return scenario, current_point(state.solved(scenario))


def plot_key() -> str:
    """The plot's key in this run."""
    turn = st.session_state.get(_TURN, 0)
    return f"{PLOT}_{turn}" if turn else PLOT


def plot_clicked() -> None:
    """The plot's callback: a click on another method's front goes over to that method, which stays in the picture."""
    event, before = _plotted_point(), state.current()
    solver = None if event is None else list(SOLVERS)[event[1]]
    if solver not in (None, before.solver):
        shown = several("show", [*EXTRAS, *SOLVERS], list(EXTRAS))
        state.apply(before.replace(solver=solver))
        choose("show", [before.solver if name == solver else name for name in shown])


def table_arguments(point: int, rows: Sequence[int]) -> dict[str, Any]:
    """Key and marked row of the table of ``rows`` with ``point`` selected."""
    row = _row_of(point, rows)
    marked = {"selection": {"rows": [] if row is None else [row], "columns": []}}
    return {"key": widget_key(TABLE, row), "selection_default": marked}


def _renew_plot() -> None:
    if _plotted_point() is not None:
        st.session_state[_TURN] = st.session_state.get(_TURN, 0) + 1
        st.session_state[_SEEN] = None


def _chosen_by_event(rows: Sequence[int]) -> int | None:
    """The point that the plot or the table was asked for since the last run, if any."""
    clicked, seen = _plotted_point(), st.session_state.get(_SEEN)
    st.session_state[_SEEN] = clicked
    row = _reported_row()
    # The plot's selection also empties on its own (a double click, a new figure): that chooses nothing.
    if clicked != seen and clicked is not None:
        return clicked[0]
    if row is not None and row < len(rows):
        _renew_plot()
        return int(rows[row])
    return None


def _plotted_point() -> tuple[int, int] | None:
    """Index of the clicked point, and of its solver in the list of solvers."""
    event = st.session_state.get(plot_key())
    points = event["selection"]["points"] if event else []
    for point in points:
        customdata = point.get("customdata")
        if customdata:  # landmarks are there to look at, they are not points of a sweep
            # Plotly sends rows of a typed array as {"0": ..., "1": ...}, other rows as lists.
            first = [customdata[key] for key in (("0", "1") if isinstance(customdata, dict) else (0, 1))]
            return int(first[0]), int(first[1])
    return None


def _reported_row() -> int | None:
    """The row that the reader has picked since the table was drawn. The row that it was drawn with is no choice, and
    what an earlier table reports is not looked at (``app.shared.widget_keys``)."""
    event = st.session_state.get(current_key(TABLE))
    if event is None or not is_shown(TABLE):
        return None
    picked = event["selection"]["rows"]
    row = int(picked[0]) if picked else None
    if row == shown_value(TABLE):
        return None
    report(TABLE, row)
    return row


def _row_of(point: int, rows: Sequence[int]) -> int | None:
    where = np.flatnonzero(np.asarray(rows) == point)
    return int(where[0]) if where.size else None


def _remember(scenario: Scenario, point: int | None) -> None:
    st.session_state[_CHOSEN] = (scenario, point)
    keep("point", None if point is None else str(point))


def _remembered(study: Study) -> int | None:
    """The chosen point if it belongs to this scenario; a point named in the link counts for the first one shown."""
    if _CHOSEN not in st.session_state:
        text = named("point") or ""
        asked = int(text) if text.isdecimal() and len(text) < 9 else None
        if text and not _is_usable(study, asked):
            tell_absent("Point", text, "the recommended one is shown")
            asked = None
        _remember(study.scenario, asked)
    scenario, point = st.session_state[_CHOSEN]
    if scenario != study.scenario:
        _remember(study.scenario, None)
        return None
    if not _is_usable(study, point):
        return None
    keep("point", str(point))  # a visit to another page takes it out of the address
    return point


def _is_usable(study: Study, point: int | None) -> bool:
    return point is not None and 0 <= point < len(study.front) and not np.isnan(study.front.bias_lambda_E[point])
