"""The scenario of a browser's session of the dashboard, and its address.

On a first visit, for a link, and on Back and Forward, the component gets the fields of the address.
"""

from __future__ import annotations

import uuid

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.scenario import OF_LINKS, Scenario

_SCENARIO, _PAGE, _ORIGIN = "scenario", "scenario_page", "scenario_origin"


def begin(page: str) -> Scenario:
    """The scenario at the start of a run of ``page``: that of the address on a first visit, for a link, and on Back and
    Forward; else that of the session, which can have more than an address holds."""
    words = {name: st.query_params.get_all(name) for name in st.query_params}
    arrived = st.session_state.get(_PAGE) != page
    st.session_state[_PAGE] = page
    known = st.session_state.get(_SCENARIO)
    asked, linked = Scenario.of_query(words), not Scenario.model_fields.keys().isdisjoint(words)
    chosen = linked or page == "explore"  # without parameters: Explore's usual scenario, but no other on another page
    if known is None or (chosen and (_came_back() or (arrived and linked)) and asked.query() != known.query()):
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


def _came_back() -> bool:
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def end(scenario: Scenario) -> None:
    """Write the address, for a page whose scenario does not change. Not on Back: a new step would end the way back."""
    words = scenario.query()
    known = Scenario.model_fields.keys() | OF_LINKS
    others = {name: st.query_params.get_all(name) for name in st.query_params if name not in known}
    shown = {name: st.query_params.get_all(name) for name in st.query_params if name in known}
    asked = {name: word if isinstance(word, list) else [word] for name, word in words.items()}
    if shown != asked and not _came_back():
        st.query_params.from_dict({**others, **words})
