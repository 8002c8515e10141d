"""Two points set aside for comparison, A and B, kept in the address: a scenario and a point of its sweep each.

In the address a pin is what differs from the scenario of the page: ``a=~20`` is point 20 of the same scenario,
``a=~20~clients~9~model~`` one with 9 clients and the model that is the default. A table of clients stands there once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

import streamlit as st

from app.shared.links import keep, kept_here
from app.shared.scenario import Scenario
from app.shared.scenario_link import is_held, scenario_from_link, scenario_to_link

LETTERS = ("a", "b")
_PINS, _UNHELD = "pinned_points", "~"
_MAX_CHARACTERS = 200  # two of them, the scenario and the choices of a page stay below 2,000


@dataclass(frozen=True)
class Pin:
    scenario: Scenario
    point: int


def read_address(scenario: Scenario, address: Mapping[str, str]) -> None:
    """Take the pins from the address of ``scenario``, when a session begins or goes back to a page that shows them."""
    before = st.session_state.get(_PINS)
    if before is not None and LETTERS[0] not in kept_here():
        return
    read = {letter: _from_link(address.get(letter), scenario) for letter in LETTERS}
    for letter in LETTERS:
        if address.get(letter) == _UNHELD:  # only this session knows it
            read[letter] = (before or {}).get(letter)
    st.session_state[_PINS] = {letter: pin for letter, pin in read.items() if pin is not None}


def pins() -> dict[str, Pin]:
    """What is pinned, by letter."""
    return dict(sorted(st.session_state.get(_PINS, {}).items()))


def pin(letter: str, scenario: Scenario, point: int) -> None:
    """Set a point aside (a button's callback)."""
    st.session_state[_PINS] = {**pins(), letter: Pin(scenario, point)}


def unpin(letter: str) -> None:
    """Unpin a point (a button's callback)."""
    st.session_state[_PINS] = {letter_of_pin: pin for letter_of_pin, pin in pins().items() if letter_of_pin != letter}


def write_address(scenario: Scenario) -> list[str]:
    """Keep the pins in the address of ``scenario``; the letters of those that it cannot hold, because their clients are
    a table of their own or one too long for a link. They last as long as the session."""
    held, unheld = pins(), []
    for letter in LETTERS:
        text = _to_link(held[letter], scenario) if letter in held else None
        if text == _UNHELD:
            unheld.append(letter)
        keep(letter, text)
    return unheld


def _to_link(pin: Pin, scenario: Scenario) -> str:
    if not is_held(pin.scenario):
        return _UNHELD
    wanted, here = scenario_to_link(pin.scenario), scenario_to_link(scenario)
    fields = {key: wanted.get(key, "") for key in sorted({*wanted, *here}) if wanted.get(key) != here.get(key)}
    text = "~".join([f"~{pin.point}", *(part for pair in fields.items() for part in pair)])
    return text if len(text) <= _MAX_CHARACTERS else _UNHELD


def _from_link(text: str | None, here: Scenario) -> Pin | None:
    if not text:
        return None
    parameters = _differences(text, here) if text.startswith("~") else _whole(text)
    point = parameters.pop("point", "")
    if not (point.isdecimal() and len(point) < 9):
        return None
    scenario, ignored = scenario_from_link(parameters)
    return None if ignored else Pin(scenario, int(point))


def _differences(text: str, here: Scenario) -> dict[str, str]:
    _, point, *parts = text.split("~", 100)
    fields = dict(zip(parts[::2], parts[1::2], strict=False))
    parameters = {**scenario_to_link(here), **fields, "point": point}
    return {key: value for key, value in parameters.items() if value}


def _whole(text: str) -> dict[str, str]:
    """Older links held every pin in full."""
    return dict(parse_qsl(text, max_num_fields=40)) if text.count("&") < 40 else {}
