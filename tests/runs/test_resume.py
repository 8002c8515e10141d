"""Runs that are resumed, and those that are refused."""

from __future__ import annotations

import json
import shutil

import pytest

from tests import command
from tests.runs.resumable import ALLOCATION, SETTINGS, After4, assert_ends_alike, copy_of
from zorba_core.engine.methods import interface as methods
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import read_json, write_json
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.checkpoint import CHECKPOINT
from zorba_core.runs.resume import replay, resume
from zorba_core.runs.session import fine_tune
from zorba_core.runs.trajectory import TrajectoryLog, read_trajectory

pytestmark = pytest.mark.usefixtures("rows_divided_once")


def test_weights_that_no_log_can_give_back_are_on_disk_while_they_are_needed(tiny_opt_folder, tmp_path):
    settings = SETTINGS.replace(method="fedit", directions=None)
    request = {"num_clients": 3, "model": tiny_opt_folder, "settings": settings}
    whole = fine_tune(**request, runs_folder=tmp_path / "whole")
    with pytest.raises(InvalidInputError, match=r"fedit exchanges weights, so its log has no scalars .* only round 0"):
        replay(whole.path)
    half = fine_tune(**request, runs_folder=tmp_path / "half", callbacks=[After4()])
    assert (half.summary["stopped_by"], half.summary["rounds_done"]) == ("interrupt", 4)
    rebuilt = replay(half.path, save=tmp_path / "model")
    assert (rebuilt.round, rebuilt.network.weights_sha256()) == (4, half.summary["weights_sha256"])
    with pytest.raises(InvalidInputError, match="only rounds 0 and 4, its last checkpoint, can be had"):
        replay(half.path, round_index=3)
    damaged = shutil.copytree(half.path, tmp_path / "damaged")
    content = (damaged / CHECKPOINT).read_bytes()
    for bad in (content[:-1] + bytes([content[-1] ^ 1]), content[: len(content) // 2], b"", b"{}"):
        (damaged / CHECKPOINT).write_bytes(bad)
        with pytest.raises(InvalidInputError, match=r"checkpoint\.safetensors does not hold the weights"):
            resume(damaged)
    said = []
    (damaged / CHECKPOINT).unlink()
    assert_ends_alike(resume(damaged, notice=said.append), whole)
    assert "4 rounds after the last checkpoint (round 0) will be computed again" in said
    assert resume(half.path).summary["weights_sha256"] == whole.summary["weights_sha256"]


def test_a_run_at_its_target_is_not_trained_further(whole, tmp_path):
    """The log says that the last evaluation reached it, so only the summary is missing."""
    settings = SETTINGS.replace(target=0.01, stop_at_target=True)
    run = fine_tune(ALLOCATION, model=whole.config["model"], settings=settings, runs_folder=tmp_path)
    (run.path / "summary.json").unlink()
    again = resume(run.path)
    assert {**again.summary, "memory": 0, "resumed_after_rounds": 0} == {
        **run.summary,
        "memory": 0,
        "resumed_after_rounds": 0,
    }
    assert again.summary["stopped_by"] == "target"


def cut_by_records(log, count):
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-count]))


def test_a_finished_run_whose_log_lost_its_end_is_replayed_by_request_alone(whole, tmp_path):
    run = shutil.copytree(whole.path, tmp_path / "cut")
    cut_by_records(run / TRAJECTORY, 4)
    lacks = "it ends at round 6 and the run had 9"
    refused = command.call("replay", str(run))
    command.check_refused(refused)
    assert f"is damaged: {lacks}; restore trajectory.log, or give a round up to 6 with --round" in refused.err
    left = command.call("replay", str(run), "--round", "6", "--json")
    assert (left.status, json.loads(left.out)["round"]) == (0, 6)
    assert left.lines == [f"the end of the log of {run} is damaged: {lacks}; replaying up to round 6"]
    beyond = command.call("replay", str(run), "--round", "7")
    assert f"it has 0 to 6; its end is damaged: {lacks}" in beyond.err


