"""Runs that are killed at any moment and end with the bits of an undisturbed one; and those that are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.command import call, check_refused, tree
from tests.runs.resumable import ALLOCATION, SETTINGS, InterruptAfter4, assert_ends_alike, copy_of, resume
from zorba_core.engine import loop
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import read_json
from zorba_core.runs import Run, list_runs
from zorba_core.runs.log import LOG, Log, read_log
from zorba_core.runs.record import new_folder
from zorba_core.runs.replay import WEIGHTS, replay
from zorba_core.runs.train import fine_tune

pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.mark.slow
def test_kills_at_random_bytes_of_the_log_end_alike(whole, tmp_path, logged):
    log = (whole.path / LOG).read_bytes()
    ends = np.cumsum([0, *map(len, log.splitlines(keepends=True))])
    generator = np.random.default_rng(0)
    for kill in range(20):
        cut = int(generator.integers(len(log) + 1))
        folder = copy_of(whole, tmp_path / str(kill))
        (folder / LOG).write_bytes(log[:cut])
        assert_ends_alike(resume(folder), whole)
        lines = logged()
        assert any(line.startswith("resuming after round") for line in lines)
        assert any("torn" in line for line in lines) == (cut not in ends)


@pytest.mark.parametrize("method", ["zorba", "fedit"])
def test_kill_9_again_and_again_ends_alike(tiny_opt_folder, tmp_path, method):
    """A chain of real processes, each killed at a random moment; the last ends with an undisturbed run's bits."""
    settings = SETTINGS.replace(rounds=60, eval_every=4).replace(method=method, directions=None, estimator=None)
    allocation = {"allocation": ALLOCATION} if method == "zorba" else {"num_clients": 3}

    def begin(runs_folder: Path) -> Run:
        return fine_tune(**allocation, model=tiny_opt_folder, settings=settings, runs_folder=runs_folder)

    whole = begin(tmp_path / "whole")
    generator = np.random.default_rng(1)
    runs_folder, reached = tmp_path / "killed", []
    for _ in range(12):
        begun = list_runs(runs_folder).runs
        child = os.fork()
        if child == 0:
            try:
                resume(begun[0]) if begun else begin(runs_folder)
            finally:
                os._exit(0)
        before = reached[-1] if reached else 0
        while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):  # until it has done something
            runs = list_runs(runs_folder).runs
            if runs and runs[0].rounds_done > before:
                break
            time.sleep(0.01)
        time.sleep(float(generator.random()) * 0.1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reached.append(list_runs(runs_folder).runs[0].rounds_done)
        if reached[-1] == settings.rounds:
            break
    (run,) = list_runs(runs_folder).runs
    if not run.finished:
        run = run.resume()
    assert len(reached) >= 3
    assert_ends_alike(run, whole)
    assert not list(run.path.glob(".*"))


def test_a_run_killed_before_its_first_line_starts_from_the_base(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    (folder / LOG).unlink()
    (folder / ".tmpa8Zk0Q").write_bytes(b"as safetensors names what it has not finished")
    assert_ends_alike(resume(folder), whole)
    assert not list(folder.glob(".*"))


def test_a_run_that_could_not_begin_gives_its_lock_back(tiny_opt_folder, whole, tmp_path, monkeypatch):
    def full(*arguments):
        raise RunError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Log, "append", full)
        with pytest.raises(RunError, match="No space"):
            fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert_ends_alike(resume(folder), whole)


def test_a_finished_run_whose_log_lost_its_end_is_replayed_on_request_and_resumed(whole, tmp_path):
    run = shutil.copytree(whole.path, tmp_path / "cut")
    (run / LOG).write_bytes(b"".join((run / LOG).read_bytes().splitlines(keepends=True)[:-3]))
    refused = call("replay", str(run))
    check_refused(refused)
    assert f"the end of {run / LOG} is damaged: its last 3 rounds are missing; restore it" in refused.err
    left = call("replay", str(run), "--round", "6", "--json")
    assert (left.status, json.loads(left.out)["round"]) == (0, 6)
    assert "round 7 is not in the log" in call("replay", str(run), "--round", "7").err
    assert_ends_alike(resume(run), whole)


def test_fedit_resumes_from_the_weights_of_its_last_evaluation(tiny_opt_folder, tmp_path, logged):
    settings = SETTINGS.replace(method="fedit", directions=None, estimator=None)
    request = {"num_clients": 3, "model": tiny_opt_folder, "settings": settings}
    whole = fine_tune(**request, runs_folder=tmp_path / "whole")
    assert replay(whole).network.weights_sha256() == whole.summary["weights_sha256"]
    with pytest.raises(InvalidInputError, match=r"exchanges weights, so its log has no scalars .* rounds 0 and 9"):
        replay(whole, 3)
    with pytest.raises(RunError, match="interrupted after round 4"):
        fine_tune(**request, runs_folder=tmp_path / "half", callbacks=[InterruptAfter4()])
    (half,), _ = list_runs(tmp_path / "half")
    content = (half.path / WEIGHTS).read_bytes()
    for number, bad in enumerate((content[:-1] + bytes([content[-1] ^ 1]), content[: len(content) // 2], b"", None)):
        damaged = shutil.copytree(half.path, tmp_path / str(number))
        (damaged / WEIGHTS).unlink() if bad is None else (damaged / WEIGHTS).write_bytes(bad)
        assert_ends_alike(resume(damaged), whole)
        assert "rounds after round 0, the last with saved weights, are computed again" in logged()
    assert_ends_alike(resume(half), whole)
    assert "rounds after round 3, the last with saved weights, are computed again" in logged()


def test_another_base_model_is_refused_by_its_fingerprint(whole, make_tiny_model, tiny_tokenizer, tmp_path):
    make_tiny_model("opt", seed=1).save_pretrained(tmp_path / "other")
    tiny_tokenizer.save_pretrained(tmp_path / "other")
    folder = copy_of(whole, tmp_path / "run")
    for opened in (resume, replay):
        with pytest.raises(InvalidInputError, match=r"is not the base model of .* give the right model with --model"):
            opened(folder, model=tmp_path / "other")
    shutil.copytree(whole.config["model"], tmp_path / "moved")
    assert replay(folder, model=tmp_path / "moved").network.weights_sha256() == whole.summary["weights_sha256"]


def test_a_damaged_log_is_refused_and_nothing_is_touched(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    log = bytearray((folder / LOG).read_bytes())
    log[900] ^= 1
    (folder / LOG).write_bytes(log)
    before = tree(folder)
    for opened in (resume, replay):
        with pytest.raises(InvalidInputError, match=r"line \d+ \(byte \d+\) is damaged"):
            opened(folder)
    assert tree(folder) == before


def test_weights_that_replay_differently_are_noticed(whole, tmp_path, monkeypatch):
    folder = copy_of(whole, tmp_path / "run")
    update = loop.apply_step  # as another processor's rounding would
    monkeypatch.setattr(loop, "apply_step", lambda *args: update(*args[:3], args[3] * (1 + 1e-6)))
    with pytest.raises(InvalidInputError, match="replays to other weights here"):
        resume(folder)


def test_other_versions_are_named_and_not_refused(whole, tmp_path, logged):
    config = read_json(whole.path / "config.json")
    environment = {**config.pop("environment"), "torch": "2.0.0"}
    run = resume(new_folder(tmp_path, "older", config, environment))
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert logged()[0].endswith("and was 2.0.0: the last bits may differ")


def test_a_live_run_is_not_resumed_a_second_time(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    with Log(folder), pytest.raises(InvalidInputError, match="another process is writing this run"):
        resume(folder)
    assert len(read_log(folder).rounds) == 10
