"""Training from the dashboard: real `zorba train` processes on a tiny fleet, found again from their files alone."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

from app.screens.train import processes
from app.screens.train.jobs import JOB, JOBS, Job, list_jobs, log_lines, state_of
from app.screens.train.process_identity import is_alive, start_stamp
from app.screens.train.run_log import LiveLog
from zorba_core.allocation import Allocation
from zorba_core.errors import RunError
from zorba_core.files import write_json
from zorba_core.runs import TRAJECTORY, read_run

PATIENCE_S = 150  # for a machine with much else to do
ALLOCATION = Allocation(np.tile(np.eye(3, dtype=bool), (4, 1)))  # 12 blocks, 3 clients
OPTIONS = {
    "model": "opt-mini",
    "dataset": "toy-reviews",
    "directions": 2,
    "batch_size": 2,
    "seq_len": 32,
    "eval_every": 5,
    "eval_rows": 16,
}


def wait_until(true, what):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.2)


def state(folder, job):
    """As a page that has just been opened finds it."""
    return state_of(folder, next(found for found in list_jobs(folder).jobs if found.id == job.id))


def start(folder, rounds, **changes):
    return processes.start_training(folder, ALLOCATION, {**OPTIONS, "rounds": rounds, **changes}, title="tiny")


@pytest.mark.slow
def test_settings_that_cannot_learn_are_refused_in_one_sentence_before_the_first_round(tmp_path, root, monkeypatch):
    monkeypatch.chdir(root)
    job = start(tmp_path, rounds=3, lr=1e6)
    wait_until(lambda: not state(tmp_path, job).alive, "the refusal")
    found = state(tmp_path, job)
    assert found.name == "refused"
    assert found.run is None
    assert found.reason.startswith("these settings cannot learn")
    assert "\n" not in found.reason
    assert not any("Traceback" in line for line in log_lines(tmp_path, job, 100))
    processes.forget(tmp_path, job)
    assert list_jobs(tmp_path) == ((), ())


def test_a_run_that_ends_by_itself_is_finished(tmp_path, root, monkeypatch):
    monkeypatch.chdir(root)
    job = start(tmp_path, rounds=2)
    wait_until(lambda: not state(tmp_path, job).alive, "the run")
    found = state(tmp_path, job)
    assert (found.name, found.resumable) == ("finished", False)
    log = LiveLog(found.run / TRAJECTORY).update()
    metrics = read_run(found.run).metrics
    assert [entry.train_loss for entry in log.rounds] == metrics["train_loss"].dropna().tolist()
    assert [judged.accuracy for judged in log.evaluations] == metrics["eval_accuracy"].dropna().tolist()


def write_job(folder, **changes):
    """A job's files without its process."""
    job = Job("20260101-000000-abcdef", "train", ("zorba", "train"), os.getpid(), "another", time.time(), 5, "t")
    job = replace(job, **changes)
    (folder / JOBS / job.id).mkdir(parents=True)
    write_json(folder / JOBS / job.id / JOB, asdict(job))
    return job


def test_a_process_number_that_was_used_again_is_not_taken_for_the_run(tmp_path):
    job = write_job(tmp_path, pid=os.getpid(), stamp="of an earlier process")
    assert not is_alive(job.pid, job.stamp)
    assert state_of(tmp_path, job).name == "refused"
    processes.stop(tmp_path, job)  # would end this test's own process


def test_more_runs_than_cores_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "usable_cores", lambda: 1)
    write_job(tmp_path, pid=os.getpid(), stamp=start_stamp(os.getpid()))
    with pytest.raises(RunError, match="1 run is in progress and this machine has 1 core"):
        start(tmp_path, rounds=2)
    assert len(list_jobs(tmp_path).jobs) == 1
