from __future__ import annotations

import time

import pytest
import torch

from zorba_core.errors import InvalidInputError
from zorba_core.files import to_json
from zorba_core.study.bench import targets
from zorba_core.study.bench.common import BenchSettings, allocations, synchronised
from zorba_core.study.bench.rounds import run_bench
from zorba_core.study.bench.targets import run_targets


def test_a_bench_compares_what_it_timed(tiny_opt_folder):
    settings = BenchSettings(
        model=str(tiny_opt_folder),
        clients=4,
        batch_size=2,
        seq_len=9,
        directions=2,
        total=6,
        repeats=1,
    )
    lines: list[str] = []
    result = run_bench(settings, lines.append)
    assert set(result["rounds"]) == set(allocations(settings, 3))
    for entry in result["rounds"].values():
        seconds = {name: values[0] for name, values in entry["seconds"].items()}
        assert entry["cohort_over_floor"] == pytest.approx(seconds["cohort"] / seconds["floor"])
        assert entry["reference_over_cohort"] == pytest.approx(seconds["reference"] / seconds["cohort"])
        assert entry["faster_than_full"] == pytest.approx(
            result["rounds"]["full"]["seconds"]["cohort"][0] / seconds["cohort"]
        )
        assert entry["rho_difference_over_largest"] < 1e-5
        assert entry["row_blocks_per_direction"] <= entry["row_blocks_of_full"] == 3 * 4 * 2
    assert result["rounds"]["full"]["row_blocks_per_direction"] == 3 * 4 * 2
    assert '"git_commit"' in to_json(result)
    assert lines


def test_the_profile_for_gpus_measures_every_precision_that_the_device_has(tiny_opt_folder):
    settings = BenchSettings(clients=3, batch_size=2, seq_len=8, directions=2, repeats=2)
    lines: list[str] = []
    result = run_targets(settings, [str(tiny_opt_folder)], lines.append)
    found = result["models"]["tiny-opt"]
    assert result["settings"]["model"] == [str(tiny_opt_folder)]
    assert found["block_parameters"] == 3 * (4 * (16 * 16 + 16) + 2 * 16 * 32 + 32 + 16 + 4 * 16)
    assert list(found["precisions"]) == ["highest", "bf16"]
    # Of the full blocks alone: products of 6 rows of 8 positions, base pass and two directions.
    products = 2 * (6 * 8) * (4 * 16 * 16 + 2 * 16 * 32) * 2 * 3
    for entry in found["precisions"].values():
        assert entry["flops"] > products
        assert entry["flops_per_second"] == entry["flops"] / entry["seconds"]
        assert len(entry["all_seconds"]) == 2
    assert '"git_commit"' in to_json(result)
    assert len(lines) == 2


def test_few_rounds_are_timed_where_they_are_long_and_only_what_is_asked_for(tiny_opt_folder, monkeypatch):
    monkeypatch.setattr(targets, "_LONG_S", 0.0)
    sizes = {"clients": 3, "batch_size": 2, "seq_len": 8, "directions": 2}
    settings = BenchSettings(**sizes, repeats=5, precision="bf16")
    found = run_targets(settings, [str(tiny_opt_folder)])["models"]["tiny-opt"]
    assert list(found["precisions"]) == ["bf16"]
    assert found["precisions"]["bf16"]["all_seconds"] == [found["precisions"]["bf16"]["seconds"]]
    with pytest.raises(InvalidInputError, match="precision 'tf32' is not one of highest, bf16, which device cpu has"):
        BenchSettings(precision="bf16, tf32")


def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(InvalidInputError, match="sees no CUDA device"):
        BenchSettings(device="cuda")


def test_routed_allocations_hold_the_total():
    settings = BenchSettings()
    by_name = allocations(settings, 12)
    assert by_name["full"].total_blocks == 600
    assert all(by_name[name].total_blocks <= 200 for name in by_name if name != "full")


def test_a_count_below_one_is_refused():
    with pytest.raises(InvalidInputError, match="repeats is 0"):
        BenchSettings(repeats=0)


def test_a_clock_that_stands_still_gives_the_least_it_can_tell_apart(monkeypatch):
    def process_time() -> float:
        return 1.0

    monkeypatch.setattr(time, "process_time", process_time)
    assert synchronised(lambda: None, BenchSettings(threads=1)) == time.get_clock_info("process_time").resolution > 0
