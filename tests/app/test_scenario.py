"""The scenario: one object that is the widgets and the address."""

from __future__ import annotations

import numpy as np
import pytest

from app.parts import fleets
from app.scenario import Scenario, link_of, of_link
from zorba_core.errors import InvalidInputError

SCENARIOS = [
    Scenario(),
    Scenario(shape="two", low=0.8, high=2.5, large=45, model="opt-350m", clients=12, seed=3),
    Scenario(shape="list", rows=((0.7, 20), (1.5, 3)), follow="exact", spend=12.5),
    Scenario(model="opt-1.3b", clients=2000, total=27931),
    Scenario(shape="bell", span=(0.5, 1.25), batch=4, length=64, precision="bfloat16", bars=((3, 0.812), (0, 1.5))),
    Scenario(compared=("0|two, 30 %|shape=two&large=30", "2|x|"), flips="0.1_11.49", cuts=(10, 90), shape="three"),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.shape)
def test_a_link_gives_the_same_scenario_back(scenario):
    assert of_link(link_of(scenario)) == scenario


def test_a_link_names_only_what_differs_from_the_default():
    assert link_of(Scenario()) == ""
    assert link_of(Scenario(clients=20)) == "clients=20"


@pytest.mark.parametrize(
    "link",
    [
        "clients=-1", "clients=many", "clients=99999999999999999999", "model=gpt-9", "shape=round", "span=3,1",
        "span=a", "rows=0x5", "rows=1x", "rows=nanx3", "spend=inf", "total=0", "bars=1x-2", "follow=best", "cuts=1",
        "mix=toaster", "seed=1e9999", "flips=99.99_x", "flips=1", "flips=1.2_", "flips=-1.2",
    ],
)  # fmt: skip
def test_a_word_that_is_no_value_of_its_field_is_ignored(link):
    assert of_link(link + "&batch=4") == Scenario(batch=4)


def test_a_link_too_long_for_an_address_leaves_its_longest_word_out():
    rows = tuple((1 + n / 100, 1) for n in range(400))
    assert of_link(link_of(Scenario(shape="list", rows=rows, clients=7))) == Scenario(shape="list", clients=7)


def test_a_number_out_of_range_is_no_scenario():
    with pytest.raises(InvalidInputError, match="clients is 0; it must be at least 1"):
        Scenario(clients=0)


def test_fields_of_the_component_are_checked_one_by_one():
    given = {"clients": 12, "shape": "round", "span": [1.5, 0.5], "bars": [[3, 0.8]], "unknown": 1, "low": None}
    assert Scenario.of_fields(given) == Scenario(clients=12, bars=((3, 0.8),))


@pytest.mark.parametrize(
    ("link", "follow", "total"),
    [
        ("", "balanced", 100),
        ("follow=two-level&methods=bound,paper,two-level&unit=%25", "two-level", 100),
        ("spend=45", "balanced", 180),
        ("spend=45&total=100", "balanced", 100),
        ("spend=1", "balanced", 50),
        ("total=100000", "balanced", 314),
    ],
)
def test_an_older_link_opens_at_its_gib(link, follow, total):
    scenario = of_link(link)
    study = fleets.study(scenario.fleet)
    assert (scenario.follow, study.total(scenario)) == (follow, total)
    assert study.gib(total) <= 45.1 or "spend" not in link or "total" in link


def test_curves_of_different_fleets_nearly_coincide_in_gib():
    studies = [fleets.study(Scenario(shape=shape)) for shape in ("uniform", "two", "three")]
    at_40 = [study.solution("balanced", study.total(Scenario(spend=40.2))).value for study in studies]
    assert max(at_40) / min(at_40) < 1.4


def test_bars_change_clients_and_clients_beyond_the_fleet_are_ignored():
    gib_N = fleets.gib_of(Scenario(clients=5, bars=((1, 1.25), (9, 2.0))))
    assert gib_N[1] == 1.25
    assert (np.delete(gib_N, 1) == np.delete(fleets.gib_of(Scenario(clients=5)), 1)).all()


@pytest.mark.parametrize("clients", [1, 3, 7, 50])
@pytest.mark.parametrize("cuts", [(0, 0), (50, 50), (40, 70), (100, 100)])
def test_three_kinds_add_up_to_the_clients(clients, cuts):
    gib_N = fleets.gib_of(Scenario(shape="three", clients=clients, cuts=cuts, low=1, mid=2, high=3))
    assert len(gib_N) == clients
    assert abs((gib_N == 1).sum() - clients * cuts[0] / 100) <= 0.5


def test_clients_that_are_too_small_are_counted_and_can_be_rescued():
    scenario = Scenario(shape="list", rows=((0.5, 5), (1.5, 20)))
    study = fleets.study(scenario)
    assert (study.too_small, len(study.gib_N)) == (5, 20)
    rescued = scenario.replace(**fleets.rescued(scenario))
    assert fleets.study(rescued.fleet).too_small == 0


def test_a_matrix_for_more_blocks_keeps_each_clients_share():
    solution = fleets.study(Scenario(clients=20)).solution("balanced", 90)
    fitted = fleets.for_training(solution.allocation, 30, 20)
    before_N, after_N = solution.allocation.blocks_held_N / 12, fitted.blocks_held_N / 30
    assert abs(before_N - after_N).max() < 0.1


def test_a_part_of_the_fleet_reaches_from_its_smallest_client_to_its_largest():
    whole = fleets.study(Scenario(clients=50)).solution("balanced", 10**6).allocation
    part = fleets.for_training(whole, 12, 8)
    held_N = part.blocks_held_N
    assert part.num_clients == 8
    assert (held_N.min(), held_N.max()) == (whole.blocks_held_N.min(), whole.blocks_held_N.max())
    with pytest.raises(InvalidInputError, match="the fleet has 50 clients"):
        fleets.for_training(whole, 12, 51)


def test_cells_changed_by_hand_come_back_from_a_link():
    solution = fleets.study(Scenario(clients=20)).solution("balanced", 60)
    A_MN = solution.allocation.A_MN.copy()
    A_MN[3, 7] ^= True
    flips = fleets.flips_of(solution.allocation, A_MN)
    assert flips == "3.7"
    assert (fleets.edited(solution, flips + "_99.1").A_MN == A_MN).all()
