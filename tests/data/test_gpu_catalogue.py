from __future__ import annotations

import numpy as np
import pytest

from zorba_core.data.gpu_catalogue import MIXES, mix_fleet
from zorba_core.errors import InvalidInputError
from zorba_core.planning.fleets import lognormal_fleet, three_kinds_fleet
from zorba_core.planning.memory import Workload, affordable_blocks
from zorba_core.planning.models import model_spec


@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_names_its_source_and_its_date(mix):
    assert MIXES[mix].source
    assert "2026" in MIXES[mix].date
    assert all(card.gib > MIXES[mix].reserved_gib and card.weight > 0 for card in MIXES[mix].cards)


def test_the_share_of_a_card_scales_every_client():
    whole, half = mix_fleet("steam", 200, seed=3), mix_fleet("steam", 200, seed=3, share=0.5)
    np.testing.assert_allclose(half.capacity_N_bytes, whole.capacity_N_bytes / 2)
    assert half.names == whole.names


def test_drawn_cards_come_as_often_as_the_survey_says():
    fleet = mix_fleet("steam", 20_000, seed=0)
    assert np.mean(fleet.capacity_N_gib == 8) == pytest.approx(0.306, abs=0.01)
    assert np.mean(fleet.capacity_N_gib == 16) == pytest.approx(0.269, abs=0.01)


def test_a_jetson_keeps_memory_for_its_system():
    assert set(mix_fleet("jetson", 500, seed=0).capacity_N_gib) == {2, 6, 14, 30, 62}


@pytest.mark.parametrize(("arguments", "says"), [(("moon", 5, 0), "unknown mix"), (("mig", 5, 0, 0.0), "share")])
def test_a_mix_that_cannot_be_drawn_says_why(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        mix_fleet(*arguments)


def test_three_kinds_come_in_the_shares_asked_for():
    fleet = three_kinds_fleet(4, 8, 24, num_clients=20, medium_fraction=0.5, large_fraction=0.2, seed=1)
    assert [int((fleet.capacity_N_gib == gib).sum()) for gib in (4, 8, 24)] == [6, 10, 4]
    with pytest.raises(InvalidInputError, match="add up to more than all"):
        three_kinds_fleet(4, 8, 24, 20, 0.6, 0.6, seed=1)


def test_a_lognormal_fleet_has_many_small_clients_that_all_hold_a_block():
    model, workload = model_spec("opt-125m"), Workload()
    blocks_N = affordable_blocks(lognormal_fleet(model, workload, 2_000, seed=0).capacity_N_bytes, model, workload)
    assert blocks_N.min() >= 1
    assert blocks_N.max() <= model.num_blocks
    assert np.median(blocks_N) < blocks_N.mean()
