"""The scenario of a browser's session of the dashboard, and its address.

On a first visit, for a link, and on Back and Forward, the component gets the fields of the address.
"""

from __future__ import annotations

import uuid

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.scenario import OF_LINKS, Scenario

_SCENARIO, _PAGE, _ORIGIN, _WRITE = "scenario", "scenario_page", "scenario_origin", "scenario_write"


def begin(page: str) -> Scenario:
    """The scenario at the start of a run of ``page``: that of the address on a first visit, for a link, and on Back and
    Forward; else that of the session, which can have more than an address holds."""
    context = get_script_run_ctx()
    came_back = context is not None and context.is_history_navigation
    words = {name: st.query_params.get_all(name) for name in st.query_params}
    arrived = st.session_state.get(_PAGE) != page
    st.session_state[_PAGE] = page
    if arrived or came_back:
        st.session_state[_WRITE] = not came_back
    known = st.session_state.get(_SCENARIO)
    asked, linked = Scenario.of_query(words), not Scenario.model_fields.keys().isdisjoint(words)
    chosen = linked or page == "explore"  # without parameters: Explore's usual scenario, but no other on another page
    if known is None or (chosen and (came_back or (arrived and linked)) and asked.query() != known.query()):
        put(asked)
    elif arrived:
        put(known)
    return stored()


def put(scenario: Scenario) -> None:
    """Store the scenario in the session, in place of what the component shows."""
    st.session_state[_SCENARIO] = scenario
    st.session_state[_ORIGIN] = uuid.uuid4().hex


def origin() -> str:
    """An id that changes with each :func:`put`: what the component sent before that is out of date."""
    return st.session_state.get(_ORIGIN, "")


def store(scenario: Scenario) -> None:
    """Store what the component has sent."""
    st.session_state[_SCENARIO] = scenario


def stored() -> Scenario:
    """The session's scenario."""
    return st.session_state[_SCENARIO]


def end(scenario: Scenario) -> None:
    """Write the address of a page that the user has come to, once: its scenario does not change. Never on Back, since a
    new step would keep the user from going further back."""
    if st.session_state.pop(_WRITE, False):
        known = Scenario.model_fields.keys() | OF_LINKS
        others = {name: st.query_params.get_all(name) for name in st.query_params if name not in known}
        st.query_params.from_dict({**others, **scenario.query()})
