from __future__ import annotations

import numpy as np
import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.files import to_json
from zorba_core.training.bench import BenchSettings, allocations, client_batches, run_bench


def test_a_bench_compares_what_it_timed(tiny_opt_folder):
    settings = BenchSettings(
        model=str(tiny_opt_folder),
        num_clients=4,
        batch_size=2,
        seq_len=9,
        num_perturbations=2,
        total_blocks=6,
        repeats=1,
        growth=False,
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
    error = result["bfloat16"]["rho_rms_error_relative_to_float64"]
    assert error["float32"] < error["bfloat16"]
    assert "growth" not in result
    assert '"git_commit"' in to_json(result)
    assert lines


def test_routed_allocations_hold_the_total_and_least_work_is_least():
    settings = BenchSettings()
    by_name = allocations(settings, 12)
    assert by_name["full"].total_blocks == 600
    assert all(by_name[name].total_blocks <= 200 for name in by_name if name != "full")

    def work(name: str) -> int:
        return int(np.logical_or.accumulate(by_name[name].A_MN, axis=0).sum())

    assert work("two-level, least work") < work("balanced, least work") <= work("balanced") < work("full") == 600


def test_rows_of_unequal_length_are_cut_to_their_clients_longest():
    for batch in client_batches(BenchSettings(num_clients=6), 500, shortest=8):
        assert batch.token_ids_RL.shape[1] == int(batch.last_R.max()) + 1 <= 32


def test_a_count_below_one_is_refused():
    with pytest.raises(InvalidInputError, match="repeats is 0"):
        BenchSettings(repeats=0)
