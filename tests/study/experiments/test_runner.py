"""Experiments as they are run: the ci profile, on toy reviews."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pandas as pd
import pytest

from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.files import to_json
from zorba_core.study.experiments import EXPERIMENTS, read_results, run_experiments, runner, store
from zorba_core.study.experiments.specs import RunSpec
from zorba_core.study.experiments.worker import run_folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where the ablations' ci profile has been run."""
    folder = tmp_path_factory.mktemp("experiments")
    log = io.StringIO()
    done = run_experiments(["ablations"], "ci", root=folder, stream=log)
    assert (done.ran, done.failed, done.stopped) == (3, 0, False)
    assert "3 runs to do" in log.getvalue()
    assert "3/3" in log.getvalue()
    return folder


@pytest.fixture
def copy(root, tmp_path):
    shutil.copytree(root, tmp_path / "copy")
    return tmp_path / "copy"


def test_finished_runs_are_skipped(root):
    assert run_experiments(["ablations"], "ci", root=root, stream=io.StringIO()).ran == 0


def test_the_tables_alone_are_enough_to_skip(copy):
    shutil.rmtree(copy / store.WORK)
    assert run_experiments(["ablations"], "ci", root=copy, stream=io.StringIO()).ran == 0


def test_a_run_without_its_curve_is_asked_for_again(copy):
    results = read_results("ablations", "ci", copy)
    lost = results.runs["sha256"].iloc[1]
    store.write_tables(copy / "ablations" / "ci", results.runs, results.curves[results.curves["sha256"] != lost])
    assert run_experiments(["ablations"], "ci", root=copy, stream=io.StringIO()).ran == 1
    again = read_results("ablations", "ci", copy)
    assert set(again.curves["sha256"]) == set(again.runs["sha256"]) == set(results.runs["sha256"])


def test_a_second_process_is_told_to_wait(copy):
    with runner._alone(copy / store.WORK), pytest.raises(RunError, match="another process runs experiments in"):
        run_experiments(["ablations"], "ci", root=copy, stream=io.StringIO())


def test_more_workers_give_the_same_weights(root, tmp_path):
    run_experiments(["ablations"], "ci", workers=2, root=tmp_path, stream=io.StringIO())
    alone, pooled = (read_results("ablations", "ci", folder).runs for folder in (root, tmp_path))
    assert alone["weights_sha256"].tolist() == pooled["weights_sha256"].tolist()


def test_a_run_cut_short_is_taken_up_and_ends_with_the_same_weights(copy):
    """Killed before the summary and the last record of its log were written."""
    before = read_results("ablations", "ci", copy).runs
    spec = EXPERIMENTS["ablations"].specs("ci", store.empty_runs())[0]
    (run,) = (path for path in run_folder(spec, copy / store.WORK).iterdir() if path.is_dir())
    (run / "summary.json").unlink()
    log = run / "rounds.jsonl"
    log.write_bytes(log.read_bytes()[:-40])
    runs, curves = store.read_tables(copy / "ablations" / "ci")
    store.write_tables(copy / "ablations" / "ci", runs[runs["sha256"] != spec.sha256], curves)
    assert run_experiments(["ablations"], "ci", root=copy, stream=io.StringIO()).ran == 1
    assert read_results("ablations", "ci", copy).runs["weights_sha256"].tolist() == before["weights_sha256"].tolist()
    assert (run / "summary.json").is_file()


def test_rows_carry_provenance_measures_and_their_whole_request(root):
    results = read_results("ablations", "ci", root)
    assert results.left_out == ()
    assert results.missing == 0
    specs = {spec.sha256: spec for spec in EXPERIMENTS["ablations"].specs("ci", results.runs)}
    for row in results.runs.itertuples():
        spec = specs[row.sha256]
        assert json.loads(row.config)["request"] == json.loads(to_json(spec.request()))
        assert spec.recipe.build().coupled_noise == row.E
        assert row.engine_version == store.ENGINE_VERSION
        assert row.base_weights_sha256
    assert set(results.curves["sha256"]) == set(results.runs["sha256"])
    assert (results.curves.groupby("sha256")["round"].max() == 3).all()


