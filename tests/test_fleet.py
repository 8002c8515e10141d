"""Fleets: drawn as in the paper, from mixes of GPUs, or read from a table of names and GiB."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from tests.command import call, check_refused
from zorba_core.errors import InfeasibleError, InvalidInputError, MissingDataError
from zorba_core.fleet import MIXES, Fleet
from zorba_core.vram import GIB, PAPER_WORKLOAD, model_spec, psi_client_bytes

OPT = model_spec("opt-125m")
LOW, HIGH = psi_client_bytes(OPT, PAPER_WORKLOAD, [1, OPT.num_blocks])
SMI = b"name, memory.total [MiB]\nNVIDIA L4, 23034 MiB\nNVIDIA L4, 23034 MiB\nTesla T4, 15360 MiB\n"


# Of "opt-125m" with seeds 0, 1 and 2.
UNIFORM = [1.427761514526968, 0.9426172379416056, 0.6402888728665614]
LOGNORMAL = [0.7885335032918495, 0.8187108312805501]


def of_gib(*gib: float, names: tuple[str, ...] = ()) -> Fleet:
    return Fleet(names or tuple("abcdefgh"[: len(gib)]), np.array(gib) * GIB, OPT)


def test_the_papers_fleet_spans_one_block_to_all_blocks():
    fleet = Fleet.uniform(OPT, 20_000)
    assert LOW <= fleet.capacity_N_bytes.min() < LOW + 0.01 * (HIGH - LOW)
    assert HIGH - 0.01 * (HIGH - LOW) < fleet.capacity_N_bytes.max() <= HIGH
    assert fleet.capacity_N_bytes.mean() == pytest.approx((LOW + HIGH) / 2, rel=0.01)
    # Flooring leaves budgets of 1..M-1, each equally likely: M itself needs a draw at the very end of the range.
    assert np.bincount(fleet.budget_N)[1:12] == pytest.approx(20_000 / 11, rel=0.1)


def test_the_same_seed_gives_the_same_fleet_and_another_seed_another():
    for draw in (Fleet.uniform, Fleet.lognormal, Fleet.gpus):
        first, same, other = (draw("opt-125m", 5, seed=seed).capacity_N_bytes.tolist() for seed in (3, 3, 4))
        assert first == same != other


def test_the_draws_of_the_paper_keep_their_bits():
    """Numbers of earlier versions, which stored results rest on."""
    assert Fleet.uniform("opt-125m", 3, seed=0).capacity_N_gib.tolist() == UNIFORM
    assert Fleet.lognormal("opt-125m", 2, seed=2).capacity_N_gib.tolist() == LOGNORMAL


def test_a_lognormal_fleet_has_many_small_clients_that_all_hold_a_block():
    blocks_N = Fleet.lognormal(OPT, 2_000).affordable_N()
    assert blocks_N.min() >= 1
    assert blocks_N.max() <= OPT.num_blocks
    assert np.median(blocks_N) < blocks_N.mean()


def test_two_kinds_of_gpu_come_in_the_share_asked_for_and_in_a_random_order():
    fleet = Fleet.two_kinds(OPT, 10, small_gib=8, large_gib=24, large_share=0.3, seed=1)
    assert sorted(fleet.capacity_N_gib.tolist()) == [8.0] * 7 + [24.0] * 3
    assert fleet.capacity_N_gib.tolist() != sorted(fleet.capacity_N_gib.tolist())


def test_three_kinds_come_in_the_shares_asked_for():
    fleet = Fleet.kinds(OPT, 20, [24, 8, 4], [0.2, 0.5], seed=1)
    assert [int((fleet.capacity_N_gib == gib).sum()) for gib in (4, 8, 24)] == [6, 10, 4]
    with pytest.raises(InvalidInputError, match="add up to more than all"):
        Fleet.kinds(OPT, 20, [24, 8, 4], [0.6, 0.6])


def test_every_mix_names_its_source_and_its_date():
    for name, mix in MIXES.items():
        assert mix.source, name
        assert "2026" in mix.date, name
        assert all(gib > mix.reserved_gib for gib in mix.gib.values()), name


def test_the_share_of_a_card_scales_every_client():
    whole, half = Fleet.gpus(OPT, 200, seed=3), Fleet.gpus(OPT, 200, share=0.5, seed=3)
    np.testing.assert_allclose(half.capacity_N_bytes, whole.capacity_N_bytes / 2)
    assert half.names == whole.names


def test_drawn_cards_come_as_often_as_the_survey_says():
    gib_N = Fleet.gpus(OPT, 20_000, mix="steam").capacity_N_gib
    assert np.mean(gib_N == 8) == pytest.approx(0.306, abs=0.01)
    assert np.mean(gib_N == 16) == pytest.approx(0.269, abs=0.01)


def test_a_jetson_keeps_memory_for_its_system():
    assert set(Fleet.gpus(OPT, 500, mix="jetson").capacity_N_gib) == {2, 6, 14, 30, 62}


def test_a_fleet_that_cannot_be_says_why():
    for draw, says in (
        (lambda: Fleet.gpus(OPT, 5, mix="moon"), "unknown mix"),
        (lambda: Fleet.gpus(OPT, 5, share=0.0), "share"),
        (lambda: Fleet.uniform(OPT, -1), "number of clients is -1"),
        (lambda: Fleet.uniform(OPT, 5, seed=-1), "seed is -1"),
        (lambda: Fleet.lognormal(OPT, 5, median=2), "median is 2; it must be between 0 and 1"),
        (lambda: Fleet.lognormal(OPT, 5, sigma=0), "sigma is 0; it must be a finite number above 0"),
        (lambda: Fleet.two_kinds(OPT, 5, small_gib=1, large_gib=2, large_share=1.5), "share is 1.5; it must be"),
        (lambda: of_gib(1, 0), r"client 'b' \(row 2\)"),
        (lambda: of_gib(1, np.nan), r"client 'b' \(row 2\)"),
        (lambda: of_gib(1, np.inf), r"client 'b' \(row 2\)"),
        (lambda: of_gib(1, 2, names=("a",)), "1 client names for 2 capacities"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            draw()


def test_a_fleet_knows_its_budgets_what_blocks_cost_and_who_is_too_small():
    fleet = of_gib(1.9, 0.62, 0.5)
    with pytest.raises(InfeasibleError, match=r"1 of 3 clients cannot hold opt-125m .*: c; leave"):
        _ = fleet.budget_N
    able = fleet.select(np.flatnonzero(fleet.affordable_N() >= 1))
    assert able.names == ("a", "b")
    assert (able.used_N_bytes(able.budget_N) <= able.capacity_N_bytes).all()
    assert able.vram_ratio(able.budget_N.sum()) == able.used_N_bytes(able.budget_N).sum() / able.capacity_N_bytes.sum()
    assert able.total_at_ratio(float(able.vram_ratio(7))) == 7


def test_a_few_drawn_clients_hold_all_blocks_together_and_a_larger_draw_is_left_as_it_is():
    for clients in (1, 2, 3, 50):
        for seed in range(20):
            drawn = Fleet.uniform(OPT, clients, seed=seed)
            covering = drawn.covering()
            assert covering.budget_N.sum() == max(12, drawn.budget_N.sum())
            assert (covering.budget_N >= drawn.budget_N).all()
            assert (covering is drawn) == (drawn.budget_N.sum() >= 12)


def test_a_fleet_is_matched_with_clients_by_their_names():
    fleet = of_gib(1, 2, 3, names=("site1", "site2", "site10"))
    matched = fleet.matched(("site1", "site10", "site2"))
    assert (matched.names, matched.capacity_N_gib.tolist()) == (("site1", "site10", "site2"), [1, 3, 2])
    assert fleet.matched(("a", "b", "c")) is fleet
    with pytest.raises(InvalidInputError, match="the fleet has no client site3"):
        fleet.matched(("site1", "site3"))
    with pytest.raises(InvalidInputError, match="the fleet has other clients than the rows: site2"):
        fleet.matched(("site1", "site10"))


def workbook(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_excel(buffer, index=False)
    return buffer.getvalue()


def test_a_fleet_survives_a_round_trip_through_csv_tsv_and_excel(tmp_path):
    fleet = Fleet.two_kinds(OPT, 6, small_gib=8, large_gib=24, large_share=0.5)
    path, tabs = tmp_path / "fleet.csv", tmp_path / "fleet.tsv"
    fleet.to_frame().to_csv(path, index=False)
    fleet.to_frame().to_csv(tabs, index=False, sep="\t")
    for source in (path, tabs, path.read_bytes(), workbook(fleet.to_frame())):
        again = Fleet.from_csv(source, OPT)
        assert again.names == fleet.names
        assert again.capacity_N_bytes.tolist() == fleet.capacity_N_bytes.tolist()


def test_columns_are_known_by_close_spellings_and_any_usual_separator():
    for content in (
        b"\xef\xbb\xbfVRAM_GiB,client\n8,a\n16.5,b\n",
        b"Name;VRAM (GiB)\na;8\nb;16.5\n",
        b"gpu\tGiB\r\na\t8\r\nb\t16.5\r\n",
        b"client, vram\n\na, 8\nb, 16.5\n",
        b"sep=;\r\nclient;vram_gib\r\na;8\r\nb;16.5\r\n",
    ):
        fleet = Fleet.from_csv(content, OPT)
        assert dict(zip(fleet.names, fleet.capacity_N_gib.tolist(), strict=True)) == {"a": 8.0, "b": 16.5}, content


def test_names_may_be_left_out_and_rows_left_empty_in_an_editor_are_skipped():
    assert Fleet.from_csv(b"vram_gib\n8\n16.5\n", OPT).names == ("client-0", "client-1")
    frame = pd.DataFrame({"client": ["a", None, None], "vram_gib": [8.0, np.nan, 16.0]})
    assert Fleet.from_frame(frame, OPT).names == ("a", "client-1")
    assert Fleet.from_csv(workbook(frame), OPT).names == ("a", "client-1")


def test_a_column_of_clients_repeats_a_row():
    assert Fleet.from_csv(b"GiB,clients\n8,2\n16.5,1\n9,0\n", OPT).capacity_N_gib.tolist() == [8, 8, 16.5]
    assert Fleet.from_csv(b"gpu,GiB,clients\nT4,15,2\n", OPT).names == ("T4 #1", "T4 #2")


def test_cards_that_nvidia_smi_lists_are_clients_and_their_mib_are_gib():
    fleet = Fleet.from_csv(SMI, OPT)
    assert fleet.names == ("NVIDIA L4 #1", "NVIDIA L4 #2", "Tesla T4")
    assert fleet.capacity_N_gib.tolist() == [23034 / 1024, 23034 / 1024, 15.0]


def test_other_columns_of_the_query_are_passed_over():
    header = b"index, name, memory.total [MiB], memory.used [MiB], uuid\n"
    fleet = Fleet.from_csv(
        header + b"0, NVIDIA L4, 23034 MiB, 1 MiB, GPU-1\n1, Tesla T4, 15360 MiB, 1 MiB, GPU-2\n", OPT
    )
    assert (fleet.names, fleet.capacity_N_gib.tolist()) == (("NVIDIA L4", "Tesla T4"), [23034 / 1024, 15.0])
    assert Fleet.from_csv(b"index, memory.total [MiB]\n0, 15360\n1, 15360\n", OPT).names == ("client-0", "client-1")


def test_a_unit_in_a_cell_comes_before_that_of_its_column():
    fleet = Fleet.from_csv(b"client,vram\na,40960 MiB\nb,24 GiB\nc,8\n", OPT)
    assert fleet.capacity_N_gib.tolist() == [40.0, 24.0, 8.0]


SCREEN = b"""
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
"""
NO_FLEETS = {
    b"": "the file is empty",
    b"client,memory\na,8\n": "columns are client, memory; give vram_gib",
    b"gpu,count,vram_gib\na,2,8\n": "columns are gpu, count, vram_gib; give vram_gib",
    b"client,vram_gib\n": "no rows",
    b"vram_gib,clients\n8,2.5\n": "row 1: clients is '2.5'; it must be a whole number up to",
    b"client,vram_gib\na,8\nb,eight\n": "row 2 (client 'b'): its VRAM is 'eight'; it must be a number of GiB",
    b"client,vram_gib\na,nan\n": "finite number above 0",
    b"client,vram_gib\na,0\n": "finite number above 0",
    b"client,vram_gib\na,1e300\n": "its VRAM is '1e300'; it must be a finite number above 0 and at most 1e+09",
    b"client,vram_gib\na,\n": "row 1 (client 'a'): its VRAM is ''",
    b"client;vram_gib\na;8,5\n": "its VRAM is '8,5'; it must be a number of GiB, with a decimal point, 8.5",
    b"client,vram_gib\na,8\nb,9\na,10\n": "client 'a' occurs twice; give each its own name",
    b"name, memory.total [MiB]\nL4, [N/A]\n": "row 1 (client 'L4'): its VRAM is '[N/A]'; it must be a size such as",
    b"NVIDIA L4, 23034 MiB\nTesla T4, 15360 MiB\n": "line 1 is 'NVIDIA L4, 23034 MiB', not the names of columns",
    b"name, memory.free [MiB]\nL4, 1 MiB\n": "memory.free [MiB], without memory.total; run nvidia-smi",
    b"Failed to initialize NVML: Driver/library version mismatch\n": "nvidia-smi failed on that machine: 'Failed to",
    SCREEN: "nvidia-smi's table for the screen; run nvidia-smi --query-gpu=name,memory",
    b"PK\x03\x04\x00": "cannot be read as Excel",
}


def test_a_file_that_is_no_fleet_is_refused_in_one_sentence(tmp_path):
    for content, says in NO_FLEETS.items():
        with pytest.raises(InvalidInputError) as error:
            Fleet.from_csv(content, OPT)
        assert says in str(error.value), content
    (tmp_path / "fleet.csv").write_bytes(SCREEN)
    left = call("allocate", "--fleet", str(tmp_path / "fleet.csv"))
    check_refused(left)
    assert NO_FLEETS[SCREEN] in left.err


def test_a_missing_file_says_what_to_give(tmp_path):
    with pytest.raises(MissingDataError, match="is not a file; give a table with columns client,vram_gib"):
        Fleet.from_csv(tmp_path / "nowhere.csv", OPT)


def test_a_table_of_gpus_or_of_another_format_is_a_fleet(tmp_path):
    (tmp_path / "gpus.csv").write_text("gpu,vram_gib\nT4,16\nT4,16\n")
    table = pd.DataFrame({"client": ["a", "b"], "vram_gib": [8.0, 16.0]})
    table.to_parquet(tmp_path / "fleet.parquet")
    table.to_json(tmp_path / "fleet.jsonl", orient="records", lines=True)
    assert Fleet.from_csv(tmp_path / "gpus.csv", "opt-125m").capacity_N_gib.tolist() == [16.0, 16.0]
    for name in ("fleet.parquet", "fleet.jsonl"):
        fleet = Fleet.from_csv(tmp_path / name, "opt-125m")
        assert (list(fleet.names), fleet.capacity_N_gib.tolist()) == (["a", "b"], [8.0, 16.0])
