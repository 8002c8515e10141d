"""Two points set aside for comparison, A and B, kept in the address: a scenario and a point of its sweep each."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

import streamlit as st

from app.links import keep, named
from app.scenario import Scenario
from app.scenario_link import scenario_from_link, scenario_to_link

LETTERS = ("a", "b")
_PINS = "pinned_points"
_MAX_CHARACTERS = 1_500  # two of them and the scenario have to fit into one address


@dataclass(frozen=True)
class Pin:
    scenario: Scenario
    point: int


def pins() -> dict[str, Pin]:
    """What is pinned, by letter; at first what the link says."""
    if _PINS not in st.session_state:
        st.session_state[_PINS] = {letter: pin for letter in LETTERS if (pin := _from_link(named(letter))) is not None}
    return dict(sorted(st.session_state[_PINS].items()))


def pin(letter: str, scenario: Scenario, point: int) -> None:
    """Set a point aside (a button's callback)."""
    st.session_state[_PINS] = {**pins(), letter: Pin(scenario, point)}


def unpin(letter: str) -> None:
    """Let a point go (a button's callback)."""
    st.session_state[_PINS] = {kept: pin for kept, pin in pins().items() if kept != letter}


def write_address() -> None:
    """Keep the pins in the address; one with a long table of clients lasts as long as the tab only."""
    held = pins()
    for letter in LETTERS:
        text = _to_link(held[letter]) if letter in held else None
        keep(letter, text if text is not None and len(text) <= _MAX_CHARACTERS else None)


def _to_link(pin: Pin) -> str:
    return urlencode({**scenario_to_link(pin.scenario), "point": pin.point})


def _from_link(text: str | None) -> Pin | None:
    parameters = dict(parse_qsl(text or "", max_num_fields=40)) if text and text.count("&") < 40 else {}
    point = parameters.pop("point", "")
    if not (point.isdecimal() and len(point) < 9):
        return None
    scenario, ignored = scenario_from_link(parameters)
    return None if ignored else Pin(scenario, int(point))
