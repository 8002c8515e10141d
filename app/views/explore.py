"""The first page: the fleet, who trains what, what Λ is and what memory buys. One component; the core answers here."""

from __future__ import annotations

import functools
import uuid
from typing import Any

import streamlit as st

from app.explore.component import explore
from app.parts import downloads, fleets, ui
from app.parts.answers import after, data_of
from app.parts.session import begin, origin, put, store, stored
from app.scenario import Scenario, of_link
from zorba_core.errors import InvalidInputError

KEY = "explore"
_REVISION, _SESSION, _MESSAGE = "explore_revision", "explore_session", "explore_message"


def page() -> None:
    begin("explore")
    fleets.warm_up()
    _explore()


@ui.fragment
def _explore() -> None:
    """The component and the downloads. A release executes only this."""
    scenario = stored()
    study = fleets.study(scenario.fleet)
    state = {
        "session": st.session_state.setdefault(_SESSION, uuid.uuid4().hex),
        "origin": origin(),
        "revision": st.session_state.get(_REVISION, 0),
        "message": st.session_state.get(_MESSAGE, ""),
    }
    explore(KEY, {**data_of(scenario, study), **state}, _take, _EVENTS)
    if not study.problem:
        _links(scenario, study)


def _links(scenario: Scenario, study: fleets.Study) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.page_link("views/train.py", label="Train this", icon=":material/model_training:")
        with st.popover("Download", icon=":material/download:"):
            downloads.menu(scenario, study)


# What the component sends: callbacks, which run before the page.


def _sent(name: str) -> Any:
    return (st.session_state.get(KEY) or {}).get(name)


def _take() -> None:
    """A release, or Back: the fields, unless they are older than a link or a file, or the address."""
    state = _sent("state")
    if not isinstance(state, dict) or state.get("origin") != origin():
        return
    st.session_state[_REVISION] = int(state["revision"])
    st.session_state.pop(_MESSAGE, None)
    if "address" in state:
        put(of_link(str(state["address"])))
    else:
        store(after(stored(), "state", state))


def _take_event(event: str) -> None:
    """A file, or a fleet to keep or to forget. A wrong one changes nothing."""
    try:
        scenario = after(stored(), event, _sent(event) or {})
    except InvalidInputError as error:
        st.session_state[_MESSAGE] = str(error)
        return
    st.session_state.pop(_MESSAGE, None)
    (put if event == "file" else store)(scenario)


_EVENTS = {event: functools.partial(_take_event, event) for event in ("file", "keep", "forget")}
page()