def test_an_interrupted_run_whose_log_lost_its_end_says_what_is_computed_again(whole, tmp_path):
    half = fine_tune(
        ALLOCATION, model=whole.config["model"], settings=SETTINGS, runs_folder=tmp_path, callbacks=[After4()]
    )
    cut_by_records(half.path / TRAJECTORY, 2)
    said = []
    assert_ends_alike(resume(half.path, notice=said.append), whole)
    damaged = f"the end of {half.path / TRAJECTORY} is damaged: it ends at round 3 and the run had 4; "
    assert said == [damaged + "that is computed again", "resuming after round 3"]


def test_an_interrupted_run_goes_on_and_a_finished_one_does_not(whole, tmp_path):
    half = fine_tune(
        ALLOCATION, model=whole.config["model"], settings=SETTINGS, runs_folder=tmp_path, callbacks=[After4()]
    )
    assert half.summary["rounds_done"] == 4
    assert half.metrics["eval_accuracy"].notna().tolist() == [True, False, False, True, True]
    run = resume(half.path)
    assert_ends_alike(run, whole)  # without the evaluation that the interruption asked for
    assert run.metrics["round"].tolist() == list(range(10))
    assert read_trajectory(run.path / TRAJECTORY).resumed_after == (4,)
    assert run.summary["resumed_after_rounds"] == [4]
    with pytest.raises(InvalidInputError, match="this run is finished"):
        resume(run.path)


def test_another_base_model_is_refused_by_its_fingerprint(whole, make_tiny_model, tiny_tokenizer, tmp_path):
    make_tiny_model("opt", seed=1).save_pretrained(tmp_path / "other")
    tiny_tokenizer.save_pretrained(tmp_path / "other")
    folder = copy_of(whole, tmp_path / "run")
    for call in (resume, replay):
        with pytest.raises(InvalidInputError, match=r"is not the base model of .* name the right one with --model"):
            call(folder, model=tmp_path / "other")
    shutil.copytree(whole.config["model"], tmp_path / "moved")
    assert replay(folder, model=tmp_path / "moved").network.weights_sha256() == whole.summary["weights_sha256"]


def test_a_changed_config_or_damaged_log_is_refused_and_nothing_is_touched(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    log = (folder / TRAJECTORY).read_bytes()
    (folder / TRAJECTORY).write_bytes(log[:900] + b"#" + log[901:])
    for call in (resume, replay):
        with pytest.raises(InvalidInputError, match=r"record \d+ \(byte \d+ of \d+\) is damaged"):
            call(folder)
    assert (folder / TRAJECTORY).stat().st_size == len(log)
    (folder / TRAJECTORY).write_bytes(log)
    (folder / "config.json").write_text(json.dumps(read_json(folder / "config.json") | {"lr": 0.9}))
    with pytest.raises(InvalidInputError, match=r"config.json is not the one that trajectory.log was written under"):
        resume(folder)
    assert not (folder / "summary.json").exists()


def test_weights_that_replay_differently_are_noticed(whole, tmp_path, monkeypatch):
    folder = copy_of(whole, tmp_path / "run")
    update = methods.update_blocks
    monkeypatch.setattr(
        methods, "update_blocks", lambda *args: update(*args[:4], args[4] * (1 + 1e-6), *args[5:])
    )  # fmt: skip  - as another processor's rounding would
    with pytest.raises(InvalidInputError, match="replays to other weights here"):
        resume(folder)


def test_other_versions_are_said_and_not_refused(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    write_json(folder / "environment.json", {**read_json(folder / "environment.json"), "torch": "2.0.0"})
    said = []
    assert resume(folder, notice=said.append).summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert said[0].endswith("and was 2.0.0: the coming rounds' bits may differ")


def test_a_live_run_is_not_resumed_a_second_time(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    writer = TrajectoryLog(folder / TRAJECTORY)
    with pytest.raises(InvalidInputError, match="another process is writing this run"):
        resume(folder)
    writer.close()
    (folder / TRAJECTORY).unlink()
    with pytest.raises(MissingDataError, match="nothing to resume from"):
        resume(folder)
