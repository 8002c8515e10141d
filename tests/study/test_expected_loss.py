"""What an allocation may cost in loss: stored runs of like V beside full activation."""

from __future__ import annotations

import pandas as pd
import pytest

from zorba_core.errors import MissingDataError
from zorba_core.study.expected_loss import runs_by_v


def test_the_difference_is_that_of_the_nearest_pairs_and_an_arm_without_a_partner_does_not_count(tmp_path):
    folder = tmp_path / "lambda" / "standard"
    folder.mkdir(parents=True)
    rows = []
    for seed in range(60):
        shared = {"seed": seed, "num_clients": 4, "lr": 0.01, "alpha": 1.0, "rounds": 9, "status": "finished",
                  "initial_loss": 1.0, "dataset": "d", "model": "m"}  # fmt: skip
        rows.append({**shared, "arm": "full", "V": 0.25, "final_loss": 0.5})
        rows.append({**shared, "arm": "near", "V": 0.5, "final_loss": 0.5 + 0.001 * seed})
        rows.append({**shared, "arm": "far", "V": 0.9, "final_loss": 0.9})
    rows.append({**rows[1], "seed": 99, "final_loss": 50.0})
    pd.DataFrame(rows).to_parquet(folder / "runs.parquet")
    found = runs_by_v(tmp_path).at(0.45)
    assert (found.v_low, found.v_high, found.num_runs) == (0.5, 0.5, 40)
    assert 0 <= found.low < found.mean < found.high < 0.06
    assert found.learned == pytest.approx(0.5)
    assert runs_by_v(tmp_path).at(2.0).mean == pytest.approx(0.4)


def test_without_the_experiment_there_is_no_number(tmp_path):
    with pytest.raises(MissingDataError, match="zorba experiment lambda"):
        runs_by_v(tmp_path)
