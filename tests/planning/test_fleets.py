from __future__ import annotations

import numpy as np
import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.planning.fleets import Fleet, truncated_normal_fleet, two_kinds_fleet, uniform_fleet
from zorba_core.planning.memory import GIB, Workload, psi_client_bytes, whole_block_budgets
from zorba_core.planning.models import model_spec

OPT = model_spec("opt-125m")
WORKLOAD = Workload()
LOW, HIGH = psi_client_bytes(OPT, WORKLOAD, [1, OPT.num_blocks])


def test_the_papers_fleet_spans_one_block_to_all_blocks():
    fleet = uniform_fleet(OPT, WORKLOAD, 20_000, seed=0)
    assert LOW <= fleet.capacity_N_bytes.min() < LOW + 0.01 * (HIGH - LOW)
    assert HIGH - 0.01 * (HIGH - LOW) < fleet.capacity_N_bytes.max() <= HIGH
    assert fleet.capacity_N_bytes.mean() == pytest.approx((LOW + HIGH) / 2, rel=0.01)
    budgets = whole_block_budgets(fleet.capacity_N_bytes, OPT, WORKLOAD)
    # Flooring leaves budgets of 1..M-1, each equally likely: M itself needs a draw at the very end of the range.
    assert np.bincount(budgets)[1:12] == pytest.approx(20_000 / 11, rel=0.1)


def test_the_same_seed_gives_the_same_fleet_and_another_seed_another():
    def capacities(seed: int) -> list[float]:
        return uniform_fleet(OPT, WORKLOAD, 5, seed).capacity_N_bytes.tolist()

    assert capacities(3) == capacities(3)
    assert capacities(3) != capacities(4)


@pytest.mark.parametrize(("mean_fraction", "spread"), [(0.0, 0.1), (0.5, 0.2), (1.0, 5.0)])
def test_truncated_normal_capacities_stay_in_the_papers_range(mean_fraction, spread):
    capacity = truncated_normal_fleet(OPT, WORKLOAD, 2000, 0, mean_fraction, spread).capacity_N_bytes
    assert capacity.min() >= LOW
    assert capacity.max() <= HIGH


def test_two_kinds_of_gpu_come_in_the_share_asked_for():
    fleet = two_kinds_fleet(8, 24, num_clients=10, large_fraction=0.3, seed=1)
    assert sorted(fleet.capacity_N_gib.tolist()) == [8.0] * 7 + [24.0] * 3
    assert fleet.capacity_N_gib.tolist() != sorted(fleet.capacity_N_gib.tolist())


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_fleet_never_holds_a_capacity_that_is_no_amount_of_memory(bad):
    with pytest.raises(InvalidInputError, match=r"client 'b' \(row 2\)"):
        Fleet(("a", "b"), np.array([GIB, bad]))


@pytest.mark.parametrize("num_clients", [0, -1])
def test_a_fleet_has_at_least_one_client(num_clients):
    with pytest.raises(InvalidInputError, match="number of clients"):
        uniform_fleet(OPT, WORKLOAD, num_clients, seed=0)


def test_a_fleet_is_matched_with_clients_by_their_names():
    fleet = Fleet(("site1", "site2", "site10"), np.array([1.0, 2.0, 3.0]) * GIB)
    matched = fleet.matched(("site1", "site10", "site2"))
    assert (matched.names, matched.capacity_N_gib.tolist()) == (("site1", "site10", "site2"), [1, 3, 2])
    assert fleet.matched(("a", "b", "c")) is fleet
    with pytest.raises(InvalidInputError, match="the fleet has no client site3"):
        fleet.matched(("site1", "site3"))
    with pytest.raises(InvalidInputError, match="the fleet has other clients than the rows: site2"):
        fleet.matched(("site1", "site10"))
