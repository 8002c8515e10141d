"""The Train page's logic, without a browser and without a training process: its jobs are written as files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

from app.screens.train import choices, processes
from app.screens.train.jobs import JOB, JOBS, LOG, Job, list_jobs
from app.screens.train.process_identity import start_stamp
from zorba_core.allocation import Allocation
from zorba_core.data.load import missing
from zorba_core.data.task import TASKS, PublishedRows
from zorba_core.engine.callbacks import RoundRecord
from zorba_core.engine.records import EvaluationEntry
from zorba_core.files import write_json
from zorba_core.runs.writer import RunWriter

TIMEOUT_S = 60


@pytest.fixture
def app(app, monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    return app


def train(app):
    return app.switch_page("screens/train/train.py").run()


def texts(app) -> str:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.subheader]
    return "\n".join(part.value for part in parts)


def write_run(folder, *, summary=None):
    """A run folder with one evaluation in its log; returns its path."""
    config = {
        "dataset": "toy-reviews",
        "model": "opt-mini",
        "rounds": 40,
        "batch_size": 8,
        "seq_len": 64,
        "target": 0.7,
    }
    writer = RunWriter(folder, "toy", config, {"git_dirty": False}, Allocation(np.ones((12, 3), dtype=bool)))
    writer.on_evaluation(EvaluationEntry(0, 0.7, 0.5, "0" * 64))
    writer.on_round(RoundRecord(0, None, 0.7, 0.5, 0.0, 0, 0, 0))
    if summary is not None:
        writer.finish(summary)
    writer.close()
    return writer.path


def write_job(folder, *, run=None, says="", **changes):
    job = Job("20260101-000000-abcdef", "train", ("zorba", "train"), os.getpid(), "gone", time.time(), 40, "Toy run")
    job = replace(job, **changes)
    place = folder / JOBS / job.id
    place.mkdir(parents=True)
    write_json(place / JOB, asdict(job))
    (place / LOG).write_text((f"run {run}\n" if run else "") + says)
    return job


def alive():
    return {"pid": os.getpid(), "stamp": start_stamp(os.getpid())}


def test_a_newcomer_finds_the_knee_ready_to_train_with_no_data_needed(app):
    train(app)
    assert not app.exception
    assert "**50 clients** activate" in texts(app)
    assert app.selectbox(key="train_dataset").value == "toy-reviews"
    assert [button.label for button in app.button] == ["Start"]
    assert app.code[0].value.startswith("zorba train --allocation allocation.npz --method zorba --model opt-mini")


def test_start_hands_the_chosen_allocation_to_a_process_of_its_own(app, runs, monkeypatch):
    started = []
    monkeypatch.setattr(
        "app.screens.train.form.start_training",
        lambda folder, allocation, options, title: started.append((folder, allocation, options)) or write_job(runs),
    )
    train(app)
    app.number_input(key="train_rounds").set_value(7).run()
    app.button(key="train_start").click().run()
    folder, allocation, options = started[0]
    assert folder == runs
    assert (allocation.num_blocks, allocation.num_clients) == (12, 50)
    assert (options["rounds"], options["dataset"], options["method"]) == (7, "toy-reviews", "zorba")
    assert app.query_params["job"] == "20260101-000000-abcdef"


def test_a_baseline_method_takes_all_blocks_and_only_the_number_of_clients(app, runs, monkeypatch):
    started = []
    monkeypatch.setattr(
        "app.screens.train.form.start_training",
        lambda folder, allocation, options, title: started.append((allocation, options)) or write_job(runs),
    )
    train(app)
    app.segmented_control(key="train_method").set_value("fedit").run()
    assert "**600** of 600 blocks" in texts(app)
    app.button(key="train_start").click().run()
    allocation, options = started[0]
    assert allocation is None
    assert options["clients"] == 50
    assert not {"mu", "directions"} & set(options)


def test_a_plan_of_other_blocks_than_the_model_has_leads_to_one_that_fits(app):
    train(app)
    app.selectbox(key="model").select("opt-1.3b").run()
    assert "for a model of 24 blocks; opt-mini has 12" in texts(app)
    app.button(key="train_other_model").click().run()
    assert not app.warning
    assert "train_start" in [button.key for button in app.button]


@pytest.mark.parametrize(
    ("folder", "says"),
    [("/no/such/folder", "is no folder on this machine"), ("", "Its folder on this machine")],
    ids=["absent", "nothing typed"],
)
def test_a_model_folder_that_cannot_be_used_gets_one_sentence(app, folder, says):
    train(app)
    app.selectbox(key="train_model").select("folder").run()
    app.text_input(key="train_folder").set_value(folder).run()
    assert says in texts(app)
    assert not app.button


def test_a_running_job_is_found_with_its_curve_and_a_stop_button(app, runs):
    run = write_run(runs)
    write_job(runs, run=run, **alive())
    train(app)
    assert not app.exception
    labels = {metric.label: metric.value for metric in app.metric}
    assert labels["Accuracy"] == "50.0%"
    assert labels["VRAM by the paper's model"].endswith("GiB")
    assert labels["Memory now, measured"].endswith("MiB")
    assert "Stop" in [button.label for button in app.button]


def test_stop_is_asked_once_gently_and_then_at_once(app, runs, monkeypatch):
    signals = []
    monkeypatch.setattr("app.screens.train.processes.os.kill", lambda pid, number: signals.append(number.name))
    run = write_run(runs)
    job = write_job(runs, run=run, **alive())
    train(app)
    app.button(key=f"stop_{job.id}").click().run()
    assert app.button(key=f"stop_now_{job.id}").label == "Stop at once"
    app.button(key=f"stop_now_{job.id}").click().run()
    assert signals == ["SIGINT", "SIGTERM"]


def test_a_stopped_run_offers_to_go_on_and_a_finished_one_does_not(app, runs):
    run = write_run(runs, summary={"stopped_by": "interrupt", "rounds_done": 1})
    job = write_job(runs, run=run)
    train(app)
    assert f"resume_{job.id}" in [button.key for button in app.button]
    shutil.rmtree(runs)
    write_job(runs, run=write_run(runs, summary={"stopped_by": "rounds"}))
    app.run()
    assert f"resume_{job.id}" not in [button.key for button in app.button]


def test_a_process_that_was_killed_says_what_is_kept(app, runs):
    write_job(runs, run=write_run(runs))
    train(app)
    assert "The process ended without a message" in texts(app)
    assert "Every whole round is kept" in texts(app)


def test_a_refusal_is_shown_as_its_one_sentence(app, runs):
    write_job(runs, says="noise\nzorba: these settings cannot learn: the step is too long. Try: an lr below 0.1\n")
    train(app)
    assert "The run was refused, before its first round" in app.warning[0].value
    assert "These settings cannot learn" in app.warning[0].value


def test_a_run_cut_short_in_a_terminal_can_be_resumed_here(app, runs, monkeypatch):
    run = write_run(runs)
    resumed = []
    monkeypatch.setattr(
        processes, "start_resume", lambda folder, run, rounds, title: resumed.append((run, rounds)) or write_job(runs)
    )
    train(app)
    assert "Started in a terminal, not finished" in texts(app)
    app.button(key=f"resume_{run.name}").click().run()
    assert resumed == [(run, 40)]


def test_as_many_runs_as_cores_disable_start_and_say_why(app, runs, monkeypatch):
    monkeypatch.setattr(processes, "usable_cores", lambda: 1)
    write_job(runs, **alive())
    train(app)
    assert app.button(key="train_start").disabled
    assert "1 run is in progress, one for each of this machine's 1 cores" in texts(app)


def test_an_ended_job_leaves_the_list_and_its_run_stays(app, runs):
    run = write_run(runs, summary={"stopped_by": "rounds"})
    write_job(runs, run=run)
    other = write_job(runs, id="20260102-000000-abcdef", says="zorba: no\n")
    train(app)
    app.button(key=f"forget_{other.id}").click().run()
    assert len(list_jobs(runs).jobs) == 1
    assert run.is_dir()


def test_settings_outlast_a_visit_to_another_page_and_stand_in_the_link(app):
    app.query_params["train_lr"], app.query_params["train_batch"] = "0.05", "-3; DROP"
    train(app)
    assert app.number_input(key="train_lr").value == 0.05
    assert app.number_input(key="train_batch").value == 8
    app.number_input(key="train_rounds").set_value(7).run()
    assert app.query_params["train_rounds"] == "7"
    app.switch_page("screens/paper/paper.py").run()
    train(app)
    assert app.number_input(key="train_rounds").value == 7
    assert app.number_input(key="train_lr").value == 0.05


def test_datasets_that_are_not_here_say_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    found = {dataset.name: dataset for dataset in choices.datasets()}
    assert set(found) == set(TASKS)
    assert [name for name, dataset in found.items() if not missing(dataset)] == ["toy-reviews", "toy-verdicts"]
    assert "set ZORBA_DATA to a folder with sst2/train.parquet" in missing(found["sst2"])
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path))
    for source in (task.rows for task in TASKS.values() if isinstance(task.rows, PublishedRows)):
        (tmp_path / source.folder).mkdir()
        for split in ("train", source.evaluation_split):
            (tmp_path / source.folder / f"{split}.parquet").touch()
    assert not any(missing(task) for task in choices.datasets())


def test_the_pages_about_runs_load_no_torch(root, runs):
    code = (
        "import sys; from streamlit.testing.v1 import AppTest; "
        "app = AppTest.from_file(sys.argv[1], default_timeout=120).run(); "
        "see = lambda name: len(app.switch_page(f'screens/{name}/{name}.py').run().exception); "
        "failures = [see(name) for name in ('train', 'runs', 'paper')]; "
        "import zorba_core.study.experiments; print(failures, {'torch', 'transformers'} & set(sys.modules))"
    )
    environment = {**os.environ, "ZORBA_RUNS": str(runs)}
    main = str(root / "app" / "main.py")
    done = subprocess.run(
        [sys.executable, "-c", code, main], capture_output=True, text=True, check=True, cwd=root, env=environment
    )
    assert done.stdout == "[0, 0, 0] set()\n"
