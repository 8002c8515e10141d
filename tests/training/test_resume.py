"""Runs that are killed and taken up again, and models rebuilt from the log."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from transformers import AutoModelForCausalLM

from zorba_core.allocation import Allocation
from zorba_core.cli import main
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.runs import TRAJECTORY, Run, read_run
from zorba_core.training import methods, session
from zorba_core.training import resume as resuming
from zorba_core.training.callbacks import Callback
from zorba_core.training.checkpoint import CHECKPOINT, Checkpoint, checkpoint_round
from zorba_core.training.network import BlockNetwork
from zorba_core.training.resume import replay, resume
from zorba_core.training.session import fine_tune
from zorba_core.training.settings import TrainSettings
from zorba_core.training.trajectory import EvaluationEntry, TrajectoryLog, read_trajectory

ALLOCATION = Allocation(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]))
SETTINGS = TrainSettings(
    rounds=9, num_perturbations=2, num_seeds=32, batch_size=2, seq_len=48, eval_every=3, eval_rows=8, participation=0.7
)
REPEATABLE = ["round", "train_loss", "eval_loss", "eval_accuracy", "forward_passes", "scalars_up", "scalars_down"]
REPEATABLE += ["clients_reported", "clients_refused"]


@pytest.fixture(scope="module", autouse=True)
def rows_divided_once():
    """Loading and dividing the rows takes longer than these runs: each division is made once."""
    divide, made = session.divide_rows, {}

    def remembered(task, tokenizer, *rest):
        if (task, *rest) not in made:
            made[task, *rest] = divide(task, tokenizer, *rest)
        return made[task, *rest]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "divide_rows", remembered)
        patch.setattr(resuming, "divide_rows", remembered)
        yield


@pytest.fixture(scope="module")
def whole(tiny_opt_folder, tmp_path_factory) -> Run:
    """The run that nothing interrupted."""
    return fine_tune(
        ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path_factory.mktemp("whole")
    )  # fmt: skip


def copy_of(run: Run, folder: Path) -> Path:
    """The folder as a killed process leaves it: no summary."""
    shutil.copytree(run.path, folder)
    (folder / "summary.json").unlink()
    return folder


def assert_ends_alike(run: Run, whole: Run) -> None:
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    pd.testing.assert_frame_equal(run.metrics[REPEATABLE], whole.metrics[REPEATABLE], check_exact=True)
    assert run.metrics["seconds"].is_monotonic_increasing


@pytest.mark.slow
def test_fifty_kills_at_random_bytes_of_the_log_end_alike(whole, tmp_path):
    log = (whole.path / TRAJECTORY).read_bytes()
    generator = np.random.default_rng(0)
    for kill in range(50):
        cut = int(generator.integers(len(log) + 1))
        folder = copy_of(whole, tmp_path / str(kill))
        (folder / TRAJECTORY).write_bytes(log[:cut])
        said = []
        assert_ends_alike(resume(folder, notice=said.append), whole)
        assert said[-1].startswith("going on after round")
        assert ("torn" in said[0]) == (cut not in np.cumsum([0, *map(len, log.splitlines(keepends=True))]))
        assert read_trajectory(folder / TRAJECTORY).dropped_bytes == 0


@pytest.mark.parametrize("method", ["zorba", "fedzo", "fedit"])
def test_kill_9_again_and_again_ends_alike(tiny_opt_folder, tmp_path, method):
    """A chain of real processes, each killed at a moment of its own; the last ends with an uninterrupted run's bits."""
    settings = dataclasses.replace(SETTINGS, rounds=60, eval_every=4).for_method(method)
    allocation = {"allocation": ALLOCATION} if method == "zorba" else {"num_clients": 3}

    def begin(runs_folder: Path) -> Run:
        return fine_tune(**allocation, model=tiny_opt_folder, settings=settings, runs_folder=runs_folder)

    whole = begin(tmp_path / "whole")
    generator = np.random.default_rng(1)
    runs_folder, reached = tmp_path / "killed", []
    for _ in range(12):
        begun = [path.parent for path in runs_folder.glob(f"*/{TRAJECTORY}")]
        child = os.fork()
        if child == 0:
            try:
                if begun:
                    resume(begun[0])
                else:
                    begin(runs_folder)
            finally:
                os._exit(0)
        before = reached[-1] if reached else 0
        while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):  # until it has done something
            logs = list(runs_folder.glob(f"*/{TRAJECTORY}"))
            if logs and read_trajectory(logs[0]).rounds_done > before:
                break
            time.sleep(0.01)
        time.sleep(float(generator.random()) * 0.1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reached.append(read_trajectory(next(runs_folder.glob(f"*/{TRAJECTORY}"))).rounds_done)
        if reached[-1] == settings.rounds:
            break
    folder = next(runs_folder.iterdir())
    if not (folder / "summary.json").exists():
        resume(folder)
    assert len(reached) >= 3
    assert_ends_alike(read_run(folder), whole)
    assert not list(folder.glob(".*"))
    assert not (folder / CHECKPOINT).exists()


def test_a_run_killed_before_its_log_was_begun_starts_from_the_base(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    (folder / TRAJECTORY).unlink()
    (folder / "metrics.parquet").unlink()
    (folder / ".metrics-half.parquet").write_bytes(b"PAR1")
    assert_ends_alike(resume(folder), whole)
    assert not list(folder.glob(".*"))


@pytest.mark.slow
def test_the_command_goes_on_after_kill_9(whole, tiny_opt_folder, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    log = (folder / TRAJECTORY).read_bytes()
    (folder / TRAJECTORY).write_bytes(log[: len(log) // 4])
    command = [sys.executable, "-m", "zorba_core", "resume", str(folder), "--json"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("going on after"):
            break
    process.kill()
    process.communicate()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:  # it was quicker than the kill
        assert "finished" in done.stderr
    else:
        assert json.loads(done.stdout)["weights_sha256"] == whole.summary["weights_sha256"]
    assert_ends_alike(read_run(folder), whole)


def test_any_round_is_rebuilt_from_base_and_log_alone(whole, tmp_path, monkeypatch):
    class Weights(Callback):
        of_round: dict[int, str] = {}  # noqa: RUF012 - filled by the run below

        def on_evaluation(self, entry):
            self.of_round[entry.round] = entry.weights_sha256

    weights = Weights()
    settings = dataclasses.replace(SETTINGS, eval_every=1)
    fine_tune(
        ALLOCATION, model=whole.config["model"], settings=settings, runs_folder=tmp_path / "every", callbacks=[weights]
    )
    monkeypatch.setattr(resuming, "divide_rows", None)  # no data is touched
    for t in (0, 1, 4, 9):
        rebuilt = replay(whole.path, round_index=t, save=tmp_path / str(t))
        assert rebuilt.network.weights_sha256() == weights.of_round[t]
        assert rebuilt.checked_at == t // 3 * 3
        saved = BlockNetwork(AutoModelForCausalLM.from_pretrained(tmp_path / str(t)), [0, 1])
        assert saved.weights_sha256() == weights.of_round[t]
    assert replay(whole.path).round == 9


@pytest.mark.parametrize("method", ["decomfl", "fedzo"])
def test_scalars_rebuild_any_round_of_a_method_that_has_them(tiny_opt_folder, tmp_path, method):
    settings = dataclasses.replace(SETTINGS.for_method(method), rounds=4, eval_every=1)
    run = fine_tune(num_clients=3, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path)
    entries = read_trajectory(run.path / TRAJECTORY).evaluations
    for t in (1, 4):
        assert replay(run.path, round_index=t).network.weights_sha256() == entries[t].weights_sha256
    assert len({entry.weights_sha256 for entry in entries}) == 5


class After4(Callback):
    def on_step(self, entry):
        self.round = entry.round

    def wants_stop(self):
        return self.round >= 4


def test_weights_that_no_log_can_give_back_are_on_disk_while_they_are_needed(tiny_opt_folder, tmp_path):
    settings = SETTINGS.for_method("fedit")
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


def test_a_full_disk_leaves_the_checkpoint_before_and_a_reason(make_tiny_model, tmp_path):
    writer = Checkpoint(tmp_path, BlockNetwork(make_tiny_model("opt"), [70, 71]))
    writer.on_evaluation(EvaluationEntry(3, 0.5, 0.7, ""))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(RunError, match=r"checkpoint\.safetensors cannot be written .* make room and resume"):
            writer.on_evaluation(EvaluationEntry(6, 0.5, 0.7, ""))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert checkpoint_round(tmp_path) == 3
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_a_run_at_its_target_is_not_trained_further(whole, tmp_path):
    """The log says that the last evaluation reached it, so only the summary is missing."""
    settings = dataclasses.replace(SETTINGS, target=0.01, stop_at_target=True)
    run = fine_tune(ALLOCATION, model=whole.config["model"], settings=settings, runs_folder=tmp_path)
    (run.path / "summary.json").unlink()
    again = resume(run.path)
    assert {**again.summary, "memory": 0, "resumed_after_rounds": 0} == {
        **run.summary,
        "memory": 0,
        "resumed_after_rounds": 0,
    }
    assert again.summary["stopped_by"] == "target"


def test_an_interrupted_run_goes_on_and_a_finished_one_does_not(whole, tmp_path):
    half = fine_tune(
        ALLOCATION, model=whole.config["model"], settings=SETTINGS, runs_folder=tmp_path, callbacks=[After4()]
    )
    assert half.summary["rounds_done"] == 4
    run = resume(half.path)
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
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
    (folder / "config.json").write_text((folder / "config.json").read_text().replace('"lr": 0.0', '"lr": 0.9'))
    with pytest.raises(InvalidInputError, match=r"config.json is not the one that trajectory.log was written under"):
        resume(folder)
    assert not (folder / "summary.json").exists()


def test_weights_that_replay_differently_are_noticed(whole, tmp_path, monkeypatch):
    folder = copy_of(whole, tmp_path / "run")
    update = methods.apply_scalars
    monkeypatch.setattr(
        methods, "apply_scalars", lambda *args: update(*args[:-1], args[-1] * (1 + 1e-6))
    )  # fmt: skip  - as another processor's rounding would
    with pytest.raises(InvalidInputError, match="replays to other weights here"):
        resume(folder)


def test_other_versions_are_said_and_not_refused(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    text = (folder / "environment.json").read_text()
    (folder / "environment.json").write_text(
        text.replace(f'"torch": "{whole.environment["torch"]}"', '"torch": "2.0.0"')
    )
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
    with pytest.raises(MissingDataError, match="nothing to go on from"):
        resume(folder)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["resume", "nowhere"], "'nowhere' does not exist"),
        (["replay", "nowhere"], "'nowhere' does not exist"),
        (["resume", "{run}"], "this run is finished"),
        (["replay", "{run}", "--round", "10"], "round 10 is not in the log"),
        (["replay", "{run}", "--round", "-1"], "--round is -1"),
        (["replay", "{run}", "--save", "{run}"], "exists already"),
        (["replay", "{run}", "--model", "no-such"], "unknown model 'no-such'"),
    ],
)
def test_a_wrong_request_gets_one_line_and_status_2(whole, monkeypatch, capsys, arguments, says):
    monkeypatch.setattr(sys, "argv", ["zorba", *(word.format(run=whole.path) for word in arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    captured = capsys.readouterr()
    assert (left.value.code, captured.out) == (2, "")
    assert says in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_replay_prints_what_it_rebuilt(whole, monkeypatch, capsys, tmp_path):
    save = str(tmp_path / "model")
    monkeypatch.setattr(sys, "argv", ["zorba", "replay", str(whole.path), "--round", "6", "--save", save, "--json"])
    with pytest.raises(SystemExit) as left:
        main()
    result = json.loads(capsys.readouterr().out)
    assert not left.value.code
    assert (result["round"], result["checked_at_round"], result["saved"]) == (6, 6, save)
    saved = BlockNetwork(AutoModelForCausalLM.from_pretrained(save), [0, 1])
    assert saved.weights_sha256() == result["weights_sha256"]
