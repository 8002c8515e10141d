"""The first page: the fleet, who trains what, what Λ is and what memory buys. One component; the core answers here."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import Any

import streamlit as st

from app import scenario as scenarios
from app.explore import explore
from app.parts import downloads, fleets, ui
from app.parts.answers import data_of, list_of_text
from app.scenario import MOST_COMPARED, Scenario, begin, origin, put, store, stored
from zorba_core.errors import ZorbaError

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
        put(scenarios.of_link(str(state["address"])))
        return
    fields = {name: value for name, value in state["fields"].items() if name != "compared"}
    store(Scenario.of_fields({**fields, "compared": stored().compared}))


def _take_file() -> None:
    """A file, or the numbers typed into the list. If it is no fleet, the former one stays."""
    file = _sent("file") or {}
    try:
        content = base64.b64decode(file["base64"]) if "base64" in file else list_of_text(str(file["text"]))
        rows = fleets.rows_of_file(content)
    except (ZorbaError, binascii.Error, ValueError) as error:
        st.session_state[_MESSAGE] = f"{str(error)[:1].upper()}{str(error)[1:]}. The former fleet stays."
        return
    st.session_state.pop(_MESSAGE, None)
    put(Scenario.of_fields({**dict(stored()), "shape": "list", "rows": rows, "bars": (), "flips": ""}))


def _keep() -> None:
    scenario = stored()
    taken = {item.split("|", 1)[0] for item in scenario.compared}
    slot = next((slot for slot in map(str, range(MOST_COMPARED)) if slot not in taken), None)
    link = scenarios.link_of(scenario.fleet)
    if slot is None or any(item.endswith(f"|{link}") for item in scenario.compared):
        return
    name = fleets.name_of(scenario).replace("|", "/")
    store(scenario.replace(compared=(*scenario.compared, f"{slot}|{name}|{link}")))


def _forget() -> None:
    scenario, item = stored(), _sent("forget")
    store(scenario.replace(compared=tuple(other for other in scenario.compared if other != item)))


_EVENTS = {"file": _take_file, "keep": _keep, "forget": _forget}
page()
