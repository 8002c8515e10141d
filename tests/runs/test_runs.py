from __future__ import annotations

import os
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from zorba_core.allocation import Allocation
from zorba_core.engine.callbacks import RoundRecord
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs import METRIC_COLUMNS, list_runs, read_run
from zorba_core.runs.writer import RunWriter

ALLOCATION = Allocation(np.array([[1, 0, 1], [1, 1, 0]]))
CONFIG = {"dataset": "sst2", "seed": 0, "lr": 0.01}


def record(t: int, accuracy: float | None) -> RoundRecord:
    return RoundRecord(
        t, 0.5 if t else None, None if accuracy is None else 0.6, accuracy, 1.5 * t, 33 * t, 30 * t, 90 * t
    )


def write_run(folder, *, finished=True, name="sst2") -> RunWriter:
    writer = RunWriter(folder, name, CONFIG, {"torch": "2.13.0"}, ALLOCATION)
    for t, accuracy in [(0, 0.5), (1, None), (2, 0.7), (3, None)]:
        writer.on_round(record(t, accuracy))
    if finished:
        writer.finish({"best_accuracy": 0.7})
    return writer


def test_a_run_reads_back_as_it_was_written(tmp_path):
    run = read_run(write_run(tmp_path).path)
    assert run.config == {"method": "zorba", **CONFIG}  # older runs do not name it
    assert run.environment == {"torch": "2.13.0"}
    assert run.summary == {"best_accuracy": 0.7}
    assert run.finished
    assert np.array_equal(run.allocation.A_MN, ALLOCATION.A_MN)
    assert list(run.metrics.columns) == list(METRIC_COLUMNS)
    assert run.metrics["round"].tolist() == [0, 1, 2, 3]
    assert run.metrics["eval_accuracy"].isna().tolist() == [False, True, False, True]
    assert run.evaluations["round"].tolist() == [0, 2]


def test_a_run_that_goes_on_shows_its_metrics_up_to_the_last_evaluation(tmp_path):
    write_run(tmp_path, finished=False)
    (run,), problems = list_runs(tmp_path)
    assert not run.finished
    assert run.metrics["round"].tolist() == [0, 1, 2]
    assert problems == ()


def test_every_run_has_a_folder_of_its_own(tmp_path):
    paths = [write_run(tmp_path).path for _ in range(3)]
    assert [path.name[13:] for path in paths] == ["", "-2", "-3"]
    assert len({path.name[:13] for path in paths}) == 1  # sst2- and eight digits of the config's hash
    other = RunWriter(tmp_path, "sst2", {**CONFIG, "seed": 1}, {}, ALLOCATION)
    assert other.path.name[:13] != paths[0].name[:13]


def test_a_metrics_table_without_a_column_is_refused(tmp_path):
    path = write_run(tmp_path).path
    pd.DataFrame({"round": [1], "train_loss": [0.3]}).to_parquet(path / "metrics.parquet")
    with pytest.raises(InvalidInputError, match="no column eval_loss"):
        read_run(path)


def test_an_allocation_with_a_pickle_inside_is_refused(tmp_path):
    path = write_run(tmp_path).path
    np.savez(path / "allocation.npz", A_MN=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InvalidInputError, match=r"allocation\.npz"):
        read_run(path)


def test_a_missing_run_is_said_to_be_missing(tmp_path):
    with pytest.raises(MissingDataError, match="does not exist"):
        read_run(tmp_path / "nothing")
    assert list_runs(tmp_path / "nowhere") == ((), ())


def test_newest_runs_come_first(tmp_path):
    import os

    older, newer = write_run(tmp_path, name="a").path, write_run(tmp_path, name="b").path
    os.utime(older / "config.json", (1, 1))
    assert [run.path for run in list_runs(tmp_path).runs] == [newer, older]


@pytest.mark.parametrize(
    ("added", "mode"), [({}, 0o755), ({"task": {"name": "tickets"}}, 0o700), ({"federation": {}}, 0o700)]
)
def test_the_folder_of_a_run_on_rows_of_ones_own_or_of_a_federation_is_its_owners_alone(tmp_path, added, mode):
    before = os.umask(0o022)
    try:
        writer = RunWriter(tmp_path, "own", {**CONFIG, **added}, {}, ALLOCATION)
    finally:
        os.umask(before)
    writer.close()
    assert stat.S_IMODE(writer.path.stat().st_mode) == mode


@pytest.mark.parametrize("name", ["", "../escape", "a/b", ".hidden", "x" * 101, "a b"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path, name):
    with pytest.raises(InvalidInputError, match="run name"):
        RunWriter(tmp_path, name, CONFIG, {}, ALLOCATION)
    assert list(tmp_path.iterdir()) == []


def test_a_runs_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be used"):
        RunWriter(tmp_path / "file", "sst2", CONFIG, {}, ALLOCATION)


def test_reading_runs_needs_no_torch():
    code = "import sys, zorba_core.runs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
