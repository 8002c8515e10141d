"""Pins in the address: what differs from the page's scenario, so that a fleet stands there once."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from app.shared.own_fleet import rows_of
from app.shared.pins import _UNHELD, Pin, _from_link, _to_link
from app.shared.scenario import Scenario
from app.shared.scenario_link import _packed, is_held, scenario_from_link, scenario_to_link

DRAWN = Scenario(num_clients=20, solver="two-level", dtype="bfloat16")


def table(num_clients: int) -> Scenario:
    return Scenario(fleet_kind="table", table=rows_of(Scenario(num_clients=num_clients).fleet()))


@pytest.mark.parametrize("pinned", [Scenario(), DRAWN, Scenario(fleet_kind="steam", card_share=0.4), table(3)])
@pytest.mark.parametrize("page", [Scenario(), DRAWN, Scenario(fleet_kind="lognormal", sigma=0.7)])
def test_a_pin_comes_back_from_the_address_of_any_page(pinned, page):
    text = _to_link(Pin(pinned, 17), page)
    assert text != _UNHELD
    assert _from_link(text, page) == Pin(pinned, 17)


def test_two_pins_of_a_table_of_clients_leave_the_address_below_2000_characters():
    page = table(180)
    assert is_held(page)
    pins = {letter: _to_link(Pin(page, 999), page) for letter in "ab"}
    assert pins == {"a": "~999", "b": "~999"}
    address = urlencode({**scenario_to_link(page), **pins, "show": "bound,paper,baselines,exact", "weight": "80"})
    assert len(address) < 1_900


def test_a_table_that_no_address_holds_is_named_so():
    assert not is_held(table(400))
    assert _to_link(Pin(table(400), 3), table(400)) == _UNHELD
    assert _to_link(Pin(table(150), 3), Scenario()) == _UNHELD  # a table of its own, too long beside the page's fleet
    assert _from_link(_UNHELD, Scenario()) is None


def test_links_of_before_are_still_read():
    old = urlencode({**scenario_to_link(DRAWN), "point": 4})
    assert _from_link(old, table(3)) == Pin(DRAWN, 4)
    rows = tuple((name, gib) for name, gib in rows_of(Scenario(num_clients=600).fleet()))
    scenario, ignored = scenario_from_link({"fleet": "table", "rows": _packed(rows)})
    assert (len(scenario.table), ignored) == (600, [])


@pytest.mark.parametrize("text", ["~", "~x", "~-1", "~4~clients", "~4~clients~0", "~" * 300, "~4~model~../../etc"])
def test_a_damaged_pin_is_left_out_or_read_without_the_damage(text):
    read = _from_link(text, Scenario())
    assert read is None or read == Pin(Scenario(), 4)
