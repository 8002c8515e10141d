"""Runs whose process dies at any moment, and which still end with the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.runs.resumable import ALLOCATION, SETTINGS, assert_ends_alike, copy_of
from zorba_core.runs import TRAJECTORY, Run, read_run, session
from zorba_core.runs.checkpoint import CHECKPOINT
from zorba_core.runs.resume import resume
from zorba_core.runs.session import fine_tune
from zorba_core.runs.trajectory import read_trajectory
from zorba_core.runs.writer import RunWriter

pytestmark = pytest.mark.usefixtures("rows_divided_once")


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
        assert said[-1].startswith("resuming after round")
        assert any("torn" in line for line in said) == (
            cut not in np.cumsum([0, *map(len, log.splitlines(keepends=True))])
        )
        assert read_trajectory(folder / TRAJECTORY).dropped_bytes == 0


@pytest.mark.parametrize("method", ["zorba", "fedzo", "fedit"])
def test_kill_9_again_and_again_ends_alike(tiny_opt_folder, tmp_path, method):
    """A chain of real processes, each killed at a moment of its own; the last ends with an uninterrupted run's bits."""
    settings = SETTINGS.replace(rounds=60, eval_every=4).replace(method=method, directions=None)
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
    (folder / ".tmpa8Zk0Q").write_bytes(b"as safetensors names what it has not finished")
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
        if line.startswith("resuming after"):
            break
    process.kill()
    process.communicate()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:  # it was quicker than the kill
        assert "finished" in done.stderr
    else:
        assert json.loads(done.stdout)["weights_sha256"] == whole.summary["weights_sha256"]
    assert_ends_alike(read_run(folder), whole)


@pytest.mark.parametrize("what", ["flush", "write_task"])
def test_a_run_that_could_not_begin_gives_its_lock_back_to_the_process(
    tiny_opt_folder, whole, tmp_path, monkeypatch, what
):
    def full(*arguments):
        raise OSError(28, "No space left on device", "x")

    with monkeypatch.context() as patch:
        patch.setattr(*((RunWriter, "flush") if what == "flush" else (session, "write_task")), full)
        with pytest.raises(OSError, match="No space"):
            fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert_ends_alike(resume(folder), whole)
