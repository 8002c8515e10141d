"""The controls of the fleet notebook: what is typed becomes a plan, or one line that says what is wrong."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from zorba_core.errors import InfeasibleError, InvalidInputError

SCRIPT = Path(__file__).resolve().parents[2] / "notebooks" / "_fleet_controls.py"
spec = importlib.util.spec_from_file_location("notebooks_fleet_controls", SCRIPT)
controls = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = controls  # dataclasses look their module up
spec.loader.exec_module(controls)

REQUEST = controls.Request("client,vram_gib\nbig,40\nlarge,40\na,8\nb,8\nc,8\ntiny,5\n")


def test_every_card_is_a_client_and_those_too_small_are_named():
    plan = controls.plan_of(REQUEST)
    assert plan.left_out == ("tiny",)
    assert plan.fleet.names == ("big", "large", "a", "b", "c")
    assert plan.solution.allocation.blocks_held_N.tolist() == [24, 24, 2, 2, 2]
    assert controls.summary(plan)["activated blocks"] == "54 of 120"
    assert controls.picture(plan).data


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"clients": "client,vram_gib\nRTX,sixteen"}, InvalidInputError, "vram_gib is 'sixteen'"),
        ({"share": 0.0}, InvalidInputError, "share of the card is 0.0"),
        ({"model": "no-such-model"}, InvalidInputError, "unknown model 'no-such-model'"),
        ({"clients": "vram_gib\n4\n4\n4"}, InfeasibleError, "the largest has 3.60 GiB to give"),
        ({"clients": "client,vram_gib\nlaptop,8"}, InfeasibleError, "block"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(changes, error, said):
    with pytest.raises(error) as raised:
        controls.plan_of(replace(REQUEST, **changes))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_moved_control_changes_the_request_and_nothing_else():
    panel = controls.Controls(REQUEST)
    assert panel.request == REQUEST
    panel.set("dtype", "bfloat16")
    assert panel.request == replace(REQUEST, dtype="bfloat16")
    panel.set("clients", "nonsense")  # the line is shown, not raised
    assert panel.request.clients == "nonsense"