def test_runs_of_another_engine_or_config_are_named_and_left_out(copy):
    folder = copy / "ablations" / "ci"
    runs, curves = store.read_tables(folder)
    runs.loc[0, "engine_version"] = store.ENGINE_VERSION - 1
    runs.loc[1, "sha256"] = "0" * 64
    store.write_tables(folder, runs, curves)
    results = read_results("ablations", "ci", copy)
    assert len(results.runs) == 1
    assert results.missing == 2
    assert any(f"engine version {store.ENGINE_VERSION - 1}" in line for line in results.left_out)
    assert any(runs.loc[1, "arm"] in line for line in results.left_out)


def test_a_run_that_diverges_is_a_row_with_the_reason(tmp_path, monkeypatch):
    spec = EXPERIMENTS["ablations"].specs("ci", store.empty_runs())[0]
    wild = RunSpec("wild", spec.recipe, {**spec.settings, "lr": 1e30}, dataset=spec.dataset)
    monkeypatch.setitem(EXPERIMENTS, "wild", type(EXPERIMENTS["ablations"])("wild", "?", lambda profile, runs: [wild]))
    assert run_experiments(["wild"], "ci", root=tmp_path, stream=io.StringIO()).failed == 1
    (row,) = read_results("wild", "ci", tmp_path).runs.itertuples()
    assert row.status == "failed"
    assert "diverged" in row.reason
    assert np.isnan(row.final_loss)
    assert read_results("wild", "ci", tmp_path).finished.empty


def test_wrong_requests_are_refused_in_one_line(tmp_path):
    with pytest.raises(InvalidInputError, match="experiment 'alchemy' is unknown; choose one of"):
        read_results("alchemy")
    with pytest.raises(InvalidInputError, match="profile is 'huge'"):
        read_results("lambda", "huge", tmp_path)
    with pytest.raises(MissingDataError, match="zorba experiment lambda --profile ci"):
        read_results("lambda", "ci", tmp_path)
    with pytest.raises(InvalidInputError, match="workers is 0"):
        run_experiments(["lambda"], "ci", workers=0, root=tmp_path)


def test_a_damaged_table_is_named(tmp_path):
    folder = tmp_path / "lambda" / "ci"
    folder.mkdir(parents=True)
    (folder / "runs.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InvalidInputError, match=r"runs\.parquet: not a table of runs"):
        read_results("lambda", "ci", tmp_path)


def test_a_rate_is_chosen_once_every_trial_is_in_and_the_best_finished_one_wins():
    from zorba_core.study.experiments.protocol import best_rate

    trials = pd.DataFrame(
        {
            "role": "tune",
            "arm": "zorba",
            "dataset": "sst2",
            "lr": [0.01, 0.02, 0.04],
            "late_loss": [0.6, 0.5, None],
        }
    )
    assert best_rate(trials, "zorba", "sst2", [0.01, 0.02, 0.04]) == 0.02
    assert best_rate(trials.iloc[:2], "zorba", "sst2", [0.01, 0.02, 0.04]) is None


def test_the_runs_that_use_a_tuned_rate_are_asked_for_after_its_trials():
    experiment = EXPERIMENTS["tables"]
    first = experiment.specs("standard", store.empty_runs())
    assert {spec.role for spec in first} == {"tune"}
    trials = [spec for spec in first if spec.arm == "zorba" and spec.dataset == "sst2"]
    runs = pd.DataFrame(
        {
            "role": "tune",
            "arm": "zorba",
            "dataset": "sst2",
            "lr": [spec.settings["lr"] for spec in trials],
            "late_loss": np.arange(len(trials), dtype=float),
        }
    )
    measured = [spec for spec in experiment.specs("standard", runs) if spec.role == "measure"]
    assert len(measured) == 5
    assert {spec.settings["lr"] for spec in measured} == {trials[0].settings["lr"]}
    assert not {spec.seed for spec in measured} & {spec.seed for spec in first}


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_profile_asks_for_each_run_once_and_seed_0_first(name):
    for profile in EXPERIMENTS[name].profiles:
        specs = EXPERIMENTS[name].specs(profile, store.empty_runs())
        assert specs
        assert len({spec.sha256 for spec in specs}) == len(specs)
        assert [spec.wave for spec in specs] == sorted(spec.wave for spec in specs)
