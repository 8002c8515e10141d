"""The component in the dashboard."""

from __future__ import annotations

from typing import Any

from streamlit.components.v2 import component

from app.explore import module, text_of

_COMPONENT = component("zorba_explore", html=text_of("explore.html"), css=text_of("explore.css"), js=module())
EVENTS = ("ask", "file", "keep", "forget")


def explore(key: str, data: dict[str, Any], on_state: Any, on_events: dict[str, Any]) -> Any:
    """Draw the component. ``on_state`` is called after each release, ``on_events`` by the name of one of
    :data:`EVENTS`."""
    callbacks = {f"on_{name}_change": on_events.get(name, lambda: None) for name in EVENTS}
    return _COMPONENT(key=key, data=data, on_state_change=on_state, **callbacks)
