from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.planning.fleets import (
    Fleet,
    fleet_from_frame,
    read_fleet_csv,
    truncated_normal_fleet,
    two_kinds_fleet,
    uniform_fleet,
)
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


def test_a_fleet_survives_a_round_trip_through_csv(tmp_path):
    fleet = two_kinds_fleet(8, 24, 6, 0.5, seed=0)
    path = tmp_path / "fleet.csv"
    fleet.to_frame().to_csv(path, index=False)
    for source in (path, path.read_bytes()):
        again = read_fleet_csv(source)
        assert again.names == fleet.names
        assert again.capacity_N_bytes.tolist() == fleet.capacity_N_bytes.tolist()


def test_a_csv_may_leave_names_out_and_carry_a_byte_order_mark():
    fleet = read_fleet_csv(b"\xef\xbb\xbfVRAM_GiB\n8\n16.5\n")
    assert fleet.names == ("client-0", "client-1")
    assert fleet.capacity_N_gib.tolist() == [8.0, 16.5]


def test_rows_left_empty_in_a_table_editor_are_skipped():
    frame = pd.DataFrame({"client": ["a", None, None], "vram_gib": [8.0, np.nan, 16.0]})
    assert fleet_from_frame(frame).names == ("a", "client-2")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty; save the fleet as UTF-8 CSV with columns client,vram_gib"),
        (b"client,vram\na,8\n", "columns are client, vram; want client,vram_gib"),
        (b"client,vram_gib,note\na,8,x\n", "columns are client, vram_gib, note"),
        (b"client,vram_gib\n", "no rows"),
        (b"client,vram_gib\na,8\nb,eight\n", r"row 2 \(client 'b'\): vram_gib is 'eight'"),
        (b"client,vram_gib\na,=1+1\n", r"row 1 \(client 'a'\): vram_gib is '=1\+1'"),
        (b"client,vram_gib\na,nan\n", "finite number above 0"),
        (b"client,vram_gib\na,inf\n", "finite number above 0"),
        (b"client,vram_gib\na,-8\n", "finite number above 0"),
        (b"client,vram_gib\na,0\n", "finite number above 0"),
        (b"client,vram_gib\na,\n", r"row 1 \(client 'a'\): vram_gib is ''"),
        (b"client,vram_gib\na,8,9,10\nb,8\n", "row 1 has 4 cells and the header 2"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "not UTF-8 text"),
        (b"vram_gib\n8\0\n", "a binary file"),
    ],
)
def test_a_bad_csv_is_refused_in_one_line(content, says):
    with pytest.raises(InvalidInputError, match=says) as error:
        read_fleet_csv(content)
    assert "\n" not in str(error.value)


def test_a_missing_csv_says_what_to_give(tmp_path):
    with pytest.raises(MissingDataError, match="does not exist; give a CSV with columns client,vram_gib"):
        read_fleet_csv(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_fleet_never_holds_a_capacity_that_is_no_amount_of_memory(bad):
    with pytest.raises(InvalidInputError, match=r"client 'b' \(row 2\)"):
        Fleet(("a", "b"), np.array([GIB, bad]))


@pytest.mark.parametrize("num_clients", [0, -1])
def test_a_fleet_has_at_least_one_client(num_clients):
    with pytest.raises(InvalidInputError, match="number of clients"):
        uniform_fleet(OPT, WORKLOAD, num_clients, seed=0)
